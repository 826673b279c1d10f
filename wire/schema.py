"""Kafka's messages as kio describes them, read and written without trusting a byte.

kio's generated classes say which fields a message has in each version, kio's primitive readers and
writers how each is encoded. Not used is kio's own entity reader, which bites (0.6.5) on bytes
from the network: it reserves memory for as many elements as an array says it has, so twenty bytes abort
the process; and it refuses a tagged field it does not know, which KIP-482 says to skip.

A message is a dict by kio's field names, and the values are plain: error codes are ints, durations
and times are ints with ``_ms`` added to the name, a zero uuid is None. Fields that a version lacks are absent
after ``decode`` and dropped by ``encode``; absent ones take Kafka's default.
"""

import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import readers, writers
from kio.serial.errors import SerialError

from fencepost.records.invariant import CorruptData, InvariantViolation

ELEMENTS_MAX: Final = 20_000
"""Array elements and tagged fields in one message, so that no message holds the loop for long."""
LOOKED_UP_ELEMENTS_MAX: Final = 5_000
"""The same for requests of which each element is looked up, in some 10 us: topics, partitions, groups."""
NAMED_ELEMENTS_MAX: Final = 2_500
"""The same for topics in requests that may have at most 1,000 of them, or 2,000: a refusal names each."""
ANSWER_ELEMENTS_MAX: Final = 4_000_000
"""The same for answers that list what a server has, such as a million transactional ids; tools read them."""

Buffer: TypeAlias = bytes | memoryview

_Read: TypeAlias = Callable[[Buffer, int, "_Budget"], tuple[Any, int]]
_Write: TypeAlias = Callable[[Any, Any], None]
_FIXED: Final[Mapping[str, tuple[Any, Any]]] = {
    "bool": (readers.read_boolean, writers.write_boolean),
    "int8": (readers.read_int8, writers.write_int8),
    "int16": (readers.read_int16, writers.write_int16),
    "int32": (readers.read_int32, writers.write_int32),
    "int64": (readers.read_int64, writers.write_int64),
    "uint16": (readers.read_uint16, writers.write_uint16),
    "float64": (readers.read_float64, writers.write_float64),
    "uuid": (readers.read_uuid, writers.write_uuid),
    "error_code": (readers.read_int16, writers.write_int16),
    "timedelta_i32": (readers.read_int32, writers.write_int32),
    "timedelta_i64": (readers.read_int64, writers.write_int64),
    "datetime_i64": (readers.read_int64, writers.write_int64),
}
_SIZED: Final[Mapping[tuple[str, bool, bool], tuple[Any, Any]]] = {  # by type, flexible, nullable
    ("string", False, False): (readers.read_legacy_string, writers.write_legacy_string),
    ("string", False, True): (readers.read_nullable_legacy_string, writers.write_nullable_legacy_string),
    ("string", True, False): (readers.read_compact_string, writers.write_compact_string),
    ("string", True, True): (readers.read_compact_string_nullable, writers.write_nullable_compact_string),
    ("bytes", False, False): (readers.read_legacy_bytes, writers.write_legacy_bytes),
    ("bytes", True, False): (readers.read_compact_string_as_bytes, writers.write_compact_string),
}
_MILLISECOND: Final = timedelta(milliseconds=1)


class _Budget:
    """How many elements are left of ``elements_max`` while one message is read."""

    __slots__ = ("_elements_max", "_left")

    def __init__(self, elements_max: int) -> None:
        self._elements_max = self._left = elements_max

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise CorruptData(f"more than {self._elements_max} elements in one message")


class _Field(NamedTuple):
    name: str
    read: _Read
    write: _Write
    default: Any  # MISSING if Kafka has none


