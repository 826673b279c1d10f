"""DescribeCluster, API key 60, versions 0-2: the cluster id, who controls it, and its nodes.

1   endpoint_type: 1 the brokers, 2 the controllers (KIP-919)
2   include_fenced_brokers, is_fenced
"""

from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.records.types import NodeId
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

BROKERS: Final = 1
CONTROLLERS: Final = 2
NO_NODE: Final = NodeId(-1)
OPERATIONS_OMITTED: Final = -(2**31)  # Kafka's "authorized operations were not requested"


@dataclass(frozen=True, slots=True)
class DescribeCluster:
    """A request for the cluster's brokers and controller (API key 60)."""

    endpoint_type: int = BROKERS
    include_cluster_authorized_operations: bool = False
    include_fenced_brokers: bool = False


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


_REQUEST: Final = Message(60, "request")
_RESPONSE: Final = Message(60, "response", {"brokers": ClusterNode})


def _decode_request(version: int, body: Buffer) -> DescribeCluster:
    return DescribeCluster(**_REQUEST.decode(version, body))


def _encode_request(version: int, request: DescribeCluster) -> bytes:
    return _REQUEST.encode(
        version,
        {
            "include_cluster_authorized_operations": request.include_cluster_authorized_operations,
            "endpoint_type": request.endpoint_type,
            "include_fenced_brokers": request.include_fenced_brokers,
        },
    )


def _encode_response(version: int, answer: DescribeClusterAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0, error_message=None)


def _refusal(version: int, request: DescribeCluster | None, error: ApiError, throttle_ms: int) -> bytes:
    endpoint_type = BROKERS if request is None else request.endpoint_type
    nothing = DescribeClusterAnswer(cluster_id="", endpoint_type=endpoint_type)
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
