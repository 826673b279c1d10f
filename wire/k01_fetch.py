"""Fetch, API key 1, versions 4-17: records from an offset on.

4   isolation_level, last_stable_offset, aborted transactions      5   log_start_offset
7   sessions, error_code for the whole answer      9   current_leader_epoch      11  rack
12  flexible, last_fetched_epoch     13  topics by id alone     15  replica_state in the place of replica_id
No session is ever made: session 0 is answered, and clients send whole requests (KIP-227).
"""

import struct
import uuid
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.records.varint import unsigned
from fencepost.wire.cursor import Reader, Writer, grouped, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.frame import response_frame_of
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition to read, by ``topic_id`` from version 13 on, by ``topic`` before. Epochs -1: unknown."""

    topic: str | None
    topic_id: uuid.UUID | None
    index: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Wait up to ``max_wait_ms`` until ``min_bytes`` are there; at most about ``max_bytes`` come back."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """Records of ``producer_id`` from ``first_offset`` up to its ABORT marker are to be skipped."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """Records of one partition, as they lie in the log. ``aborted`` None unless read committed."""

    topic: str | None
    topic_id: uuid.UUID | None
    index: int
    error_code: int = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """Rows in the order of the request; those of one topic stand together."""

    error_code: int = ErrorCode.NONE
    session_id: int = 0
    partitions: tuple[FetchedPartition, ...] = ()


_FLEXIBLE_FROM: Final = 12
_BY_TOPIC_ID_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_REPLICA_STATE_TAG: Final = 1
_ANSWER_ELEMENTS_MAX: Final = 200_000  # lists of aborted transactions can be long; they are our own
_LIMITS: Final = struct.Struct(">iiib")  # max wait ms | min bytes | max bytes | isolation level
_SESSION: Final = struct.Struct(">ii")  # session id | session epoch
_NO_SESSION: Final = (0, -1)
_REPLICA_STATE: Final = struct.Struct(">iq")  # replica id | replica epoch
_ROW: Final = struct.Struct(">ihqq")  # index | error | high watermark | last stable offset
_ABORTED: Final = struct.Struct(">qq")  # producer id | first offset


def _decode_request(version: int, body: Buffer) -> Fetch:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"Fetch v{version}", reader, lambda reader: _read_request(version, reader))


def _read_request(version: int, reader: Reader) -> Fetch:
    replica_id = reader.int32() if version < _REPLICA_STATE_FROM else -1
    max_wait_ms, min_bytes, max_bytes, isolation_level = reader.fields(_LIMITS)
    session_id, session_epoch = reader.fields(_SESSION) if version >= 7 else _NO_SESSION
    partitions: list[FetchPartition] = []
    for _ in range(reader.count()):
        topic, topic_id = _read_topic(version, reader)
        partitions.extend(_read_partition(version, reader, topic, topic_id) for _ in range(reader.count()))
        reader.skip_tags()
    if version >= 7:
        for _ in range(reader.count()):  # topics to forget: no session remembers any
            _read_topic(version, reader)
            reader.int32s()
            reader.skip_tags()
    if version >= 11:
        reader.string()  # the rack: there is one replica to read from
    if version >= _FLEXIBLE_FROM:
        replica_id = reader.tags(_TAGS if version >= _REPLICA_STATE_FROM else {}).get(
            _REPLICA_STATE_TAG, replica_id
        )
    return Fetch(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        tuple(partitions),
    )


def _read_topic(version: int, reader: Reader) -> tuple[str | None, uuid.UUID | None]:
    if version >= _BY_TOPIC_ID_FROM:
        return None, reader.uuid()
    return reader.string(), None


def _read_partition(
    version: int, reader: Reader, topic: str | None, topic_id: uuid.UUID | None
) -> FetchPartition:
    index = reader.int32()
    current_leader_epoch = reader.int32() if version >= 9 else -1
    fetch_offset = reader.int64()
    last_fetched_epoch = reader.int32() if version >= 12 else -1
    log_start_offset = reader.int64() if version >= 5 else -1
    max_bytes = reader.int32()
    reader.skip_tags()
    return FetchPartition(
        topic,
        topic_id,
        index,
        current_leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
        max_bytes,
    )


def _read_replica_state(reader: Reader) -> int:
    replica_id: int = reader.fields(_REPLICA_STATE)[0]
    reader.skip_tags()
    return replica_id


_TAGS: Final = {_REPLICA_STATE_TAG: _read_replica_state}


def _encode_request(version: int, request: Fetch) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version < _REPLICA_STATE_FROM:
        writer.int32(request.replica_id)
    writer.pack(_LIMITS, request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= 7:
        writer.pack(_SESSION, request.session_id, request.session_epoch)
    topics = grouped(request.partitions, lambda each: (each.topic, each.topic_id))
    writer.count(len(topics))
    for (topic, topic_id), partitions in topics.items():
        _write_topic(version, writer, topic, topic_id)
        writer.count(len(partitions))
        for each in partitions:
            _write_partition(version, writer, each)
        writer.no_tags()
    if version >= 7:
        writer.count(0)
    if version >= 11:
        writer.string("")
    if version >= _REPLICA_STATE_FROM and request.replica_id != -1:
        state = _REPLICA_STATE.pack(request.replica_id, -1) + b"\0"
        writer.parts += (b"\1", unsigned(_REPLICA_STATE_TAG), unsigned(len(state)), state)
    else:
        writer.no_tags()
    return writer.message()


def _write_topic(version: int, writer: Writer, topic: str | None, topic_id: uuid.UUID | None) -> None:
    if version >= _BY_TOPIC_ID_FROM:
        writer.uuid(topic_id)
    elif topic is None:
        raise UnsupportedVersion(f"topics by id need version {_BY_TOPIC_ID_FROM}, this is {version}")
    else:
        writer.string(topic)


def _write_partition(version: int, writer: Writer, partition: FetchPartition) -> None:
    writer.int32(partition.index)
    if version >= 9:
        writer.int32(partition.current_leader_epoch)
    writer.int64(partition.fetch_offset)
    if version >= 12:
        writer.int32(partition.last_fetched_epoch)
    if version >= 5:
        writer.int64(partition.log_start_offset)
    writer.int32(partition.max_bytes)
    writer.no_tags()


def _encode_response(version: int, answer: FetchAnswer, throttle_ms: int) -> bytes:
    return b"".join(_pieces(version, answer, throttle_ms))


def _frame_response(version: int, correlation_id: int, answer: FetchAnswer, throttle_ms: int) -> bytes:
    pieces = _pieces(version, answer, throttle_ms)
    return response_frame_of(correlation_id, pieces, tagged=version >= _FLEXIBLE_FROM)


def _pieces(version: int, answer: FetchAnswer, throttle_ms: int) -> list[bytes]:
    """The body, with the records as they are given: the one copy is made where the pieces are joined."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    if version >= 7:
        writer.int16(answer.error_code)
        writer.int32(answer.session_id)
    topics = grouped(answer.partitions, lambda each: (each.topic, each.topic_id))
    writer.count(len(topics))
    for (topic, topic_id), partitions in topics.items():
        _write_topic(version, writer, topic, topic_id)
        writer.count(len(partitions))
        for each in partitions:
            _write_row(version, writer, each)
        writer.no_tags()
    writer.no_tags()
    return writer.parts


