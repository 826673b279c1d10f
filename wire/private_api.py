"""The codec of private API keys: a message is described by its fields, and read and written by that.

Request      the fields of its layout.
Response     throttle ms int32 | error int16 | message string, if the key has one | the fields of its layout.
             Behind an error stands what ``refused`` gives, which is not read.
Types        big-endian. A string has its length as int16 before it, an array and bytes as int32; of a compact
             key all three have an unsigned varint of the length plus one.
JSON         a message that is one document: its length as int32, then a document to the end. Members that are
             not known are passed over, so that it may grow without a new version.
Versions     0 is the only one, and the bytes of a key never change. docs/api-keys.md lists the fields.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.records.invariant import CorruptData
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import NEVER_FLEXIBLE, Api, ListenerKind, Unanswered
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")

JSON_BYTES_MAX: Final = 64 * 1024
LIST_BYTES_MAX: Final = 4 * 1024 * 1024  # of a response that lists what a node has

_HEAD: Final = struct.Struct(">ih")  # throttle ms | error


class Layout(Protocol[T]):
    """How a message, or an element of an array, lies in bytes."""

    def read(self, reader: Reader) -> T:
        """The next value. Raises what ``cursor.read`` takes for CorruptData; DecodeError for bad JSON."""

    def write(self, writer: Writer, value: T) -> None:
        """Write a value so that ``read`` returns it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a field. ``of``: the elements of an array."""

    title: str
    read: Callable[[Reader], Any]
    write: Callable[[Writer, Any], None]
    of: "Fields[Any] | None" = None


INT16: Final = Kind("int16", Reader.int16, Writer.int16)
INT32: Final = Kind("int32", Reader.int32, Writer.int32)
INT64: Final = Kind("int64", Reader.int64, Writer.int64)
STRING: Final = Kind("string", Reader.string, Writer.string)
INT32S: Final = Kind("array of int32", Reader.int32s, Writer.int32s)


def string_of(chars_max: int) -> Kind:
    """At most so many characters."""

    def read_bounded(reader: Reader) -> str:
        text = reader.string()
        if len(text) > chars_max:
            raise CorruptData(f"a field of {len(text)} characters, at most {chars_max} are expected")
        return text

    return Kind(f"string, at most {chars_max} characters", read_bounded, Writer.string)


def bytes_of(bytes_max: int) -> Kind:
    """At most so many bytes."""

    def read_bounded(reader: Reader) -> bytes:
        raw = reader.records()
        if raw is None or len(raw) > bytes_max:
            size = "none" if raw is None else f"{len(raw)} bytes"
            raise CorruptData(f"expected up to {bytes_max} bytes, got {size}")
        return raw

    return Kind(f"bytes, at most {bytes_max}", read_bounded, Writer.records)


def array_of(layout: "Fields[Any]") -> Kind:
    """A tuple of what ``layout`` describes."""

    def read_elements(reader: Reader) -> tuple[Any, ...]:
        return tuple([layout.read(reader) for _ in range(reader.count())])

    def write_elements(writer: Writer, elements: tuple[Any, ...]) -> None:
        writer.count(len(elements))
        for each in elements:
            layout.write(writer, each)

    return Kind("array", read_elements, write_elements, layout)


class Fields(Generic[T]):
    """Fields one after the other. ``make`` takes their values in this order; None makes a tuple of them."""

    def __init__(self, make: Callable[..., T] | None = None, /, **kinds: Kind) -> None:
        self.kinds = kinds
        self._make = make
        self._reads = tuple(kind.read for kind in kinds.values())
        self._writes = tuple((name, kind.write) for name, kind in kinds.items())

    def read(self, reader: Reader) -> T:
        """Implements ``Layout.read``."""
        values: Any = tuple([read_field(reader) for read_field in self._reads])
        made: T = values if self._make is None else self._make(*values)
        return made

    def write(self, writer: Writer, value: Any) -> None:
        """Implements ``Layout.write``."""
        if self._make is None:
            for (_, write_field), part in zip(self._writes, value, strict=True):
                write_field(writer, part)
        else:
            for name, write_field in self._writes:
                write_field(writer, getattr(value, name))


NOTHING: Final[Fields[None]] = Fields(lambda: None)


class Json(Generic[T]):
    """A message that is one JSON document, described by a msgspec struct."""

    def __init__(self, document: type[T], bytes_max: int = JSON_BYTES_MAX) -> None:
        self.document = document
        self.bytes_max = bytes_max

    def read(self, reader: Reader) -> T:
        """See Layout. Raises DecodeError for what is no such document."""
        length, there = reader.int32(), reader.bytes_left
        if length != there or length > self.bytes_max:
            raise CorruptData(f"{length} bytes of JSON, {there} are there; at most {self.bytes_max} are read")
        try:
            return msgspec.json.decode(reader.take(length), type=self.document)
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from error

    def write(self, writer: Writer, value: T) -> None:
        """Implements ``Layout.write``."""
        raw = msgspec.json.encode(value)
        writer.int32(len(raw))
        writer.parts.append(raw)


EMPTY_DOCUMENT: Final = bytes(4)
"""What stands behind an error of a key whose responses are JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateApi(Api[Q, R]):
    """An Api with the layouts that its codec follows, for the page that lists them."""

    request: Layout[Q]
    response: Layout[R]
    has_message: bool
    is_compact: bool


