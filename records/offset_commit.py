"""Offset records: what a group has committed of one partition, as Kafka keeps it in ``__consumer_offsets-0``.

Key      i16 version 1 (0 is read), then group and topic, each an i16 length and UTF-8, and the partition i32.
Value    i16 version 4: offset i64 | leader epoch i32 | metadata, compact | commit time i64 | tagged fields.
         Versions 0 to 3, which are not flexible, are read. Null is a tombstone.
Tags     0 is Kafka's topic id (4.1, KAFKA-19141). From 1000 on they are ours, Kafka's readers skip them: the
         producer that committed, in which generation of the group, whether it presented that generation and
         as which member, when the offset expires if the client said so (Kafka writes version 1 for that,
         which has no tags), and, in the first record of a transaction, its transactional id.
Producer a record of a transaction lies in a batch of its producer; here those are fields of the record.
Source   Kafka OffsetCommitKey.json, OffsetCommitValue.json.
"""

import struct
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

import msgspec

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import Log, ProducerId
from fencepost.records.varint import read_unsigned, unsigned

KEY_VERSIONS: Final = frozenset({0, 1})
"""Key types of offsets; the one with the legacy number 0 is read, not written."""

WRITTEN_KEY: Final = 1
WRITTEN_VALUE: Final = 4
NO_PRODUCER: Final = ProducerId(-1)
NO_TOPIC_ID: Final = UUID(int=0)
UNKNOWN_TAGS_MAX: Final = 1024

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqi")  # version | offset | leader epoch
_OLD_HEAD: Final = struct.Struct(">hq")  # version | offset

_TOPIC_ID: Final = 0
_COMMITTER: Final = 1000
_GENERATION: Final = 1001
_IDENTIFIED: Final = 1002
_EXPIRES: Final = 1003
_MEMBER: Final = 1004
_TRANSACTIONAL_ID: Final = 1005


class OffsetCommitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An offset was committed; with a producer it is pending until that producer's control record.

    ``topic_id``         of the topic that the offset is of; zero is unknown.
    ``producer_id``      of the batch that the record lies in: -1 where no transaction wrote it.
    ``committer``        the producer of the transaction, again: it stays with the offset. -1: none.
    ``generation``       that the producer presented, else of the group; -1: the group had no members.
    ``is_identified``    the producer presented that generation. ``member_id``: as which member; read by the
                         audit, never by decisions. A plain commit has none of these.
    ``transactional_id`` of the producer, in the first record that its transaction has here; else "".
    ``committed_ms``     the coordinator's clock. ``expires_ms``: -1 where the group's retention counts.
    """

    log: ClassVar[Log] = Log.CONSUMER_OFFSETS

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int
    expires_ms: int = -1
    topic_id: UUID = NO_TOPIC_ID
    committer: ProducerId = NO_PRODUCER
    generation: int = -1
    is_identified: bool = False
    member_id: str = ""
    transactional_id: str = ""
    producer_id: ProducerId = NO_PRODUCER
    producer_epoch: int = -1


class OffsetForgotten(msgspec.Struct, frozen=True):
    """Nothing is committed or pending for this partition any more. A tombstone in Kafka's log."""

    log: ClassVar[Log] = Log.CONSUMER_OFFSETS
    producer_id: ClassVar[ProducerId] = NO_PRODUCER
    producer_epoch: ClassVar[int] = -1

    group_id: str
    topic: str
    partition: int


OffsetRecord: TypeAlias = OffsetCommitRecord | OffsetForgotten


