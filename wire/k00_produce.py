"""Produce, API key 0, versions 3-12: batches to append; 0-2 are advertised and refused.

3   transactional_id; record batches of magic 2 only      5   log_start_offset
8   record_errors, error_message      9   flexible       10   the current leader, for those who follow it
11  may be answered with TRANSACTION_ABORTABLE; below, INVALID_TXN_STATE says it
12  adds its partitions to the transaction by itself (KIP-890)
0-2 are advertised because librdkafka compresses nothing for a broker that has no version 2 (KAFKA-18659).
"""

import struct
from typing import Final

import msgspec

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.wire.cursor import Reader, Writer, grouped, read
from fencepost.wire.dispatch import BROKER, Api, Unanswered
from fencepost.wire.errors import gated, message_of
from fencepost.wire.frame import FRAME_BYTES_MAX
from fencepost.wire.schema import Buffer


class PartitionData(msgspec.Struct, frozen=True):
    """What to append to one partition: one or more record batches, unread; None is refused by the log.

    Large ``records`` are a view of the request's frame.
    """

    topic: str
    index: int
    records: Buffer | None


class Produce(msgspec.Struct, frozen=True):
    """``acks`` 0: nothing is answered; 1: the leader has it; -1: all in-sync replicas have it.

    ``knows_timed_out``    the client aborts and goes on after UNKNOWN_PRODUCER_ID, as librdkafka does.
    ``knows_abortable``    the client knows TRANSACTION_ABORTABLE.
    ``adds_partitions``    the client uses transactions V2: what it writes to is added to its transaction
                           by the partition's leader, not by a request of its own.
    """

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: tuple[PartitionData, ...]
    knows_timed_out: bool = True
    knows_abortable: bool = True
    adds_partitions: bool = False


class RecordError(msgspec.Struct, frozen=True):
    """Why a batch was refused, at the record of this index."""

    batch_index: int
    message: str | None = None


