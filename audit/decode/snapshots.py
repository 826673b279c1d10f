"""Checkpoints of the metadata log: Kafka's, and those in fencepost's snapshots, which are Kafka's in form.

Name        ``<end offset>-<epoch>.checkpoint``. What it holds was true at the offset before its end: that is
            the ``offset`` of every row. A block's ``source`` is "snapshot": only the latest one is in it.
Faults      it is written whole, never appended to: a wrong checksum, a missing batch, bytes that are none, a
            missing footer are rows of RECORD_FAULTS, for a checkpoint has none in RECORD_BATCHES.
Source      Kafka Snapshots, RecordsSnapshotWriter; KIP-630.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import numpy as np
import pyarrow as pa

from fencepost.audit.decode.batches import Where, stop_of
from fencepost.audit.decode.chunks import Chunk, chunks
from fencepost.audit.decode.control import markers
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.metadata import At, MetadataRows
from fencepost.audit.decode.rows import Rows, readable_rows, records_of
from fencepost.records.control import SnapshotFooter

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def decode_checkpoint(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The metadata's tables and RECORD_FAULTS of a checkpoint. Raises OSError."""
    matched = _NAME.fullmatch(PurePath(path).name)
    offset, epoch = (int(matched[1]) - 1, int(matched[2])) if matched else (-1, -1)
    expected: int | None = 0
    ends_with_footer = False
    for chunk in chunks(path, start, end, crc=True, files=files):
        said = MetadataRows.of(where)
        if isinstance(chunk, Chunk):
            expected = _missing(chunk, expected, said.faults)
            ends_with_footer = _ends_with_footer(chunk)
            said.add_control_records(where, chunk)
            for found in records_of(chunk, readable_rows(chunk), said.faults):
                record = found.record
                said.add(At(found.position, "snapshot", offset, epoch, record.timestamp_ms), record.value)
        else:
            reason = f"{chunk.size} bytes are no batch: {chunk.reason}"
            said.faults.add(chunk.position, offset, "record", reason)
            expected, ends_with_footer = None, True  # what they were is not known
        yield from said.batches()
    stop = stop_of(path, files=files)
    if stop.stop != "end" or not ends_with_footer:
        faults = Rows("record_faults", where)
        faults.add(stop.valid_end, offset, "record", f"the checkpoint is torn: {stop.reason or 'no footer'}")
        yield from faults.batches()


def _missing(chunk: Chunk, expected: int | None, faults: Rows) -> int | None:
    """Offsets in a checkpoint are 0, 1, 2, ...: the one after the chunk's last batch; None: it is unknown."""
    for row, header in enumerate(chunk.headers):
        position, base = chunk.origin + int(chunk.positions[row]), int(header["base_offset"])
        if not chunk.is_sound[row]:
            faults.add(position, base, "record", "a batch with a wrong checksum")
            expected = None
            continue
        if expected is not None and base != expected:
            reason = f"a batch of a checkpoint at offset {base}, expected {expected}"
            faults.add(position, base, "record", reason)
        expected = base + int(header["last_offset_delta"]) + 1
    return expected


def _ends_with_footer(chunk: Chunk) -> bool:
    """Whether the last batch is a footer, or might have been one before it was damaged."""
    last = np.array([len(chunk.positions) - 1])
    if not chunk.is_sound[last[0]]:
        return True
    if not chunk.is_control[last[0]]:
        return False
    said = markers(chunk.buffer, chunk.positions, chunk.headers, last)
    return bool(said.control_type[0] == SnapshotFooter.control_type)
