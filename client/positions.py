"""Where a consumer begins: at a committed offset, or where ``auto_offset_reset`` says."""

from collections.abc import Mapping
from typing import Final

from fencepost.client import group_offsets
from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import refused
from fencepost.client.fetcher import Fetcher
from fencepost.client.list_offsets import list_offsets
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.network import Network
from fencepost.client.types import OffsetAndTimestamp, TopicPartition
from fencepost.wire.k02_list_offsets import EARLIEST, LATEST
from fencepost.wire.requests import ErrorCode

RESETS: Final[Mapping[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""The time that ListOffsets is sent for each ``auto_offset_reset``."""


class Positions:
    """Gives partitions their positions. ``reset`` None: a partition without one is refused."""

    def __init__(
        self,
        network: Network,
        metadata: ClusterMetadata,
        coordinator: Coordinator | None,
        *,
        reset: int | None,
        isolation_level: int,
        timeout_s: float,
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._coordinator = coordinator  # of the group, if there is one
        self._reset = reset
        self._isolation_level = isolation_level
        self._timeout_s = timeout_s
        self._out_of_range: set[TopicPartition] = set()

    def out_of_range(self, partition: TopicPartition) -> None:
        """The log does not have the position any more, or not yet: the committed one is of no use."""
        self._out_of_range.add(partition)

    async def ensure(self, fetcher: Fetcher) -> None:
        """Look up the positions that are not known. Raises Refused, NotReachable, UnknownTopic."""
        unknown = {each: state.turn for each, state in fetcher.partitions.items() if state.position is None}
        if not unknown:
            return
        for topic in sorted({partition.topic for partition in unknown}):
            await self._metadata.await_topic(topic, self._timeout_s)
        found: dict[TopicPartition, int] = {}
        if self._coordinator is not None:
            wanted = [each for each in unknown if each not in self._out_of_range]
            if wanted:
                rows = await group_offsets.committed(
                    self._coordinator, self._coordinator.key, wanted, timeout_s=self._timeout_s
                )
                found = {partition: row.offset for partition, row in rows.items()}
        missing = [partition for partition in unknown if partition not in found]
        if missing:
            if self._reset is None:
                names = ", ".join(map(str, sorted(missing)[:10]))
                raise refused(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"no position, and auto_offset_reset is none: {names}"
                )
            reset = self._reset
            ends = await self.list_offsets(dict.fromkeys(missing, reset))
            found |= {partition: row.offset for partition, row in ends.items()}
        for partition, offset in found.items():
            state = fetcher.partitions.get(partition)
            if state is not None and state.position is None and state.turn == unknown[partition]:
                state.move(offset)
                self._out_of_range.discard(partition)
        fetcher.wake()

    async def list_offsets(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """As ``list_offsets.list_offsets``, at the consumer's isolation level."""
        return await list_offsets(
            self._network,
            self._metadata,
            times_ms,
            isolation_level=self._isolation_level,
            timeout_s=self._timeout_s,
        )
