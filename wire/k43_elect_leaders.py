"""ElectLeaders, API key 43, versions 0-2: give partitions their preferred leader, or any replica.

1   election type (0 preferred, as before; 1 unclean), and an error of the whole answer      2   flexible
A partition has one replica: it leads while its broker is alive, so an election is never needed, or of no use.
"""

from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.cursor import grouped
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX, Buffer, Message

PREFERRED: Final = 0
UNCLEAN: Final = 1


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """API key 43. ``partitions`` are (topic, index); None: all of them."""

    partitions: tuple[tuple[str, int], ...] | None = None
    election_type: int = PREFERRED
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class LeaderElected:
    """What became of one partition."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class ElectLeadersAnswer:
    """One for each partition in the request; of all partitions only those that have no leader."""

    partitions: tuple[LeaderElected, ...]


_FLEXIBLE_FROM: Final = 2
_REQUEST: Final = Message(43, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(43, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> ElectLeaders:
    message = _REQUEST.decode(version, body)
    partitions: tuple[tuple[str, int], ...] | None = None
    if message["topic_partitions"] is not None:
        partitions = tuple(
            (topic["topic"], index) for topic in message["topic_partitions"] for index in topic["partitions"]
        )
    return ElectLeaders(partitions, message.get("election_type", PREFERRED), message["timeout_ms"])


def _encode_request(version: int, request: ElectLeaders) -> bytes:
    topics = None
    if request.partitions is not None:
        rows = grouped(request.partitions, lambda each: each[0])
        topics = tuple(
            {"topic": topic, "partitions": tuple(index for _, index in some)} for topic, some in rows.items()
        )
    fields = {"election_type": request.election_type, "timeout_ms": request.timeout_ms}
    return _REQUEST.encode(version, {**fields, "topic_partitions": topics})


def _encode_response(version: int, answer: ElectLeadersAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, ErrorCode.NONE)


def _encode(version: int, answer: ElectLeadersAnswer, throttle_ms: int, code: int) -> bytes:
    topics = grouped(answer.partitions, lambda each: each.topic)
    rows = tuple(
        {
            "topic": topic,
            "partition_result": tuple(
                {
                    "partition_id": each.index,
                    "error_code": each.error_code,
                    "error_message": each.error_message,
                }
                for each in partitions
            ),
        }
        for topic, partitions in topics.items()
    )
    fields = {"throttle_time_ms": throttle_ms, "error_code": code}
    return _RESPONSE.encode(version, {**fields, "replica_election_results": rows})


def _refusal(version: int, request: ElectLeaders | None, error: ApiError, throttle_ms: int) -> bytes:
    partitions = (request.partitions if request is not None else None) or ()
    text = message_of(error)
    rows = tuple(LeaderElected(topic, index, error.code, text) for topic, index in partitions)
    return _encode(version, ElectLeadersAnswer(rows), throttle_ms, error.code)


def _decode_response(version: int, body: Buffer) -> ElectLeadersAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message.get("error_code", 0))
    rows = tuple(
        LeaderElected(topic["topic"], each["partition_id"], each["error_code"], each["error_message"])
        for topic in message["replica_election_results"]
        for each in topic["partition_result"]
    )
    return ElectLeadersAnswer(rows)


ELECT_LEADERS: Final[Api[ElectLeaders, ElectLeadersAnswer]] = Api(
    key=43,
    name="ElectLeaders",
    versions=range(3),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
