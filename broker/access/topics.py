"""Guards of requests about topics and settings.

Unseen      a topic that may not be described is refused with 29 whether it exists or not. In a list of all
            topics it is not there.
Created     by being requested: CREATE on the cluster or on the topic.
Source      Kafka KafkaApis.handleTopicMetadataRequest, ControllerApis.createTopics and deleteTopics.
"""

import dataclasses
from typing import Any, Final

import msgspec

from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import mapped, remembered, split
from fencepost.broker.topic_pages import page
from fencepost.controller.acl_types import CLUSTER_NAME, Operation, ResourceType
from fencepost.controller.config_changes import AlterConfigs, AlterConfigsAnswer, ConfigsAltered
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.partition_creation import (
    CreatePartitions,
    CreatePartitionsAnswer,
    PartitionsCreated,
)
from fencepost.controller.topics import (
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    NewTopic,
    TopicCreated,
    TopicDeleted,
)
from fencepost.wire.dispatch import Context, Endpoint, Reply, Then
from fencepost.wire.k03_metadata import Metadata, MetadataAnswer, TopicMetadata, TopicQuery
from fencepost.wire.k32_describe_configs import (
    ConfigsDescribed,
    DescribeConfigs,
    DescribeConfigsAnswer,
)
from fencepost.wire.k75_describe_topic_partitions import DescribeTopicPartitions, TopicPartitionsDescribed

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_THERE: Final = (UNKNOWN, ErrorCode.INVALID_TOPIC_EXCEPTION)
_BROKERS: Final = (4, 8)  # Kafka's ConfigResource: BROKER, BROKER_LOGGER
_GROUP: Final = 32
_TOPIC: Final = 2


def metadata(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: Metadata,
    context: Context,
    reply: Reply[MetadataAnswer],
) -> None:
    """DESCRIBE on each topic, and CREATE for one that is created so."""
    may_see = remembered(door, context, Operation.DESCRIBE)

    def shown(answer: MetadataAnswer) -> MetadataAnswer:
        topics = tuple(
            each for found in answer.topics if (each := _seen(may_see, request, found)) is not None
        )
        return _with_operations(door, request, context, dataclasses.replace(answer, topics=topics))

    if not request.topics:
        endpoint(request, context, mapped(reply, shown))
        return
    queries = tuple(dict.fromkeys(request.topics))
    allowed, denied = split(queries, lambda each: _may_be_seen(door, may_see, each))
    refused = tuple(_refused(each) for each in denied)
    creates = request.allow_auto_topic_creation and door.rules.creates_topics
    may_make: tuple[TopicQuery, ...] = allowed
    others: tuple[TopicQuery, ...] = ()
    if creates and not door.allows_cluster(context, Operation.CREATE):
        may_create = remembered(door, context, Operation.CREATE)
        may_make, others = split(allowed, lambda each: each.name is None or may_create(each.name))
    parts = [dataclasses.replace(request, topics=may_make)] if may_make or not others else []
    if others:
        parts.append(dataclasses.replace(request, topics=others, allow_auto_topic_creation=False))
    uncreated = frozenset(each.name for each in others)
    _ask_all(
        endpoint, parts, context, mapped(reply, lambda answer: shown(_joined(answer, uncreated, refused)))
    )


def _ask_all(
    endpoint: Endpoint[Any, Any], parts: list[Metadata], context: Context, reply: Reply[Any]
) -> None:
    """One answer with the topics of all parts, of which there are one or two; an error is the answer."""
    answers: list[MetadataAnswer] = []

    def take(outcome: MetadataAnswer | ApiError, throttle_ms: int) -> None:
        if isinstance(outcome, ApiError):
            reply(outcome, throttle_ms)
            return
        answers.append(outcome)
        if len(answers) == len(parts):
            reply(dataclasses.replace(outcome, topics=tuple(each for one in answers for each in one.topics)))
        else:
            try:
                endpoint(parts[len(answers)], context, Then(take, reply))
            except ApiError as refusal:
                reply(refusal)

    endpoint(parts[0], context, Then(take, reply))


