"""CreatePartitions, API key 37, versions 0-3: more partitions for topics that are there.

2   flexible
3   may be refused for a quota, which this project has none of
Each topic has its own error.
"""

from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.partition_creation import (
    CreatePartitions,
    CreatePartitionsAnswer,
    NewPartitions,
    PartitionsCreated,
)
from fencepost.records.invariant import CorruptData
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import code_of, message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, NAMED_ELEMENTS_MAX, Buffer

_FLEXIBLE_FROM: Final = 2
_REQUEST_ELEMENTS_MAX: Final = 10_000
"""Topics, new partitions with assigned brokers, and those brokers: as of CreateTopics."""
_TOPICS_MAX: Final = NAMED_ELEMENTS_MAX  # of them


def _decode_request(version: int, body: Buffer) -> CreatePartitions:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=_REQUEST_ELEMENTS_MAX)
    return read(f"CreatePartitions v{version}", reader, _read_request)


def _read_request(reader: Reader) -> CreatePartitions:
    count = reader.count()
    if count > _TOPICS_MAX:
        raise CorruptData(f"more than {_TOPICS_MAX} topics in one message")
    topics = tuple([_read_topic(reader) for _ in range(count)])
    timeout_ms, validate_only = reader.int32(), reader.int8() != 0
    reader.skip_tags()
    return CreatePartitions(topics, validate_only, timeout_ms)


def _read_topic(reader: Reader) -> NewPartitions:
    name, count, assigned = reader.string(), reader.int32(), reader.nullable_count()
    assignments: list[tuple[int, ...]] = []
    for _ in range(assigned or 0):
        assignments.append(reader.int32s())
        reader.skip_tags()
    reader.skip_tags()
    return NewPartitions(name, count, None if assigned is None else tuple(assignments))


def _encode_request(version: int, request: CreatePartitions) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.count(len(request.topics))
    for topic in request.topics:
        writer.string(topic.name)
        writer.int32(topic.count)
        writer.count(-1 if topic.assignments is None else len(topic.assignments))
        for broker_ids in topic.assignments or ():
            writer.int32s(broker_ids)
            writer.no_tags()
        writer.no_tags()
    writer.int32(request.timeout_ms)
    writer.int8(request.validate_only)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: CreatePartitionsAnswer, throttle_ms: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    writer.count(len(answer.topics))
    for each in answer.topics:
        writer.string(each.name)
        writer.int16(each.error_code)
        writer.string(each.error_message)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: CreatePartitions | None, error: ApiError, throttle_ms: int) -> bytes:
    topics = request.topics if request is not None else ()
    rows = tuple(PartitionsCreated(each.name, error.code, message_of(error)) for each in topics)
    return _encode_response(version, CreatePartitionsAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> CreatePartitionsAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=ANSWER_ELEMENTS_MAX)
    answer = read(f"CreatePartitions answer v{version}", reader, _read_response)
    raise_if_elsewhere(each.error_code for each in answer.topics)
    return answer


def _read_response(reader: Reader) -> CreatePartitionsAnswer:
    reader.int32()
    rows = []
    for _ in range(reader.count()):
        rows.append(PartitionsCreated(reader.string(), code_of(reader.int16()), reader.nullable_string()))
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return CreatePartitionsAnswer(tuple(rows))


CREATE_PARTITIONS: Final[Api[CreatePartitions, CreatePartitionsAnswer]] = Api(
    key=37,
    name="CreatePartitions",
    versions=range(4),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,  # 2,500 topics, or fewer with assigned brokers
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