class Message:
    """One request or response in all its versions.

    ``parts`` names, by array field, the dataclass that its elements become; its fields are a subset of
    kio's. ``renames`` maps kio's field names to ours. ``elements_max`` is for answers of our own servers
    that list more than a request may.
    """

    def __init__(
        self,
        api_key: int,
        kind: Literal["request", "response"],
        parts: Mapping[str, type[Any]] | None = None,
        renames: Mapping[str, str] | None = None,
        elements_max: int = ELEMENTS_MAX,
    ) -> None:
        self._api_key = api_key
        self._elements_max = elements_max
        self._kind = kind
        self._load: Callable[[int, int], type[Any]] = (
            load_request_schema if kind == "request" else load_response_schema
        )
        self._parts = parts or {}
        self._renames = renames or {}
        self._layouts: dict[int, _Layout] = {}

    def decode(self, version: int, body: Buffer) -> dict[str, Any]:
        """Every field of the version, by name. Raises CorruptData.

        Bytes after a request are left unread, as Kafka does: librdkafka 2.16 sends three too many when it
        requests Metadata v9 and up for all topics. After a response they are corrupt: those are our own.
        """
        layout = self._layout(version)
        try:
            message, end = layout.read(body, 0, _Budget(self._elements_max))
        except (SerialError, ValueError, OverflowError) as error:
            raise CorruptData(f"{layout.name} v{version}: {error}") from error
        if end != len(body) and self._kind == "response":
            raise CorruptData(f"{layout.name} v{version}: {len(body) - end} bytes too many")
        decoded: dict[str, Any] = message
        return decoded

    def encode(self, version: int, message: Mapping[str, Any]) -> bytes:
        """Inverse of ``decode``. Raises InvariantViolation: what we send is ours to get right."""
        layout = self._layout(version)
        buffer = io.BytesIO()
        try:
            layout.write(buffer, message)
        except (SerialError, struct.error, TypeError, AttributeError) as error:
            raise InvariantViolation(f"{layout.name} v{version} cannot carry {message!r}") from error
        return buffer.getvalue()

    def load(self, version: int) -> None:
        """Import what describes this version: 3 to 13 ms that its first message takes otherwise."""
        self._layout(version)

    def is_loaded(self, version: int) -> bool:
        """Nothing is imported for a message of this version."""
        return version in self._layouts

    def _layout(self, version: int) -> "_Layout":
        layout = self._layouts.get(version)
        if layout is None:
            entity = self._load(self._api_key, version)
            layout = self._layouts[version] = _Layout(entity, dict, self._parts, self._renames)
        return layout


class _Layout:
    """How one kio class lies in bytes, nested classes included."""

    __slots__ = ("_build", "_fields", "_flexible", "_tagged", "name")

    def __init__(
        self,
        entity: type[Any],
        part: type[Any],
        parts: Mapping[str, type[Any]],
        renames: Mapping[str, str],
    ) -> None:
        self.name = entity.__name__
        self._flexible: bool = entity.__flexible__
        self._fields: list[_Field] = []
        self._tagged: dict[int, _Field] = {}
        for described in fields(entity):
            field = _field(described, self._flexible, parts, renames)
            if "tag" in described.metadata:
                self._tagged[described.metadata["tag"]] = field
            else:
                self._fields.append(field)
        self._build = _builder(part, [*self._fields, *self._tagged.values()])

    def read(self, buffer: Buffer, position: int, budget: _Budget) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for field in self._fields:
            values[field.name], position = field.read(buffer, position, budget)
        if self._flexible:
            for field in self._tagged.values():
                values[field.name] = field.default
            position = self._read_tags(buffer, position, budget, values)
        return self._build(values), position

    def _read_tags(self, buffer: Buffer, position: int, budget: _Budget, values: dict[str, Any]) -> int:
        count, width = readers.read_unsigned_varint(buffer, position)
        position += width
        budget.spend(count)
        for _ in range(count):
            tag, width = readers.read_unsigned_varint(buffer, position)
            position += width
            size, width = readers.read_unsigned_varint(buffer, position)
            position += width
            end = position + size
            if end > len(buffer):
                raise CorruptData(f"{self.name}: tag {tag} claims {size} bytes, past the end of the message")
            field = self._tagged.get(tag)
            if field is not None:
                values[field.name], read_to = field.read(buffer, position, budget)
                if read_to != end:
                    raise CorruptData(f"{self.name}: tag {tag} claims {size} bytes, has {read_to - position}")
            position = end
        return position

    def write(self, buffer: io.BytesIO, source: Any) -> None:
        for field in self._fields:
            field.write(buffer, _value(source, field))
        if not self._flexible:
            return
        tagged = []
        for tag in sorted(self._tagged):
            field = self._tagged[tag]
            value = _value(source, field)
            if value != field.default:
                tagged.append((tag, field, value))
        writers.write_unsigned_varint(buffer, len(tagged))  # type: ignore[arg-type]
        for tag, field, value in tagged:
            writers.write_tagged_field(buffer, tag, field.write, value)  # type: ignore[arg-type]