def _may_be_seen(door: Door, may_see: Any, query: TopicQuery) -> bool:
    """A topic that is requested by its id and has no name here is checked by the name of its answer."""
    name = query.name
    if name is None and query.topic_id is not None:
        name = door.topic_name(query.topic_id)
    return name is None or bool(may_see(name))


def _refused(query: TopicQuery) -> TopicMetadata:
    topic_id = query.topic_id if query.name is None else None
    return TopicMetadata(name=query.name, error_code=DENIED, topic_id=topic_id)


def _joined(
    answer: MetadataAnswer, uncreated: frozenset[str | None], refused: tuple[TopicMetadata, ...]
) -> MetadataAnswer:
    """What is not there and may not be created is refused as what may not be seen."""
    found = tuple(
        TopicMetadata(name=each.name, error_code=DENIED)
        if each.error_code in _NOT_THERE and each.name in uncreated
        else each
        for each in answer.topics
    )
    return dataclasses.replace(answer, topics=found + refused)


def _seen(may_see: Any, request: Metadata, found: TopicMetadata) -> TopicMetadata | None:
    if found.name is None or found.error_code == DENIED or may_see(found.name):
        return found
    return (
        None
        if request.topics is None
        else TopicMetadata(name=None, error_code=DENIED, topic_id=found.topic_id)
    )


def _with_operations(
    door: Door, request: Metadata, context: Context, answer: MetadataAnswer
) -> MetadataAnswer:
    if request.include_cluster_authorized_operations:
        answer = dataclasses.replace(answer, cluster_authorized_operations=door.cluster_operations(context))
    if not request.include_topic_authorized_operations:
        return answer
    topics = tuple(
        each
        if each.name is None or each.error_code == DENIED
        else msgspec.structs.replace(
            each, topic_authorized_operations=door.operations(context, ResourceType.TOPIC, each.name)
        )
        for each in answer.topics
    )
    return dataclasses.replace(answer, topics=topics)


def describe_partitions(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DescribeTopicPartitions,
    context: Context,
    reply: Reply[TopicPartitionsDescribed],
) -> None:
    """DESCRIBE on each topic. What may not be seen takes no room of a page, and is no cursor of it."""
    may_see = remembered(door, context, Operation.DESCRIBE)
    allowed, denied = split(request.wanted(), may_see)
    refused = tuple(TopicMetadata(name=each, error_code=DENIED) for each in denied)

    def shown(answer: TopicPartitionsDescribed) -> TopicPartitionsDescribed:
        seen = page((each for each in answer.topics if may_see(each.name or "")), request)
        topics = tuple(
            msgspec.structs.replace(
                each,
                topic_authorized_operations=door.operations(context, ResourceType.TOPIC, each.name or ""),
            )
            for each in seen.topics
        )
        return TopicPartitionsDescribed(topics + refused, seen.next_cursor)

    if denied and not allowed:
        reply(TopicPartitionsDescribed(refused))
        return
    endpoint(DescribeTopicPartitions(allowed, partitions_max=None), context, mapped(reply, shown))


def create(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: CreateTopics,
    context: Context,
    reply: Reply[CreateTopicsAnswer],
) -> None:
    """CREATE on the cluster, or on each topic. Settings are shown with DESCRIBE_CONFIGS on the topic."""
    allowed: tuple[NewTopic, ...] = request.topics
    denied: tuple[NewTopic, ...] = ()
    if not door.allows_cluster(context, Operation.CREATE):
        allowed, denied = split(
            request.topics, lambda each: door.allows_topic(context, Operation.CREATE, each.name)
        )
    refused = tuple(TopicCreated(each.name, DENIED, "Authorization failed.") for each in denied)
    if denied and not allowed:
        reply(CreateTopicsAnswer(refused))
        return

    def shown(answer: CreateTopicsAnswer) -> CreateTopicsAnswer:
        found = tuple(
            each
            if door.allows_topic(context, Operation.DESCRIBE_CONFIGS, each.name)
            else msgspec.structs.replace(each, configs=(), partition_count=-1, replication_factor=-1)
            for each in answer.topics
        )
        return CreateTopicsAnswer(found + refused)

    endpoint(msgspec.structs.replace(request, topics=allowed), context, mapped(reply, shown))