class PartitionProduced(msgspec.Struct, frozen=True):
    """What became of one partition's batches. ``base_offset`` -1 if they were not appended."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None


class ProduceAnswer(msgspec.Struct, frozen=True):
    """One row per partition in the request; those of one topic stand together."""

    partitions: tuple[PartitionProduced, ...]


_VERSIONS: Final = range(13)
_SERVED_FROM: Final = 3
_FLEXIBLE_FROM: Final = 9
_TIMED_OUT_FROM: Final = 10
"""From this version on a timed-out epoch is UNKNOWN_PRODUCER_ID (59): librdkafka aborts and goes on with it;
kafkajs and aiokafka (below) take INVALID_PRODUCER_ID_MAPPING (49) for abortable (docs/kafka-notes.md E3)."""
_ABORTABLE_FROM: Final = 11
"""From this version on TRANSACTION_ABORTABLE says it: 59 is to the Java client the loss of the log's start,
and it sends the batch again until its delivery timeout, two minutes."""
_ADDING_FROM: Final = 12
_REQUEST_ELEMENTS_MAX: Final = 10_000  # topics and partitions: read in some 10 ms, and answered in as many
_ACKS: Final = struct.Struct(">hi")  # acks | timeout ms
_ROW: Final = struct.Struct(">ihq")  # index | error | base offset


def _decode_request(version: int, body: Buffer) -> Produce:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=_REQUEST_ELEMENTS_MAX)
    return read(f"Produce v{version}", reader, lambda reader: _read_request(version, reader))


def _read_request(version: int, reader: Reader) -> Produce:
    transactional_id = reader.nullable_string() if version >= _SERVED_FROM else None
    acks, timeout_ms = reader.fields(_ACKS)
    partitions: list[PartitionData] = []
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            partitions.append(PartitionData(topic, reader.int32(), reader.records_in_place()))
            reader.skip_tags()
        reader.skip_tags()
    reader.skip_tags()
    return Produce(
        transactional_id,
        acks,
        timeout_ms,
        tuple(partitions),
        knows_timed_out=version >= _TIMED_OUT_FROM,
        knows_abortable=version >= _ABORTABLE_FROM,
        adds_partitions=version >= _ADDING_FROM,
    )


def _newest_for(request: Produce) -> int:
    return _ADDING_FROM if request.adds_partitions else _ADDING_FROM - 1


def _encode_request(version: int, request: Produce) -> bytes:
    if request.adds_partitions and version < _ADDING_FROM:
        raise UnsupportedVersion(f"a Produce that adds partitions needs version {_ADDING_FROM}")
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _SERVED_FROM:
        writer.string(request.transactional_id)
    writer.pack(_ACKS, request.acks, request.timeout_ms)
    topics = grouped(request.partitions, lambda each: each.topic)
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.count(len(partitions))
        for each in partitions:
            writer.int32(each.index)
            writer.records(each.records)
            writer.no_tags()
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: ProduceAnswer, throttle_ms: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    topics = grouped(answer.partitions, lambda each: each.topic)
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.count(len(partitions))
        for each in partitions:
            _write_row(version, writer, each)
        writer.no_tags()
    if version >= 1:
        writer.int32(throttle_ms)
    writer.no_tags()
    return writer.message()


def _write_row(version: int, writer: Writer, row: PartitionProduced) -> None:
    code = gated(row.error_code, version, abortable_from=_ABORTABLE_FROM)
    writer.pack(_ROW, row.index, code, row.base_offset)
    if version >= 2:
        writer.int64(row.log_append_time_ms)
    if version >= 5:
        writer.int64(row.log_start_offset)
    if version >= 8:
        writer.count(len(row.record_errors))
        for each in row.record_errors:
            writer.int32(each.batch_index)
            writer.string(each.message)
            writer.no_tags()
        writer.string(row.error_message)
    writer.no_tags()


def _refusal(version: int, request: Produce | None, error: ApiError, throttle_ms: int) -> bytes:
    partitions = request.partitions if request is not None else ()
    message = message_of(error)
    rows = (
        PartitionProduced(each.topic, each.index, error.code, error_message=message) for each in partitions
    )
    return _encode_response(version, ProduceAnswer(tuple(rows)), throttle_ms)


def _decode_response(version: int, body: Buffer) -> ProduceAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"Produce answer v{version}", reader, lambda reader: _read_response(version, reader))


def _read_response(version: int, reader: Reader) -> ProduceAnswer:
    rows: list[PartitionProduced] = []
    for _ in range(reader.count()):
        topic = reader.string()
        rows.extend(_read_row(version, reader, topic) for _ in range(reader.count()))
        reader.skip_tags()
    if version >= 1:
        reader.int32()
    reader.skip_tags()
    reader.finish()
    return ProduceAnswer(tuple(rows))


def _read_row(version: int, reader: Reader, topic: str) -> PartitionProduced:
    index, error_code, base_offset = reader.fields(_ROW)
    log_append_time_ms = reader.int64() if version >= 2 else -1
    log_start_offset = reader.int64() if version >= 5 else -1
    errors: list[RecordError] = []
    message = None
    if version >= 8:
        for _ in range(reader.count()):
            errors.append(RecordError(reader.int32(), reader.nullable_string()))
            reader.skip_tags()
        message = reader.nullable_string()
    reader.skip_tags()
    return PartitionProduced(
        topic, index, error_code, base_offset, log_append_time_ms, log_start_offset, tuple(errors), message
    )


def _unanswered(request: Produce, outcome: ProduceAnswer | ApiError) -> Unanswered | None:
    if request.acks != 0:
        return None
    if isinstance(outcome, ApiError):
        return Unanswered(message_of(outcome))
    for each in outcome.partitions:
        if each.error_code != ErrorCode.NONE:
            return Unanswered(f"{each.topic}-{each.index}: error {each.error_code}")
    return Unanswered()


PRODUCE: Final[Api[Produce, ProduceAnswer]] = Api(
    key=0,
    name="Produce",
    versions=_VERSIONS,
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=FRAME_BYTES_MAX,  # records; socket.request.max.bytes is its limit
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    newest_for=_newest_for,
    served_from=_SERVED_FROM,
    unanswered=_unanswered,
)
