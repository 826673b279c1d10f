"""Frames and headers: where a message begins and ends, which API and version it is of, and whose it is.

Layout   length i32 | header | body. Request header v1: key i16 | version i16 | correlation id i32 |
         client id (i16 length, -1 null, UTF-8); v2 adds tagged fields. Response header v0: correlation
         id i32; v1 adds tagged fields. Big-endian.
Bound    a frame is refused by its length, before any of it is stored; a request by its key's limit
         (wire/request_limits.py), before more than its first bytes are.
Source   Kafka protocol guide; RequestHeader.json (the client id stays a legacy string even in v2).
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.records.invariant import CorruptData
from fencepost.records.varint import read_unsigned

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024  # Kafka's default of socket.request.max.bytes
KEYLESS_BYTES_MAX: Final = 64 * 1024  # of a request whose key is not served, or not here yet
HEADER_TAGS_MAX: Final = 32  # no tag is defined for headers; some room for those to come
DETACHED_BYTES_MIN: Final = 256 * 1024
REQUEST_PREFIX_BYTES: Final = 8  # key, version, correlation id: enough to refuse any request

_LENGTH: Final = struct.Struct(">i")
_KEY: Final = struct.Struct(">h")
_REQUEST: Final = struct.Struct(">hhih")
_REQUEST_PREFIX: Final = struct.Struct(">hhi")
_FRAMED_REQUEST: Final = struct.Struct(">ihhih")
_RESPONSE: Final = struct.Struct(">ii")
_RESPONSE_TAGGED: Final = struct.Struct(">iiB")


class RequestHeader(NamedTuple):
    """API key, version and correlation id of a request, and its client's id. ``client_id`` may be null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class Splitter:
    """Cuts a byte stream into frames. Each byte is copied a bounded number of times.

    Bytes that hold whole frames are kept as they came; only a rest that waits for more is collected. A frame
    above DETACHED_BYTES_MIN that was collected is given out as it is, without a second copy. With
    ``key_limits`` frames are requests: one above its key's limit is refused when the key is here.
    """

    __slots__ = ("_frame_bytes_max", "_key_limits", "_position", "_unchecked_bytes_max", "pending")

    def __init__(
        self, frame_bytes_max: int = FRAME_BYTES_MAX, key_limits: Mapping[int, int] | None = None
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._key_limits = key_limits or {}
        self._unchecked_bytes_max = FRAME_BYTES_MAX if key_limits is None else KEYLESS_BYTES_MAX
        self.pending: bytes | bytearray = b""  # empty if no byte waits; may begin with bytes given out
        self._position = 0

    @property
    def buffered(self) -> int:
        """Bytes fed but not yet cut off as frames."""
        return len(self.pending) - self._position

    @property
    def announced(self) -> int:
        """The size of the frame that the buffered bytes begin, by its own word; 0 if that is not here yet."""
        if self.buffered < _LENGTH.size:
            return 0
        (size,) = _LENGTH.unpack_from(self.pending, self._position)
        return max(0, int(size))

    def limit(self, frame_bytes_max: int) -> None:
        """Change the bound for the frames that are cut off from now on."""
        self._frame_bytes_max = frame_bytes_max

    def clear(self) -> None:
        """Forget the bytes that are buffered."""
        self.pending, self._position = b"", 0

    def feed(self, chunk: bytes) -> None:
        """Add bytes that arrived."""
        buffer, position = self.pending, self._position
        if position == len(buffer):
            self.pending = chunk
        elif isinstance(buffer, bytearray):
            del buffer[:position]
            buffer += chunk
        else:
            self.pending = bytearray(memoryview(buffer)[position:])
            self.pending += chunk
        self._position = 0

    def next_frame(self) -> bytes | bytearray | None:
        """The next whole frame without its length, or None. Raises CorruptData on a bad length."""
        buffer, position = self.pending, self._position
        start = position + 4
        if len(buffer) < start:
            if position:
                self._trim()
            return None
        (size,) = _LENGTH.unpack_from(buffer, position)
        if not 0 <= size <= self._frame_bytes_max:
            raise CorruptData(f"a frame claims {size} bytes, expected 0 to {self._frame_bytes_max}")
        if size > self._unchecked_bytes_max and len(buffer) >= start + _KEY.size:
            self._check_key(size, _KEY.unpack_from(buffer, start)[0])
        end = start + size
        if len(buffer) < end:
            self._trim()
            return None
        if isinstance(buffer, bytes):
            if end == len(buffer):
                self.pending, self._position = b"", 0
            else:
                self._position = end
            return buffer[start:end]
        if size < DETACHED_BYTES_MIN:
            self._position = end
            if end == len(buffer):
                self.pending, self._position = b"", 0
            return bytes(memoryview(buffer)[start:end])
        self.pending, self._position = bytes(memoryview(buffer)[end:]), 0
        del buffer[end:]
        del buffer[:start]
        return buffer

    def _check_key(self, size: int, key: int) -> None:
        most = self._key_limits.get(key, KEYLESS_BYTES_MAX)
        if size > most:
            raise CorruptData(f"a request of API key {key} claims {size} bytes, expected at most {most}")

    def _trim(self) -> None:
        """Keep no byte that was given out: an idle connection holds what waits, not the read it came in."""
        if self._position:
            self.pending = self.pending[self._position :]
            self._position = 0


def parse_request_prefix(frame: bytes | bytearray) -> tuple[int, int, int]:
    """(key, version, correlation id): alike in every header version. Raises CorruptData."""
    if len(frame) < REQUEST_PREFIX_BYTES:
        raise CorruptData(f"a request of {len(frame)} bytes, expected at least {REQUEST_PREFIX_BYTES}")
    key, version, correlation_id = _REQUEST_PREFIX.unpack_from(frame)
    return key, version, correlation_id


def parse_request_start(frame: bytes | bytearray) -> tuple[int, int, int, int]:
    """As ``parse_request_prefix``, and where the client id ends by its own word; 0 if that is not there.

    Only ``client_id_end`` says that the client id is there whole. Raises CorruptData.
    """
    if len(frame) < _REQUEST.size:
        return (*parse_request_prefix(frame), 0)
    key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    return key, version, correlation_id, _REQUEST.size + length if length > 0 else _REQUEST.size


def client_id_end(frame: bytes | bytearray) -> int:
    """Where the client id ends, so that ``frame[10:end]`` is its bytes. Raises CorruptData."""
    if len(frame) < _REQUEST.size:
        raise CorruptData(f"a request header of {len(frame)} bytes, expected at least {_REQUEST.size}")
    length = (frame[8] << 8) | frame[9]
    if length >= 0x8000:  # negative is null, as Kafka reads it
        return _REQUEST.size
    end = _REQUEST.size + length
    if end > len(frame):
        raise CorruptData(f"a client id claims {length} bytes, the frame has {len(frame) - _REQUEST.size}")
    return end


def skip_tagged_fields(frame: bytes | bytearray, position: int) -> int:
    """Where the tagged fields of a header end. Raises CorruptData."""
    if position < len(frame) and frame[position] == 0:
        return position + 1
    try:
        count, position = read_unsigned(frame, position)
        if count > HEADER_TAGS_MAX:
            raise CorruptData(f"{count} of them, at most {HEADER_TAGS_MAX} are read")
        for _ in range(count):
            _, position = read_unsigned(frame, position)
            size, position = read_unsigned(frame, position)
            position += size
            if position > len(frame):
                raise CorruptData(f"one claims {size} bytes, past the end of the frame")
    except CorruptData as error:
        raise CorruptData(f"tagged fields of a header: {error}") from error
    return position


def parse_request_header(frame: bytes | bytearray, *, flexible: bool) -> tuple[RequestHeader, int]:
    """Header v2 if ``flexible``, else v1, and where the body begins. Raises CorruptData."""
    key, version, correlation_id = parse_request_prefix(frame)
    end = client_id_end(frame)
    client_id = parse_client_id(frame[10:end], is_null=frame[8] >= 0x80)
    if flexible:
        end = skip_tagged_fields(frame, end)
    return RequestHeader(key, version, correlation_id, client_id), end


def parse_client_id(raw: bytes | bytearray, *, is_null: bool) -> str | None:
    """The client id as text. Raises CorruptData."""
    if is_null:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise CorruptData(f"a client id that is not UTF-8: {error}") from error


def request_frame(header: RequestHeader, body: bytes, *, flexible: bool) -> bytes:
    """One whole frame. Inverse of ``Splitter`` and ``parse_request_header``."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    tags = b"\0" if flexible else b""
    size = _REQUEST.size + len(client_id) + len(tags) + len(body)
    framed = _FRAMED_REQUEST.pack(size, header.api_key, header.api_version, header.correlation_id, length)
    return b"".join((framed, client_id, tags, body))


def response_frame(correlation_id: int, body: bytes, *, tagged: bool) -> bytes:
    """One whole frame with response header v1 if ``tagged``, else v0."""
    if tagged:
        return _RESPONSE_TAGGED.pack(len(body) + 5, correlation_id, 0) + body
    return _RESPONSE.pack(len(body) + 4, correlation_id) + body


def response_frame_of(correlation_id: int, pieces: list[bytes], *, tagged: bool) -> bytes:
    """As ``response_frame`` of the pieces joined, but each byte of them is copied once."""
    size = sum(map(len, pieces))
    if tagged:
        header = _RESPONSE_TAGGED.pack(size + 5, correlation_id, 0)
    else:
        header = _RESPONSE.pack(size + 4, correlation_id)
    return b"".join((header, *pieces))


def parse_response_header(frame: bytes | bytearray, *, tagged: bool) -> tuple[int, int]:
    """(correlation id, where the body begins). Raises CorruptData."""
    if len(frame) < _LENGTH.size:
        raise CorruptData(f"a response of {len(frame)} bytes, expected at least {_LENGTH.size}")
    (correlation_id,) = _LENGTH.unpack_from(frame)
    return correlation_id, skip_tagged_fields(frame, 4) if tagged else 4


def raw_frame(body: bytes) -> bytes:
    """A frame without any header: SASL tokens after a handshake of version 0."""
    return _LENGTH.pack(len(body)) + body