def encode_offset(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record; the value of a tombstone is None. Inverse: ``decode_offset``.

    Raises   InvariantViolation if a field does not fit its Kafka type: a bug of the code that decided it.
    """
    try:
        key = _key(record.group_id, record.topic, record.partition)
        return key, None if isinstance(record, OffsetForgotten) else _value(record)
    except (struct.error, UnicodeEncodeError, ValueError) as error:
        raise InvariantViolation(f"an offset record cannot be written: {error}: {record!r}") from error


def decode_offset(
    key: bytes,
    value: bytes | None,
    producer_id: ProducerId = NO_PRODUCER,
    producer_epoch: int = -1,
) -> OffsetRecord:
    """Inverse of ``encode_offset``; the producer is that of the record's batch. Raises CorruptData."""
    try:
        group_id, topic, partition = _read_key(key)
        if value is None:
            return OffsetForgotten(group_id, topic, partition)
        return _read_value(group_id, topic, partition, value, producer_id, producer_epoch)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptData(f"an offset record: {error}") from error


def _key(group_id: str, topic: str, partition: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    return b"".join(
        (
            _I16.pack(WRITTEN_KEY),
            _I16.pack(len(group)),
            group,
            _I16.pack(len(name)),
            name,
            _I32.pack(partition),
        )
    )


def _read_key(key: bytes) -> tuple[str, str, int]:
    version = _I16.unpack_from(key)[0]
    if version not in KEY_VERSIONS:
        raise CorruptData(f"key type {version}, expected 0 or 1")
    group_id, at = _read_string(key, _I16.size)
    topic, at = _read_string(key, at)
    if len(key) != at + _I32.size:
        raise CorruptData(f"a key of {len(key)} bytes, expected {at + _I32.size}")
    return group_id, topic, _I32.unpack_from(key, at)[0]


def _read_string(buffer: bytes, at: int) -> tuple[str, int]:
    """A string with an i16 length. Null is corrupt."""
    size = _I16.unpack_from(buffer, at)[0]
    start = at + _I16.size
    end = start + size
    if size < 0 or end > len(buffer):
        raise CorruptData(f"a string of {size} bytes at byte {at} of {len(buffer)}")
    return buffer[start:end].decode(), end


# -- values ----------------------------------------------------------------------------------------------


def _value(record: OffsetCommitRecord) -> bytes:
    text = record.metadata.encode()
    parts = [
        _HEAD.pack(WRITTEN_VALUE, record.offset, record.leader_epoch),
        unsigned(len(text) + 1),
        text,
        _I64.pack(record.committed_ms),
    ]
    tags: list[bytes] = []
    if record.topic_id.int:
        tags.append(_tagged(_TOPIC_ID, record.topic_id.bytes))
    if record.committer != NO_PRODUCER:
        tags.append(_tagged(_COMMITTER, _I64.pack(record.committer)))
    if record.generation != -1:
        tags.append(_tagged(_GENERATION, _I32.pack(record.generation)))
    if record.is_identified:
        tags.append(_tagged(_IDENTIFIED, b"\x01"))
    if record.expires_ms != -1:
        tags.append(_tagged(_EXPIRES, _I64.pack(record.expires_ms)))
    if record.member_id:
        tags.append(_tagged(_MEMBER, _compact(record.member_id)))
    if record.transactional_id:
        tags.append(_tagged(_TRANSACTIONAL_ID, _compact(record.transactional_id)))
    return b"".join((*parts, unsigned(len(tags)), *tags))


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return unsigned(len(encoded) + 1) + encoded


def _tagged(tag: int, content: bytes) -> bytes:
    return unsigned(tag) + unsigned(len(content)) + content


def _read_value(
    group_id: str, topic: str, partition: int, value: bytes, producer_id: ProducerId, producer_epoch: int
) -> OffsetCommitRecord:
    version = _I16.unpack_from(value)[0]
    if not 0 <= version <= WRITTEN_VALUE:
        raise CorruptData(f"an offset value of version {version}, expected 0 to {WRITTEN_VALUE}")
    expires_ms, leader_epoch = -1, -1
    if version < 3:
        offset, at = _OLD_HEAD.unpack_from(value)[1], _OLD_HEAD.size
    else:
        _, offset, leader_epoch = _HEAD.unpack_from(value)
        at = _HEAD.size
    metadata, at = _read_compact(value, at) if version == WRITTEN_VALUE else _read_string(value, at)
    committed_ms = _I64.unpack_from(value, at)[0]
    at += _I64.size
    if version == 1:
        expires_ms = _I64.unpack_from(value, at)[0]
        at += _I64.size
    tags: dict[int, bytes] = {}
    if version == WRITTEN_VALUE:
        tags, at = _read_tags(value, at)
    if at != len(value):
        raise CorruptData(f"{len(value) - at} bytes after an offset value")
    committer, generation = tags.get(_COMMITTER), tags.get(_GENERATION)
    expires = tags.get(_EXPIRES)
    return OffsetCommitRecord(
        group_id=group_id,
        topic=topic,
        partition=partition,
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        committed_ms=committed_ms,
        expires_ms=expires_ms if expires is None else _I64.unpack(expires)[0],
        topic_id=UUID(bytes=tags[_TOPIC_ID]) if _TOPIC_ID in tags else NO_TOPIC_ID,
        committer=NO_PRODUCER if committer is None else ProducerId(_I64.unpack(committer)[0]),
        generation=-1 if generation is None else _I32.unpack(generation)[0],
        is_identified=tags.get(_IDENTIFIED, b"\0") != b"\0",
        member_id=_read_text(tags.get(_MEMBER)),
        transactional_id=_read_text(tags.get(_TRANSACTIONAL_ID)),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


_SIZES: Final = {
    _TOPIC_ID: 16,
    _COMMITTER: 8,
    _GENERATION: 4,
    _IDENTIFIED: 1,
    _EXPIRES: 8,
    _MEMBER: None,
    _TRANSACTIONAL_ID: None,
}
"""Bytes of each tagged field that is known; None: any number."""


def _read_compact(value: bytes, at: int) -> tuple[str, int]:
    size, start = read_unsigned(value, at)
    end = start + size - 1
    if size == 0 or end > len(value):
        raise CorruptData(f"a compact string of {size - 1} bytes at byte {at} of {len(value)}")
    return value[start:end].decode(), end


def _read_text(content: bytes | None) -> str:
    """The one string of a tagged field; "" where there is none."""
    if content is None:
        return ""
    text, end = _read_compact(content, 0)
    if end != len(content):
        raise CorruptData(f"{len(content) - end} bytes after a tagged string")
    return text


def _read_tags(value: bytes, at: int) -> tuple[dict[int, bytes], int]:
    """The tagged fields that are known, as bytes. Tags ascend; unknown ones are skipped (KIP-482)."""
    count, at = read_unsigned(value, at)
    if count > UNKNOWN_TAGS_MAX:
        raise CorruptData(f"{count} tagged fields, at most {UNKNOWN_TAGS_MAX} expected")
    tags: dict[int, bytes] = {}
    previous = -1
    for _ in range(count):
        tag, at = read_unsigned(value, at)
        size, at = read_unsigned(value, at)
        if tag <= previous or at + size > len(value):
            raise CorruptData(f"tagged field {tag} of {size} bytes after {previous}, at byte {at}")
        if tag in _SIZES:
            if size != (_SIZES[tag] or size):
                raise CorruptData(f"tagged field {tag} of {size} bytes, expected {_SIZES[tag]}")
            tags[tag] = value[at : at + size]
        previous = tag
        at += size
    return tags, at
