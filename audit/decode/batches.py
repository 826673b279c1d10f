"""Record batches of one segment file as rows: every batch, and every stretch of bytes that is none.

Columns     ``columns.RECORD_BATCHES``.
Memory      one window of the file (``walk.WINDOW_BYTES``, or its largest batch) and ``CHUNK_ROWS`` rows.
Splits      ``decode_segment`` gives what begins in ``[start, end)``. ``start`` must be where a batch begins.
            If every ``end`` too is where a *sound* batch begins (``is_sound``), the pieces of a file give
            the very rows that the whole file gives; else what is no batch and crosses ``end`` is cut there.
Source      Kafka DefaultRecordBatch (the header), EndTransactionMarker; records/end_marker.py.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from audit.decode.checksums import checksums
from audit.decode.columns import RECORD_BATCHES
from audit.decode.control import Markers, markers
from audit.decode.files import LOCAL, Bytes, Files
from audit.decode.walk import Bounds, Positions, Run, Stop, Unreadable, Walk, is_sound_at, spans, walk
from records.batch import CONTROL, HEADER_BYTES

__all__ = ["Stop", "Walk", "Where", "decode_segment", "is_sound", "segment_base", "stop_of", "walk"]

CHUNK_ROWS: Final = 65_536

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_NAME: Final = re.compile(r"(\d{20})\.log")
_CHECKED_AT: Final = 21
_COPIED: Final = ("attributes", "base_timestamp_ms", "max_timestamp_ms", "producer_id", "producer_epoch",
                  "base_sequence", "record_count")  # fmt: skip


class Where(NamedTuple):
    """What a file is the log of."""

    node: int
    topic: str
    partition: int
    path: str


def segment_base(path: str) -> int | None:
    """The offset that a segment's name says it begins with; None for another name."""
    matched = _NAME.fullmatch(PurePath(path).name)
    return int(matched[1]) if matched else None


