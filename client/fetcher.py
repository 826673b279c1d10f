"""Fetches the partitions of an assignment from their leaders, ahead of the application.

In flight   one request to each node, of those of its partitions whose buffer has room: a slow node holds up
            no other. A request waits at the leader for ``min_bytes``, ``max_wait_ms`` at most.
Position    the offset after the last record given to the application. A seek, and a partition that was
            taken away, makes what is in flight void: its ``turn`` differs.
Bounds      BUFFERED_MAX answers of a partition wait; a partition's part of one is ``partition_bytes_max``.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from fencepost.client.errors import ClientError, refused
from fencepost.client.fetched_records import Shown, first_batch_bytes, shown
from fencepost.client.list_offsets import LEADERSHIP
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.network import Channel, Network
from fencepost.client.types import ConsumerRecord, TopicPartition
from fencepost.records.invariant import CorruptData
from fencepost.wire.connection import Connection, NotConnected
from fencepost.wire.k01_fetch import (
    FETCH,
    READ_COMMITTED,
    Fetch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
)
from fencepost.wire.requests import ApiError, ErrorCode

BUFFERED_MAX: Final = 2
BY_TOPIC_ID_FROM: Final = 13
RETRY_S: Final = 0.05
WAIT_SLACK_S: Final = 5.0  # beyond ``max_wait_ms``, until a leader counts as silent
PARTITION_BYTES_MAX: Final = 64 * 1024 * 1024  # that a fetch grows to for one large batch


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How records are fetched."""

    isolation_level: int
    min_bytes: int
    max_wait_ms: int
    bytes_max: int
    partition_bytes_max: int


@dataclass(slots=True, eq=False)
class Fetched:
    """One partition of the assignment. ``position`` None: not known yet, nothing is fetched."""

    partition: TopicPartition
    bytes_max: int
    position: int | None = None
    fetch_offset: int = -1  # the next one to ask for: ahead of the position by what is buffered
    paused: bool = False
    turn: int = 0
    in_flight: bool = False
    not_before_s: float = 0.0
    high_watermark: int = -1
    buffered: deque[Shown] = field(default_factory=deque)

    def move(self, offset: int | None) -> None:
        """Go on at another offset; what is buffered or in flight is void."""
        self.turn += 1
        self.position = offset
        self.fetch_offset = -1 if offset is None else offset
        self.buffered.clear()


