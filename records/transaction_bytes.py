"""TransactionLogValue v1 by hand: the bytes of ``fencepost.records.message`` at a sixth of the time.

Every step of every transaction is one such value, written once and read by each follower. What is out of
the ordinary (a text past 126 bytes, an unknown tag, anything wrong) is left to ``fencepost.records.message``:
both give the same, or None here (test_transaction_log.py).
"""

import struct
from functools import lru_cache
from typing import Any, Final

from fencepost.records.transaction_parts import Fence, TopicPartitions
from fencepost.records.varint import unsigned

_HEAD: Final = struct.Struct(">qhib")  # producer id, epoch, timeout, status
_TIMES: Final = struct.Struct(">qq")
_FENCE: Final = struct.Struct(">qbqh")
_BOOLEAN: Final = (False, True)
_I64: Final = struct.Struct(">q")
_I16: Final = struct.Struct(">h")
_ONE_BYTE_MAX: Final = 0x7F  # of an unsigned varint
FENCES_CACHED_MAX: Final = 4096  # histories of ids, of some hundred bytes each

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
            topic = each.topic.encode()
            count = len(each.partition_ids)
            parts += (unsigned(len(topic) + 1), topic, unsigned(count + 1))
            parts.append(struct.pack(f">{count}i", *each.partition_ids) + b"\x00")
    parts.append(_TIMES.pack(value.updated_ms, value.started_ms))
    tags = [
        head + layout.pack(number)
        for name, head, layout, default in _WRITE_TAGS
        if (number := getattr(value, name)) != default
    ]
    if value.fences:
        fences = _fences(value.fences)
        tags.append(unsigned(_FENCES_TAG) + unsigned(len(fences)) + fences)
    if value.timed_out:
        tags.append(unsigned(_TIMED_OUT_TAG) + b"\x01\x01")
    parts.append(unsigned(len(tags)))
    return b"".join(parts) + b"".join(tags)


def _fences(fences: Any) -> bytes:
    parts = [unsigned(len(fences) + 1)]
    for fence in fences:
        by = fence.by.encode()
        parts.append(_FENCE.pack(fence.at_ms, fence.cause, fence.producer_id, fence.epoch))
        parts += (unsigned(len(by) + 1), by, b"\x00")
    return b"".join(parts)


_WRITE_TAGS: Final = [
    (name, unsigned(tag) + bytes((layout.size,)), layout, default)
    for tag, (name, layout, default) in _INT_TAGS.items()
]


def _read(buffer: bytes, at: int) -> dict[str, Any] | None:
    producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(buffer, at)
    at += _HEAD.size
    partitions, at = _read_partitions(buffer, at)
    updated_ms, started_ms = _TIMES.unpack_from(buffer, at)
    at += _TIMES.size
    fields: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_timeout_ms": timeout_ms,
        "status": status,
        "partitions": partitions,
        "updated_ms": updated_ms,
        "started_ms": started_ms,
    }
    count = buffer[at]
    at += 1
    previous = -1
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
        topic, at = _read_string(buffer, at)
        size, at = _length(buffer, at)
        if size < 0:
            raise IndexError("a null array")
        ids = struct.unpack_from(f">{size}i", buffer, at)
        at += 4 * size
        at = _no_tags(buffer, at)
        topics.append(TopicPartitions(topic, ids))
    return tuple(topics), at


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
