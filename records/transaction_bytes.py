"""TransactionLogValue v1 by hand: the bytes of ``fencepost.records.message`` at a sixth of the time.

Every step of every transaction is one such value, written once and read by each follower. What is out of
the ordinary (a text past 126 bytes, an unknown tag, anything wrong) is left to ``fencepost.records.message``:
both give the same, or None here (test_transaction_log.py).

Remembered   the bytes of what is the same in record after record of an id, within bounds: its topics, and the
             numbers that only InitProducerId, a timeout or a rotation changes. That halves the time again.
"""

import struct
from functools import lru_cache
from typing import Any, Final

from fencepost.records.transaction_parts import NO_TIMEOUT, Fence, TopicPartitions
from fencepost.records.varint import unsigned

_HEAD: Final = struct.Struct(">qhib")  # producer id, epoch, timeout, status
_TIMES: Final = struct.Struct(">qq")
_FENCE: Final = struct.Struct(">qbqh")
_BOOLEAN: Final = (False, True)
_I64: Final = struct.Struct(">q")
_I16: Final = struct.Struct(">h")
_ONE_BYTE_MAX: Final = 0x7F  # of an unsigned varint
FENCES_CACHED_MAX: Final = 4096  # histories of ids, of some hundred bytes each
TOPICS_CACHED_MAX: Final = 4096  # topics with partitions, of a kilobyte at most
TAGS_CACHED_MAX: Final = 4096  # tagged fields of a value, of some hundred bytes
CACHED_IDS_MAX: Final = 126  # partitions of a topic that is remembered: their count is one byte

_INT_TAGS: Final[dict[int, tuple[str, struct.Struct, int]]] = {  # name, layout, default
    0: ("previous_producer_id", _I64, -1),
    1: ("next_producer_id", _I64, -1),
    2: ("client_transaction_version", _I16, 0),
    3: ("next_producer_epoch", _I16, -1),
    1000: ("instance_epoch", _I16, -1),
    1001: ("last_producer_epoch", _I16, -1),
    1002: ("init_version", _I16, -1),
}
_FENCES_TAG: Final = 1003
_TIMED_OUT_TAG: Final = 1004


def write_value(value: Any) -> bytes | None:
    """The value's bytes, without its version; None: leave it to ``fencepost.records.message``.

    ``value``   has the fields of ``TransactionValue``.
    """
    if value.next_timeout_ms != NO_TIMEOUT or value.assignments is not None:
        return None  # of an InitProducerId that keeps, or is of a group: no step of every transaction
    try:
        return _write(value)
    except (struct.error, UnicodeEncodeError):
        return None


def read_value(buffer: bytes, position: int) -> dict[str, Any] | None:
    """The fields of a value that ends with ``buffer``; None: leave it to ``fencepost.records.message``."""
    try:
        return _read(buffer, position)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _write(value: Any) -> bytes:
    parts = [_HEAD.pack(value.producer_id, value.producer_epoch, value.transaction_timeout_ms, value.status)]
    if value.partitions is None:
        parts.append(b"\x00")
    else:
        parts.append(unsigned(len(value.partitions) + 1))
        for each in value.partitions:
            ids = each.partition_ids
            write_topic = _write_topic if len(ids) <= CACHED_IDS_MAX else _write_topic.__wrapped__
            parts.append(write_topic(each.topic, ids))
    parts.append(_TIMES.pack(value.updated_ms, value.started_ms))
    count, tags = _write_numbers(
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
        value.next_producer_epoch,
        value.instance_epoch,
        value.last_producer_epoch,
        value.init_version,
    )
    if value.fences:
        fences = _fences(value.fences)
        count, tags = count + 1, tags + unsigned(_FENCES_TAG) + unsigned(len(fences)) + fences
    if value.timed_out:
        count, tags = count + 1, tags + unsigned(_TIMED_OUT_TAG) + b"\x01\x01"
    parts += (unsigned(count), tags)
    return b"".join(parts)


@lru_cache(TOPICS_CACHED_MAX)
def _write_topic(topic: str, ids: tuple[int, ...]) -> bytes:
    name, count = topic.encode(), len(ids)
    sized = unsigned(len(name) + 1) + name + unsigned(count + 1)
    return sized + struct.pack(f">{count}i", *ids) + b"\x00"


@lru_cache(TAGS_CACHED_MAX)
def _write_numbers(*numbers: int) -> tuple[int, bytes]:
    """How many of ``_INT_TAGS`` are not their default, and the bytes of those."""
    tags = [
        head + layout.pack(number)
        for number, (head, layout, default) in zip(numbers, _WRITE_TAGS, strict=True)
        if number != default
    ]
    return len(tags), b"".join(tags)


