"""DescribeCluster, API key 60, versions 0-2: the cluster id, who controls it, and its nodes.

1   endpoint_type: 1 the brokers, 2 the controllers (KIP-919); version 0 means the brokers
2   include_fenced_brokers, is_fenced

Ours    a tagged field of the request, 1000, ``listener_name``: the addresses of that listener are requested.
        Brokers request those of each listener that they have. Without it, as in Kafka and from an earlier
        node: the addresses of the listener that brokers use among themselves.
"""

from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.records.types import NodeId
from fencepost.records.varint import unsigned
from fencepost.wire.cursor import Reader, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import UnsupportedEndpointType, message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

BROKERS: Final = 1
CONTROLLERS: Final = 2
NO_NODE: Final = NodeId(-1)
OPERATIONS_OMITTED: Final = -(2**31)  # Kafka's "authorized operations were not requested"


@dataclass(frozen=True, slots=True)
class DescribeCluster:
    """A request for the cluster's brokers and controller (API key 60).

    ``listener_name``: whose addresses are requested; "": that which brokers use among themselves.
    """

    endpoint_type: int = BROKERS
    include_cluster_authorized_operations: bool = False
    include_fenced_brokers: bool = False
    listener_name: str = ""


def require_known_type(request: DescribeCluster) -> None:
    """Raises UnsupportedEndpointType."""
    if request.endpoint_type not in (BROKERS, CONTROLLERS):
        raise UnsupportedEndpointType(
            f"unsupported endpoint type {request.endpoint_type}: 1 is brokers, 2 is controllers"
        )


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A broker, or a controller if those were requested, on the listener of the request."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterAnswer:
    """``controller_id`` is -1 if no leader is known."""

    cluster_id: str
    controller_id: NodeId = NO_NODE
    brokers: tuple[ClusterNode, ...] = ()
    endpoint_type: int = BROKERS
    cluster_authorized_operations: int = OPERATIONS_OMITTED


LISTENER_NAME_TAG: Final = 1000
_TAGS_AT: Final = (1, 2, 3)  # by version: after one to three fields of a byte each
_TAGS: Final = {LISTENER_NAME_TAG: Reader.string}

_REQUEST: Final = Message(60, "request")
_RESPONSE: Final = Message(60, "response", {"brokers": ClusterNode})


def _decode_request(version: int, body: Buffer) -> DescribeCluster:
    fields = _REQUEST.decode(version, body)
    reader = Reader(body, flexible=True)
    reader.position = _TAGS_AT[version]
    tags = read(f"DescribeCluster v{version}", reader, lambda each: each.tags(_TAGS))
    return DescribeCluster(**fields, listener_name=tags.get(LISTENER_NAME_TAG, ""))


def _encode_request(version: int, request: DescribeCluster) -> bytes:
    body = _REQUEST.encode(
        version,
        {
            "include_cluster_authorized_operations": request.include_cluster_authorized_operations,
            "endpoint_type": request.endpoint_type,
            "include_fenced_brokers": request.include_fenced_brokers,
        },
    )
    if not request.listener_name:
        return body
    name = request.listener_name.encode()
    value = unsigned(len(name) + 1) + name
    return body[: _TAGS_AT[version]] + b"\1" + unsigned(LISTENER_NAME_TAG) + unsigned(len(value)) + value


def _encode_response(version: int, answer: DescribeClusterAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0, error_message=None)


def _refusal(version: int, request: DescribeCluster | None, error: ApiError, throttle_ms: int) -> bytes:
    nothing = DescribeClusterAnswer(cluster_id="")  # its endpoint type is the default, as Kafka's
    return _encode(version, nothing, throttle_ms, error_code=error.code, error_message=message_of(error))


def _encode(
    version: int,
    answer: DescribeClusterAnswer,
    throttle_ms: int,
    *,
    error_code: int,
    error_message: str | None,
) -> bytes:
    return _RESPONSE.encode(
        version,
        {
            "throttle_time_ms": throttle_ms,
            "error_code": error_code,
            "error_message": error_message,
            "endpoint_type": answer.endpoint_type,
            "cluster_id": answer.cluster_id,
            "controller_id": answer.controller_id,
            "brokers": answer.brokers,
            "cluster_authorized_operations": answer.cluster_authorized_operations,
        },
    )


def _decode_response(version: int, body: Buffer) -> DescribeClusterAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])
    return DescribeClusterAnswer(
        cluster_id=message["cluster_id"],
        controller_id=message["controller_id"],
        brokers=message["brokers"],
        endpoint_type=message.get("endpoint_type", BROKERS),
        cluster_authorized_operations=message["cluster_authorized_operations"],
    )


DESCRIBE_CLUSTER: Final[Api[DescribeCluster, DescribeClusterAnswer]] = Api(
    key=60,
    name="DescribeCluster",
    versions=range(3),
    flexible_from=0,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # flags
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
