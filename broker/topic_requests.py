"""Metadata of the client listener, and requests that make, change and delete topics or read their settings.

Metadata    answers from the cache; unknown topics are looked up, and created if both the client and the
            controller's ``auto.create.topics.enable`` want it. A list of all topics, and topics without a
            leader, are requested anew; while the quorum has no leader, or FORWARDED_MAX requests wait for
            the controller, the cache is the answer.
Forwarded   all but Metadata goes to the active controller in this broker's name; the answer to what changes
            topics leaves when this broker has seen what it did.
Source      Kafka KafkaApis.handleTopicMetadataRequest, ForwardingManager.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from fencepost.broker.broker_settings import BrokerSettings
from fencepost.broker.metadata_cache import MetadataCache
from fencepost.broker.retry import CALL_FAILURES
from fencepost.broker.topic_pages import page
from fencepost.broker.topics import CONFIGS_MAX, TopicCache
from fencepost.controller import config_changes, partition_creation, topic_creation, topic_deletion
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.config_changes import AlterConfigs
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress, ErrorCode, RequestTimedOut
from fencepost.wire.client import ControllerClient
from fencepost.wire.dispatch import Api, Context, Endpoint, Reply, Service, Then, served
from fencepost.wire.k03_metadata import (
    METADATA,
    BrokerNode,
    Metadata,
    MetadataAnswer,
    TopicMetadata,
    TopicQuery,
)
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
from fencepost.wire.k75_describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitions,
    TopicPartitionsDescribed,
)

FORWARDED_MAX: Final = 100
"""Requests that wait for the controller. One more is refused, which clients retry; Metadata is not."""

FORWARD_TIMEOUT_S_MAX: Final = 30.0
CONFIGS_TIMEOUT_S: Final = 5.0
NO_ID: Final = uuid.UUID(int=0)


class TopicRequests:
    """The endpoints of requests about topics."""

    def __init__(
        self,
        cluster_id: str,
        cache: MetadataCache,
        topics: TopicCache,
        controllers: ControllerClient,
        acls: Acls,
        own_settings: BrokerSettings,
    ) -> None:
        self._cluster_id = cluster_id
        self._cache = cache
        self._topics = topics
        self._controllers = controllers
        self._acls = acls
        self._own_settings = own_settings
        self._waiting: set[asyncio.Task[None]] = set()

    def service(self) -> Service:
        """The endpoints, by API key."""
        return dict(
            (
                served(METADATA, self._metadata),
                served(DESCRIBE_TOPIC_PARTITIONS, self._describe_topic_partitions),
                served(
                    CREATE_TOPICS,
                    self._forwarding(CREATE_TOPICS, Operation.CREATE, topic_creation.require_count),
                ),
                served(
                    DELETE_TOPICS,
                    self._forwarding(DELETE_TOPICS, Operation.DELETE, topic_deletion.require_count),
                ),
                served(DESCRIBE_CONFIGS, self._describe_configs),
                served(
                    ALTER_CONFIGS,
                    self._forwarding(ALTER_CONFIGS, Operation.ALTER, config_changes.require_count),
                ),
                served(
                    CREATE_PARTITIONS,
                    self._forwarding(CREATE_PARTITIONS, Operation.ALTER, partition_creation.require_count),
                ),
                served(
                    INCREMENTAL_ALTER_CONFIGS,
                    self._forwarding(
                        INCREMENTAL_ALTER_CONFIGS, Operation.ALTER, config_changes.require_count
                    ),
                ),
            )
        )

    async def stop(self) -> None:
        """Give up what is under way."""
        for task in tuple(self._waiting):
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    def _metadata(self, request: Metadata, context: Context, reply: Reply[MetadataAnswer]) -> None:
        if request.topics == ():
            reply(self._answer((), context))
            return
        if request.topics is not None:  # as in Kafka: each once
            request = replace(request, topics=tuple(dict.fromkeys(request.topics)))
        found = None if request.topics is None else [self._find(query) for query in request.topics]
        if found is not None and all(each is not None and _is_led(each) for each in found):
            reply(self._answer(tuple(each for each in found if each is not None), context))
            return
        if len(self._waiting) >= FORWARDED_MAX:
            reply(self._answer(self._remembered(request), context))
            return
        self._spawn(self._fresh_metadata(request, context, reply))

    async def _fresh_metadata(
        self, request: Metadata, context: Context, reply: Reply[MetadataAnswer]
    ) -> None:
        if request.topics is None:
            await self._topics.refresh()
            reply(self._answer(self._topics.all(), context))
            return
        answered = await self._topics.look_up(request.topics, create=request.allow_auto_topic_creation)
        by_name = {each.name: each for each in answered or () if each.name is not None}
        by_id = {each.topic_id: each for each in answered or () if each.topic_id is not None}
        rows = []
        for query in request.topics:
            row = self._find(query) or by_name.get(query.name or "") or by_id.get(query.topic_id or NO_ID)
            if row is None and answered is None:
                row = _answer_of(query, ErrorCode.LEADER_NOT_AVAILABLE)
            rows.append(row or _unknown(query))
        reply(self._answer(tuple(rows), context))

    def _describe_topic_partitions(
        self, request: DescribeTopicPartitions, context: Context, reply: Reply[TopicPartitionsDescribed]
    ) -> None:
        names = request.wanted()
        queries = tuple(TopicQuery(each) for each in names) if request.topics else None

        def take(outcome: MetadataAnswer | ApiError, throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(outcome, throttle_ms)
                return
            reply(page(outcome.topics, request), throttle_ms)

        self._metadata(Metadata(queries, allow_auto_topic_creation=False), context, Then(take, reply))

    def _remembered(self, request: Metadata) -> tuple[TopicMetadata, ...]:
        """What is known without the controller. A refusal would name no brokers, and clients drop those."""
        if request.topics is None:
            return self._topics.all()
        found = ((query, self._find(query)) for query in request.topics)
        return tuple(row or _answer_of(query, ErrorCode.LEADER_NOT_AVAILABLE) for query, row in found)

    def _find(self, query: TopicQuery) -> TopicMetadata | None:
        if query.name is not None and _is_named(query):
            return self._topics.find(query.name)
        return None if query.topic_id is None else self._topics.find_by_id(query.topic_id)

    def _answer(self, topics: tuple[TopicMetadata, ...], context: Context) -> MetadataAnswer:
        """The response. Without a leader of the quorum this broker names itself: it forwards, as in KRaft.

        kafkajs connects to the node that is named, and fails on -1, as on a broker that was just killed.
        """
        picture = self._cache.picture(context.listener)
        named = picture.coordinator or self._cache.itself_in(picture)
        return MetadataAnswer(
            cluster_id=self._cluster_id,
            controller_id=-1 if named is None else named.broker_id,
            brokers=tuple(BrokerNode(b.broker_id, b.host, b.port, b.rack) for b in picture.visible),
            topics=topics,
        )

    def _forwarding(
        self, api: Api[Any, Any], operation: Operation, require_count: Callable[[Any], object]
    ) -> Endpoint[Any, Any]:
        """``require_count`` refuses here what is too long to be forwarded: the controller refuses it, too."""

        def forward(request: Any, context: Context, reply: Reply[Any]) -> None:
            self._acls.require(context.principal, operation)
            require_count(request)
            self._spawn(self._forward(api, request, reply))

        return forward

    def _describe_configs(
        self, request: DescribeConfigs, context: Context, reply: Reply[DescribeConfigsAnswer]
    ) -> None:
        self._acls.require(context.principal, Operation.DESCRIBE)
        require_count(request)
        self._spawn(self._answer_configs(request, reply))

    async def _answer_configs(self, request: DescribeConfigs, reply: Reply[DescribeConfigsAnswer]) -> None:
        """Of topics forwarded, CONFIGS_MAX at a time: a thousand are read in 50 ms."""
        forwarded = tuple(each for each in request.resources if each.resource_type != BROKER_RESOURCE)
        answers: deque[ConfigsDescribed] = deque()
        outcome: DescribeConfigsAnswer | ApiError
        try:
            for start in range(0, len(forwarded), CONFIGS_MAX) or (() if request.resources else (0,)):
                some = DescribeConfigs(forwarded[start : start + CONFIGS_MAX])
                answer = await self._controllers.call(DESCRIBE_CONFIGS, some, timeout_s=CONFIGS_TIMEOUT_S)
                answers += answer.results
            rows = (self._described(each, answers) for each in request.resources)
            outcome = DescribeConfigsAnswer(tuple(rows)).for_request(request)
        except ApiError as error:
            outcome = error
        except CALL_FAILURES as error:
            outcome = RequestTimedOut(f"the active controller did not answer: {error}")
        reply(outcome)

    def _described(self, resource: ConfigResource, answers: deque[ConfigsDescribed]) -> ConfigsDescribed:
        """``answers``: the controller's, of what is no broker."""
        if resource.resource_type == BROKER_RESOURCE:
            return self._own_settings.describe(resource)
        return self._own_settings.complete(answers.popleft(), resource)

    async def _forward(self, api: Api[Any, Any], request: Any, reply: Reply[Any]) -> None:
        outcome: Any
        timeout_s = min(max(request.timeout_ms, 1_000) / 1000, FORWARD_TIMEOUT_S_MAX)
        try:
            outcome = await self._controllers.call(api, request, timeout_s=timeout_s)
        except ApiError as error:
            outcome = error
        except CALL_FAILURES as error:
            outcome = RequestTimedOut(f"the active controller did not answer: {error}")
        else:
            await self._topics.refresh()
            if isinstance(request, AlterConfigs):
                await self._own_settings.refresh()
        reply(outcome)

    def _spawn(self, waiting: Coroutine[Any, Any, None]) -> None:
        if len(self._waiting) >= FORWARDED_MAX:
            waiting.close()
            raise CoordinatorLoadInProgress(f"{FORWARDED_MAX} requests wait for the controller")
        task = asyncio.get_running_loop().create_task(waiting)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


def _is_named(query: TopicQuery) -> bool:
    return query.topic_id is None or query.topic_id == NO_ID


def _is_led(topic: TopicMetadata) -> bool:
    """Every partition has a leader: there is no reason to look again."""
    return all(each.leader_id >= 0 for each in topic.partitions)


def _unknown(query: TopicQuery) -> TopicMetadata:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if _is_named(query) else ErrorCode.UNKNOWN_TOPIC_ID
    return _answer_of(query, code)


def _answer_of(query: TopicQuery, code: ErrorCode) -> TopicMetadata:
    return TopicMetadata(name=query.name, topic_id=query.topic_id, error_code=code)
