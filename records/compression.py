"""Compressed batches, opened to be checked: gzip, snappy, lz4, zstd, as Kafka's clients write them.

Bound    never more than ``DECOMPRESSED_BYTES_MAX`` come out: a batch that claims more is refused.
Bites    cramjam's ``decompress`` trusts its input for the size, so only the functions that fill a buffer of
         ours are used; only the text of its error tells that the buffer was too small.
Source   Kafka's codecs: GZIP streams; snappy in xerial's frames (Java) or bare (librdkafka); LZ4 frames;
         Zstandard frames.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from records.invariant import CorruptData

DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of one batch. A batch of 1 MB (``message.max.bytes``) of text is some 10 MB; far more is a bomb."""

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_BUFFER_TOO_SMALL: Final = "whole buffer"
_FIRST_GUESS: Final = 8  # times the compressed size
_FIRST_BYTES_MIN: Final = 64 * 1024
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16  # magic, version i32, compatible version i32
_I32: Final = struct.Struct(">i")


def decompress(codec: int, body: bytes) -> bytes:
    """The records inside ``body``, at most ``DECOMPRESSED_BYTES_MAX`` bytes.

    Raises   CorruptData: not what the codec writes, or too large. KeyError: no codec has that number.
    """
    return _CODECS[codec](body)


def _gzip(body: bytes) -> bytes:
    content = bytearray()
    try:
        while body:  # a stream may have several members
            member = zlib.decompressobj(31)
            content += member.decompress(body, DECOMPRESSED_BYTES_MAX + 1 - len(content))
            if len(content) > DECOMPRESSED_BYTES_MAX:
                raise _too_large("gzip")
            if not member.eof:
                raise CorruptData("gzip: the stream is cut short")
            body = member.unused_data
    except zlib.error as error:
        raise CorruptData(f"gzip: {error}") from error
    return bytes(content)


def _snappy(body: bytes) -> bytes:
    if not body.startswith(_XERIAL):
        return _snappy_block(body, DECOMPRESSED_BYTES_MAX)
    content = bytearray()
    position = _XERIAL_HEADER_BYTES
    while position < len(body):
        start = position + 4
        if start > len(body):
            raise CorruptData("snappy: the length of a block is cut short")
        (size,) = _I32.unpack_from(body, position)
        position = start + size
        if size <= 0 or position > len(body):
            raise CorruptData(f"snappy: a block of {size} bytes, {len(body) - start} are there")
        content += _snappy_block(body[start:position], DECOMPRESSED_BYTES_MAX - len(content))
    return bytes(content)


def _snappy_block(block: bytes, bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > bytes_max:
            raise _too_large("snappy")
        content = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, content) if size else 0
    except cramjam.DecompressionError as error:
        raise CorruptData(f"snappy: {error}") from error
    return bytes(content[:written])


def _lz4(body: bytes) -> bytes:
    return _grown("lz4", cramjam.lz4.decompress_into, body)


def _zstd(body: bytes) -> bytes:
    return _grown("zstd", cramjam.zstd.decompress_into, body)


def _grown(name: str, decompress_into: Callable[[bytes, bytearray], int], body: bytes) -> bytes:
    """Try with larger buffers until one holds everything."""
    size = min(max(_FIRST_BYTES_MIN, _FIRST_GUESS * len(body)), DECOMPRESSED_BYTES_MAX)
    while True:
        buffer = bytearray(size)
        try:
            return bytes(memoryview(buffer)[: decompress_into(body, buffer)])
        except cramjam.DecompressionError as error:
            if _BUFFER_TOO_SMALL not in str(error):
                raise CorruptData(f"{name}: {error}") from error
            if size == DECOMPRESSED_BYTES_MAX:
                raise _too_large(name) from error
            size = min(size * 8, DECOMPRESSED_BYTES_MAX)


def _too_large(name: str) -> CorruptData:
    return CorruptData(f"{name}: more than {DECOMPRESSED_BYTES_MAX} bytes come out")


_CODECS: Final = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
