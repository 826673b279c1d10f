"""Compressed batches, opened and made: gzip, snappy, lz4, zstd, as Kafka's clients write them.

Bound    never more than ``bytes_max`` come out: one that is larger is refused before it is unpacked
         further. Gzip members and snappy blocks, which are walked one by one, are counted.
GIL      zlib and cramjam release it while they unpack.
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

from fencepost.records.invariant import CorruptData

DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of one batch. A batch of 1 MB (``message.max.bytes``) of text is some 10 MB; far more is a bomb."""

GZIP_MEMBERS_MAX: Final = 1024  # of one batch; clients write one
SNAPPY_BLOCKS_MAX: Final = 65_536
"""Of one batch in xerial's frames. snappy-java's blocks hold 32 KiB, at least 1 KiB."""

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

LZ4_LEVEL_FAST: Final = 9  # Kafka's default, by which it takes the fast compressor, not the one with levels

BY_NAME: Final = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""Kafka's names of them, as ``compression.type`` has them."""

_BUFFER_TOO_SMALL: Final = "whole buffer"
_FIRST_GUESS: Final = 8  # times the compressed size
_FIRST_BYTES_MIN: Final = 64 * 1024
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16  # magic, version i32, compatible version i32
_XERIAL_BLOCK_BYTES: Final = 32 * 1024  # snappy-java's own
_GZIP_WINDOW: Final = 64 * 1024  # fed at a time: what follows a member is copied, so it must be little
_I32: Final = struct.Struct(">i")


class TooLarge(CorruptData):
    """More would come out than may."""


def decompress(codec: int, body: bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | bytearray:
    """The records inside ``body``, at most ``bytes_max`` bytes, which are at most DECOMPRESSED_BYTES_MAX.

    Raises   CorruptData: not what the codec writes; TooLarge. KeyError: no codec has that number.
    """
    return _CODECS[codec](body, bytes_max)


def compress(codec: int, body: bytes, level: int | None = None) -> bytes:
    """The records ``body`` as a batch of that codec holds them. Inverse: ``decompress``.

    ``level``: Kafka's ``compression.*.level``; None: the library's. Snappy has none.
    Snappy is written in xerial's frames and LZ4 in frames of independent blocks: what every reader knows.
    Raises   KeyError: no codec has that number.
    """
    return _WRITERS[codec](body, level)


def _write_gzip(body: bytes, level: int | None) -> bytes:
    return zlib.compress(body, -1 if level is None else level, wbits=31)


def _write_snappy(body: bytes, _level: int | None) -> bytes:
    parts = [_XERIAL, _I32.pack(1), _I32.pack(1)]
    for start in range(0, len(body), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(body[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_I32.pack(len(block)), block)
    return b"".join(parts)


def _write_lz4(body: bytes, level: int | None) -> bytes:
    known = None if level == LZ4_LEVEL_FAST else level
    compressor = cramjam.lz4.Compressor(known, content_checksum=False, block_linked=False)
    compressor.compress(body)
    return bytes(compressor.finish())


def _write_zstd(body: bytes, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(body, level))


def _gzip(body: bytes, bytes_max: int) -> bytearray:
    content = bytearray()
    view, position = memoryview(body), 0
    try:
        for _ in range(GZIP_MEMBERS_MAX):  # a stream may have several members
            member = zlib.decompressobj(31)
            while not member.eof:
                if position == len(body):
                    raise CorruptData("gzip: the stream is cut short")
                window = view[position : position + _GZIP_WINDOW]
                content += member.decompress(window, bytes_max + 1 - len(content))
                if len(content) > bytes_max:
                    raise _too_large("gzip", bytes_max)
                position += len(window) - len(member.unused_data) - len(member.unconsumed_tail)
            if position == len(body):
                return content
    except zlib.error as error:
        raise CorruptData(f"gzip: {error}") from error
    raise CorruptData(f"gzip: more than {GZIP_MEMBERS_MAX} members")


def _snappy(body: bytes, bytes_max: int) -> bytearray:
    if not body.startswith(_XERIAL):
        return _snappy_block(body, bytes_max)
    content = bytearray()
    position = _XERIAL_HEADER_BYTES
    blocks = 0
    while position < len(body):
        blocks += 1
        if blocks > SNAPPY_BLOCKS_MAX:
            raise CorruptData(f"snappy: more than {SNAPPY_BLOCKS_MAX} blocks")
        start = position + 4
        if start > len(body):
            raise CorruptData("snappy: the length of a block is cut short")
        (size,) = _I32.unpack_from(body, position)
        position = start + size
        if size <= 0 or position > len(body):
            raise CorruptData(f"snappy: a block of {size} bytes, {len(body) - start} are there")
        content += _snappy_block(body[start:position], bytes_max, len(content))
    return content


def _snappy_block(block: bytes, bytes_max: int, bytes_before: int = 0) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if bytes_before + size > bytes_max:
            raise _too_large("snappy", bytes_max)
        content = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, content) if size else 0
    except cramjam.DecompressionError as error:
        raise CorruptData(f"snappy: {error}") from error
    del content[written:]
    return content


def _lz4(body: bytes, bytes_max: int) -> bytearray:
    return _grown("lz4", cramjam.lz4.decompress_into, body, bytes_max)


def _zstd(body: bytes, bytes_max: int) -> bytearray:
    return _grown("zstd", cramjam.zstd.decompress_into, body, bytes_max)


def _grown(
    name: str, decompress_into: Callable[[bytes, bytearray], int], body: bytes, bytes_max: int
) -> bytearray:
    """Try with larger buffers until one holds everything."""
    size = min(max(_FIRST_BYTES_MIN, _FIRST_GUESS * len(body)), bytes_max)
    while True:
        buffer = bytearray(size)
        try:
            del buffer[decompress_into(body, buffer) :]
            return buffer
        except cramjam.DecompressionError as error:
            if _BUFFER_TOO_SMALL not in str(error):
                raise CorruptData(f"{name}: {error}") from error
            if size == bytes_max:
                raise _too_large(name, bytes_max) from error
            size = min(size * 8, bytes_max)


def _too_large(name: str, bytes_max: int) -> TooLarge:
    return TooLarge(f"{name}: more than {bytes_max} bytes come out")


_CODECS: Final = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
_WRITERS: Final = {GZIP: _write_gzip, SNAPPY: _write_snappy, LZ4: _write_lz4, ZSTD: _write_zstd}