def _write_row(version: int, writer: Writer, row: FetchedPartition) -> None:
    writer.pack(_ROW, row.index, row.error_code, row.high_watermark, row.last_stable_offset)
    if version >= 5:
        writer.int64(row.log_start_offset)
    writer.count(-1 if row.aborted is None else len(row.aborted))
    for each in row.aborted or ():
        writer.pack(_ABORTED, each.producer_id, each.first_offset)
        writer.no_tags()
    if version >= 11:
        writer.int32(-1)  # no preferred read replica
    writer.records(row.records)  # never null: clients before version 12 want no bytes, not none
    writer.no_tags()


def _refusal(version: int, request: Fetch | None, error: ApiError, throttle_ms: int) -> bytes:
    if version >= 7 or request is None:
        return _encode_response(version, FetchAnswer(error.code), throttle_ms)
    rows = (
        FetchedPartition(each.topic, each.topic_id, each.index, error.code) for each in request.partitions
    )
    return _encode_response(version, FetchAnswer(partitions=tuple(rows)), throttle_ms)


def _decode_response(version: int, body: Buffer) -> FetchAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=_ANSWER_ELEMENTS_MAX)
    return read(f"Fetch answer v{version}", reader, lambda reader: _read_response(version, reader))


def _read_response(version: int, reader: Reader) -> FetchAnswer:
    reader.int32()
    error_code = session_id = 0
    if version >= 7:
        error_code = reader.int16()
        session_id = reader.int32()
    rows: list[FetchedPartition] = []
    for _ in range(reader.count()):
        topic, topic_id = _read_topic(version, reader)
        rows.extend(_read_row(version, reader, topic, topic_id) for _ in range(reader.count()))
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return FetchAnswer(error_code, session_id, tuple(rows))


def _read_row(
    version: int, reader: Reader, topic: str | None, topic_id: uuid.UUID | None
) -> FetchedPartition:
    index, error_code, high_watermark, last_stable_offset = reader.fields(_ROW)
    log_start_offset = reader.int64() if version >= 5 else -1
    count = reader.nullable_count()
    aborted = None if count is None else tuple(_read_aborted(reader) for _ in range(count))
    if version >= 11:
        reader.int32()
    records = reader.records() or b""
    reader.skip_tags()
    return FetchedPartition(
        topic,
        topic_id,
        index,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        records,
    )


def _read_aborted(reader: Reader) -> AbortedTransaction:
    producer_id, first_offset = reader.fields(_ABORTED)
    reader.skip_tags()
    return AbortedTransaction(producer_id, first_offset)


FETCH: Final[Api[Fetch, FetchAnswer]] = Api(
    key=1,
    name="Fetch",
    versions=range(4, 18),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,  # partitions, and those forgotten
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    frame_response=_frame_response,
)
