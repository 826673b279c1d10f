"""Unknown partitions: looks a topic up before a request about it is refused, and gives the error code.

A topic that was created a moment ago is unknown here until the next refresh. So a request about an unknown
topic first waits for one look-up at the controller: its partition may be hosted here by then.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from fencepost.broker.partitions import Partitions
from fencepost.broker.topics import TopicCache
from fencepost.controller.errors import ErrorCode
from fencepost.wire.k03_metadata import TopicMetadata, TopicQuery

LOOK_UPS_MAX: Final = 1000
"""Requests that wait for a look-up; one more is answered with what is known."""


class UnknownPartitions:
    """Looks up topics, and tells why a partition cannot be had here."""

    def __init__(self, partitions: Partitions, topics: TopicCache) -> None:
        self._partitions = partitions
        self._topics = topics
        self._looking_up: set[asyncio.Task[None]] = set()

    def look_up_first(self, queries: Iterable[TopicQuery], then: Callable[[], None]) -> None:
        """Call ``then`` after a look-up of the unknown topics at the controller; at once if all are known."""
        unknown = [query for query in dict.fromkeys(queries) if not self._is_settled(query)]
        if not unknown or len(self._looking_up) >= LOOK_UPS_MAX:
            then()
            return
        task = asyncio.get_running_loop().create_task(self._look_up(unknown, then))
        self._looking_up.add(task)
        task.add_done_callback(self._looking_up.discard)

    def code(self, topic: str, index: int) -> ErrorCode:
        """Why the partition is not served here."""
        if self._partitions.is_offline(topic, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return self._code(self._topics.find(topic), index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def code_by_id(self, topic_id: uuid.UUID, index: int) -> ErrorCode:
        """The same by the topic's id."""
        found = self._topics.find_by_id(topic_id)
        if found is not None and found.name is not None and self._partitions.is_offline(found.name, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return self._code(found, index, ErrorCode.UNKNOWN_TOPIC_ID)

    async def stop(self) -> None:
        """Give up what is under way."""
        for task in tuple(self._looking_up):
            task.cancel()
        await asyncio.gather(*self._looking_up, return_exceptions=True)

    async def _look_up(self, unknown: list[TopicQuery], then: Callable[[], None]) -> None:
        await self._topics.look_up(unknown)
        then()

    def _is_settled(self, query: TopicQuery) -> bool:
        """The topic is known, and what it places here is hosted under its settings, or cannot be."""
        found = self._find(query)
        if found is None or found.name is None:
            return False
        name = found.name
        return all(
            self._partitions.broker_id not in each.replica_nodes
            or self._is_hosted(name, each.partition_index)
            or self._partitions.is_offline(name, each.partition_index)
            for each in found.partitions
        )

    def _is_hosted(self, topic: str, index: int) -> bool:
        found = self._partitions.find(topic, index)
        return found is not None and found.is_configured

    def _find(self, query: TopicQuery) -> TopicMetadata | None:
        if query.name is not None:
            return self._topics.find(query.name)
        return None if query.topic_id is None else self._topics.find_by_id(query.topic_id)

    def _code(self, topic: TopicMetadata | None, index: int, unknown: ErrorCode) -> ErrorCode:
        if topic is None:
            # It is not certain whether the topic exists: the client requests metadata, and tries again.
            is_certain = self._topics.is_certain and self._partitions.recovered
            return unknown if is_certain else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= index < len(topic.partitions):  # they are numbered from 0, without a gap
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
