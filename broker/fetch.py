"""Fetch: whole batches from the segment files of the partitions that are hosted here.

Reads       up to the high watermark; read committed, up to the last stable offset, with the aborted
            transactions in what is read. What a broker has it sends: the client skips aborted records.
Waits       until ``min_bytes`` can be read, some partition has an error, or the time is up. Who waits
            stands in the set of each of its partitions and has one timer of the loop: no task.
Slices      of more than READS_MAX partitions the loop is free after each READS_MAX. While such a fetch
            waits it looks again at once when a partition moves, then at most every PAUSE_S.
Bounded     RESPONSE_BYTES_MAX in one answer, but a first batch that is larger comes whole (KIP-74). While
            clients leave so many replies unread that there is no ``reply_room``, none is added: it waits.
Source      Kafka ReplicaManager.fetchMessages, DelayedFetch; docs/kafka-notes.md C4, F4.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions
from fencepost.broker.unknown_partitions import UnknownPartitions
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k01_fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    Fetch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
)
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.slices import Slices
from fencepost.wire.stalls import Stalls

RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Read and sent in one turn of the loop, so far below Kafka's fetch.max.bytes (55 MiB)."""

WAIT_MS_MAX: Final = 600_000  # a client that wants to wait longer sends a new request
READS_MAX: Final = 200  # partitions read between two turns of the loop: some 8 ms
PAUSE_S: Final = 0.05
WAITING_MAX: Final = 20_000  # fetches; one more is answered at once with what there is