def _fences(fences: Any) -> bytes:
    parts = [unsigned(len(fences) + 1)]
    for fence in fences:
        by = fence.by.encode()
        parts.append(_FENCE.pack(fence.at_ms, fence.cause, fence.producer_id, fence.epoch))
        parts += (unsigned(len(by) + 1), by, b"\x00")
    return b"".join(parts)


_WRITE_TAGS: Final = [
    (unsigned(tag) + bytes((layout.size,)), layout, default)
    for tag, (_, layout, default) in _INT_TAGS.items()
]


def _read(buffer: bytes, at: int) -> dict[str, Any] | None:
    producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(buffer, at)
    partitions, at = _read_partitions(buffer, at + _HEAD.size)
    updated_ms, started_ms = _TIMES.unpack_from(buffer, at)
    tags = _read_tags(buffer[at + _TIMES.size :])
    if tags is None:
        return None
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_timeout_ms": timeout_ms,
        "status": status,
        "partitions": partitions,
        "updated_ms": updated_ms,
        "started_ms": started_ms,
        **tags,
    }


@lru_cache(TAGS_CACHED_MAX)
def _read_tags(buffer: bytes) -> dict[str, Any] | None:
    """The tagged fields at the end of a value. The dictionary is shared: copy it."""
    fields: dict[str, Any] = {}
    count, at, previous = buffer[0], 1, -1
    for _ in range(count):
        tag, size = buffer[at], buffer[at + 1]
        at += 2
        if tag > _ONE_BYTE_MAX:  # two bytes: ours
            tag, size = (tag & 0x7F) | (size << 7), buffer[at]
            at += 1
        if size > _ONE_BYTE_MAX:  # two bytes: several fences
            size, at = (size & 0x7F) | (buffer[at] << 7), at + 1
        known = _INT_TAGS.get(tag)
        if known is not None and size == known[1].size:
            fields[known[0]] = known[1].unpack_from(buffer, at)[0]
        elif tag == _FENCES_TAG:
            fields["fences"] = _read_fences(buffer[at : at + size])
        elif tag == _TIMED_OUT_TAG and size == 1:
            fields["timed_out"] = _BOOLEAN[buffer[at]]
        else:
            return None
        if tag <= previous:
            return None
        previous = tag
        at += size
    return fields if at == len(buffer) else None


def _read_partitions(buffer: bytes, at: int) -> tuple[tuple[TopicPartitions, ...] | None, int]:
    count, at = _length(buffer, at)
    if count < 0:
        return None, at
    topics = []
    for _ in range(count):
        name_size = buffer[at]  # both sizes are one more than what they count; 0 is null
        ids_at = at + name_size
        ids_size = buffer[ids_at]
        if not (0 < name_size <= _ONE_BYTE_MAX and 0 < ids_size <= _ONE_BYTE_MAX):
            raise IndexError("a null, or a length of several bytes")
        end = _no_tags(buffer, ids_at + 1 + 4 * (ids_size - 1))
        topics.append(_read_topic(buffer[at:end]))
        at = end
    return tuple(topics), at


@lru_cache(TOPICS_CACHED_MAX)
def _read_topic(buffer: bytes) -> TopicPartitions:
    """One topic and its partitions, whose lengths fit these bytes."""
    ids_at = buffer[0]
    size = buffer[ids_at] - 1
    return TopicPartitions(buffer[1:ids_at].decode(), struct.unpack_from(f">{size}i", buffer, ids_at + 1))


@lru_cache(FENCES_CACHED_MAX)
def _read_fences(buffer: bytes) -> tuple[Fence, ...]:
    """Remembered: they are the same in each record of an id until it is fenced again."""
    count, at = _length(buffer, 0)
    fences = []
    for _ in range(count):
        at_ms, cause, producer_id, epoch = _FENCE.unpack_from(buffer, at)
        by, at = _read_string(buffer, at + _FENCE.size)
        at = _no_tags(buffer, at)
        fences.append(Fence(at_ms, cause, producer_id, epoch, by))
    if at != len(buffer):
        raise IndexError("bytes after the fences")
    return tuple(fences)


def _read_string(buffer: bytes, at: int) -> tuple[str, int]:
    length, at = _length(buffer, at)
    if length < 0 or at + length > len(buffer):
        raise IndexError("a null string, or one past the end")
    return buffer[at : at + length].decode(), at + length


def _length(buffer: bytes, at: int) -> tuple[int, int]:
    """A compact length below 127; -1: null. Raises IndexError for what is out of the ordinary."""
    length = buffer[at]
    if length > _ONE_BYTE_MAX:
        raise IndexError("a length of several bytes")
    return length - 1, at + 1


def _no_tags(buffer: bytes, at: int) -> int:
    if buffer[at] != 0:
        raise IndexError("tagged fields where this version has none")
    return at + 1
