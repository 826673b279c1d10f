"""CreateTopics, API key 19, versions 2-7.

4   -1 for the controller's default of partitions and replicas
5   flexible; the response has counts and configs
7   topic ids
Each topic has its own error; versions before 5 say only that.
"""

import struct
import uuid
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.topics import (
    CreateTopics,
    CreateTopicsAnswer,
    NewTopic,
    TopicConfig,
    TopicCreated,
)
from fencepost.records.invariant import CorruptData
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import code_of, message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, NAMED_ELEMENTS_MAX, Buffer

_NO_ID: Final = uuid.UUID(int=0)
_FLEXIBLE_FROM: Final = 5
_IDS_FROM: Final = 7
_REQUEST_ELEMENTS_MAX: Final = 10_000
"""Topics, partitions with assigned brokers, those brokers, and settings: read in some 20 ms. A request for
2,000 partitions, each assigned to three brokers, has 8,001."""
_TOPICS_MAX: Final = NAMED_ELEMENTS_MAX  # of them
_COUNTS: Final = struct.Struct(">ih")  # partitions | replication factor


def _decode_request(version: int, body: Buffer) -> CreateTopics:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=_REQUEST_ELEMENTS_MAX)
    return read(f"CreateTopics v{version}", reader, _read_request)


def _read_request(reader: Reader) -> CreateTopics:
    count = reader.count()
    if count > _TOPICS_MAX:
        raise CorruptData(f"more than {_TOPICS_MAX} topics in one message")
    topics = tuple(_read_topic(reader) for _ in range(count))
    timeout_ms, validate_only = reader.int32(), reader.int8() != 0
    reader.skip_tags()
    return CreateTopics(topics, validate_only, timeout_ms)


def _read_topic(reader: Reader) -> NewTopic:
    name = reader.string()
    partition_count, replication_factor = reader.fields(_COUNTS)
    assignments: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(reader.count()):
        assignments.append((reader.int32(), reader.int32s()))
        reader.skip_tags()
    configs: list[tuple[str, str | None]] = []
    for _ in range(reader.count()):
        configs.append((reader.string(), reader.nullable_string()))
        reader.skip_tags()
    reader.skip_tags()
    return NewTopic(name, partition_count, replication_factor, tuple(assignments), tuple(configs))


def _encode_request(version: int, request: CreateTopics) -> bytes:
    """By hand: every broker forwards such requests, and their largest take a tenth of the time so."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.count(len(request.topics))
    for topic in request.topics:
        writer.string(topic.name)
        writer.pack(_COUNTS, topic.partition_count, topic.replication_factor)
        writer.count(len(topic.assignments))
        for index, brokers in topic.assignments:
            writer.int32(index)
            writer.int32s(brokers)
            writer.no_tags()
        writer.count(len(topic.configs))
        for name, value in topic.configs:
            writer.string(name)
            writer.string(value)
            writer.no_tags()
        writer.no_tags()
    writer.int32(request.timeout_ms)
    writer.int8(request.validate_only)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: CreateTopicsAnswer, throttle_ms: int) -> bytes:
    """Each different setting is encoded once: the topics of a request have mostly the same ones."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    writer.count(len(answer.topics))
    encoded: dict[TopicConfig, bytes] = {}
    for each in answer.topics:
        writer.string(each.name)
        if version >= _IDS_FROM:
            writer.uuid(each.topic_id)
        writer.int16(each.error_code)
        writer.string(each.error_message)
        if version >= _FLEXIBLE_FROM:
            writer.pack(_COUNTS, each.partition_count, each.replication_factor)
            writer.count(len(each.configs))
            for config in each.configs:
                row = encoded.get(config)
                if row is None:
                    row = encoded[config] = _encode_config(config)
                writer.parts.append(row)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _encode_config(config: TopicConfig) -> bytes:
    writer = Writer(flexible=True)
    writer.string(config.name)
    writer.string(config.value)
    writer.int8(config.read_only)
    writer.int8(config.source)
    writer.int8(config.sensitive)
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: CreateTopics | None, error: ApiError, throttle_ms: int) -> bytes:
    requested = request.topics if request is not None else ()
    rows = tuple(TopicCreated(each.name, error.code, message_of(error)) for each in requested)
    return _encode_response(version, CreateTopicsAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> CreateTopicsAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=ANSWER_ELEMENTS_MAX)
    answer = read(f"CreateTopics answer v{version}", reader, lambda reader: _read_response(version, reader))
    raise_if_elsewhere(each.error_code for each in answer.topics)
    return answer


def _read_response(version: int, reader: Reader) -> CreateTopicsAnswer:
    reader.int32()
    topics = tuple(_read_created(version, reader) for _ in range(reader.count()))
    reader.skip_tags()
    reader.finish()
    return CreateTopicsAnswer(topics)


def _read_created(version: int, reader: Reader) -> TopicCreated:
    name = reader.string()
    topic_id = reader.uuid() if version >= _IDS_FROM else None
    error_code, message = reader.int16(), reader.nullable_string()
    partition_count, replication_factor = -1, -1
    configs: tuple[TopicConfig, ...] = ()
    if version >= _FLEXIBLE_FROM:
        partition_count, replication_factor = reader.fields(_COUNTS)
        configs = tuple(_read_config(reader) for _ in range(reader.nullable_count() or 0))
    reader.skip_tags()
    return TopicCreated(
        name, code_of(error_code), message, topic_id or _NO_ID, partition_count, replication_factor, configs
    )


def _read_config(reader: Reader) -> TopicConfig:
    name, value = reader.string(), reader.nullable_string()
    read_only, source, sensitive = reader.int8(), reader.int8(), reader.int8()
    reader.skip_tags()
    return TopicConfig(name, value, source, read_only != 0, sensitive != 0)


CREATE_TOPICS: Final[Api[CreateTopics, CreateTopicsAnswer]] = Api(
    key=19,
    name="CreateTopics",
    versions=range(2, 8),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,  # 2,500 topics, or fewer with replicas and configs
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
