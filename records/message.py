"""Messages described in kio's style, read and written. Reading is total: a message or CorruptData.

kio's own reader (0.6.5) is not for bytes that somebody else chose: it reserves what an array's length
claims before it reads (four bytes abort the whole process, past every ``except``), raises KeyError on
a tagged field it does not know, ignores a tagged field's size, and gives None for a null array that
may not be null. Here every length is checked against the bytes that are there, unknown tags are
skipped as Kafka's readers do (KIP-482), and the only exception is CorruptData. Where kio's reader
succeeds on what its writer wrote, both agree (test_message.py). Writing is kio's..

Source   Kafka protocol guide, KIP-482 (flexible versions, tags), KIP-893 (nullable structs).
"""

import functools
import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin
from uuid import UUID

from kio.serial import entity_writer, readers
from kio.serial.errors import SerialError
from kio.static.protocol import Entity

from records.invariant import CorruptData, InvariantViolation, invariant

E = TypeVar("E", bound=Entity)
Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]

NESTED_DEPTH_MAX: Final = 8  # Kafka's deepest schema nests 4; described types are finite, this is a guard
TAGS_MAX: Final = 1024  # tagged fields of one struct; Kafka's own use fewer than 10


def read_message(message_type: type[E], buffer: bytes, position: int = 0) -> tuple[E, int]:
    """Read one message.

    Returns  the message and the position after it.
    Inverse  of ``write_message``, for flexible and for older versions.
    Raises   CorruptData, whatever the bytes are.
    """
    message, end = _struct_reader(message_type, 0)(buffer, position)
    return message, end


def write_message(message: Entity) -> bytes:
    """Write one message.

    Raises   InvariantViolation if a field does not fit its Kafka type: whoever made it is wrong.
    """
    sink = _Sink()
    try:
        entity_writer(type(message))(cast(Any, sink), message)
    except (struct.error, SerialError, UnicodeEncodeError, TypeError) as error:
        raise InvariantViolation(f"a message cannot be written: {error}: {message!r}") from error
    return bytes(sink.written)


def read_unsigned_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """At most five bytes, seven bits each, the lowest first. Raises CorruptData past 2^32 - 1."""
    number = 0
    for shift in (0, 7, 14, 21, 28):
        if position >= len(buffer):
            raise _truncated(position, "a varint")
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > 0xFFFFFFFF:
                break
            return number, position
    raise CorruptData(f"a varint of more than 32 bits ends at position {position}")


class _Sink:
    """What kio writes into: the one method of a file that it uses."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, content: bytes) -> None:
        self.written += content


def _truncated(position: int, what: str) -> CorruptData:
    return CorruptData(f"bytes end inside {what} at position {position}")


def _as_it_is(value: Any) -> Any:
    return value


def _fixed(format_: str, convert: Callable[[Any], Any] = _as_it_is) -> Read:
    layout = struct.Struct(format_)
    unpack, size = layout.unpack_from, layout.size

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        if position + size > len(buffer):
            raise _truncated(position, f"{size} bytes")
        return convert(unpack(buffer, position)[0]), position + size

    return read


def _compact_length(buffer: bytes, position: int) -> tuple[int, int]:
    number, position = read_unsigned_varint(buffer, position)
    return number - 1, position


_LEGACY_SHORT: Final = _fixed(">h")
_LEGACY_LONG: Final = _fixed(">i")


def _sized(length_of: Read, nullable: bool, text: bool) -> Read:
    """A string or bytes: a length, -1 for null, then that many bytes."""

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        length, start = length_of(buffer, position)
        if length < 0:
            if length == -1 and nullable:
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


def _array(length_of: Read, nullable: bool, item: Read) -> Read:
    """An array: a count, -1 for null, then the items. An item takes at least one byte."""

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        count, start = length_of(buffer, position)
        if count < 0:
            if count == -1 and nullable:
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


def _kio(reader: Any) -> Read:
    """kio's own reader, for what has a fixed size and a Python type of its own."""

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        try:
            value, size = reader(buffer, position)
        except (SerialError, ValueError, LookupError, OverflowError, OSError) as error:
            raise CorruptData(f"value at position {position}: {error}") from error
        return value, position + size

    return read