def create_partitions(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: CreatePartitions,
    context: Context,
    reply: Reply[CreatePartitionsAnswer],
) -> None:
    """ALTER on each topic."""
    allowed, denied = split(
        request.topics, lambda each: door.allows_topic(context, Operation.ALTER, each.name)
    )
    refused = tuple(PartitionsCreated(each.name, DENIED) for each in denied)
    if denied and not allowed:
        reply(CreatePartitionsAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: CreatePartitionsAnswer(answer.topics + refused))
    endpoint(msgspec.structs.replace(request, topics=allowed), context, with_refused)


def delete(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DeleteTopics,
    context: Context,
    reply: Reply[DeleteTopicsAnswer],
) -> None:
    """DELETE on the cluster, or on each topic; what may be described and is not there is unknown."""
    if door.allows_cluster(context, Operation.DELETE):
        endpoint(request, context, reply)
        return
    may_see = remembered(door, context, Operation.DESCRIBE)
    may_delete = remembered(door, context, Operation.DELETE)
    names, kept_names = split(request.names, lambda name: may_see(name) and may_delete(name))
    refused = [
        TopicDeleted(name, error_code=UNKNOWN if may_see(name) and not door.has_topic(name) else DENIED)
        for name in kept_names
    ]
    ids = []
    for topic_id in request.ids:
        name = door.topic_name(topic_id)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            refused.append(TopicDeleted(None, topic_id, code, "This server does not host this topic ID."))
        elif may_delete(name):
            ids.append(topic_id)
        else:
            refused.append(TopicDeleted(name if may_see(name) else None, topic_id, DENIED))
    if not names and not ids:
        reply(DeleteTopicsAnswer(tuple(refused)))
        return
    with_refused = mapped(reply, lambda answer: DeleteTopicsAnswer(answer.topics + tuple(refused)))
    endpoint(DeleteTopics(names, tuple(ids), request.timeout_ms), context, with_refused)


def describe_configs(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DescribeConfigs,
    context: Context,
    reply: Reply[DescribeConfigsAnswer],
) -> None:
    """DESCRIBE_CONFIGS on each resource: a topic, a group, or the cluster for a broker's."""
    codes = [
        _code(door, context, Operation.DESCRIBE_CONFIGS, each.resource_type, each.name)
        for each in request.resources
    ]
    allowed = tuple(each for each, code in zip(request.resources, codes, strict=True) if not code)
    refused = tuple(
        ConfigsDescribed(each.resource_type, each.name, (), code)
        for each, code in zip(request.resources, codes, strict=True)
        if code
    )
    if refused and not allowed:
        reply(DescribeConfigsAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: DescribeConfigsAnswer(answer.results + refused))
    endpoint(dataclasses.replace(request, resources=allowed), context, with_refused)


def alter_configs(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: AlterConfigs,
    context: Context,
    reply: Reply[AlterConfigsAnswer],
) -> None:
    """ALTER_CONFIGS on each resource: a topic, a group, or the cluster for a broker's."""
    codes = [
        _code(door, context, Operation.ALTER_CONFIGS, each.resource_type, each.name)
        for each in request.resources
    ]
    allowed = tuple(each for each, code in zip(request.resources, codes, strict=True) if not code)
    refused = tuple(
        ConfigsAltered(each.resource_type, each.name, code)
        for each, code in zip(request.resources, codes, strict=True)
        if code
    )
    if refused and not allowed:
        reply(AlterConfigsAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: AlterConfigsAnswer(answer.resources + refused))
    endpoint(msgspec.structs.replace(request, resources=allowed), context, with_refused)


def _code(door: Door, context: Context, operation: Operation, kind: int, name: str) -> ErrorCode:
    """NONE if it is allowed. Of a type that is none of these the endpoint refuses it."""
    of, code, resource = ResourceType.TOPIC, DENIED, name
    if kind in _BROKERS:
        of, code, resource = ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, CLUSTER_NAME
    elif kind == _GROUP:
        of, code = ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif kind != _TOPIC:
        return ErrorCode.NONE
    return ErrorCode.NONE if door.allows(context, operation, of, resource) else code
