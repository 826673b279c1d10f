"""Messages described in kio's style, read and written. Reading is total: a message or CorruptData.

kio's own reader (0.6.5) is not for bytes that may be wrong: it reserves as much as an array's length says
before it reads (four bytes abort the whole process, past every ``except``), raises KeyError on a
tagged field it does not know, ignores a tagged field's size, and gives None for a null array that may
not be null. Here every length is checked against the bytes that are there, unknown tags are skipped
as Kafka's readers do, and the only exception is CorruptData. Where kio's reader reads what its
writer wrote, both agree (test_message.py). Writing is kio's. Flexible messages only: every
record is one.

Source   Kafka protocol guide, KIP-482 (flexible versions, tagged fields).
"""

import functools
import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin
from uuid import UUID

from kio.serial import entity_writer
from kio.serial.errors import SerialError
from kio.static.protocol import Entity

from fencepost.records.invariant import CorruptData, InvariantViolation, invariant
from fencepost.records.varint import read_unsigned

E = TypeVar("E", bound=Entity)
Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]

TAGS_MAX: Final = 1024
"""Tagged fields of one struct; Kafka's own have fewer than ten, and each costs a turn of the loop."""


def read_message(message_type: type[E], buffer: bytes, position: int = 0) -> tuple[E, int]:
    """Read one message.

    Returns  the message and the position after it.
    Inverse  of ``write_message``.
    Raises   CorruptData, whatever the bytes are.
    """
    message, end = _struct_reader(message_type)(buffer, position)
    return message, end


def write_message(message: Entity) -> bytes:
    """Write one message.

    Raises   InvariantViolation if a field does not fit its Kafka type: a bug of the code that made it.
    """
    sink = _Sink()
    try:
        entity_writer(type(message))(cast(Any, sink), message)
    except (struct.error, SerialError, UnicodeEncodeError, TypeError) as error:
        raise InvariantViolation(f"a message cannot be written: {error}: {message!r}") from error
    return bytes(sink.written)


