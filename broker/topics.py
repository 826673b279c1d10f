"""Which topics there are: names, ids, partitions and leaders, as the active controller reports them.

Refresh     of all topics when a heartbeat shows that something has changed; a look-up of single topics that
            a request names and that are unknown here.
Fresh       a caller that needs to see a recent change waits for a response to a later request.
Hosted      the partitions that a response places on this broker are hosted before the response is used.
Source      Metadata of the controller listener; Kafka MetadataCache.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from fencepost.broker.partitions import Partitions
from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.errors import ErrorCode
from fencepost.wire.client import ControllerClient
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicMetadata, TopicQuery
from fencepost.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    TOPIC_RESOURCE,
    ConfigResource,
    DescribeConfigs,
)

CALL_TIMEOUT_S: Final = 2.0
REFRESH_PAUSE_S_MIN: Final = 0.05  # between two refreshes without a caller that waits
REFRESH_PAUSE_S_MAX: Final = 2.0
REFRESH_PAUSES: Final = 2  # a pause is that many times as long as what the refresh took
HEARTBEATS_MAX: Final = 15  # heartbeats between two refreshes; half a minute
LOOK_UPS_MAX: Final = 100  # look-ups of single topics under way; one more is refused
QUERIES_MAX: Final = 1_000  # topics in one Metadata, which may have LOOKED_UP_ELEMENTS_MAX
TOPICS_AT_ONCE_MAX: Final = 1_000  # of an answer, taken in one step of the loop: a microsecond each
CONFIGS_MAX: Final = 100  # topics in one DescribeConfigs: read and written in a few milliseconds
_Wish: TypeAlias = tuple[frozenset[TopicQuery], bool]  # and whether they may be created

UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class TopicCache:
    """The topics as last received."""

    def __init__(
        self,
        controllers: ControllerClient,
        partitions: Partitions,
        *,
        is_unfenced: Callable[[], bool],
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        self._controllers = controllers
        self._partitions = partitions
        self._is_unfenced = is_unfenced
        self._was_unfenced = False  # when the last heartbeat was answered
        self._retry = Retry("ask for the topics", rng=rng, log=log)
        self._by_name: dict[str, TopicMetadata] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._merged: list[TopicMetadata] | None = None  # looked up while all topics are being taken
        self._wanted = asyncio.Event()
        self._announced = -1  # the cluster's version, by the last heartbeat
        self._seen = -1  # a version that what is here is at least as new as
        self._heartbeats = 0  # heartbeats since all topics were requested
        self._refreshing = asyncio.Lock()
        self._questions = 0  # requests for all topics so far
        self.is_certain = False  # the last question was answered: what is not here does not exist
        self._answered = 0  # the number of the last of them that was answered
        self._look_ups: dict[_Wish, asyncio.Future[list[TopicMetadata] | None]] = {}

    def find(self, name: str) -> TopicMetadata | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def find_by_id(self, topic_id: uuid.UUID) -> TopicMetadata | None:
        """The topic of that id."""
        name = self._names.get(topic_id)
        return None if name is None else self._by_name.get(name)

    def all(self) -> tuple[TopicMetadata, ...]:
        """Every topic, sorted by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def heartbeat_answered(self, version: int) -> None:
        """A heartbeat had the cluster's version, -1 if none: request all topics unless it has been seen.

        Now and then they are requested anyway: what could not be hosted is tried again.
        """
        self._announced = version
        is_new = self._is_unfenced() and not self._was_unfenced  # now logs may be made
        self._was_unfenced = self._is_unfenced()
        if not is_new and 0 <= version == self._seen and self._heartbeats < HEARTBEATS_MAX:
            self._heartbeats += 1
        else:
            self._wanted.set()

    def refresh_soon(self) -> None:
        """Ask for all topics, when there is time."""
        self._wanted.set()

    async def run(self) -> None:
        """Refresh whenever that is wished; forever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            announced, began_s = self._announced, asyncio.get_running_loop().time()
            if await self.refresh():
                self._seen, self._heartbeats = announced, 0
            took_s = asyncio.get_running_loop().time() - began_s
            await asyncio.sleep(min(max(REFRESH_PAUSE_S_MIN, REFRESH_PAUSES * took_s), REFRESH_PAUSE_S_MAX))

    async def refresh(self) -> bool:
        """Request all topics, or wait for a request under way. True: they are as new as this call."""
        questions = self._questions
        async with self._refreshing:
            if self._answered > questions:
                return True  # another caller's request began after this call
            self._questions += 1
            question = self._questions
            generation = self._partitions.generation
            may_make = self._is_unfenced()
            topics = await self._ask(Metadata(None, allow_auto_topic_creation=False))
            if topics is None:
                return False
            topic_ids = await self._take(topics)
            await self._partitions.retire(topic_ids, generation)
            await self._host(topics, may_make)
            self._answered = question
            return True

    async def look_up(
        self, queries: Iterable[TopicQuery], *, create: bool = False
    ) -> list[TopicMetadata] | None:
        """Request these topics; the controller creates those that it does not know if ``create``.

        None: the controller did not answer, or too many look-ups are under way.
        """
        key = (frozenset(queries), create)
        asking = self._look_ups.get(key)
        if asking is None:
            if len(self._look_ups) >= LOOK_UPS_MAX:
                return None
            asking = asyncio.ensure_future(self._look_up(*key))
            self._look_ups[key] = asking
            asking.add_done_callback(lambda _: self._look_ups.pop(key, None))
        return await asyncio.shield(asking)

    async def stop(self) -> None:
        """Give up what is under way."""
        for asking in tuple(self._look_ups.values()):
            asking.cancel()
        await asyncio.gather(*self._look_ups.values(), return_exceptions=True)

    async def _look_up(self, queries: frozenset[TopicQuery], create: bool) -> list[TopicMetadata] | None:
        in_order = sorted(queries, key=lambda query: (query.name or "", str(query.topic_id)))
        topics: list[TopicMetadata] = []
        for start in range(0, len(in_order), QUERIES_MAX):
            some = tuple(in_order[start : start + QUERIES_MAX])
            may_make = self._is_unfenced()
            found = await self._ask(Metadata(some, allow_auto_topic_creation=create))
            if found is None:
                return None
            for each in found:
                self._merge(each)
            if self._merged is not None:
                self._merged += found
            await self._host(found, may_make)
            topics += found
        return topics

    async def _host(self, topics: list[TopicMetadata], may_make: bool) -> None:
        """Host what is placed here, with the settings of its topic.

        ``may_make``: this broker was unfenced when the question was sent. Before, what the controller knows
        of its directories may be of the process that had the broker's id until now.
        """
        found: dict[str, uuid.UUID] = {}
        for start in range(0, len(topics), TOPICS_AT_ONCE_MAX):
            if start:
                await asyncio.sleep(0)
            found |= self._partitions.unconfigured(topics[start : start + TOPICS_AT_ONCE_MAX])
        names = tuple(found)
        for start in range(0, len(names), CONFIGS_MAX):
            some = (ConfigResource(TOPIC_RESOURCE, name) for name in names[start : start + CONFIGS_MAX])
            try:
                answer = await self._controllers.call(
                    DESCRIBE_CONFIGS, DescribeConfigs(tuple(some)), timeout_s=CALL_TIMEOUT_S
                )
            except CALL_FAILURES as error:
                self._retry.failed(error)
                return  # a log that took records under other settings than its topic's would be worse
            for each in answer.results:
                if each.error_code == ErrorCode.NONE and each.name in found:
                    self._partitions.configure(found[each.name], each.configs)
        await self._partitions.host(topics, may_make=may_make)

    async def _ask(self, request: Metadata) -> list[TopicMetadata] | None:
        try:
            answer = await self._controllers.call(METADATA, request, timeout_s=CALL_TIMEOUT_S)
        except CALL_FAILURES as error:
            self._retry.failed(error)
            self.is_certain = False
            return None
        self._retry.succeeded()
        self.is_certain = True
        return list(answer.topics)

    async def _take(self, topics: list[TopicMetadata]) -> frozenset[uuid.UUID]:
        """These are all topics, but for what is looked up meanwhile. Returns their ids."""
        by_name: dict[str, TopicMetadata] = {}
        names: dict[uuid.UUID, str] = {}
        merged = self._merged = []
        for count, topic in enumerate(topics, 1):
            if topic.name is not None:
                by_name[topic.name] = topic
                if topic.topic_id is not None:
                    names[topic.topic_id] = topic.name
            if count % TOPICS_AT_ONCE_MAX == 0:
                await asyncio.sleep(0)
        topic_ids = frozenset(names)
        self._by_name, self._names, self._merged = by_name, names, None
        for topic in merged:
            self._merge(topic)
        return topic_ids

    def _merge(self, topic: TopicMetadata) -> None:
        if topic.name is None or topic.error_code not in (ErrorCode.NONE, *UNKNOWN):
            return
        before = self._by_name.pop(topic.name, None)
        if before is not None and before.topic_id is not None:
            self._names.pop(before.topic_id, None)
        if topic.error_code == ErrorCode.NONE:
            self._by_name[topic.name] = topic
            if topic.topic_id is not None:
                self._names[topic.topic_id] = topic.name