class FetchEndpoint:
    """The endpoint of Fetch (API key 1)."""

    def __init__(
        self,
        partitions: Partitions,
        unknown: UnknownPartitions,
        reply_room: Callable[[], int] = lambda: RESPONSE_BYTES_MAX,
        *,
        stalls: Stalls,
    ) -> None:
        self._partitions = partitions
        self._unknown = unknown
        self._reply_room = reply_room
        self._stalls = stalls
        self.loop = asyncio.get_running_loop()
        self.waiting: set[_Parked] = set()

    def fetch(self, request: Fetch, context: Context, reply: Reply[FetchAnswer]) -> None:
        """Serve Fetch: records at once, or when there are enough or the time is up."""
        missing = [
            TopicQuery(each.topic, each.topic_id) for each in request.partitions if self._find(each) is None
        ]
        if missing:
            self._unknown.look_up_first(missing, lambda: self._serve(request, reply))
        else:
            self._serve(request, reply)

    def stop(self) -> None:
        """Answer those who wait with what there is."""
        for each in tuple(self.waiting):
            each.stop()

    def _find(self, requested: FetchPartition) -> Partition | None:
        if requested.topic is not None:
            return self._partitions.find(requested.topic, requested.index)
        if requested.topic_id is not None:
            return self._partitions.find_by_id(requested.topic_id, requested.index)
        return None

    def _code(self, requested: FetchPartition) -> ErrorCode:
        """Why it is not here."""
        if requested.topic is not None:
            return self._unknown.code(requested.topic, requested.index)
        if requested.topic_id is not None:
            return self._unknown.code_by_id(requested.topic_id, requested.index)
        return ErrorCode.UNKNOWN_TOPIC_ID

    def _serve(self, request: Fetch, reply: Reply[FetchAnswer]) -> None:
        """Send the response now, or park the request."""
        if len(request.partitions) > READS_MAX:
            _Large(self, request, reply, self._stalls).begin()
            return
        rows = self._read(request)
        wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
        if wait_ms <= 0 or len(self.waiting) >= WAITING_MAX or _is_enough(request, rows):
            reply(FetchAnswer(partitions=rows))
            return
        waiting = _Waiting(self, lambda: self._read(request), request, reply, self._hosted(request))
        waiting.timer = self.loop.call_later(wait_ms / 1000, waiting.expire)

    def _hosted(self, request: Fetch) -> set[Partition]:
        return {found for each in request.partitions if (found := self._find(each)) is not None}

    def _read(self, request: Fetch) -> tuple[FetchedPartition, ...]:
        rows: list[FetchedPartition] = []
        for _ in self._reads(request, rows):
            pass
        return tuple(rows)

    def _reads(self, request: Fetch, rows: list[FetchedPartition]) -> Iterator[None]:
        """Fill ``rows``. Yields after each READS_MAX."""
        room = self._reply_room()
        left = min(request.max_bytes, RESPONSE_BYTES_MAX, room)
        at_least_one = room > 0
        for requested in request.partitions:
            if rows and len(rows) % READS_MAX == 0:
                yield
                room = self._reply_room()
                left = min(left, room)
                at_least_one = at_least_one and room > 0
            row = self._read_one(requested, request.isolation_level, left, at_least_one=at_least_one)
            left -= len(row.records)
            at_least_one = at_least_one and not row.records
            rows.append(row)

    def _read_one(
        self,
        requested: FetchPartition,
        isolation_level: int,
        bytes_max: int,
        *,
        at_least_one: bool,
    ) -> FetchedPartition:
        partition = self._find(requested)
        if partition is None:
            code = self._code(requested)
            return FetchedPartition(requested.topic, requested.topic_id, requested.index, code)
        code = epoch_error(partition, requested.current_leader_epoch)
        if code != ErrorCode.NONE:
            return FetchedPartition(requested.topic, requested.topic_id, requested.index, code)
        log = partition.log
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        is_committed = isolation_level == READ_COMMITTED
        upper = stable if is_committed else high_watermark
        offset = Offset(requested.fetch_offset)
        records = b""
        aborted: tuple[AbortedTransaction, ...] | None = () if is_committed else None
        if not log.start <= offset <= log.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif offset < upper and (bytes_max > 0 or at_least_one):
            bytes_max = max(0, min(bytes_max, requested.max_bytes))
            try:
                if is_committed:
                    records, found = log.read_committed(offset, bytes_max, at_least_one=at_least_one)
                    aborted = tuple(AbortedTransaction(*each) for each in found)
                else:
                    records = log.read(offset, bytes_max, upper, at_least_one=at_least_one)
            except ApiError as error:
                code = error.code
            except (OSError, CorruptData) as error:
                self._partitions.fail(partition, error, doing="read")
                code = ErrorCode.KAFKA_STORAGE_ERROR
        return FetchedPartition(
            requested.topic,
            requested.topic_id,
            requested.index,
            code,
            high_watermark,
            stable,
            log.start,
            aborted,
            records,
        )


class _Parked(Protocol):
    """A fetch request that is parked until there is enough to send."""

    def stop(self) -> None:
        """Answer now, with what there is."""


class _Waiting:
    """One fetch that waits. Answered once: by ``partition_moved`` or by ``expire``."""

    __slots__ = ("_endpoint", "_partitions", "_read", "_reply", "_request", "timer")

    def __init__(
        self,
        endpoint: FetchEndpoint,
        read: Callable[[], tuple[FetchedPartition, ...]],
        request: Fetch,
        reply: Reply[FetchAnswer],
        partitions: set[Partition],
    ) -> None:
        self._endpoint = endpoint
        self._read = read
        self._request = request
        self._reply = reply
        self._partitions = partitions
        self.timer: asyncio.TimerHandle | None = None
        endpoint.waiting.add(self)
        for partition in partitions:
            partition.waiting.add(self)

    def partition_moved(self) -> None:
        """Look again; answer if it is enough."""
        if self not in self._endpoint.waiting:
            return
        rows = self._read()
        if _is_enough(self._request, rows):
            self._answer(rows)

    def expire(self) -> None:
        """The time is up: answer with what there is."""
        self._answer(self._read())

    def stop(self) -> None:
        """Implements ``_Parked.stop``."""
        self.expire()

    def _answer(self, rows: tuple[FetchedPartition, ...]) -> None:
        self._endpoint.waiting.discard(self)
        for partition in self._partitions:
            partition.waiting.discard(self)
        if self.timer is not None:
            self.timer.cancel()
        self._reply(FetchAnswer(partitions=rows))


