"""CreateTopics, API key 19, versions 2-7.

4   -1 for the controller's default of partitions and replicas      5   flexible; counts and configs are told
7   topic ids
Each topic has its own error; versions before 5 say only that.
"""

import uuid
from typing import Any, Final

from fencepost.controller.errors import ApiError
from fencepost.controller.topics import (
    CreateTopics,
    CreateTopicsAnswer,
    NewTopic,
    TopicConfig,
    TopicCreated,
)
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import code_of, message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import Buffer, Message

_NO_ID: Final = uuid.UUID(int=0)
_REQUEST: Final = Message(19, "request")
_RESPONSE: Final = Message(19, "response")


def _decode_request(version: int, body: Buffer) -> CreateTopics:
    message = _REQUEST.decode(version, body)
    return CreateTopics(
        tuple(_new_topic(each) for each in message["topics"]), message["validate_only"], message["timeout_ms"]
    )


def _new_topic(row: dict[str, Any]) -> NewTopic:
    return NewTopic(
        row["name"],
        row["num_partitions"],
        row["replication_factor"],
        tuple((each["partition_index"], each["broker_ids"]) for each in row["assignments"]),
        tuple((each["name"], each["value"]) for each in row["configs"]),
    )


def _encode_request(version: int, request: CreateTopics) -> bytes:
    topics = tuple(_asked(each) for each in request.topics)
    message = {
        "topics": topics,
        "timeout_ms": request.timeout_ms,
        "validate_only": request.validate_only,
    }
    return _REQUEST.encode(version, message)


def _asked(topic: NewTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "num_partitions": topic.partition_count,
        "replication_factor": topic.replication_factor,
        "assignments": tuple(
            {"partition_index": index, "broker_ids": brokers} for index, brokers in topic.assignments
        ),
        "configs": tuple({"name": name, "value": value} for name, value in topic.configs),
    }


def _encode_response(version: int, answer: CreateTopicsAnswer, throttle_ms: int) -> bytes:
    topics = tuple(_row(each) for each in answer.topics)
    return _RESPONSE.encode(version, {"throttle_time_ms": throttle_ms, "topics": topics})


def _row(created: TopicCreated) -> dict[str, Any]:
    return {
        "name": created.name,
        "topic_id": None if created.topic_id == _NO_ID else created.topic_id,
        "error_code": created.error_code,
        "error_message": created.error_message,
        "num_partitions": created.partition_count,
        "replication_factor": created.replication_factor,
        "configs": tuple(_config(each) for each in created.configs),
    }


def _config(config: TopicConfig) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "config_source": config.source,
        "is_sensitive": config.sensitive,
    }


def _refusal(version: int, request: CreateTopics | None, error: ApiError, throttle_ms: int) -> bytes:
    asked = request.topics if request is not None else ()
    rows = tuple(TopicCreated(each.name, error.code, message_of(error)) for each in asked)
    return _encode_response(version, CreateTopicsAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> CreateTopicsAnswer:
    rows = _RESPONSE.decode(version, body)["topics"]
    raise_if_elsewhere(each["error_code"] for each in rows)
    return CreateTopicsAnswer(tuple(_created(each) for each in rows))


def _created(row: dict[str, Any]) -> TopicCreated:
    return TopicCreated(
        row["name"],
        code_of(row["error_code"]),
        row["error_message"],
        row.get("topic_id") or _NO_ID,
        row.get("num_partitions", -1),
        row.get("replication_factor", -1),
        tuple(
            TopicConfig(
                each["name"], each["value"], each["config_source"], each["read_only"], each["is_sensitive"]
            )
            for each in row.get("configs") or ()
        ),
    )


CREATE_TOPICS: Final[Api[CreateTopics, CreateTopicsAnswer]] = Api(
    key=19,
    name="CreateTopics",
    versions=range(2, 8),
    flexible_from=5,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,  # 10,000 topics, or fewer with replicas and configs
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
