"""DescribeLogDirs, API key 35, versions 1-4: a broker's log directories, and how large each log in them is.

2   flexible      3   error_code of the whole answer      4   bytes of the volume, and those that can be used
"""

import struct
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.cursor import Reader, Writer, grouped, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, ELEMENTS_MAX, Buffer

UNKNOWN_BYTES: Final = -1


@dataclass(frozen=True, slots=True)
class DescribeLogDirs:
    """API key 35. ``topics`` with their partitions; None: every log."""

    topics: tuple[tuple[str, tuple[int, ...]], ...] | None = None


@dataclass(frozen=True, slots=True)
class LogSize:
    """Bytes of a log's batches. ``offset_lag``: its end beyond the high watermark."""

    topic: str
    index: int
    size: int
    offset_lag: int = 0
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class LogDirDescribed:
    """One log directory, or why it cannot be used."""

    path: str
    logs: tuple[LogSize, ...] = ()
    error_code: int = ErrorCode.NONE
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES


@dataclass(frozen=True, slots=True)
class DescribeLogDirsAnswer:
    """All log directories, in the order of ``log.dirs``."""

    directories: tuple[LogDirDescribed, ...]


_FLEXIBLE_FROM: Final = 2
_LOG: Final = struct.Struct(">iqq?")
_VOLUME: Final = struct.Struct(">qq")


def _decode_request(version: int, body: Buffer) -> DescribeLogDirs:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=ELEMENTS_MAX)
    return read(f"DescribeLogDirs v{version}", reader, _read_request)


def _read_request(reader: Reader) -> DescribeLogDirs:
    count = reader.nullable_count()
    topics = []
    for _ in range(count or 0):
        topics.append((reader.string(), reader.int32s()))
        reader.skip_tags()
    reader.skip_tags()
    return DescribeLogDirs(None if count is None else tuple(topics))


def _encode_request(version: int, request: DescribeLogDirs) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.count(-1 if request.topics is None else len(request.topics))
    for topic, indexes in request.topics or ():
        writer.string(topic)
        writer.int32s(indexes)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: DescribeLogDirsAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, ErrorCode.NONE)


def _encode(version: int, answer: DescribeLogDirsAnswer, throttle_ms: int, code: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    if version >= 3:
        writer.int16(code)
    writer.count(len(answer.directories))
    for each in answer.directories:
        writer.int16(each.error_code)
        writer.string(each.path)
        topics = grouped(each.logs, lambda log: log.topic)
        writer.count(len(topics))
        for topic, logs in topics.items():
            writer.string(topic)
            writer.count(len(logs))
            for log in logs:
                writer.pack(_LOG, log.index, log.size, log.offset_lag, log.is_future)
                writer.no_tags()
            writer.no_tags()
        if version >= 4:
            writer.pack(_VOLUME, each.total_bytes, each.usable_bytes)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: DescribeLogDirs | None, error: ApiError, throttle_ms: int) -> bytes:
    """Before version 3 the code stands at a directory without a path."""
    rows = () if version >= 3 else (LogDirDescribed("", (), error.code),)
    return _encode(version, DescribeLogDirsAnswer(rows), throttle_ms, error.code)


def _decode_response(version: int, body: Buffer) -> DescribeLogDirsAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=ANSWER_ELEMENTS_MAX)
    code, answer = read(f"DescribeLogDirs answer v{version}", reader, lambda each: _read(version, each))
    raise_for(code)
    return answer


def _read(version: int, reader: Reader) -> tuple[int, DescribeLogDirsAnswer]:
    reader.int32()
    code = reader.int16() if version >= 3 else 0
    directories = []
    for _ in range(reader.count()):
        error_code, path = reader.int16(), reader.string()
        logs: list[LogSize] = []
        for _ in range(reader.count()):
            topic = reader.string()
            for _ in range(reader.count()):
                logs.append(LogSize(topic, *reader.fields(_LOG)))
                reader.skip_tags()
            reader.skip_tags()
        volume = reader.fields(_VOLUME) if version >= 4 else (UNKNOWN_BYTES, UNKNOWN_BYTES)
        reader.skip_tags()
        directories.append(LogDirDescribed(path, tuple(logs), error_code, *volume))
    reader.skip_tags()
    reader.finish()
    return code, DescribeLogDirsAnswer(tuple(directories))


DESCRIBE_LOG_DIRS: Final[Api[DescribeLogDirs, DescribeLogDirsAnswer]] = Api(
    key=35,
    name="DescribeLogDirs",
    versions=range(1, 5),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
