"""Rows of the APIs for topics and their settings."""

from typing import Any

from msgspec.structs import replace

from fencepost.controller import config_changes as c
from fencepost.controller import partition_creation as p
from fencepost.controller import topics as t
from fencepost.controller.errors import ErrorCode
from fencepost.wire import k32_describe_configs as k32
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k33_alter_configs import ALTER_CONFIGS
from fencepost.wire.k37_create_partitions import CREATE_PARTITIONS
from fencepost.wire.k44_incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from tests.wire.row import ID_A, NO_ID, Row, ms

# CreateTopics and DeleteTopics


def _flat_create(version: int, entity: Any) -> t.CreateTopics:
    topics = tuple(
        t.NewTopic(
            each.name,
            each.num_partitions,
            each.replication_factor,
            tuple((one.partition_index, one.broker_ids) for one in each.assignments),
            tuple((one.name, one.value) for one in each.configs),
        )
        for each in entity.topics
    )
    return t.CreateTopics(topics, entity.validate_only, ms(entity.timeout))


def _visible_created(version: int, said: t.CreateTopicsAnswer) -> t.CreateTopicsAnswer:
    if version >= 7:
        return said
    hidden: dict[str, Any] = {"topic_id": NO_ID}
    if version < 5:
        hidden |= {"partition_count": -1, "replication_factor": -1, "configs": ()}
    return t.CreateTopicsAnswer(tuple(replace(each, **hidden) for each in said.topics))


def _flat_created(version: int, entity: Any) -> t.CreateTopicsAnswer:
    rows = []
    for each in entity.topics:
        configs = tuple(
            t.TopicConfig(one.name, one.value, one.config_source, one.read_only, one.is_sensitive)
            for one in getattr(each, "configs", ())
        )
        row = t.TopicCreated(
            each.name,
            ErrorCode(each.error_code.value),
            each.error_message,
            getattr(each, "topic_id", None) or NO_ID,
            getattr(each, "num_partitions", -1),
            getattr(each, "replication_factor", -1),
            configs,
        )
        rows.append(row)
    return t.CreateTopicsAnswer(tuple(rows))


CREATE = Row(
    CREATE_TOPICS,
    t.CreateTopics(
        (
            t.NewTopic("orders", 3, 1, (), (("retention.ms", "1000"), ("cleanup.policy", None))),
            t.NewTopic("payments", assignments=((0, (1, 2)), (1, (2,)))),
        ),
        True,
        5000,
    ),
    t.CreateTopicsAnswer(
        (
            t.TopicCreated(
                "orders",
                topic_id=ID_A,
                partition_count=3,
                replication_factor=1,
                configs=(t.TopicConfig("retention.ms", "1000", 1), t.TopicConfig("x", None, 5, True, True)),
            ),
            t.TopicCreated("payments", ErrorCode.INVALID_REPLICATION_FACTOR, "one replica only"),
        )
    ),
    visible_response=_visible_created,
    flat_request=_flat_create,
    flat_response=_flat_created,
)


def _flat_delete(version: int, entity: Any) -> t.DeleteTopics:
    if version < 6:
        return t.DeleteTopics(entity.topic_names, (), ms(entity.timeout))
    names = tuple(each.name for each in entity.topics if each.name is not None)
    ids = tuple(each.topic_id for each in entity.topics if each.name is None)
    return t.DeleteTopics(names, ids, ms(entity.timeout))


def _visible_deleted(version: int, said: t.DeleteTopicsAnswer) -> t.DeleteTopicsAnswer:
    return t.DeleteTopicsAnswer(
        tuple(
            t.TopicDeleted(
                each.name if version >= 6 else each.name or "",
                each.topic_id if version >= 6 else NO_ID,
                each.error_code,
                each.error_message if version >= 5 else None,
            )
            for each in said.topics
        )
    )


def _flat_deleted(version: int, entity: Any) -> t.DeleteTopicsAnswer:
    return t.DeleteTopicsAnswer(
        tuple(
            t.TopicDeleted(
                each.name,
                getattr(each, "topic_id", None) or NO_ID,
                ErrorCode(each.error_code.value),
                getattr(each, "error_message", None),
            )
            for each in entity.responses
        )
    )