def private_api(
    key: int,
    name: str,
    request: Layout[Q],
    response: Layout[R],
    listeners: tuple[ListenerKind, ...],
    *,
    is_compact: bool = False,
    has_message: bool = True,
    refused: bytes = EMPTY_DOCUMENT,
    request_bytes_max: int = 2 * SMALL,  # JSON of 64 KiB
    require: Callable[[Q], None] = lambda _request: None,
    unanswered: Callable[[Q, R | ApiError], Unanswered | None] | None = None,
) -> PrivateApi[Q, R]:
    """The API of a key. ``require`` raises InvalidRequest for a request that can be read but not be meant."""
    codec = _Codec(name, request, response, is_compact, has_message, refused, require)
    return PrivateApi(
        key=key,
        name=name,
        versions=range(1),
        flexible_from=NEVER_FLEXIBLE,
        listeners=listeners,
        request_bytes_max=request_bytes_max,
        decode_request=codec.decode_request,
        encode_response=codec.encode_response,
        refusal=codec.refusal,
        encode_request=codec.encode_request,
        decode_response=codec.decode_response,
        unanswered=unanswered,
        request=request,
        response=response,
        has_message=has_message,
        is_compact=is_compact,
    )


@dataclass(frozen=True, slots=True)
class _Codec(Generic[Q, R]):
    """The callables of an Api, see there."""

    name: str
    request: Layout[Q]
    response: Layout[R]
    is_compact: bool
    has_message: bool
    refused: bytes
    require: Callable[[Q], None]

    def encode_request(self, version: int, message: Q) -> bytes:
        writer = Writer(flexible=self.is_compact)
        try:
            self.request.write(writer, message)
        except struct.error as error:
            raise InvalidRequest(f"{self.name} cannot carry what is to be sent: {error}") from error
        return writer.message()

    def decode_request(self, version: int, body: Buffer) -> Q:
        try:
            message = read(self.name, self._reader(body), self._read_request)
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"{self.name}: {error}") from error
        self.require(message)
        return message

    def encode_response(self, version: int, message: R, throttle_ms: int) -> bytes:
        writer = self._head(0, "", throttle_ms)
        self.response.write(writer, message)
        return writer.message()

    def refusal(self, version: int, message: Q | None, error: ApiError, throttle_ms: int) -> bytes:
        writer = self._head(error.code, message_of(error), throttle_ms)
        writer.parts.append(self.refused)
        return writer.message()

    def decode_response(self, version: int, body: Buffer) -> R:
        try:
            return read(f"{self.name} response", self._reader(body), self._read_response)
        except msgspec.DecodeError as error:
            raise CorruptData(f"{self.name} response: {error}") from error

    def _reader(self, body: Buffer) -> Reader:
        return Reader(body, flexible=self.is_compact)

    def _head(self, code: int, text: str, throttle_ms: int) -> Writer:
        writer = Writer(flexible=self.is_compact)
        writer.pack(_HEAD, throttle_ms, code)
        if self.has_message:
            writer.string(text)
        return writer

    def _read_request(self, reader: Reader) -> Q:
        return _whole(reader, self.request)

    def _read_response(self, reader: Reader) -> R:
        _, code = reader.fields(_HEAD)
        raise_for(code, reader.string() if self.has_message else None)
        return _whole(reader, self.response)


def _whole(reader: Reader, layout: Layout[T]) -> T:
    message = layout.read(reader)
    reader.finish()
    return message
