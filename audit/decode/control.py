"""Control batches, read many at a time: how a transaction ended, on whose word, by which decision.

Fast        the shape that Kafka and fencepost write: one uncompressed record of the batch's own offset, with
            no header or with ``fencepost.image.version`` alone. Anything else is opened like any other batch.
Unreadable  a control batch whose record cannot be read has type -1; ``faults`` says why.
Source      Kafka ControlRecordType, EndTransactionMarker; records/end_marker.py.
"""

import struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from fencepost.audit.decode.files import Bytes
from fencepost.audit.decode.opened import open_records
from fencepost.audit.decode.walk import Positions
from fencepost.records.batch_layout import COMPRESSION, HEADER_BYTES, LENGTH_COUNTS_FROM
from fencepost.records.end_marker import VERSION_HEADER
from fencepost.records.invariant import CorruptData

UNREADABLE_TYPE: Final = -1
_END_TYPES: Final = (0, 1)
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = struct.Struct(">Q")

# After the header: length, attributes 0, time delta 0, offset delta 0, key of 4 bytes (version 0), type at 7,
# value of 6 bytes (version 0), coordinator epoch at 12, number of headers at 16.
_PLAIN_BYTES: Final = HEADER_BYTES + 17
_TYPE_AT: Final = HEADER_BYTES + 7
_EPOCH_AT: Final = HEADER_BYTES + 12
_FIXED: Final = {1: 0, 2: 0, 3: 0, 4: 8, 5: 0, 6: 0, 9: 12, 10: 0, 11: 0}
_PLAIN: Final = {**_FIXED, 0: 32, 16: 0}
_VERSION_AT: Final = _PLAIN_BYTES + 1 + len(VERSION_HEADER) + 1
_VERSIONED_BYTES: Final = _VERSION_AT + 8
_NAMED: Final = bytes((2 * len(VERSION_HEADER),)) + VERSION_HEADER + bytes((16,))
_VERSIONED: Final = {**_FIXED, 0: 2 * (_VERSIONED_BYTES - HEADER_BYTES - 1), 16: 2} | {
    17 + at: byte for at, byte in enumerate(_NAMED)
}

MARKER_SIZES: Final = frozenset({_PLAIN_BYTES, _VERSIONED_BYTES})
"""Bytes of a marker's batch: Kafka's and ours."""


class Markers(NamedTuple):
    """Control batches: the ``rows`` that they are of the chunk, ascending, and what each says."""

    rows: npt.NDArray[np.int64]
    control_type: npt.NDArray[np.int16]
    is_end: npt.NDArray[np.bool_]  # type 0 or 1: the coordinator's epoch is known
    coordinator_epoch: npt.NDArray[np.int32]
    has_version: npt.NDArray[np.bool_]
    version: npt.NDArray[np.int64]


def markers(
    buffer: Bytes, positions: Positions, headers: npt.NDArray[Any], rows: npt.NDArray[np.int64]
) -> Markers:
    """What the control batches ``rows`` of ``positions`` say."""
    count = len(rows)
    said = Markers(
        rows, np.full(count, UNREADABLE_TYPE, np.int16), np.zeros(count, np.bool_), np.zeros(count, np.int32),
        np.zeros(count, np.bool_), np.zeros(count, np.int64),
    )  # fmt: skip
    if count == 0:
        return said
    chosen = headers[rows]
    sizes = chosen["length"].astype(np.int64) + LENGTH_COUNTS_FROM
    simple = (chosen["record_count"] == 1) & ((chosen["attributes"] & COMPRESSION) == 0)
    at = positions[rows]
    plain = _shaped(buffer, at, simple & (sizes == _PLAIN_BYTES), _PLAIN_BYTES, _PLAIN)
    versioned = _shaped(buffer, at, simple & (sizes == _VERSIONED_BYTES), _VERSIONED_BYTES, _VERSIONED)
    _read_shaped(buffer, at, plain | versioned, said)
    known = np.flatnonzero(versioned)
    said.version[known] = _numbers(buffer, at[known] + _VERSION_AT, ">i8")
    said.has_version[known] = True
    for row in np.flatnonzero(~(plain | versioned)).tolist():
        start = int(at[row])
        _read_opened(buffer[start : start + int(sizes[row])].tobytes(), row, said)
    return said


def _shaped(
    buffer: Bytes, at: Positions, chosen: npt.NDArray[np.bool_], size: int, shape: dict[int, int]
) -> npt.NDArray[np.bool_]:
    """Which of the chosen batches, all of ``size`` bytes, have these bytes after their header."""
    fits = np.zeros(len(at), np.bool_)
    numbers = np.flatnonzero(chosen)
    if len(numbers):
        bodies = sliding_window_view(buffer, size)[at[numbers]][:, HEADER_BYTES:]
        places = np.array(list(shape))
        fits[numbers] = (bodies[:, places] == np.array(list(shape.values()), np.uint8)).all(axis=1)
    return fits


def _read_shaped(buffer: Bytes, at: Positions, chosen: npt.NDArray[np.bool_], said: Markers) -> None:
    numbers = np.flatnonzero(chosen)
    if len(numbers) == 0:
        return
    said.control_type[numbers] = _numbers(buffer, at[numbers] + _TYPE_AT, ">i2")
    ends = numbers[np.isin(said.control_type[numbers], _END_TYPES)]
    said.is_end[ends] = True
    said.coordinator_epoch[ends] = _numbers(buffer, at[ends] + _EPOCH_AT, ">i4")


def _numbers(buffer: Bytes, at: Positions, kind: str) -> npt.NDArray[Any]:
    return sliding_window_view(buffer, int(kind[2]))[at].view(kind)[:, 0]


def _read_opened(content: bytes, row: int, said: Markers) -> None:
    try:
        first = next(iter(open_records(content)), None)
        if first is None or first.key is None or len(first.key) < _KEY.size:
            return
        control_type = _KEY.unpack_from(first.key)[1]
        if control_type in _END_TYPES:
            if first.value is None or len(first.value) < _VALUE.size:
                return
            said.coordinator_epoch[row] = _VALUE.unpack_from(first.value)[1]
            said.is_end[row] = True
            version = dict(first.headers).get(VERSION_HEADER)
            if version is not None and len(version) == _VERSION.size:
                said.version[row] = _VERSION.unpack(version)[0] & (2**63 - 1)
                said.has_version[row] = True
        said.control_type[row] = control_type
    except CorruptData:
        return
