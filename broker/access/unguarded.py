"""The services of a node without an authorizer: clients that request which operations are authorized get all.

File        where an ACL file says who administers the cluster they get none: what the file says is no ACL.
Source      Kafka AuthHelper.authorizedOperations, which answers the operations that the type of resource has.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from fencepost.broker.access.door import OPERATIONS
from fencepost.broker.access.guard import mapped
from fencepost.controller.acl_types import ResourceType
from fencepost.controller.groups.describe import DescribeGroups, DescribeGroupsAnswer
from fencepost.wire.dispatch import Context, Endpoint, Reply, Service
from fencepost.wire.k03_metadata import Metadata, MetadataAnswer
from fencepost.wire.k60_describe_cluster import DescribeCluster, DescribeClusterAnswer
from fencepost.wire.k75_describe_topic_partitions import DescribeTopicPartitions, TopicPartitionsDescribed

EVERY: Final = {of: sum(1 << each for each in operations) for of, operations in OPERATIONS.items()}
"""All operations of a type of resource, as Kafka's bit field."""


def open_to_all(service: Service) -> Service:
    """The service, whose answers say that every operation is authorized, where that was requested."""
    return {key: (api, _showing(endpoint, SHOWN.get(key))) for key, (api, endpoint) in service.items()}


def _showing(endpoint: Endpoint[Any, Any], shown: Callable[[Any, Any], Any] | None) -> Endpoint[Any, Any]:
    if shown is None:
        return endpoint

    def show(request: Any, context: Context, reply: Reply[Any]) -> None:
        endpoint(request, context, mapped(reply, lambda answer: shown(request, answer)))

    return show


def _metadata(request: Metadata, answer: MetadataAnswer) -> MetadataAnswer:
    """A topic that is requested by an id that is not there has no name, and no operations."""
    if request.include_cluster_authorized_operations:
        answer = replace(answer, cluster_authorized_operations=EVERY[ResourceType.CLUSTER])
    if not request.include_topic_authorized_operations:
        return answer
    every = EVERY[ResourceType.TOPIC]
    topics = (
        each if each.name is None else msgspec.structs.replace(each, topic_authorized_operations=every)
        for each in answer.topics
    )
    return replace(answer, topics=tuple(topics))


def _groups(request: DescribeGroups, answer: DescribeGroupsAnswer) -> DescribeGroupsAnswer:
    if not request.include_authorized_operations:
        return answer
    every = EVERY[ResourceType.GROUP]
    groups = (msgspec.structs.replace(each, authorized_operations=every) for each in answer.groups)
    return DescribeGroupsAnswer(tuple(groups))


def _cluster(request: DescribeCluster, answer: DescribeClusterAnswer) -> DescribeClusterAnswer:
    if not request.include_cluster_authorized_operations:
        return answer
    return replace(answer, cluster_authorized_operations=EVERY[ResourceType.CLUSTER])


def _topic_pages(
    _request: DescribeTopicPartitions, answer: TopicPartitionsDescribed
) -> TopicPartitionsDescribed:
    """They are always requested."""
    every = EVERY[ResourceType.TOPIC]
    topics = (msgspec.structs.replace(each, topic_authorized_operations=every) for each in answer.topics)
    return replace(answer, topics=tuple(topics))


SHOWN: Final[dict[int, Callable[[Any, Any], Any]]] = {
    3: _metadata,
    15: _groups,
    60: _cluster,
    75: _topic_pages,
}
"""By API key, what becomes of the answer to a request."""