_FIXED_SIZE: Final[dict[str, Read]] = {
    "bool": _fixed(">B", bool),  # Kafka reads any byte but 0 as true
    "int8": _fixed(">b"),
    "int16": _fixed(">h"),
    "int32": _fixed(">i"),
    "int64": _fixed(">q"),
    "uint8": _fixed(">B"),
    "uint16": _fixed(">H"),
    "uint32": _fixed(">I"),
    "uint64": _fixed(">Q"),
    "float64": _fixed(">d"),
    "error_code": _kio(readers.read_error_code),
    "timedelta_i32": _kio(readers.read_timedelta_i32),
    "timedelta_i64": _kio(readers.read_timedelta_i64),
    "datetime_i64": _kio(readers.read_nullable_datetime_i64),
}


def _primitive_reader(kafka_type: str, flexible: bool, nullable: bool) -> Read:
    if kafka_type in _FIXED_SIZE:
        return _FIXED_SIZE[kafka_type]
    if kafka_type == "uuid":
        return _uuid(nullable)
    invariant(kafka_type in ("string", "bytes", "records"), "unknown kafka_type", kafka_type=kafka_type)
    is_text = kafka_type == "string"
    legacy = _LEGACY_SHORT if is_text else _LEGACY_LONG
    return _sized(_compact_length if flexible else legacy, nullable, is_text)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """The type inside ``X | None``, and whether None is allowed."""
    if get_origin(annotation) not in (UnionType, Union):
        return annotation, False
    inner = [each for each in get_args(annotation) if each is not NoneType]
    invariant(len(inner) == 1, "only a union with None is readable", annotation=annotation)
    return inner[0], True


def _field_reader(described: Field[Any], flexible: bool, depth: int) -> Read:
    annotation, nullable = _without_none(described.type)
    is_array = get_origin(annotation) is tuple
    item_type, item_nullable = _without_none(get_args(annotation)[0]) if is_array else (annotation, nullable)
    item: Read
    if is_dataclass(item_type) and isinstance(item_type, type):
        item = _struct_reader(item_type, depth + 1)
        if item_nullable and not is_array:
            item = _nullable_struct(item)
    else:
        kafka_type = described.metadata["kafka_type"]
        item = _primitive_reader(kafka_type, flexible, item_nullable)
    if not is_array:
        return item
    return _array(_compact_length if flexible else _LEGACY_LONG, nullable, item)


def _nullable_struct(read_struct: Read) -> Read:
    """KIP-893: one byte says whether the struct is there, -1 for null."""

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        marker, start = _FIXED_SIZE["int8"](buffer, position)
        return (None, start) if marker < 0 else read_struct(buffer, start)

    return read


@functools.cache
def _struct_reader(entity_type: Any, depth: int) -> Read:
    invariant(depth <= NESTED_DEPTH_MAX, "structs nest too deeply", entity_type=entity_type)
    flexible = entity_type.__flexible__
    plain: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    for described in fields(entity_type):
        reader = (described.name, _field_reader(described, flexible, depth))
        if "tag" not in described.metadata:
            plain.append(reader)
            continue
        has_default = described.default is not MISSING or described.default_factory is not MISSING
        invariant(has_default, "a tagged field has no default", entity=entity_type, name=described.name)
        tagged[described.metadata["tag"]] = reader

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for name, read_field in plain:
            values[name], position = read_field(buffer, position)
        if flexible:
            position = _read_tags(tagged, values, buffer, position)
        return entity_type(**values), position

    return read


def _read_tags(
    tagged: dict[int, tuple[str, Read]], values: dict[str, Any], buffer: bytes, position: int
) -> int:
    """Tagged fields into ``values``; unknown ones are skipped. Tags must ascend (KIP-482)."""
    count, position = read_unsigned_varint(buffer, position)
    if count > TAGS_MAX:
        raise CorruptData(f"{count} tagged fields before position {position}, at most {TAGS_MAX} expected")
    previous = -1
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
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
