"""ListPartitionReassignments, API key 46, version 0: which partitions are moving to other brokers.

A partition has one replica, which never moves: an answer names none. Kafka's tools ask before they describe.
"""

from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ELEMENTS_MAX, Buffer, Message


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    """API key 46. ``topics`` with their partitions; None: all of them."""

    topics: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class NoReassignments:
    """No partition is moving."""


_REQUEST: Final = Message(46, "request", elements_max=ELEMENTS_MAX)
_RESPONSE: Final = Message(46, "response")


def _decode_request(version: int, body: Buffer) -> ListPartitionReassignments:
    message = _REQUEST.decode(version, body)
    topics = message["topics"]
    if topics is not None:
        topics = tuple((each["name"], each["partition_indexes"]) for each in topics)
    return ListPartitionReassignments(topics, message["timeout_ms"])


def _encode_request(version: int, request: ListPartitionReassignments) -> bytes:
    topics = request.topics
    rows = None if topics is None else tuple({"name": t, "partition_indexes": p} for t, p in topics)
    return _REQUEST.encode(version, {"timeout_ms": request.timeout_ms, "topics": rows})


def _encode_response(version: int, answer: NoReassignments, throttle_ms: int) -> bytes:
    return _encode(version, throttle_ms, 0, None)


def _refusal(
    version: int, request: ListPartitionReassignments | None, error: ApiError, throttle_ms: int
) -> bytes:
    return _encode(version, throttle_ms, error.code, message_of(error))


def _encode(version: int, throttle_ms: int, error_code: int, error_message: str | None) -> bytes:
    fields = {"throttle_time_ms": throttle_ms, "error_code": error_code, "error_message": error_message}
    return _RESPONSE.encode(version, {**fields, "topics": ()})


def _decode_response(version: int, body: Buffer) -> NoReassignments:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])
    return NoReassignments()


LIST_PARTITION_REASSIGNMENTS: Final[Api[ListPartitionReassignments, NoReassignments]] = Api(
    key=46,
    name="ListPartitionReassignments",
    versions=range(1),
    flexible_from=0,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