class _Large:
    """One fetch of many partitions, read in slices, over and over until it is enough. Answered once."""

    __slots__ = (
        "_endpoint", "_expiry", "_has_moved", "_is_due", "_is_over", "_is_pausing", "_is_reading",
        "_partitions", "_pause", "_pause_s", "_reply", "_request", "_stalls",
    )  # fmt: skip

    def __init__(
        self, endpoint: FetchEndpoint, request: Fetch, reply: Reply[FetchAnswer], stalls: Stalls
    ) -> None:
        self._endpoint = endpoint
        self._request = request
        self._reply = reply
        self._stalls = stalls
        self._partitions: set[Partition] = set()
        self._expiry: asyncio.Handle | None = None
        self._pause: asyncio.Handle | None = None
        self._is_due = self._is_reading = self._is_pausing = self._has_moved = self._is_over = False
        self._pause_s = 0.0  # after a read that is not enough

    def begin(self) -> None:
        """Read, and wait if that is not enough. What moves from now on is noticed."""
        endpoint, request = self._endpoint, self._request
        wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
        self._is_due = wait_ms <= 0 or len(endpoint.waiting) >= WAITING_MAX
        if not self._is_due:
            self._partitions = endpoint._hosted(request)
            endpoint.waiting.add(self)
            for partition in self._partitions:
                partition.waiting.add(self)
            self._expiry = endpoint.loop.call_later(wait_ms / 1000, self._expire)
        self._look()

    def partition_moved(self) -> None:
        """Count the partition's bytes again, soon: something was appended or cut."""
        self._has_moved = True
        if not self._is_pausing:
            self._look()

    def stop(self) -> None:
        """See _Parked. In one go: nothing else is to be done."""
        self._answer(self._endpoint._read(self._request))

    def _expire(self) -> None:
        self._is_due = True
        self._look()

    def _look(self) -> None:
        if not (self._is_over or self._is_reading):
            self._is_reading = True
            Slices("Fetch", self._steps(), self._reply, self._stalls).start()

    def _steps(self) -> Iterator[None]:
        self._has_moved = False
        rows: list[FetchedPartition] = []
        try:
            yield from self._endpoint._reads(self._request, rows)
        except BaseException:
            self._let_go()
            raise
        self._is_reading = False
        if self._is_due or _is_enough(self._request, rows):
            self._answer(tuple(rows))
        elif not self._is_over:
            self._is_pausing = True
            self._pause = self._endpoint.loop.call_later(self._pause_s, self._pause_is_over)
            self._pause_s = PAUSE_S

    def _pause_is_over(self) -> None:
        self._is_pausing = False
        if self._has_moved:
            self._look()

    def _let_go(self) -> None:
        self._is_over = True
        self._endpoint.waiting.discard(self)
        for partition in self._partitions:
            partition.waiting.discard(self)
        for timer in (self._expiry, self._pause):
            if timer is not None:
                timer.cancel()

    def _answer(self, rows: tuple[FetchedPartition, ...]) -> None:
        if not self._is_over:
            self._let_go()
            self._reply(FetchAnswer(partitions=rows))


def epoch_error(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """NONE if the client's leader epoch is the partition's (KIP-320); -1: the client names none."""
    if current_leader_epoch in (-1, partition.leader_epoch):
        return ErrorCode.NONE
    is_old = current_leader_epoch < partition.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH


def _is_enough(request: Fetch, rows: Sequence[FetchedPartition]) -> bool:
    if not rows or request.min_bytes <= 0:
        return True
    if any(row.error_code != ErrorCode.NONE for row in rows):
        return True
    return sum(len(row.records) for row in rows) >= min(request.min_bytes, request.max_bytes)
