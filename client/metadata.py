"""What a client knows of the cluster: which node leads which partition, under which epoch.

Refreshed   when something shows that it is old (a refusal, a lost connection), when a topic is not known
            yet, and every METADATA_S_MAX. One request at a time, for all topics that are wanted; at most
            one in REFRESH_S_MIN.
Older       an answer with an older leader epoch of the same topic does not replace a newer one: nodes learn
            of a change one after the other.
"""

import asyncio
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.client.backoff import Backoff
from fencepost.client.errors import NotReachable, UnknownTopic, name_of, refused
from fencepost.client.network import LOST, Network
from fencepost.client.types import TopicPartition
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicMetadata, TopicQuery
from fencepost.wire.requests import ApiError, ErrorCode

METADATA_S_MAX: Final = 300.0
REFRESH_S_MIN: Final = 0.05
TOPICS_MAX: Final = 100_000  # wanted by one client

_SOON: Final = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE)
)
"""A topic that was just created is not known everywhere at once."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition. ``node_id`` -1: none, as far as is known."""

    node_id: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the leaders of its partitions, by partition."""

    name: str
    topic_id: uuid.UUID | None
    leaders: Mapping[int, Leader]
    is_internal: bool = False


class ClusterMetadata:
    """The topics that one client wants, as the cluster last described them."""

    def __init__(self, network: Network, *, creates_topics: bool) -> None:
        self._network = network
        self._creates_topics = creates_topics
        self._topics: dict[str, Topic] = {}
        self._refused: dict[str, int] = {}  # the error code of a topic's last description
        self._names: dict[uuid.UUID, str] = {}
        self._wanted: set[str] = set()
        self._wants_all = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._obstacle: Exception | None = None
        self._refreshed_s = float("-inf")  # when the last answer came
        self._tried_s = float("-inf")  # when the last attempt ended
        self._closed = False
        self.on_change: list[Callable[[], None]] = []
        """Called after each answer."""
        self.cluster_id: str | None = None
        self.controller_id = -1

    def topic(self, name: str) -> Topic | None:
        """What is known of a topic now."""
        return self._topics.get(name)

    def topics(self) -> Mapping[str, Topic]:
        """All topics that are known, by name."""
        return self._topics

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """The name of a topic by its id."""
        return self._names.get(topic_id)

    def leader(self, partition: TopicPartition) -> Leader | None:
        """Who leads a partition; None: not known, or none."""
        topic = self._topics.get(partition.topic)
        leader = None if topic is None else topic.leaders.get(partition.partition)
        return leader if leader is not None and leader.node_id >= 0 else None

    def want(self, *names: str) -> bool:
        """Ask for these topics from now on. True: some are not known yet, and a refresh was begun."""
        self._wanted.update(names)
        if all(name in self._topics for name in names):
            return False
        self.refresh_soon()
        return True

    def want_all(self, wants: bool) -> None:
        """Whether every topic of the cluster is described, for a subscription by pattern."""
        self._wants_all = wants

    def forget(self, *names: str) -> None:
        """Ask for these topics no more."""
        self._wanted.difference_update(names)

    async def await_topic(self, name: str, timeout_s: float, unknown_s: float = math.inf) -> Topic:
        """The topic, once it is known. ``unknown_s``: for how long it may be unknown.

        Raises UnknownTopic, Refused, NotReachable.
        """
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        backoff = Backoff(timeout_s, self._network.rng)
        while True:
            self.want(name)
            await self._await_refresh(backoff.left_s)
            topic = self._topics.get(name)
            if topic is not None:
                return topic
            code = self._refused.get(name, ErrorCode.NONE)
            if code not in _SOON:
                raise refused(code, f"topic {name!r}")
            is_unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_unknown and timeout_s - backoff.left_s >= unknown_s:
                raise self._not_found(name, code, unknown_s)
            if not await backoff.pause():
                raise self._not_found(name, code, timeout_s)

    async def refresh(self, timeout_s: float) -> None:
        """Return after an answer that was requested from now on. Raises NotReachable."""
        backoff = Backoff(timeout_s, self._network.rng)
        while True:
            before_s = asyncio.get_running_loop().time()
            await self._await_refresh(backoff.left_s)
            if self._refreshed_s >= before_s:
                return
            if not await backoff.pause():
                raise NotReachable(f"no broker answered in {timeout_s:.1f} s: {self._obstacle}")

    def refresh_soon(self) -> "asyncio.Task[None] | None":
        """Begin a refresh, unless one is under way. None: the client is closed."""
        if self._closed:
            return None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._refresh())
        return self._task

    async def close(self) -> None:
        """End a refresh under way; begin none any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _await_refresh(self, timeout_s: float) -> None:
        task = self.refresh_soon()
        if task is not None:
            await asyncio.wait((task,), timeout=timeout_s)

    def _not_found(self, name: str, code: int, timeout_s: float) -> Exception:
        if code == ErrorCode.NONE:
            return NotReachable(f"topic {name!r}: no broker answered in {timeout_s:.1f} s: {self._obstacle}")
        return UnknownTopic(f"topic {name!r}: {name_of(code)} for {timeout_s:.1f} s", code)

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        early_s = self._tried_s + REFRESH_S_MIN - loop.time()
        if early_s > 0:
            await asyncio.sleep(early_s)
        await asyncio.sleep(0)  # what else is wanted in this turn of the loop joins
        topics = None if self._wants_all else tuple(TopicQuery(name) for name in sorted(self._wanted))
        try:
            answer = await self._network.call_any(METADATA, Metadata(topics, self._creates_topics))
        except (ApiError, *LOST) as error:
            self._obstacle = error
            self._tried_s = loop.time()
            return
        self._network.learn(answer.brokers)
        self.cluster_id, self.controller_id = answer.cluster_id, answer.controller_id
        self._refreshed_s = self._tried_s = loop.time()
        for topic in answer.topics:
            self._take(topic)
        if self._wants_all:
            named = {topic.name for topic in answer.topics}
            for name in [each for each in self._topics if each not in named]:
                del self._topics[name]
        self._rearm(loop)
        for call in self.on_change:
            call()

    def _rearm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(METADATA_S_MAX, self.refresh_soon)

    def _take(self, described: TopicMetadata) -> None:
        name = described.name
        if name is None:
            return
        self._refused[name] = described.error_code
        if described.error_code != ErrorCode.NONE:
            if described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._topics.pop(name, None)
            return
        known = self._topics.get(name)
        same = known is not None and known.topic_id == described.topic_id
        leaders: dict[int, Leader] = {}
        for each in described.partitions:
            leader = Leader(each.leader_id, each.leader_epoch)
            before = known.leaders.get(each.partition_index) if same and known is not None else None
            if before is not None and 0 <= leader.leader_epoch < before.leader_epoch:
                leader = before
            leaders[each.partition_index] = leader
        self._topics[name] = Topic(name, described.topic_id, leaders, described.is_internal)
        if described.topic_id is not None:
            self._names[described.topic_id] = name