DELETE = Row(
    DELETE_TOPICS,
    t.DeleteTopics(("orders", "payments"), (), 5000),
    t.DeleteTopicsAnswer(
        (
            t.TopicDeleted("orders", ID_A),
            t.TopicDeleted("payments", NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic"),
            t.TopicDeleted(None, ID_A, ErrorCode.UNKNOWN_TOPIC_ID),
        )
    ),
    visible_response=_visible_deleted,
    flat_request=_flat_delete,
    flat_response=_flat_deleted,
)


# DescribeConfigs


def _flat_resources(version: int, entity: Any) -> k32.DescribeConfigs:
    return k32.DescribeConfigs(
        tuple(
            k32.ConfigResource(each.resource_type, each.resource_name, each.configuration_keys)
            for each in entity.resources
        ),
        entity.include_synonyms,
    )


def _flat_configs(version: int, entity: Any) -> k32.DescribeConfigsAnswer:
    return k32.DescribeConfigsAnswer(
        tuple(
            k32.ConfigsDescribed(
                each.resource_type,
                each.resource_name,
                tuple(
                    t.TopicConfig(
                        config.name,
                        config.value,
                        config.config_source,
                        config.read_only,
                        config.is_sensitive,
                        tuple(t.ConfigSynonym(one.name, one.value, one.source) for one in config.synonyms),
                        getattr(config, "config_type", 0),
                    )
                    for config in each.configs
                ),
                each.error_code.value,
                each.error_message,
            )
            for each in entity.results
        )
    )


def _visible_configs(version: int, said: k32.DescribeConfigsAnswer) -> k32.DescribeConfigsAnswer:
    if version >= 3:
        return said
    rows = (
        k32.ConfigsDescribed(
            each.resource_type,
            each.name,
            tuple(replace(one, kind=0) for one in each.configs),
            each.error_code,
            each.error_message,
        )
        for each in said.results
    )
    return k32.DescribeConfigsAnswer(tuple(rows))


_SYNONYMS = (t.ConfigSynonym("retention.ms", "5", 1), t.ConfigSynonym("log.retention.ms", None, 5))

CONFIGS = Row(
    k32.DESCRIBE_CONFIGS,
    k32.DescribeConfigs(
        (
            k32.ConfigResource(k32.TOPIC_RESOURCE, "orders"),
            k32.ConfigResource(k32.TOPIC_RESOURCE, "none", ()),
            k32.ConfigResource(k32.BROKER_RESOURCE, "1", ("retention.ms", "x")),
        ),
        with_synonyms=True,
    ),
    k32.DescribeConfigsAnswer(
        (
            k32.ConfigsDescribed(
                k32.TOPIC_RESOURCE,
                "orders",
                (
                    t.TopicConfig("retention.ms", "5", 1, synonyms=_SYNONYMS, kind=5),
                    t.TopicConfig("secret", None, 5, True, True),
                ),
            ),
            k32.ConfigsDescribed(k32.BROKER_RESOURCE, "1", (), ErrorCode.INVALID_REQUEST, "no"),
        )
    ),
    flat_request=_flat_resources,
    flat_response=_flat_configs,
    visible_response=_visible_configs,
)

# AlterConfigs and IncrementalAlterConfigs


def _flat_alterations(version: int, entity: Any) -> c.AlterConfigs:
    resources = tuple(
        c.ResourceChanges(
            each.resource_type,
            each.resource_name,
            tuple(
                c.ConfigChange(one.name, one.value, getattr(one, "config_operation", c.ConfigOperation.SET))
                for one in each.configs
            ),
        )
        for each in entity.resources
    )
    return c.AlterConfigs(resources, entity.validate_only)


def _flat_replacements(version: int, entity: Any) -> c.AlterConfigs:
    return replace(_flat_alterations(version, entity), replaces_all=True)


def _flat_altered(version: int, entity: Any) -> c.AlterConfigsAnswer:
    return c.AlterConfigsAnswer(
        tuple(
            c.ConfigsAltered(
                each.resource_type, each.resource_name, ErrorCode(each.error_code.value), each.error_message
            )
            for each in entity.responses
        )
    )


ALTERED = c.AlterConfigsAnswer(
    (
        c.ConfigsAltered(k32.TOPIC_RESOURCE, "orders"),
        c.ConfigsAltered(k32.BROKER_RESOURCE, "1", ErrorCode.INVALID_REQUEST, "no"),
    )
)
INCREMENTAL = Row(
    INCREMENTAL_ALTER_CONFIGS,
    c.AlterConfigs(
        (
            c.ResourceChanges(
                k32.TOPIC_RESOURCE,
                "orders",
                (
                    c.ConfigChange("retention.ms", "1000"),
                    c.ConfigChange("segment.bytes", None, c.ConfigOperation.DELETE),
                    c.ConfigChange("cleanup.policy", "compact", c.ConfigOperation.APPEND),
                ),
            ),
            c.ResourceChanges(k32.BROKER_RESOURCE, "1", ()),
        ),
        validate_only=True,
    ),
    ALTERED,
    flat_request=_flat_alterations,
    flat_response=_flat_altered,
)
REPLACED = Row(
    ALTER_CONFIGS,
    c.AlterConfigs(
        (
            c.ResourceChanges(
                k32.TOPIC_RESOURCE,
                "orders",
                (c.ConfigChange("retention.ms", "1000"), c.ConfigChange("x", None)),
            ),
            c.ResourceChanges(k32.BROKER_RESOURCE, "1", ()),
        ),
        replaces_all=True,
    ),
    ALTERED,
    flat_request=_flat_replacements,
    flat_response=_flat_altered,
)

# CreatePartitions


def _flat_more(version: int, entity: Any) -> p.CreatePartitions:
    topics = tuple(
        p.NewPartitions(
            each.name,
            each.count,
            None if each.assignments is None else tuple(one.broker_ids for one in each.assignments),
        )
        for each in entity.topics
    )
    return p.CreatePartitions(topics, entity.validate_only, ms(entity.timeout))


def _flat_partitions(version: int, entity: Any) -> p.CreatePartitionsAnswer:
    return p.CreatePartitionsAnswer(
        tuple(
            p.PartitionsCreated(each.name, ErrorCode(each.error_code.value), each.error_message)
            for each in entity.results
        )
    )


MORE = Row(
    CREATE_PARTITIONS,
    p.CreatePartitions(
        (p.NewPartitions("orders", 3), p.NewPartitions("payments", 4, ((1,), (2, 3)))), True, 5000
    ),
    p.CreatePartitionsAnswer(
        (
            p.PartitionsCreated("orders"),
            p.PartitionsCreated("payments", ErrorCode.INVALID_PARTITIONS, "fewer"),
        )
    ),
    flat_request=_flat_more,
    flat_response=_flat_partitions,
)

TOPIC_ROWS = (CREATE, DELETE, CONFIGS, INCREMENTAL, REPLACED, MORE)
