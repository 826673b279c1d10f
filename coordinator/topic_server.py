"""Topics on the controller listener: CreateTopics, DeleteTopics, and what Metadata says of them.

Every answer rides on an entry, as everything that depends on the image: so a response that names a topic,
or says that there is none, comes from a real leader.
"""

import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from typing import Final

from fencepost.controller import cluster_version
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.brokers import BROKERS
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ClusterAuthorizationFailed,
    ErrorCode,
    InvalidRequest,
    InvalidTopic,
)
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_configs import in_force
from fencepost.controller.topic_creation import (
    AUTO_CREATED_PARTITIONS_MAX,
    Earlier,
    TopicRules,
    creation_parts,
    decide_create,
    require_valid_name,
)
from fencepost.controller.topic_deletion import decide_delete
from fencepost.controller.topics import (
    PARTITIONS,
    TOPIC_RESOURCE,
    TOPICS,
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    NewTopic,
    Topic,
    TopicCreated,
    find,
    find_by_id,
)
from fencepost.controller.view import Overlay, View
from fencepost.coordinator.parts import Parts
from fencepost.quorum.port import Submit
from fencepost.records.types import BrokerId
from fencepost.settings.config import NodeConfig
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k03_metadata import Metadata, PartitionMetadata, TopicMetadata, TopicQuery
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    ConfigResource,
    ConfigsDescribed,
    DescribeConfigs,
    DescribeConfigsAnswer,
)

RESOURCES_MAX: Final = 1000  # of one DescribeConfigs: each is answered with a dozen settings


class TopicServer:
    """Endpoints of one node. The topics are in the image; kept here is what was last said of all of them.

    It was said of one version of the cluster, on this leadership's overlays: the next one starts anew, as
    a version that never applied may come again.
    """

    def __init__(self, config: NodeConfig, submit: Submit, acls: Acls, rng: Random) -> None:
        self._rules = rules_of(config)
        self._auto_create = config.auto_create_topics
        self._submit = submit
        self._acls = acls
        self._rng = rng
        self._every: tuple[int, tuple[TopicMetadata, ...]] | None = None  # cluster version, all topics

    def activated(self) -> None:
        """A new leadership of this node begins."""
        self._every = None

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict(
            (
                served(CREATE_TOPICS, self.create),
                served(DELETE_TOPICS, self.delete),
                served(DESCRIBE_CONFIGS, self.describe_configs),
            )
        )

    def create(self, request: CreateTopics, context: Context, reply: Reply[CreateTopicsAnswer]) -> None:
        """Create topics (API key 19)."""
        self._acls.require(context.principal, Operation.CREATE)
        several = creation_parts(request, self._rules)
        parts = Parts(len(several), reply, partial(_joined, [part for part, _ in several]))
        for position, (part, earlier) in enumerate(several):
            decide = partial(self._decide_create, part, earlier)
            self._submit(decide, partial(parts.take, position), closing=reply)

    def _decide_create(
        self, request: CreateTopics, earlier: Earlier, view: View, _now_ms: int
    ) -> Decision[CreateTopicsAnswer]:
        return decide_create(view, request, self._rules, self._rng, earlier=earlier)

    def delete(self, request: DeleteTopics, context: Context, reply: Reply[DeleteTopicsAnswer]) -> None:
        """Delete topics (API key 20)."""
        self._acls.require(context.principal, Operation.DELETE)
        self._submit(lambda view, now_ms: decide_delete(view, request, self._rules), reply, closing=reply)

    def describe_configs(
        self, request: DescribeConfigs, context: Context, reply: Reply[DescribeConfigsAnswer]
    ) -> None:
        """API key 32: the settings of topics. Those of brokers are in their properties files."""
        self._acls.require(context.principal, Operation.DESCRIBE)
        if len(request.resources) > RESOURCES_MAX:
            raise InvalidRequest(f"{len(request.resources)} resources; at most {RESOURCES_MAX} at once")

        def decide(view: View, now_ms: int) -> Decision[DescribeConfigsAnswer]:
            results = tuple(_configs(view, each, self._rules) for each in request.resources)
            return Decision((), DescribeConfigsAnswer(results))

        self._submit(decide, reply, closing=reply)

    def describe(self, request: Metadata, context: Context, reply: Reply[tuple[TopicMetadata, ...]]) -> None:
        """The topics part of API key 3: ``reply`` gets a tuple of TopicMetadata, or why there is none.

        A topic that is requested by name, is not there and may be created is created with the defaults.
        """
        creates = self._auto_create and request.allow_auto_topic_creation and self._may_create(context)
        self._submit(lambda view, now_ms: self._decide_describe(view, request, creates), reply, closing=reply)

    def _may_create(self, context: Context) -> bool:
        try:
            self._acls.require(context.principal, Operation.CREATE)
        except ClusterAuthorizationFailed:
            return False
        return True

    def _decide_describe(
        self, view: View, request: Metadata, creates: bool
    ) -> Decision[tuple[TopicMetadata, ...]]:
        if request.topics is None:
            return Decision((), self._all(view))
        unknown = [each.name for each in request.topics if each.name and find(view, each.name) is None]
        if not (creates and unknown):
            return Decision((), _answers(view, request.topics, {}))
        wanted = CreateTopics(tuple(NewTopic(name) for name in dict.fromkeys(unknown)))
        made = decide_create(view, wanted, self._rules, self._rng, partitions_max=AUTO_CREATED_PARTITIONS_MAX)
        after = Overlay(view)
        for record in made.records:
            replay_record(after, record)
        refused = {each.name: each.error_code for each in made.response.topics if each.error_code}
        return Decision(made.records, _answers(after, request.topics, refused))

    def _all(self, view: View) -> tuple[TopicMetadata, ...]:
        version = cluster_version.current(view)
        if self._every is None or self._every[0] != version:
            self._every = version, tuple(_described(view, (topic for _, topic in view.scan(TOPICS))))
        return self._every[1]


