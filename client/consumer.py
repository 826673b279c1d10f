"""The consumer that applications import: partitions assigned by hand, or by a group.

Poll        gives records and moves positions past them; joins and rebalances of the group happen inside it,
            and nowhere else. Records of a partition come in their order.
Committed   nothing is committed by itself: ``commit``, or ``Producer.send_offsets_to_transaction``.
Loop        a consumer belongs to the event loop that it was started in; one call of ``poll`` at a time.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from fencepost.client import group_offsets
from fencepost.client.assignors import ASSIGNORS
from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import IllegalState, InvalidSetting, NotReachable
from fencepost.client.fetcher import Fetcher, FetchSettings
from fencepost.client.membership import GroupSettings, Membership
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.network import Network, NetworkSettings, Sasl, addresses
from fencepost.client.positions import RESETS, Positions
from fencepost.client.rebalances import RebalanceListener, Rebalances
from fencepost.client.types import (
    ConsumerRecord,
    GroupAssignment,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from fencepost.wire.k01_fetch import READ_COMMITTED, READ_UNCOMMITTED
from fencepost.wire.k02_list_offsets import EARLIEST, LATEST
from fencepost.wire.k10_find_coordinator import GROUP
from fencepost.wire.tls import Tls

ISOLATION: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
UNKNOWN_S_MAX: Final = 1.0
"""A topic that is new: not every broker knows it yet."""


class Consumer:
    """Reads records. ``async with Consumer("localhost:9092", group_id="g") as consumer: ...``

    ``bootstrap_servers``   ``host:port`` of some brokers, as a sequence or divided by commas.
    ``group_id``            the group of ``subscribe`` and of committed offsets.
    ``group_instance_id``   of a static member (KIP-345).
    ``auto_offset_reset``   earliest, latest or none: where to begin without a committed offset.
    ``isolation_level``     read_committed or read_uncommitted.
    ``max_poll_interval_ms``  without a poll for so long the member leaves its group.
    ``assignors``           range and roundrobin, the preferred one first.
    ``sasl``, ``tls``       user, password (and SCRAM-SHA-256 or -512); keys and authorities (``client.Tls``).
    """

    _coordinator: Coordinator | None = None
    _membership: Membership | None = None
    _rebalances: Rebalances | None = None
    _fetcher: Fetcher | None = None
    _closed = False

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        auto_offset_reset: str = "latest",
        isolation_level: str = "read_uncommitted",
        client_id: str = "fencepost-consumer",
        sasl: Sasl | None = None,
        tls: Tls | None = None,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        assignors: Sequence[str] = ("range", "roundrobin"),
        request_timeout_ms: int = 30_000,
        api_timeout_ms: int = 60_000,
    ) -> None:
        _require_known("isolation_level", (isolation_level,), ISOLATION)
        _require_known("auto_offset_reset", (auto_offset_reset,), RESETS)
        _require_known("assignor", assignors, ASSIGNORS)
        servers, request_s = addresses(bootstrap_servers), request_timeout_ms / 1000
        settings = NetworkSettings(
            bootstrap=servers, client_id=client_id, sasl=sasl, tls=tls, request_timeout_s=request_s
        )
        self._network = Network(settings, random.Random())
        self._metadata = ClusterMetadata(self._network, creates_topics=False)
        self._api_timeout_s = api_timeout_ms / 1000
        self._fetch_settings = FetchSettings(
            isolation_level=ISOLATION[isolation_level],
            min_bytes=fetch_min_bytes,
            max_wait_ms=fetch_max_wait_ms,
            bytes_max=fetch_max_bytes,
            partition_bytes_max=max_partition_fetch_bytes,
        )
        self._group_id, self._instance_id = group_id, group_instance_id
        if group_id is not None:
            self._belong_to(
                GroupSettings(
                    group_id=group_id,
                    instance_id=group_instance_id,
                    session_timeout_ms=session_timeout_ms,
                    heartbeat_interval_s=heartbeat_interval_ms / 1000,
                    max_poll_interval_ms=max_poll_interval_ms,
                    assignors=tuple(assignors),
                    request_timeout_s=request_s,
                )
            )
        self._positions = Positions(
            self._network,
            self._metadata,
            self._coordinator,
            reset=RESETS[auto_offset_reset],
            isolation_level=ISOLATION[isolation_level],
            timeout_s=self._api_timeout_s,
        )

    async def __aenter__(self) -> Self:
        """Start. Raises as ``start``."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def start(self) -> None:
        """Reach the cluster. Raises NotReachable."""
        if self._fetcher is not None or self._closed:
            raise IllegalState("the consumer was started before")
        try:
            await self._metadata.refresh(self._api_timeout_s)
        except BaseException:
            await self.close()
            raise
        self._fetcher = Fetcher(
            self._network, self._metadata, self._fetch_settings, self._positions.out_of_range
        )

    async def close(self) -> None:
        """Leave the group, unless the member is static, and close all connections. May be called again.

        Cancelled, or a listener raises: all is closed, but the group waits for the member's session to end.
        """
        if self._closed:
            return
        self._closed = True
        async with contextlib.AsyncExitStack() as ending:  # each of these, in the order from the last
            ending.push_async_callback(self._network.close)
            ending.push_async_callback(self._metadata.close)
            if self._fetcher is not None:
                ending.callback(self._fetcher.close)
            if self._rebalances is not None and self._membership is not None:
                ending.callback(self._membership.end_heartbeats)
                ending.push_async_callback(self._rebalances.leave, self._fetcher)

    # -- what is read ---------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's rebalances. Positions of those it had are kept."""
        fetcher = self._require_started()
        if self._is_subscribed:
            raise IllegalState("the consumer is subscribed; unsubscribe first")
        wanted = list(partitions)
        self._metadata.want(*{each.topic for each in wanted})
        fetcher.assign(wanted)

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener | None = None) -> None:
        """Read what the group assigns of these topics, one at least; the next poll joins it."""
        fetcher = self._require_started()
        names = sorted(set(topics))
        if self._rebalances is None:
            raise IllegalState("the consumer has no group_id")
        if not names or (fetcher.partitions and not self._is_subscribed):
            raise IllegalState("partitions are assigned by hand" if names else "no topic is given")
        self._rebalances.subscribe(names, listener)

    async def unsubscribe(self) -> None:
        """Leave the group, if it is a member, and read nothing."""
        fetcher = self._require_started()
        if self._rebalances is not None:
            await self._rebalances.leave(fetcher)
        fetcher.assign(())

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read, in ascending order."""
        return sorted(self._require_started().partitions)

    async def poll(self, *, timeout_ms: int = 1_000, max_records: int = 500) -> list[ConsumerRecord]:
        """Records, as soon as there are some; none if the time is over. Positions move past them.

        Raises Refused, FatalError (another member has the instance id), ClientError (a corrupt batch).
        """
        fetcher = self._require_started()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_ms / 1000
        while True:
            if self._rebalances is not None and self._is_subscribed:
                if not await self._rebalances.ensure_member(fetcher, until_s):
                    return []
            try:
                async with asyncio.timeout_at(until_s):
                    await self._positions.ensure(fetcher)
            except TimeoutError:
                return []
            records = fetcher.take(max_records)
            if records or loop.time() >= until_s:
                return records
            try:
                async with asyncio.timeout_at(until_s):
                    await fetcher.arrived.wait()
            except TimeoutError:
                return []

    async def partitions_for(self, topic: str) -> list[int]:
        """The topic's partitions, in ascending order. Raises UnknownTopic, Refused, NotReachable."""
        self._require_started()
        found = await self._metadata.await_topic(topic, self._api_timeout_s, UNKNOWN_S_MAX)
        return sorted(found.leaders)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records one by one, for ever."""
        return self._records()

    # -- positions ------------------------------------------------------------------------------------------

    async def position(self, partition: TopicPartition) -> int:
        """The next offset that ``poll`` gives of an assigned partition. Raises IllegalState, NotReachable."""
        fetcher = self._require_started()
        state = fetcher.partitions.get(partition)
        if state is None:
            raise IllegalState(f"{partition} is not assigned")
        if state.position is None:
            await self._positions.ensure(fetcher)
        if state.position is None:
            raise NotReachable(f"the position of {partition} is not known")
        return state.position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at ``offset``."""
        fetcher = self._require_started()
        if partition not in fetcher.partitions or offset < 0:
            raise IllegalState(f"{partition} is not assigned" if offset >= 0 else f"offset {offset}")
        fetcher.partitions[partition].move(offset)
        fetcher.wake()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first records of these partitions, or of all that are assigned."""
        for partition, offset in (await self.beginning_offsets(partitions or self.assignment())).items():
            self.seek(partition, offset)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on after the last records of these partitions, or of all that are assigned."""
        for partition, offset in (await self.end_offsets(partitions or self.assignment())).items():
            self.seek(partition, offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Give no records of these partitions until ``resume``."""
        self._set_paused(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Give records of these partitions again."""
        self._set_paused(partitions, paused=False)

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return sorted(each for each, state in self._require_started().partitions.items() if state.paused)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition. Raises NotReachable, UnknownTopic, Refused."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record; read committed: before the first open transaction."""
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record that is not older than a time, in ms since 1970; None if there is none."""
        self._require_started()
        found = await self._positions.list_offsets(times_ms)
        return {each: None if row.offset < 0 else row for each, row in found.items()}

    # -- the group ------------------------------------------------------------------------------------------

    def group_metadata(self) -> GroupMetadata:
        """Who the consumer is in its group now, for ``Producer.send_offsets_to_transaction``."""
        membership = self._membership
        if membership is None or self._group_id is None:
            raise IllegalState("the consumer has no group_id")
        if not self._is_subscribed:
            return GroupMetadata(self._group_id)
        return GroupMetadata(self._group_id, membership.generation, membership.member_id, self._instance_id)

    def group_assignment(self) -> GroupAssignment:
        """What the consumer was assigned in its group's generation, for ``Producer.init_transactions``."""
        return GroupAssignment(self.group_metadata(), tuple(sorted(self.assignment())))

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit the next offsets to read: these, or the positions. Raises CommitFailed, Refused."""
        fetcher, coordinator = self._require_started(), self._require_group()
        rows: dict[TopicPartition, OffsetAndMetadata] = {}
        if offsets is None:
            for partition, state in fetcher.partitions.items():
                if state.position is not None:
                    rows[partition] = OffsetAndMetadata(state.position)
        else:
            for partition, offset in offsets.items():
                rows[partition] = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        if rows:
            await group_offsets.commit(
                coordinator, rows, self.group_metadata(), timeout_s=self._api_timeout_s
            )

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without an offset are left out."""
        self._require_started()
        coordinator, group_id = self._require_group(), self._group_id or ""
        return await group_offsets.committed(coordinator, group_id, partitions, timeout_s=self._api_timeout_s)

    # -- the rest -------------------------------------------------------------------------------------------

    def _belong_to(self, group: GroupSettings) -> None:
        self._coordinator = Coordinator(self._network, GROUP, group.group_id)
        self._membership = Membership(self._coordinator, self._metadata, group, self._on_group_change)
        self._rebalances = Rebalances(self._membership, self._metadata)

    @property
    def _is_subscribed(self) -> bool:
        return self._rebalances is not None and bool(self._rebalances.topics)

    async def _records(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            for record in await self.poll():
                yield record

    async def _ends(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        self._require_started()
        found = await self._positions.list_offsets(dict.fromkeys(partitions, time_ms))
        return {partition: row.offset for partition, row in found.items()}

    def _set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        fetcher = self._require_started()
        for partition in partitions:
            if partition not in fetcher.partitions:
                raise IllegalState(f"{partition} is not assigned")
            fetcher.partitions[partition].paused = paused
        fetcher.wake()
        fetcher.arrived.set()

    def _on_group_change(self) -> None:
        if self._fetcher is not None:
            self._fetcher.arrived.set()

    def _require_started(self) -> Fetcher:
        if self._fetcher is None or self._closed:
            raise IllegalState("the consumer is closed" if self._closed else "the consumer is not started")
        return self._fetcher

    def _require_group(self) -> Coordinator:
        if self._coordinator is None:
            raise IllegalState("the consumer has no group_id")
        return self._coordinator


def _require_known(name: str, values: Iterable[str], known: Iterable[str]) -> None:
    for value in values:
        if value not in known:
            raise InvalidSetting(f"{name} {value!r}; expected one of {', '.join(known)}")
