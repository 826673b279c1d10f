"""``__consumer_offsets``: which offsets groups committed, and inside which producer's transaction.

Key      versions 0 and 1 are commits; later ones are groups and members, which the audit has no use for.
Value    the committed offset stands first in every version up to now, the rest is not looked at.
Source   Kafka OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.chunks import Chunk
from fencepost.audit.decode.classic import Cursor
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.rows import Found, Named, Rows, readable_rows, records_of, rows_of_table
from fencepost.records.invariant import CorruptData

TOPIC: Final = "__consumer_offsets"
_COMMIT_VERSIONS: Final = (0, 1)


def decode_commits(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """OFFSET_COMMITS of a segment of the log; faults come of ``tables.decode_log``. Raises OSError."""
    return rows_of_table("offset_commits", read_chunk, path, where, start, end, files)


def read_chunk(where: Where, chunk: Chunk) -> Named:
    """OFFSET_COMMITS and RECORD_FAULTS of a chunk of the log."""
    commits, faults = Rows("offset_commits", where), Rows("record_faults", where)
    for found in records_of(chunk, readable_rows(chunk), faults):
        try:
            _add(commits, found)
        except CorruptData as error:
            faults.add(found.position, found.record.offset, "record", str(error))
    yield from commits.batches()
    yield from faults.batches()


def _add(commits: Rows, found: Found) -> None:
    record = found.record
    key = Cursor(record.key or b"")
    if key.int16() not in _COMMIT_VERSIONS:
        return
    group, topic, partition = key.string(), key.string(), key.int32()
    key.end()
    committed = None
    if record.value is not None:
        value = Cursor(record.value)
        if value.int16() < 0:
            raise CorruptData("an offset commit of a negative version")
        committed = value.int64()
    commits.add(
        found.position, record.offset, record.timestamp_ms, group, topic, partition, committed,
        found.producer_id, found.producer_epoch,
    )  # fmt: skip
