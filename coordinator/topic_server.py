"""Topics on the controller listener: made, changed and deleted, and what Metadata says of them.

Every answer rides on an entry, as everything that depends on the image: so a response that names a topic,
or says that there is none, comes from a real leader.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from fencepost.controller import broker_configs
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.config_changes import (
    AlterConfigs,
    AlterConfigsAnswer,
    ConfigsAltered,
    alteration_parts,
    decide_alter,
)
from fencepost.controller.config_changes import require_count as require_alterations
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ClusterAuthorizationFailed,
    ErrorCode,
)
from fencepost.controller.partition_creation import (
    CreatePartitions,
    CreatePartitionsAnswer,
    decide_create_partitions,
)
from fencepost.controller.partition_recovery import (
    PartitionRecovered,
    RecoverPartition,
    decide_recover,
)
from fencepost.controller.topic_configs import in_force, with_properties
from fencepost.controller.topic_creation import (
    AUTO_CREATED_PARTITIONS_MAX,
    Earlier,
    TopicRules,
    creation_parts,
    decide_create,
)
from fencepost.controller.topic_deletion import decide_delete
from fencepost.controller.topics import (
    TOPIC_RESOURCE,
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    NewTopic,
    TopicConfig,
    TopicCreated,
    find,
)
from fencepost.controller.view import View
from fencepost.coordinator.parts import Parts
from fencepost.coordinator.topic_descriptions import Described, TopicDescriptions
from fencepost.quorum.port import Submit
from fencepost.records.types import BrokerId
from fencepost.settings.config import NodeConfig
from fencepost.settings.topic_defaults import topic_defaults
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k03_metadata import Metadata, TopicQuery
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k32_describe_configs import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    ConfigResource,
    ConfigsDescribed,
    DescribeConfigs,
    DescribeConfigsAnswer,
    require_count,
)
from fencepost.wire.k33_alter_configs import ALTER_CONFIGS
from fencepost.wire.k37_create_partitions import CREATE_PARTITIONS
from fencepost.wire.k44_incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from fencepost.wire.k20043_recover_partition import RECOVER_PARTITION


class TopicServer:
    """Endpoints of one node. The topics are in the image."""

    def __init__(
        self,
        config: NodeConfig,
        submit: Submit,
        acls: Acls,
        rng: Random,
        descriptions: TopicDescriptions,
    ) -> None:
        self._rules = rules_of(config)
        self._auto_create = config.auto_create_topics
        self._submit = submit
        self._acls = acls
        self._rng = rng
        self._descriptions = descriptions

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict(
            (
                served(CREATE_TOPICS, self.create),
                served(DELETE_TOPICS, self.delete),
                served(DESCRIBE_CONFIGS, self.describe_configs),
                served(ALTER_CONFIGS, self.alter_configs),
                served(INCREMENTAL_ALTER_CONFIGS, self.alter_configs),
                served(CREATE_PARTITIONS, self.create_partitions),
                served(RECOVER_PARTITION, self.recover),
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

    def alter_configs(
        self, request: AlterConfigs, context: Context, reply: Reply[AlterConfigsAnswer]
    ) -> None:
        """Change the settings of topics (API keys 33 and 44)."""
        self._require_alter(context)
        twice = require_alterations(request)
        several = alteration_parts(request)
        parts = Parts(len(several), reply, partial(_joined_alterations, several))
        for position, part in enumerate(several):
            decide = partial(_decide_alter, part, twice)
            self._submit(decide, partial(parts.take, position), closing=reply)

    def create_partitions(
        self, request: CreatePartitions, context: Context, reply: Reply[CreatePartitionsAnswer]
    ) -> None:
        """Give topics more partitions (API key 37)."""
        self._require_alter(context)
        self._submit(
            lambda view, now_ms: decide_create_partitions(view, request, self._rules), reply, closing=reply
        )

    def _require_alter(self, context: Context) -> None:
        """Raises ClusterAuthorizationFailed. Brokers forward what they allowed."""
        try:
            self._acls.require(context.principal, Operation.ALTER)
        except ClusterAuthorizationFailed:
            self._acls.require(context.principal, Operation.CLUSTER_ACTION)

    def recover(self, request: RecoverPartition, context: Context, reply: Reply[PartitionRecovered]) -> None:
        """Start a lost partition again (API key 20043)."""
        self._acls.require(context.principal, Operation.ALTER)
        self._submit(lambda view, now_ms: decide_recover(view, request), reply, closing=reply)

    def describe_configs(
        self, request: DescribeConfigs, context: Context, reply: Reply[DescribeConfigsAnswer]
    ) -> None:
        """API key 32: the settings of topics, and those of brokers that are set while they run."""
        self._acls.require(context.principal, Operation.DESCRIBE)
        require_count(request)

        def decide(view: View, now_ms: int) -> Decision[DescribeConfigsAnswer]:
            results = tuple(_configs(view, each, self._rules) for each in request.resources)
            return Decision((), DescribeConfigsAnswer(results).for_request(request))

        self._submit(decide, reply, closing=reply)

    def describe(self, request: Metadata, context: Context, reply: Reply[Described]) -> None:
        """The topics part of API key 3: ``reply`` gets a tuple of TopicMetadata, or why there is none.

        A topic that is requested by name, is not there and may be created is created with the defaults.
        """
        if request.topics is None:
            self._descriptions.describe_all(reply)
            return
        queries = tuple(dict.fromkeys(request.topics))
        if not (self._auto_create and request.allow_auto_topic_creation and self._may_create(context)):
            self._descriptions.describe(queries, {}, reply)
            return

        def create(unknown: list[str]) -> None:
            if unknown:
                self._auto_create_first(unknown, queries, reply)
            else:
                self._descriptions.describe(queries, {}, reply)

        self._descriptions.find_unknown(queries, create, reply)

    def _auto_create_first(
        self, names: list[str], queries: tuple[TopicQuery, ...], reply: Reply[Described]
    ) -> None:
        wanted = CreateTopics(tuple(NewTopic(name) for name in names))

        def decide(view: View, _now_ms: int) -> Decision[CreateTopicsAnswer]:
            rules, rng = self._rules, self._rng
            return decide_create(view, wanted, rules, rng, partitions_max=AUTO_CREATED_PARTITIONS_MAX)

        def created(outcome: CreateTopicsAnswer | ApiError, throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(outcome, throttle_ms)
            else:
                refused = {each.name: each.error_code for each in outcome.topics if each.error_code}
                self._descriptions.describe(queries, refused, reply)

        self._submit(decide, created, closing=reply)

    def _may_create(self, context: Context) -> bool:
        try:
            self._acls.require(context.principal, Operation.CREATE)
        except ClusterAuthorizationFailed:
            return False
        return True


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


def _decide_alter(
    request: AlterConfigs, twice: frozenset[tuple[int, str]], view: View, _now_ms: int
) -> Decision[AlterConfigsAnswer]:
    return decide_alter(view, request, twice)


def _joined_alterations(
    several: Sequence[AlterConfigs], outcomes: Sequence[AlterConfigsAnswer | ApiError]
) -> AlterConfigsAnswer:
    """As ``_joined``, of the resources of AlterConfigs."""
    rows: list[ConfigsAltered] = []
    for part, outcome in zip(several, outcomes, strict=True):
        if isinstance(outcome, ApiError):
            code, text = outcome.code, str(outcome)
            rows += [ConfigsAltered(each.resource_type, each.name, code, text) for each in part.resources]
        else:
            rows += outcome.resources
    return AlterConfigsAnswer(tuple(rows))


def rules_of(config: NodeConfig) -> TopicRules:
    """What the properties of a node say of topics."""
    return TopicRules(
        partitions_default=config.partitions_default,
        replication_factor_default=config.replication_factor_default,
        allow_unreplicated=config.allow_unreplicated,
        delete_topics=config.delete_topics,
        configs=topic_defaults(config),
    )


def _configs(view: View, resource: ConfigResource, rules: TopicRules) -> ConfigsDescribed:
    if resource.resource_type == BROKER_RESOURCE:
        return _of_brokers(view, resource)
    if resource.resource_type != TOPIC_RESOURCE:
        code, text = ErrorCode.INVALID_REQUEST, "only topics and brokers have settings here"
        return ConfigsDescribed(resource.resource_type, resource.name, (), code, text)
    topic = find(view, resource.name)
    if topic is None:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic is named {resource.name[:249]!r}"
        return ConfigsDescribed(resource.resource_type, resource.name, (), code, text)
    every = in_force(topic.configs, with_properties(broker_configs.layers(view, None), rules.configs))
    wanted = tuple(each for each in every if resource.keys is None or each.name in resource.keys)
    return ConfigsDescribed(resource.resource_type, resource.name, wanted)


def _of_brokers(view: View, resource: ConfigResource) -> ConfigsDescribed:
    """What is set for a broker while it runs: a broker says itself what else it has."""
    kind, name = resource.resource_type, resource.name
    try:
        broker_configs.require_resource(view, name)
    except ApiError as refusal:
        return ConfigsDescribed(kind, name, (), refusal.code, str(refusal))
    broker_id = None if name == broker_configs.ALL_BROKERS else BrokerId(int(name))
    found = (
        TopicConfig(setting, synonyms[0].value, synonyms[0].source, synonyms=synonyms)
        for setting, synonyms in broker_configs.layers(view, broker_id)
        if resource.keys is None or setting in resource.keys
    )
    return ConfigsDescribed(kind, name, tuple(found))
