"""Checkpoints of the metadata log: Kafka's, and those in fencepost's snapshots, which are Kafka's in form.

Name        ``<end offset>-<epoch>.checkpoint``. What it holds was true at the offset before its end: that is
            the ``offset`` of every row. A block's ``source`` is "snapshot": only the latest one is in it.
Faults      it is replaced whole, never appended to: a wrong checksum, bytes that are no batch and a missing
            footer are rows of RECORD_FAULTS, for a checkpoint has none in RECORD_BATCHES.
Source      Kafka Snapshots, RecordsSnapshotWriter; KIP-630.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import numpy as np
import pyarrow as pa

from audit.decode.batches import Where, stop_of
from audit.decode.chunks import Chunk, chunks
from audit.decode.control import markers
from audit.decode.files import LOCAL, Files
from audit.decode.metadata import At, MetadataRows
from audit.decode.rows import Rows, data_rows, records_of
from records.control import SnapshotFooter

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def decode_checkpoint(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """PRODUCER_ID_BLOCKS, BROKERS, TOPICS and RECORD_FAULTS of a checkpoint. Raises OSError."""
    matched = _NAME.fullmatch(PurePath(path).name)
    offset, epoch = (int(matched[1]) - 1, int(matched[2])) if matched else (-1, -1)
    is_whole = False
    for chunk in chunks(path, start, end, crc=True, files=files):
        said = MetadataRows.of(where)
        if isinstance(chunk, Chunk):
            _bad_checksums(chunk, said.faults)
            is_whole = is_whole or _has_footer(chunk)
            for found in records_of(chunk, data_rows(chunk), said.faults):
                record = found.record
                said.add(At(found.position, "snapshot", offset, epoch, record.timestamp_ms), record.value)
        else:
            said.faults.add(
                chunk.position, offset, "record", f"{chunk.size} bytes are no batch: {chunk.reason}"
            )
        yield from said.batches()
    if not is_whole and end is None:
        faults = Rows("record_faults", where)
        stop = stop_of(path, files=files)
        faults.add(stop.valid_end, offset, "record", f"no footer: the checkpoint is torn ({stop.stop})")
        yield from faults.batches()


def _has_footer(chunk: Chunk) -> bool:
    rows = np.flatnonzero(chunk.is_sound & chunk.is_control)
    said = markers(chunk.buffer, chunk.positions, chunk.headers, rows)
    return bool((said.control_type == SnapshotFooter.control_type).any())


def _bad_checksums(chunk: Chunk, faults: Rows) -> None:
    for row in np.flatnonzero(~chunk.is_sound).tolist():
        position = chunk.origin + int(chunk.positions[row])
        faults.add(
            position, int(chunk.headers["base_offset"][row]), "record", "a batch with a wrong checksum"
        )
