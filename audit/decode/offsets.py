"""``__consumer_offsets``: which offsets groups committed, in whose transaction, and which members they had.

Key      versions 0 and 1 are commits, 2 is a group of the classic protocol; others are skipped.
Offset   stands first in the value of a commit in every version up to now: of one that is not known here
         (above 4) the rest is null.
Members  what a consumer is assigned is read; of another protocol type, or if it cannot be read, it is null.
Source   Kafka OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json, GroupMetadataValue.json,
         ConsumerProtocolAssignment.json; records/offset_commit.py, records/group_metadata.py.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.chunks import Chunk
from fencepost.audit.decode.classic import Cursor, UnknownVersion
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.rows import Found, Named, Rows, readable_rows, records_of, rows_of_table
from fencepost.records import group_metadata
from fencepost.records.group_metadata import GroupForgotten, GroupMember, decode_group
from fencepost.records.invariant import CorruptData
from fencepost.records.offset_commit import NO_TOPIC_ID, WRITTEN_VALUE, OffsetCommitRecord, decode_offset

TOPIC: Final = "__consumer_offsets"
CONSUMER: Final = "consumer"
"""The protocol type of groups whose assignments are lists of partitions."""

ASSIGNED_MAX: Final = 1_000_000  # partitions of one member: more than a cluster has
_COMMIT_VERSIONS: Final = (0, 1)

_Assigned = list[tuple[str, int]] | None


def decode_commits(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """OFFSET_COMMITS of a segment of the log; faults come of ``tables.decode_log``. Raises OSError."""
    return rows_of_table("offset_commits", read_chunk, path, where, start, end, files)


def read_chunk(where: Where, chunk: Chunk) -> Named:
    """OFFSET_COMMITS, GROUP_GENERATIONS and RECORD_FAULTS of a chunk of the log."""
    commits, groups = Rows("offset_commits", where), Rows("group_generations", where)
    faults = Rows("record_faults", where)
    for found in records_of(chunk, readable_rows(chunk), faults):
        try:
            version = Cursor(found.record.key or b"").int16()
            if version in _COMMIT_VERSIONS:
                _add_commit(commits, found)
            elif version == group_metadata.KEY_VERSION:
                _add_group(groups, found)
        except CorruptData as error:
            kind = "version" if isinstance(error, UnknownVersion) else "record"
            faults.add(found.position, found.record.offset, kind, str(error))
    yield from commits.batches()
    yield from groups.batches()
    yield from faults.batches()


def _add_commit(commits: Rows, found: Found) -> None:
    record = found.record
    key = Cursor(record.key or b"")
    key.int16()
    group, topic, partition = key.string(), key.string(), key.int32()
    key.end()
    commits.add(
        found.position, record.offset, record.timestamp_ms, group, topic, partition,
        *_committed(record.key or b"", record.value, found.producer_id, found.producer_epoch),
    )  # fmt: skip


def _committed(key: bytes, value: bytes | None, producer_id: int, producer_epoch: int) -> tuple[object, ...]:
    """``committed_offset`` and the columns after it."""
    producer = (producer_id, producer_epoch)
    nothing = (None, None, None, None, None, None)
    if value is None:
        return (None, *producer, *nothing)
    cursor = Cursor(value)
    version = cursor.int16()
    if version < 0:
        raise CorruptData("an offset commit of a negative version")
    if version > WRITTEN_VALUE:
        return (cursor.int64(), *producer, *nothing)
    said = decode_offset(key, value)
    if not isinstance(said, OffsetCommitRecord):
        raise CorruptData("a value that is a tombstone's")
    topic_id = None if said.topic_id == NO_TOPIC_ID else str(said.topic_id)
    return (
        said.offset, *producer, topic_id, said.committed_ms, said.expires_ms,
        said.generation, said.is_identified, said.member_id or None,
    )  # fmt: skip


def _add_group(groups: Rows, found: Found) -> None:
    record = found.record
    if record.value is not None:
        version = Cursor(record.value).int16()
        if not 0 <= version <= group_metadata.VALUE_VERSION:
            known = group_metadata.VALUE_VERSION
            raise UnknownVersion(f"group value version {version}, expected 0 to {known}")
    said = decode_group(record.key or b"", record.value)
    at = (found.position, record.offset, record.timestamp_ms, said.group_id)
    if isinstance(said, GroupForgotten):
        groups.add(*at, True, *(None,) * 7)
        return
    members = [_member(each, said.protocol_type) for each in said.members]
    groups.add(
        *at, False, said.state.wire_name, said.state_ms, said.generation, said.protocol_type,
        said.protocol, said.leader, members,
    )  # fmt: skip


def _member(member: GroupMember, protocol_type: str) -> tuple[object, ...]:
    assigned = _assignment(member.assignment) if protocol_type == CONSUMER else None
    return member.member_id, member.instance_id, member.client_id, member.client_host, assigned


def _assignment(raw: bytes) -> _Assigned:
    """The partitions of a consumer's assignment, what its assignor adds left out; None: it cannot be read."""
    assigned: list[tuple[str, int]] = []
    try:
        cursor = Cursor(raw)
        cursor.int16()
        for _ in range(cursor.count()):
            topic = cursor.string()
            assigned += [(topic, cursor.int32()) for _ in range(cursor.count())]
            if len(assigned) > ASSIGNED_MAX:
                return None
    except CorruptData:
        return None
    return assigned