class Fetcher:
    """The assignment's partitions and what was fetched of them."""

    def __init__(
        self,
        network: Network,
        metadata: ClusterMetadata,
        settings: FetchSettings,
        on_out_of_range: Callable[[TopicPartition], None],
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._settings = settings
        self._on_out_of_range = on_out_of_range
        self._loop = asyncio.get_running_loop()
        self._busy: set[int] = set()  # nodes with a request in flight, or a connection being opened
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[Connection]] = set()
        self.partitions: dict[TopicPartition, Fetched] = {}
        self.arrived = asyncio.Event()
        """Something may be there for ``take``: records, or an error."""
        self.errors: deque[Exception] = deque()
        metadata.on_change.append(self.wake)

    def assign(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Fetch these and no others. Returns those that are new: their position is not known."""
        wanted = list(dict.fromkeys(partitions))
        new = [each for each in wanted if each not in self.partitions]
        bytes_max = self._settings.partition_bytes_max
        self.partitions = {each: self.partitions.get(each) or Fetched(each, bytes_max) for each in wanted}
        self.wake()
        return new

    def wake(self) -> None:
        """Look soon what can be fetched."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def take(self, count_max: int) -> list[ConsumerRecord]:
        """Records that are here, at most ``count_max``; positions move past them. Raises what went wrong."""
        if self.errors:
            raise self.errors.popleft()
        taken: list[ConsumerRecord] = []
        for state in self.partitions.values():
            while state.buffered and not state.paused and len(taken) < count_max:
                part = state.buffered.popleft()
                room = count_max - len(taken)
                if len(part.records) <= room:
                    taken += part.records
                    state.position = part.next_offset
                else:
                    taken += part.records[:room]
                    state.position = part.records[room].offset
                    state.buffered.appendleft(Shown(part.records[room:], part.next_offset))
        if len(self.partitions) > 1 and taken:  # the next call begins with another partition
            first = next(iter(self.partitions))
            self.partitions[first] = self.partitions.pop(first)
        self.arrived.clear()
        if taken or self.errors:
            self.wake()
        return taken

    def close(self) -> None:
        """Fetch nothing any more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    # -- requests -------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        now_s = self._loop.time()
        by_node: dict[int, list[Fetched]] = {}
        wake_s, leaderless = float("inf"), False
        for state in self.partitions.values():
            if (
                state.position is None
                or state.paused
                or state.in_flight
                or len(state.buffered) >= BUFFERED_MAX
            ):
                continue
            if state.not_before_s > now_s:
                wake_s = min(wake_s, state.not_before_s)
                continue
            leader = self._metadata.leader(state.partition)
            if leader is None:
                leaderless = True
            elif leader.node_id not in self._busy:
                by_node.setdefault(leader.node_id, []).append(state)
        if leaderless:
            self._metadata.refresh_soon()
        for node_id, states in by_node.items():
            self._fetch(node_id, states)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(wake_s, self.wake) if wake_s < float("inf") else None

    def _fetch(self, node_id: int, states: list[Fetched]) -> None:
        self._busy.add(node_id)
        connection = self._network.ready(node_id, Channel.DATA)
        if connection is None:
            task = asyncio.ensure_future(self._network.connection(node_id, Channel.DATA))
            self._tasks.add(task)
            task.add_done_callback(partial(self._on_opened, node_id))
            return
        settings = self._settings
        rows = tuple(self._row(state) for state in states)
        request = Fetch(
            -1,
            settings.max_wait_ms,
            settings.min_bytes,
            settings.bytes_max,
            settings.isolation_level,
            0,
            -1,
            rows,
        )
        turns = [(state, state.turn) for state in states]
        for state in states:
            state.in_flight = True
        on_reply = partial(self._on_reply, node_id, turns)
        try:
            version = connection.version_for(FETCH)
            if any(row.topic_id is None for row in rows):
                version = min(version, BY_TOPIC_ID_FROM - 1)
            silent_s = settings.max_wait_ms / 1000 + WAIT_SLACK_S
            connection.ask(FETCH, request, on_reply, timeout_s=silent_s, version=version)
        except (NotConnected, ApiError) as error:
            self._loop.call_soon(on_reply, error)

    def _row(self, state: Fetched) -> FetchPartition:
        topic = self._metadata.topic(state.partition.topic)
        return FetchPartition(
            state.partition.topic,
            None if topic is None else topic.topic_id,
            state.partition.partition,
            -1,
            state.fetch_offset,
            -1,
            -1,
            state.bytes_max,
        )

    def _on_opened(self, node_id: int, task: "asyncio.Task[Connection]") -> None:
        self._tasks.discard(task)
        self._busy.discard(node_id)
        if task.cancelled() or self._closed:
            return
        error = task.exception()
        if error is None:
            self.wake()
        elif isinstance(error, ApiError):
            self._report(refused(int(error.code), f"node {node_id}: {error}"))
        else:
            self._metadata.refresh_soon()
            self._loop.call_later(RETRY_S, self.wake)

    # -- answers --------------------------------------------------------------------------------------------

    def _on_reply(
        self, node_id: int, turns: list[tuple[Fetched, int]], outcome: FetchAnswer | Exception
    ) -> None:
        self._busy.discard(node_id)
        later_s = self._loop.time() + RETRY_S
        for state, _ in turns:
            state.in_flight = False
        if isinstance(outcome, Exception) or outcome.error_code != ErrorCode.NONE:
            for state, _ in turns:
                state.not_before_s = later_s
            self._metadata.refresh_soon()
        else:
            current = {state.partition: state for state, turn in turns if state.turn == turn}
            for row in outcome.partitions:
                name = row.topic if row.topic_id is None else self._metadata.name_of(row.topic_id)
                answered = current.get(TopicPartition(name or "", row.index))
                if answered is not None and self.partitions.get(answered.partition) is answered:
                    self._on_row(answered, row, later_s)
        self.wake()

    def _on_row(self, state: Fetched, row: FetchedPartition, later_s: float) -> None:
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            state.move(None)
            self._on_out_of_range(state.partition)
        elif row.error_code in LEADERSHIP:
            state.not_before_s = later_s
            self._metadata.refresh_soon()
        elif row.error_code != ErrorCode.NONE:
            state.not_before_s = later_s
            self._report(refused(row.error_code, f"fetch of {state.partition}"))
        else:
            state.high_watermark = row.high_watermark
            self._keep(state, row, later_s)

    def _keep(self, state: Fetched, row: FetchedPartition, later_s: float) -> None:
        is_committed = self._settings.isolation_level == READ_COMMITTED
        try:
            part = shown(
                state.partition,
                row.records,
                state.fetch_offset,
                (row.aborted or ()) if is_committed else None,
            )
        except CorruptData as error:
            state.not_before_s = later_s
            self._report(ClientError(f"{state.partition} at offset {state.fetch_offset}: {error}"))
            return
        if part.next_offset == state.fetch_offset:
            needed = first_batch_bytes(row.records)
            state.bytes_max = max(state.bytes_max, min(needed, PARTITION_BYTES_MAX))
            return
        state.fetch_offset = part.next_offset
        if not part.records and not state.buffered:
            state.position = part.next_offset  # markers, and what was aborted
            return
        state.buffered.append(part)
        self.arrived.set()

    def _report(self, error: Exception) -> None:
        self.errors.append(error)
        self.arrived.set()
