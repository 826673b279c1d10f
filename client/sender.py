"""Sends batches to the leaders of their partitions, and learns what became of them.

Driven      by events on the loop: a record, an answer, new metadata, a timer. No task, and no wait, for a
            request that is sent on an open connection.
Outcome     a batch that may have been written is sent again with its sequence until the answer is known. If
            ``delivery_timeout_ms`` ends before that, a transaction must abort, and a producer without
            transactions ends (OutcomeUnknown): it never skips a batch that may be in the log.
Bounds      IN_FLIGHT_MAX requests on a connection, ``buffer_memory`` bytes of records (client/buffer.py).
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from fencepost.client.backoff import BACKOFF_S_MAX, BACKOFF_S_MIN
from fencepost.client.batches import IN_FLIGHT_MAX, Batch, Lane, ProducerIdentity
from fencepost.client.buffer import BufferMemory
from fencepost.client.errors import ClientError, OutcomeUnknown
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.network import LOST, Channel, Network
from fencepost.client.produce_errors import Verdict, error_of, too_late, verdict_of
from fencepost.client.sender_rules import Rules, SenderSettings, request_of
from fencepost.client.types import RecordMetadata, TopicPartition
from fencepost.records.batch import Header
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.wire.connection import Connection, NotConnected
from fencepost.wire.k00_produce import PRODUCE, PartitionProduced, ProduceAnswer
from fencepost.wire.requests import ApiError, ErrorCode

SWEEP_S: Final = 0.5  # how often batches are looked at that may be too old
CONCURRENT_S: Final = 0.005  # until a batch is sent again that waits for the markers of the last transaction


class Sender:
    """All batches of one producer that have no outcome yet."""

    def __init__(
        self, network: Network, metadata: ClusterMetadata, settings: SenderSettings, rules: Rules
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._settings = settings
        self._rules = rules
        self._transactional = rules.transactional_id is not None
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[TopicPartition, Lane] = {}
        self._active: dict[TopicPartition, Lane] = {}  # those with a queue
        self._identity = ProducerIdentity()
        self._node_in_flight: dict[int, int] = {}
        self._opening: dict[int, asyncio.Task[Connection]] = {}
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._flushing = 0
        self.buffer = BufferMemory(settings.buffer_bytes)
        self._incomplete: dict[Batch, None] = {}
        self._drained: list[asyncio.Future[None]] = []
        self._over: Exception | None = None
        self._discarded: Exception | None = None  # why the transaction aborts that batches are of
        metadata.on_change.append(self.wake)

    # -- what the producer calls ----------------------------------------------------------------------------

    def adopt(self, identity: ProducerIdentity) -> None:
        """Write with this identity from now on. No batch is without its outcome. A new one begins at 0."""
        self._discarded = None
        if identity != self._identity:
            self._identity = identity
            for lane in self._lanes.values():
                lane.identity = None
                lane.needs_identity = False
        self.wake()

    def renew(self, identity: ProducerIdentity) -> None:
        """A new identity for the partitions that lost a sequence number."""
        self._identity = identity
        for lane in self._lanes.values():
            if lane.needs_identity and not lane.in_flight:
                lane.identity = None
                lane.needs_identity = False
        self.wake()

    def append(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int,
        size: int,
    ) -> tuple["asyncio.Future[RecordMetadata]", bool]:
        """Queue a record. Returns the future of its place, and whether it began a batch after a full one."""
        if self._over is not None:
            raise self._over
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(partition)
        batch = lane.open_batch(size, self._settings.batch_bytes)
        was_full = batch is None and bool(lane.queue)
        if batch is None:
            batch = lane.new_batch(self._settings.codec, self._loop.time())
            self._incomplete[batch] = None
            self._active[partition] = lane
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        before = batch.builder.size
        batch.append(key, value, headers, timestamp_ms, future)
        self.buffer.used += batch.builder.size - before
        if not self._scheduled:
            self.wake()
        return future, was_full

    def wake(self) -> None:
        """Look soon what can be sent."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    async def flush(self) -> None:
        """Return when each batch that is here now has its outcome."""
        waited = [batch.futures[-1] for batch in self._incomplete]
        self._flushing += 1
        self.wake()
        try:
            if waited:
                await asyncio.wait(waited)
        finally:
            self._flushing -= 1

    async def drain(self) -> None:
        """Return when no batch is without its outcome. Records that come meanwhile are waited for, too."""
        self._flushing += 1
        self.wake()
        try:
            while self._incomplete:
                done: asyncio.Future[None] = self._loop.create_future()
                self._drained.append(done)
                await done
        finally:
            self._flushing -= 1

    def discard(self, error: Exception) -> None:
        """Give up what is not in flight: the transaction aborts. What is in flight is not sent again."""
        self._discarded = error
        for lane in self._lanes.values():
            unsent = [*lane.queue, *lane.failed]
            lane.queue.clear()
            lane.failed = []
            for batch in unsent:
                self._complete(batch, error)

    def end(self, error: Exception) -> None:
        """Take no record any more; those that wait fail with ``error``."""
        if self._over is not None:
            return
        self._over = error
        self.discard(error)
        for lane in self._lanes.values():
            for batch in list(lane.in_flight.values()):
                self._complete(batch, error)
            lane.in_flight.clear()
        self.buffer.end(error)
        for timer in (self._timer, self._sweeper):
            if timer is not None:
                timer.cancel()

    # -- sending --------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        self._scheduled = False
        if self._over is not None:
            return
        now_s = self._loop.time()
        by_node: dict[int, list[Lane]] = {}
        wake_s = float("inf")
        leaderless = False
        for partition, lane in list(self._active.items()):
            if not lane.queue:
                del self._active[partition]
                continue
            if not lane.may_send(self._identity, now_s):
                continue
            ready_s = max(lane.not_before_s, self._lingers_until(lane))
            if ready_s > now_s:
                wake_s = min(wake_s, ready_s)
            elif self._rules.may_send(partition):
                leader = self._metadata.leader(partition)
                if leader is None:
                    leaderless = True
                else:
                    by_node.setdefault(leader.node_id, []).append(lane)
        if leaderless:
            self._metadata.refresh_soon()
        for node_id, lanes in by_node.items():
            self._send_to(node_id, lanes)
        self._set_timers(now_s, wake_s)

    def _lingers_until(self, lane: Lane) -> float:
        """When the first batch of the lane is to be sent, full or not."""
        batch = lane.queue[0]
        if self._flushing or len(lane.queue) > 1 or batch.attempts or self.buffer.has_waiting:
            return 0.0
        is_full = batch.builder.size >= self._settings.batch_bytes
        return 0.0 if is_full else batch.created_s + self._settings.linger_s

    def _set_timers(self, now_s: float, wake_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_s < float("inf"):
            self._timer = self._loop.call_at(wake_s, self.wake)
        if self._incomplete and self._sweeper is None:
            self._sweeper = self._loop.call_at(now_s + SWEEP_S, self._sweep)

    def _send_to(self, node_id: int, lanes: list[Lane]) -> None:
        connection = self._network.ready(node_id, Channel.DATA)
        if connection is None:
            self._open(node_id)
            return
        lanes = list(lanes)
        while lanes and self._node_in_flight.get(node_id, 0) < IN_FLIGHT_MAX:
            batches: list[Batch] = []
            size = 0
            for lane in lanes:
                following = lane.queue[0].builder.size
                if batches and size + following > self._settings.request_bytes_max:
                    break
                size += following
                batches.append(lane.take(self._identity))
            self._send(node_id, connection, batches)
            now_s = self._loop.time()
            lanes = [each for each in lanes if self._may_go_on(each, now_s)]

    def _may_go_on(self, lane: Lane, now_s: float) -> bool:
        return lane.may_send(self._identity, now_s) and self._lingers_until(lane) <= now_s

    def _send(self, node_id: int, connection: Connection, batches: list[Batch]) -> None:
        timeout_s = self._settings.request_timeout_s
        self._node_in_flight[node_id] = self._node_in_flight.get(node_id, 0) + 1
        on_reply = partial(self._on_reply, node_id, batches)
        try:
            request = request_of(self._rules, batches, timeout_s)
            connection.ask(PRODUCE, request, on_reply, timeout_s=timeout_s)
        except (NotConnected, ApiError) as error:
            self._loop.call_soon(on_reply, error)

    def _open(self, node_id: int) -> None:
        if node_id in self._opening:
            return
        task = asyncio.ensure_future(self._network.connection(node_id, Channel.DATA))
        self._opening[node_id] = task
        task.add_done_callback(partial(self._on_opened, node_id))

    def _on_opened(self, node_id: int, task: "asyncio.Task[Connection]") -> None:
        self._opening.pop(node_id, None)
        if task.cancelled() or self._over is not None:
            return
        error = task.exception()
        if isinstance(error, ApiError):
            self._rules.on_refused(ClientError(f"node {node_id}: {error}", error.code))
        elif error is not None:
            self._metadata.refresh_soon()
            self._loop.call_later(BACKOFF_S_MIN * 5, self.wake)
            return
        self.wake()

    # -- answers --------------------------------------------------------------------------------------------

    def _on_reply(self, node_id: int, batches: list[Batch], outcome: ProduceAnswer | Exception) -> None:
        self._node_in_flight[node_id] -= 1
        if self._over is not None:
            return
        if isinstance(outcome, Exception):
            self._on_lost(batches, outcome)
        else:
            rows = {(row.topic, row.index): row for row in outcome.partitions}
            for batch in batches:
                row = rows.get(batch.partition)
                if row is None:  # an answer without it says nothing of it
                    row = PartitionProduced(*batch.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
                self._on_row(batch, row)
        for batch in batches:
            self._settle(self._lanes[batch.partition])
        self.wake()

    def _on_lost(self, batches: list[Batch], error: Exception) -> None:
        for batch in batches:
            if isinstance(error, LOST):
                batch.maybe_written = batch.maybe_written or not isinstance(error, NotConnected)
                self._retry(batch)
            else:
                self._give_up(batch, ClientError(f"{batch.partition}: {error}"))
        self._metadata.refresh_soon()

    def _on_row(self, batch: Batch, row: PartitionProduced) -> None:
        lane = self._lanes[batch.partition]
        verdict = verdict_of(row.error_code)
        if verdict is Verdict.OUT_OF_ORDER:
            is_gap = lane.needs_identity or not lane.is_first(batch)
            verdict = Verdict.RETRY if is_gap else Verdict.REFUSED
        if verdict is Verdict.WRITTEN:
            lane.written(batch, self._loop.time())
            batch.succeed(row.base_offset, row.log_append_time_ms, batch.builder.max_timestamp_ms)
            self._complete(batch, None)
        elif verdict is Verdict.REFUSED:
            what = str(batch.partition)
            error = error_of(row.error_code, what, row.error_message, transactional=self._transactional)
            self._give_up(batch, error)
        else:
            batch.maybe_written = batch.maybe_written or verdict is Verdict.RETRY_UNKNOWN
            if row.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._metadata.refresh_soon()
                self._retry(batch)
            else:
                self._retry(batch, CONCURRENT_S)

    def _retry(self, batch: Batch, pause_s: float | None = None) -> None:
        lane = self._lanes[batch.partition]
        now_s = self._loop.time()
        if self._discarded is not None:
            lane.in_flight.pop(batch.number, None)
            self._complete(batch, self._discarded)
            return
        if now_s - batch.created_s > self._settings.delivery_timeout_s:
            self._give_up(
                batch,
                too_late(
                    batch.partition, self._settings.delivery_timeout_s, transactional=self._transactional
                ),
            )
            return
        lane.in_flight.pop(batch.number, None)
        lane.failed.append(batch)
        if pause_s is None:
            lane.attempts += 1
            pause_s = min(BACKOFF_S_MIN * 2 ** min(lane.attempts, 10), BACKOFF_S_MAX)
            pause_s = self._network.rng.uniform(pause_s / 2, pause_s)
        lane.not_before_s = now_s + pause_s

    def _give_up(self, batch: Batch, error: Exception) -> None:
        lane = self._lanes[batch.partition]
        lane.in_flight.pop(batch.number, None)
        if not self._transactional and batch.maybe_written:
            error = OutcomeUnknown(
                f"{batch.partition}: {batch.builder.count} records may have been written or not: {error}"
            )
        elif batch.sequence >= 0:
            lane.needs_identity = True
        self._complete(batch, error)
        self._rules.on_refused(error)

    def _settle(self, lane: Lane) -> None:
        """When all that was sent of a lane is answered: what failed is queued again."""
        if lane.in_flight or self._over is not None:
            return
        if lane.failed:
            lane.put_back()
            self._active[lane.partition] = lane
        if lane.needs_identity and not self._transactional:
            for batch in lane.queue:
                if batch.maybe_written:
                    lost = f"{lane.partition}: a record was refused, and one behind it may have been written"
                    self._rules.on_refused(OutcomeUnknown(lost))
                    return
                if batch.sequence >= 0:
                    batch.forget_sequence()
            self._rules.on_sequence_lost()

    def _complete(self, batch: Batch, error: Exception | None) -> None:
        if error is not None:
            batch.fail(error, silent=self._transactional)
        if batch not in self._incomplete:
            return
        del self._incomplete[batch]
        self.buffer.release(batch.builder.size - HEADER_BYTES)
        if not self._incomplete:
            for done in self._drained:
                if not done.done():
                    done.set_result(None)
            self._drained.clear()

    def _sweep(self) -> None:
        """Give up what waits in a queue for too long."""
        self._sweeper = None
        oldest_s = self._loop.time() - self._settings.delivery_timeout_s
        for lane in list(self._active.values()):
            while (
                lane.queue and lane.queue[0].created_s < oldest_s and not lane.in_flight and not lane.failed
            ):
                batch = lane.queue.popleft()
                self._give_up(
                    batch,
                    too_late(
                        batch.partition, self._settings.delivery_timeout_s, transactional=self._transactional
                    ),
                )
                self._settle(lane)
        if self._incomplete and self._over is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