class _Sink:
    """What kio writes into: the one method of a file that it uses."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, content: bytes) -> None:
        self.written += content


def _truncated(position: int, what: str) -> CorruptData:
    return CorruptData(f"bytes end inside {what} at position {position}")


def _length(buffer: bytes, position: int) -> tuple[int, int]:
    """A compact length: one more than it says, 0 for null (-1)."""
    number, position = read_unsigned(buffer, position)
    return number - 1, position


def _fixed(format_: str) -> Read:
    layout = struct.Struct(format_)
    unpack, size = layout.unpack_from, layout.size

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        if position + size > len(buffer):
            raise _truncated(position, f"{size} bytes")
        return unpack(buffer, position)[0], position + size

    return read


def _bool(buffer: bytes, position: int) -> tuple[bool, int]:
    value, position = _FIXED_SIZE["int8"](buffer, position)
    return value != 0, position  # as Kafka: any byte but 0 is true


def _sized(nullable: bool, text: bool) -> Read:
    """A string or bytes: a length, -1 for null, then that many bytes."""

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        length, start = _length(buffer, position)
        if length < 0:
            if nullable:
                return None, start
            raise CorruptData(f"length {length} at position {position}, expected at least 0")
        end = start + length
        if end > len(buffer):
            raise _truncated(position, f"a string of {length} bytes")
        if not text:
            return bytes(buffer[start:end]), end
        try:
            return str(buffer[start:end], "utf-8"), end
        except UnicodeDecodeError as error:
            raise CorruptData(f"a string at position {position} is not UTF-8: {error}") from error

    return read


def _array(nullable: bool, item: Read) -> Read:
    """An array: a count, -1 for null, then the items. An item takes at least one byte."""

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        count, start = _length(buffer, position)
        if count < 0:
            if nullable:
                return None, start
            raise CorruptData(f"array length {count} at position {position}, expected at least 0")
        if count > len(buffer) - start:
            raise _truncated(position, f"an array of {count} items")
        items = []
        position = start
        for _ in range(count):
            value, position = item(buffer, position)
            items.append(value)
        return tuple(items), position

    return read


def _uuid(nullable: bool) -> Read:
    """Sixteen bytes. Kafka writes "none" as zeros, so zeros are None where None is allowed."""

    def read(buffer: bytes, position: int) -> tuple[UUID | None, int]:
        end = position + 16
        if end > len(buffer):
            raise _truncated(position, "a uuid")
        value = UUID(bytes=bytes(buffer[position:end]))
        return (None if nullable and not value.int else value), end

    return read


_FIXED_SIZE: Final[dict[str, Read]] = {
    "bool": _bool,
    "int8": _fixed(">b"),
    "int16": _fixed(">h"),
    "int32": _fixed(">i"),
    "int64": _fixed(">q"),
    "uint16": _fixed(">H"),
}


def _primitive_reader(kafka_type: str, nullable: bool) -> Read:
    if kafka_type in _FIXED_SIZE:
        return _FIXED_SIZE[kafka_type]
    if kafka_type == "uuid":
        return _uuid(nullable)
    invariant(kafka_type in ("string", "bytes"), "unknown kafka_type", kafka_type=kafka_type)
    return _sized(nullable, kafka_type == "string")


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """The type inside ``X | None``, and whether None is allowed."""
    if get_origin(annotation) not in (UnionType, Union):
        return annotation, False
    inner = [each for each in get_args(annotation) if each is not NoneType]
    invariant(len(inner) == 1, "only a union with None is readable", annotation=annotation)
    return inner[0], True


def _field_reader(described: Field[Any]) -> Read:
    annotation, nullable = _without_none(described.type)
    is_array = get_origin(annotation) is tuple
    item_type, item_nullable = _without_none(get_args(annotation)[0]) if is_array else (annotation, nullable)
    if is_dataclass(item_type) and isinstance(item_type, type):
        invariant(is_array or not nullable, "nullable structs are not read", name=described.name)
        item = _struct_reader(item_type)
    else:
        item = _primitive_reader(described.metadata["kafka_type"], item_nullable)
    return _array(nullable, item) if is_array else item


@functools.cache
def _struct_reader(struct_type: type[Any]) -> Read:
    invariant(struct_type.__flexible__, "only flexible messages are read", struct_type=struct_type)
    plain: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    for described in fields(struct_type):
        reader = (described.name, _field_reader(described))
        if "tag" in described.metadata:
            has_default = described.default is not MISSING
            invariant(has_default, "a tagged field has no default", type=struct_type, name=described.name)
            tagged[described.metadata["tag"]] = reader
        else:
            plain.append(reader)

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for name, read_field in plain:
            values[name], position = read_field(buffer, position)
        position = _read_tags(tagged, values, buffer, position)
        return struct_type(**values), position

    return read


def _read_tags(
    tagged: dict[int, tuple[str, Read]], values: dict[str, Any], buffer: bytes, position: int
) -> int:
    """Tagged fields into ``values``; unknown ones are skipped. Tags must ascend (KIP-482)."""
    count, position = read_unsigned(buffer, position)
    if count > TAGS_MAX:
        raise CorruptData(f"{count} tagged fields before position {position}, at most {TAGS_MAX} expected")
    previous = -1
    for _ in range(count):
        tag, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        end = position + size
        if end > len(buffer):
            raise _truncated(position, f"tagged field {tag} of {size} bytes")
        if tag <= previous:
            raise CorruptData(f"tagged field {tag} after {previous} at position {position}")
        previous = tag
        if tag in tagged:
            name, read_field = tagged[tag]
            values[name], reached = read_field(buffer, position)
            if reached != end:
                raise CorruptData(f"tagged field {tag} at position {position} is not {size} bytes long")
        position = end
    return position
