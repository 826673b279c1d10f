"""Guards of requests about the cluster, and of private keys."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import Guard, mapped
from fencepost.controller.acl_types import Operation
from fencepost.wire.dispatch import Context, Endpoint, Reply
from fencepost.wire.k60_describe_cluster import DescribeCluster, DescribeClusterAnswer


def needs(*any_of: Operation) -> Guard:
    """One of the operations on the cluster, or the whole request is refused."""

    def guard(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        door.require_cluster(context, *any_of)
        endpoint(request, context, reply)

    return guard


def needs_by(operation_of: Callable[[Any], Operation]) -> Guard:
    """The operation on the cluster that the request says."""

    def guard(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        door.require_cluster(context, operation_of(request))
        endpoint(request, context, reply)

    return guard


def migrate(request: Any) -> Operation:
    """Of the upgrade from ZooKeeper."""
    return Operation.DESCRIBE if request.command == "status" else Operation.ALTER


def log_levels(request: Any) -> Operation:
    """Of the log levels."""
    return Operation.DESCRIBE if request.log_level is None else Operation.ALTER


def describe_cluster(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DescribeCluster,
    context: Context,
    reply: Reply[DescribeClusterAnswer],
) -> None:
    """Nothing is needed; the authorized operations are those of the principal.

    On the controller listener, too (Kafka: ALTER): it says who leads, to a broker whose CLUSTER_ACTION this
    controller may not have seen yet.
    """
    if not request.include_cluster_authorized_operations:
        endpoint(request, context, reply)
        return

    def shown(answer: DescribeClusterAnswer) -> DescribeClusterAnswer:
        return replace(answer, cluster_authorized_operations=door.cluster_operations(context))

    endpoint(request, context, mapped(reply, shown))