def _value(source: Any, field: _Field) -> Any:
    if isinstance(source, Mapping):
        value = source.get(field.name, field.default)
    else:
        value = getattr(source, field.name, field.default)
    if value is MISSING:
        raise InvariantViolation(f"{field.name} is missing in {source!r}")
    return value


def _builder(part: type[Any], described: list[_Field]) -> Callable[[dict[str, Any]], Any]:
    if not is_dataclass(part):
        return part
    wanted = {field.name for field in fields(part)}
    names = [field.name for field in described if field.name in wanted]
    return lambda values: part(**{name: values[name] for name in names})


def _field(
    field: Field[Any], flexible: bool, parts: Mapping[str, type[Any]], renames: Mapping[str, str]
) -> _Field:
    name = renames.get(field.name, field.name)
    default = field.default
    kafka_type: str = field.metadata.get("kafka_type", "")
    if kafka_type.startswith(("timedelta", "datetime")):
        name += "_ms"
        default = default // _MILLISECOND if isinstance(default, timedelta) else default
    kind = field.type
    kinds = [each for each in (get_args(kind) or (kind,)) if each is not type(None)]
    array = next((each for each in (kind, *kinds) if get_origin(each) is tuple), None)
    nullable = type(None) in get_args(kind)
    element = kinds[0] if array is None else get_args(array)[0]
    may_be_null = nullable and array is None
    if is_dataclass(element):
        layout = _Layout(element, parts.get(field.name, dict), parts, renames)  # type: ignore[arg-type]
        read, write = _nullable_struct(layout) if may_be_null else (layout.read, layout.write)
    else:
        read, write = _primitive(kafka_type, flexible, may_be_null and "tag" not in field.metadata)
    if array is not None:
        read, write = _array(read, write, flexible=flexible, nullable=nullable, name=name)
    return _Field(name, read, write, default)


def _nullable_struct(layout: _Layout) -> tuple[_Read, _Write]:
    """A struct that may be null begins with a byte: -1 if it is, else 1 (KIP-893)."""

    def read(buffer: Buffer, position: int, budget: _Budget) -> tuple[Any, int]:
        flag, width = readers.read_int8(buffer, position)
        return (None, position + width) if flag < 0 else layout.read(buffer, position + width, budget)

    def write(buffer: io.BytesIO, value: Any) -> None:
        writers.write_int8(buffer, -1 if value is None else 1)  # type: ignore[arg-type]
        if value is not None:
            layout.write(buffer, value)

    return read, write


def _primitive(kafka_type: str, flexible: bool, nullable: bool) -> tuple[_Read, _Write]:
    fixed = _FIXED.get(kafka_type)
    read_one, write = fixed if fixed is not None else _SIZED[kafka_type, flexible, nullable]

    def read(buffer: Buffer, position: int, budget: _Budget) -> tuple[Any, int]:
        value, width = read_one(buffer, position)
        return value, position + width

    return read, write


def _array(read: _Read, write: _Write, *, flexible: bool, nullable: bool, name: str) -> tuple[_Read, _Write]:
    def read_array(buffer: Buffer, position: int, budget: _Budget) -> tuple[Any, int]:
        length: int | None
        if flexible:
            length, width = readers.read_compact_array_length(buffer, position)
        else:
            length, width = readers.read_legacy_array_length(buffer, position)
        position += width
        if length is None or length < 0:
            if not nullable:
                raise CorruptData(f"{name} is null")
            return None, position
        budget.spend(length)
        elements = []
        for _ in range(length):
            element, position = read(buffer, position, budget)
            elements.append(element)
        return tuple(elements), position

    write_array = (writers.compact_array_writer if flexible else writers.legacy_array_writer)(write)
    return read_array, write_array
