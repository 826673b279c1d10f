"""ElectLeaders, DescribeClientQuotas and ListConfigResources, of what this broker knows of the cluster.

Elections   a partition has one replica, which leads while its broker is alive: ELECTION_NOT_NEEDED (84), else
            PREFERRED_LEADER_NOT_AVAILABLE (80) or ELIGIBLE_LEADERS_NOT_AVAILABLE (83): nothing is done.
Source      Kafka ReplicationControlManager.electLeaders, KafkaApis.handleListConfigResources.
"""

from typing import Final

from fencepost.broker.metadata_cache import MetadataCache
from fencepost.broker.topics import TopicCache
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.errors import ErrorCode, InvalidRequest, UnsupportedVersion
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k32_describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from fencepost.wire.k43_elect_leaders import (
    ELECT_LEADERS,
    PREFERRED,
    UNCLEAN,
    ElectLeaders,
    ElectLeadersAnswer,
    LeaderElected,
)
from fencepost.wire.k48_describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    NO_QUOTAS,
    DescribeClientQuotas,
    NoQuotas,
)
from fencepost.wire.k74_list_config_resources import (
    CLIENT_METRICS,
    LIST_CONFIG_RESOURCES,
    ListConfigResources,
    ListConfigResourcesAnswer,
    ListedResource,
)

BROKER_LOGGER: Final = 8
GROUP: Final = 32
LISTED: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER, CLIENT_METRICS, GROUP)
_NOT_AVAILABLE: Final = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class ClusterRequests:
    """API keys 43, 48 and 74."""

    def __init__(self, cache: MetadataCache, topics: TopicCache, acls: Acls) -> None:
        self._cache = cache
        self._topics = topics
        self._acls = acls

    def service(self) -> Service:
        """The endpoints, by API key."""
        return dict(
            (
                served(ELECT_LEADERS, self._elect_leaders),
                served(LIST_CONFIG_RESOURCES, self._list_config_resources),
                served(DESCRIBE_CLIENT_QUOTAS, self._describe_client_quotas),
            )
        )

    def _elect_leaders(
        self, request: ElectLeaders, context: Context, reply: Reply[ElectLeadersAnswer]
    ) -> None:
        self._acls.require(context.principal, Operation.ALTER)
        kind = request.election_type
        if kind not in _NOT_AVAILABLE:
            raise InvalidRequest(f"election type {kind}; expected 0 (preferred) or 1 (unclean)")
        if request.partitions is not None:
            rows = tuple(self._elected(topic, index, kind) for topic, index in request.partitions)
            reply(ElectLeadersAnswer(rows))
            return
        every = (
            self._elected(topic.name, each.partition_index, kind)
            for topic in self._topics.all()
            for each in topic.partitions
            if topic.name is not None and each.leader_id < 0
        )
        reply(ElectLeadersAnswer(tuple(every)))

    def _elected(self, name: str, index: int, kind: int) -> LeaderElected:
        topic = self._topics.find(name)
        found = [each for each in topic.partitions if each.partition_index == index] if topic else []
        if not found:
            text = f"there is no partition {name[:249]}-{index}"
            return LeaderElected(name, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        if found[0].leader_id >= 0:
            return LeaderElected(name, index, ErrorCode.ELECTION_NOT_NEEDED, "its one replica leads")
        text = "the broker of its one replica is fenced or gone"
        return LeaderElected(name, index, _NOT_AVAILABLE[kind], text)

    def _describe_client_quotas(
        self, request: DescribeClientQuotas, context: Context, reply: Reply[NoQuotas]
    ) -> None:
        self._acls.require(context.principal, Operation.DESCRIBE)
        reply(NO_QUOTAS)

    def _list_config_resources(
        self, request: ListConfigResources, context: Context, reply: Reply[ListConfigResourcesAnswer]
    ) -> None:
        self._acls.require(context.principal, Operation.DESCRIBE)
        wanted = tuple(dict.fromkeys(request.types)) or LISTED
        unknown = [each for each in wanted if each not in LISTED]
        if unknown:
            raise UnsupportedVersion(f"no resource has type {unknown[0]}")
        brokers = [str(each.broker_id) for each in self._cache.picture(context.listener).visible]
        topics = [topic.name for topic in self._topics.all() if topic.name is not None]
        names = {TOPIC_RESOURCE: topics, BROKER_RESOURCE: brokers, BROKER_LOGGER: brokers}
        rows = (ListedResource(name, kind) for kind in wanted for name in names.get(kind, ()))
        reply(ListConfigResourcesAnswer(tuple(rows)))