def decode_segment(
    path: str, where: Where, start: int = 0, end: int | None = None, *, crc: bool = True, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """RECORD_BATCHES of what begins in ``[start, end)``, in the order of the file; ``end`` None: to its end.

    ``crc``  False leaves checksums alone: then a wrong one is no fault, unless the walk breaks there.
    Raises   OSError only.
    """
    with_path = where._replace(path=where.path or path)
    opened = files.open(path)
    try:
        limit = opened.size if end is None else end
        for span in spans(opened, start, Bounds.of(segment_base(path))):
            if isinstance(span, Stop):
                return
            if isinstance(span, Unreadable):
                if span.position < limit:
                    size = min(span.size, limit - span.position)
                    yield _unreadable_row(with_path, span._replace(size=size))
            else:
                yield from _rows(with_path, span, limit, crc)
            if _end_of(span) >= limit:
                return
    finally:
        opened.close()


def stop_of(path: str, start: int = 0, *, files: Files = LOCAL) -> Stop:
    """Where the batches of a file end and why: ``(valid_end, stop, reason)`` as the table ``files`` has them.

    ``start`` is 0 or the ``valid_end`` of an earlier call. Reads lengths, magics and offsets; checksums only
    where the walk breaks. A file that cannot be read is ``unreadable``: nothing is raised.
    """
    try:
        opened = files.open(path)
    except OSError as error:
        return Stop(start, "unreadable", str(error))
    try:
        if opened.size < start:
            return Stop(opened.size, "truncated", f"{opened.size} bytes, {start} were read before")
        for span in spans(opened, start, Bounds.of(segment_base(path))):
            if isinstance(span, Stop):
                return span
    except OSError as error:
        return Stop(start, "unreadable", str(error))
    finally:
        opened.close()
    return Stop(start, "unreadable", "no end was found")


def is_sound(path: str, position: int, *, files: Files = LOCAL) -> bool:
    """Whether a batch begins at ``position`` whose checksum is right: there a file may be split. OSError."""
    opened = files.open(path)
    try:
        return is_sound_at(opened, position, Bounds.of(segment_base(path)))
    finally:
        opened.close()


def _end_of(span: Run | Unreadable) -> int:
    return span.end if isinstance(span, Run) else span.position + span.size


def headers_of(buffer: Bytes, positions: Positions) -> npt.NDArray[Any]:
    """The 61 bytes at each position, as ``HEADER``."""
    return sliding_window_view(buffer, HEADER_BYTES)[positions].view(HEADER)[:, 0]


def sound(buffer: Bytes, positions: Positions, headers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whose checksum is right."""
    ends = positions + headers["length"].astype(np.int64) + 12
    fits: npt.NDArray[np.bool_] = checksums(buffer, positions + _CHECKED_AT, ends) == headers["crc"]
    return fits


def _rows(where: Where, run: Run, limit: int, crc: bool) -> Iterator[pa.RecordBatch]:
    positions = run.positions[: np.searchsorted(run.positions, limit - run.origin)]
    for first in range(0, len(positions), CHUNK_ROWS):
        yield _chunk(where, run, positions[first : first + CHUNK_ROWS], crc)


def _chunk(where: Where, run: Run, positions: Positions, crc: bool) -> pa.RecordBatch:
    count = len(positions)
    headers = headers_of(run.buffer, positions)
    base = headers["base_offset"].astype(np.int64)
    is_sound = sound(run.buffer, positions, headers) if crc else np.ones(count, np.bool_)
    said = markers(run.buffer, positions, headers, np.flatnonzero(is_sound & _is_control(headers)))
    columns = {
        **_place(where, count),
        "position": pa.array(positions + run.origin),
        "size": pa.array((headers["length"] + 12).astype(np.int32)),
        "base_offset": pa.array(base),
        "last_offset": pa.array(base + headers["last_offset_delta"]),
        "leader_epoch": _native(headers["leader_epoch"]),
        "crc": pa.array(headers["crc"].astype(np.int64)),
        **_faults(run.buffer, positions, headers, is_sound),
        **{name: _native(headers[name]) for name in _COPIED},
        **_said(count, said),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORD_BATCHES.names], schema=RECORD_BATCHES)


def _is_control(headers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    control: npt.NDArray[np.bool_] = (headers["attributes"] & CONTROL) != 0
    return control


def _native(column: npt.NDArray[Any]) -> Any:
    return pa.array(column.astype(column.dtype.newbyteorder("=")))


def _place(where: Where, count: int) -> dict[str, Any]:
    return {
        "node": pa.repeat(pa.scalar(where.node, pa.int32()), count),
        "topic": pa.repeat(pa.scalar(where.topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(where.partition, pa.int32()), count),
        "path": pa.repeat(pa.scalar(where.path, pa.string()), count),
    }


def _faults(
    buffer: Bytes, positions: Positions, headers: npt.NDArray[Any], is_sound: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    count = len(positions)
    if is_sound.all():
        return {"fault": pa.nulls(count, pa.string()), "reason": pa.nulls(count, pa.string())}
    fault: list[str | None] = [None] * count
    reason: list[str | None] = [None] * count
    wrong = np.flatnonzero(~is_sound)
    at = positions[wrong]
    ends = at + headers["length"][wrong].astype(np.int64) + 12
    for row, computed in zip(wrong.tolist(), checksums(buffer, at + _CHECKED_AT, ends).tolist(), strict=True):
        fault[row] = "crc"
        reason[row] = f"CRC {int(headers['crc'][row]):#010x}, computed {computed:#010x}"
    return {"fault": pa.array(fault, pa.string()), "reason": pa.array(reason, pa.string())}


def _said(count: int, said: Markers) -> dict[str, Any]:
    """The columns of markers, null but for the rows that are one."""

    def spread(values: npt.NDArray[Any], known: npt.NDArray[np.bool_], kind: Any) -> Any:
        full = np.zeros(count, values.dtype)
        missing = np.ones(count, np.bool_)
        full[said.rows], missing[said.rows] = values, ~known
        return pa.array(full, kind, mask=missing)

    every = np.ones(len(said.rows), np.bool_)
    return {
        "control_type": spread(said.control_type, every, pa.int16()),
        "coordinator_epoch": spread(said.coordinator_epoch, said.is_end, pa.int32()),
        "marker_version": spread(said.version, said.has_version, pa.int64()),
    }


def _unreadable_row(where: Where, span: Unreadable) -> pa.RecordBatch:
    row = {
        **where._asdict(),
        "position": span.position,
        "size": min(span.size, 2**31 - 1),
        "fault": "unreadable",
        "reason": span.reason,
    }
    return pa.RecordBatch.from_pylist([row], schema=RECORD_BATCHES)