def _joined(
    resource: Sequence[CreateTopics], outcomes: Sequence[CreateTopicsAnswer | ApiError]
) -> CreateTopicsAnswer:
    """The answers of all parts; of one that failed, its error for each of its topics."""
    rows: list[TopicCreated] = []
    for part, outcome in zip(resource, outcomes, strict=True):
        if isinstance(outcome, ApiError):
            rows += [TopicCreated(each.name, outcome.code, str(outcome)) for each in part.topics]
        else:
            rows += outcome.topics
    return CreateTopicsAnswer(tuple(rows))


def rules_of(config: NodeConfig) -> TopicRules:
    """What the properties of a node say of topics."""
    return TopicRules(
        partitions_default=config.partitions_default,
        replication_factor_default=config.replication_factor_default,
        allow_unreplicated=config.allow_unreplicated,
        delete_topics=config.delete_topics,
        configs=(
            ("flush.messages", str(config.log_flush_messages)),
            ("max.message.bytes", str(config.message_bytes_max)),
            ("retention.bytes", str(config.log_retention_bytes)),
            ("retention.ms", str(config.log_retention_ms)),
            ("segment.bytes", str(config.log_segment_bytes)),
        ),
    )


def _configs(view: View, resource: ConfigResource, rules: TopicRules) -> ConfigsDescribed:
    if resource.resource_type != TOPIC_RESOURCE:
        code, text = ErrorCode.INVALID_REQUEST, "only the settings of topics are served here"
        return ConfigsDescribed(resource.resource_type, resource.name, (), code, text)
    topic = find(view, resource.name)
    if topic is None:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic is named {resource.name[:249]!r}"
        return ConfigsDescribed(resource.resource_type, resource.name, (), code, text)
    every = in_force(topic.configs, rules.configs)
    wanted = tuple(each for each in every if resource.keys is None or each.name in resource.keys)
    return ConfigsDescribed(resource.resource_type, resource.name, wanted)


def _answers(
    view: View, queries: Iterable[TopicQuery], refused: dict[str, ErrorCode]
) -> tuple[TopicMetadata, ...]:
    """One for each topic in the request. ``refused``: why a topic that is not there could not be created."""
    answers: list[TopicMetadata] = []
    for query in queries:
        topic = find_by_id(view, query.topic_id) if query.topic_id is not None else None
        if query.name is not None:
            topic = find(view, query.name)
        if topic is not None:
            answers += _described(view, (topic,))
        else:
            answers.append(_unknown(query, refused))
    return tuple(answers)


def _unknown(query: TopicQuery, refused: dict[str, ErrorCode]) -> TopicMetadata:
    if query.name is None:
        return TopicMetadata(name=None, topic_id=query.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    code = refused.get(query.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if code in _COMES:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    try:
        require_valid_name(query.name)
    except InvalidTopic as error:
        code = error.code
    return TopicMetadata(name=query.name, topic_id=query.topic_id, error_code=code)


_COMES: Final = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR})
"""No broker is there yet to keep a replica: the client retries, as for a leader that is not elected."""


def _described(view: View, topics: Iterable[Topic]) -> Iterable[TopicMetadata]:
    live = {broker_id for broker_id, broker in view.items(BROKERS) if not broker.fenced}
    for topic in topics:
        yield TopicMetadata(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                _partition(view, topic.topic_id, index, live) for index in range(topic.partition_count)
            ),
        )


def _partition(view: View, topic_id: uuid.UUID, index: int, live: set[BrokerId]) -> PartitionMetadata:
    kept = view.get(PARTITIONS, (topic_id, index))
    if kept is None:  # it is there, or its topic is not: see controller.topics
        return PartitionMetadata(partition_index=index, error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    led = kept.leader in live
    return PartitionMetadata(
        partition_index=index,
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        leader_id=kept.leader if led else -1,
        leader_epoch=kept.leader_epoch,
        replica_nodes=kept.replicas,
        isr_nodes=kept.replicas,
        offline_replicas=() if led else tuple(each for each in kept.replicas if each not in live),
    )
