"""Record batches of one segment file as rows: every batch, and every stretch of bytes that is none.

Columns     ``columns.RECORD_BATCHES``.
Memory      one window of the file (``walk.WINDOW_BYTES``, or its largest batch) and ``CHUNK_ROWS`` rows.
Splits      ``decode_segment`` gives what begins in ``[start, end)``. ``start`` must be where a batch begins.
            If every ``end`` too is where a *sound* batch begins (``is_sound``), the pieces of a file give
            the very rows that the whole file gives; else what is no batch and crosses ``end`` is cut there.
Source      Kafka DefaultRecordBatch (the header), EndTransactionMarker; records/end_marker.py.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.audit.decode.chunks import CHUNK_ROWS, Chunk, chunks, segment_base
from fencepost.audit.decode.columns import RECORD_BATCHES
from fencepost.audit.decode.control import Markers, markers
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.walk import Bounds, Stop, Unreadable, Walk, is_sound_at, spans, walk

__all__ = [
    "CHUNK_ROWS",
    "Stop",
    "Walk",
    "Where",
    "decode_segment",
    "is_sound",
    "rows_of",
    "segment_base",
    "stop_of",
    "walk",
]

_COPIED: Final = ("attributes", "base_timestamp_ms", "max_timestamp_ms", "producer_id", "producer_epoch",
                  "base_sequence", "record_count")  # fmt: skip


class Where(NamedTuple):
    """What a file is the log of."""

    node: int
    topic: str
    partition: int
    path: str


def decode_segment(
    path: str, where: Where, start: int = 0, end: int | None = None, *, crc: bool = True, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """RECORD_BATCHES of what begins in ``[start, end)``, in the order of the file; ``end`` None: to its end.

    ``where``  what the rows say of the file; ``path`` is what is opened.
    ``crc``    False leaves checksums alone: then a wrong one is no fault, unless the walk breaks there.
    Raises     OSError only.
    """
    for chunk in chunks(path, start, end, crc=crc, files=files):
        yield rows_of(where, chunk)


def stop_of(path: str, start: int = 0, *, files: Files = LOCAL) -> Stop:
    """Where the batches of a file end and why: ``(valid_end, stop, reason)`` as the table ``files`` has them.

    ``start`` is 0 or the ``valid_end`` of an earlier call. Reads lengths, magics and offsets; checksums only
    where the walk breaks. A file that cannot be read is ``unreadable``: nothing is raised.
    """
    try:
        opened = files.open(path)
    except OSError as error:
        return Stop(start, "unreadable", error.strerror or str(error))
    try:
        if opened.size < start:
            return Stop(opened.size, "truncated", f"{opened.size} bytes, {start} were read before")
        for span in spans(opened, start, Bounds.of(segment_base(path))):
            if isinstance(span, Stop):
                return span
    except OSError as error:
        return Stop(start, "unreadable", error.strerror or str(error))
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


def rows_of(where: Where, chunk: Chunk | Unreadable) -> pa.RecordBatch:
    """Rows of the table RECORD_BATCHES, one for each batch of a chunk."""
    if isinstance(chunk, Unreadable):
        return _unreadable_row(where, chunk)
    headers, count = chunk.headers, len(chunk.positions)
    base = headers["base_offset"].astype(np.int64)
    rows = np.flatnonzero(chunk.is_sound & chunk.is_control)
    said = markers(chunk.buffer, chunk.positions, headers, rows)
    columns = {
        **repeated(where, count),
        "position": pa.array(chunk.positions + chunk.origin),
        "size": pa.array(chunk.sizes.astype(np.int32)),
        "base_offset": pa.array(base),
        "last_offset": pa.array(base + headers["last_offset_delta"]),
        "leader_epoch": _native(headers["leader_epoch"]),
        "crc": pa.array(headers["crc"].astype(np.int64)),
        **_faults(chunk),
        **{name: _native(headers[name]) for name in _COPIED},
        **_said(count, said),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORD_BATCHES.names], schema=RECORD_BATCHES)


def repeated(where: Where, count: int) -> dict[str, Any]:
    """The columns of ``where``, ``count`` times."""
    return {
        "node": pa.repeat(pa.scalar(where.node, pa.int32()), count),
        "topic": pa.repeat(pa.scalar(where.topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(where.partition, pa.int32()), count),
        "path": pa.repeat(pa.scalar(where.path, pa.string()), count),
    }


def _native(column: npt.NDArray[Any]) -> Any:
    return pa.array(column.astype(column.dtype.newbyteorder("=")))


def _faults(chunk: Chunk) -> dict[str, Any]:
    count = len(chunk.positions)
    if chunk.computed is None or chunk.is_sound.all():
        return {"fault": pa.nulls(count, pa.string()), "reason": pa.nulls(count, pa.string())}
    fault: list[str | None] = [None] * count
    reason: list[str | None] = [None] * count
    for row in np.flatnonzero(~chunk.is_sound).tolist():
        fault[row] = "crc"
        reason[row] = f"CRC {int(chunk.headers['crc'][row]):#010x}, computed {int(chunk.computed[row]):#010x}"
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
