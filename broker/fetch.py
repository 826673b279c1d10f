"""Fetch: whole batches from the segment files of the partitions that are hosted here.

Reads       up to the high watermark; read committed, up to the last stable offset, with the aborted
            transactions in what is read. What a broker has it sends: the client skips aborted records.
Waits       until ``min_bytes`` can be read, some partition has an error, or the time is up. Who waits
            stands in the set of each of its partitions and has one timer of the loop: no task.
Bounded     RESPONSE_BYTES_MAX in one answer, but a first batch that is larger comes whole (KIP-74). While
            clients leave so many replies unread that there is no ``reply_room``, none is added: it waits.
Source      Kafka ReplicaManager.fetchMessages, DelayedFetch; docs/kafka-notes.md C4, F4.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker.absent import Absent
from broker.partitions import Partition, Partitions
from controller.errors import ApiError, ErrorCode
from records.types import Offset
from wire.dispatch import Context, Reply
from wire.k01_fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    Fetch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
)
from wire.k03_metadata import TopicQuery

RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Read and sent in one turn of the loop, so far below Kafka's fetch.max.bytes (55 MiB)."""

WAIT_MS_MAX: Final = 600_000  # a client that wants to wait longer asks again
WAITING_MAX: Final = 20_000  # fetches; one more is answered at once with what there is


class FetchEndpoint:
    """API key 1."""

    def __init__(
        self,
        partitions: Partitions,
        absent: Absent,
        reply_room: Callable[[], int] = lambda: RESPONSE_BYTES_MAX,
    ) -> None:
        self._partitions = partitions
        self._absent = absent
        self._reply_room = reply_room
        self._loop = asyncio.get_running_loop()
        self.waiting: set[_Waiting] = set()

    def fetch(self, request: Fetch, context: Context, reply: Reply) -> None:
        """The endpoint."""
        missing = [
            TopicQuery(each.topic, each.topic_id) for each in request.partitions if self._find(each) is None
        ]
        if missing:
            self._absent.look_up_first(missing, lambda: self._serve(request, reply))
        else:
            self._serve(request, reply)

    def stop(self) -> None:
        """Answer those who wait with what there is."""
        for each in tuple(self.waiting):
            each.expire()

    def _find(self, asked: FetchPartition) -> Partition | None:
        if asked.topic is not None:
            return self._partitions.find(asked.topic, asked.index)
        if asked.topic_id is not None:
            return self._partitions.find_by_id(asked.topic_id, asked.index)
        return None

    def _code(self, asked: FetchPartition) -> ErrorCode:
        """Why it is not here."""
        if asked.topic is not None:
            return self._absent.code(asked.topic, asked.index)
        if asked.topic_id is not None:
            return self._absent.code_by_id(asked.topic_id, asked.index)
        return ErrorCode.UNKNOWN_TOPIC_ID

    def _serve(self, request: Fetch, reply: Reply) -> None:
        """Answer, or wait."""
        rows = self._read(request)
        wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
        if wait_ms <= 0 or len(self.waiting) >= WAITING_MAX or _is_enough(request, rows):
            reply(FetchAnswer(partitions=rows))
            return
        waited_for = {found for each in request.partitions if (found := self._find(each)) is not None}
        waiting = _Waiting(self, lambda: self._read(request), request, reply, waited_for)
        waiting.timer = self._loop.call_later(wait_ms / 1000, waiting.expire)

    def _read(self, request: Fetch) -> tuple[FetchedPartition, ...]:
        room = self._reply_room()
        left = min(request.max_bytes, RESPONSE_BYTES_MAX, room)
        at_least_one = room > 0
        rows = []
        for asked in request.partitions:
            row = self._read_one(asked, request.isolation_level, left, at_least_one=at_least_one)
            left -= len(row.records)
            at_least_one = at_least_one and not row.records
            rows.append(row)
        return tuple(rows)

    def _read_one(
        self,
        asked: FetchPartition,
        isolation_level: int,
        bytes_max: int,
        *,
        at_least_one: bool,
    ) -> FetchedPartition:
        partition = self._find(asked)
        if partition is None:
            return FetchedPartition(asked.topic, asked.topic_id, asked.index, self._code(asked))
        code = epoch_error(partition, asked.current_leader_epoch)
        if code != ErrorCode.NONE:
            return FetchedPartition(asked.topic, asked.topic_id, asked.index, code)
        log = partition.log
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        is_committed = isolation_level == READ_COMMITTED
        upper = stable if is_committed else high_watermark
        offset = Offset(asked.fetch_offset)
        records = b""
        aborted: tuple[AbortedTransaction, ...] | None = () if is_committed else None
        if not log.start <= offset <= log.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif offset < upper and (bytes_max > 0 or at_least_one):
            bytes_max = max(0, min(bytes_max, asked.max_bytes))
            try:
                if is_committed:
                    records, found = log.read_committed(offset, bytes_max, at_least_one=at_least_one)
                    aborted = tuple(AbortedTransaction(*each) for each in found)
                else:
                    records = log.read(offset, bytes_max, upper, at_least_one=at_least_one)
            except ApiError as error:
                code = error.code
            except OSError as error:
                self._partitions.fail(partition, error, doing="read")
                code = ErrorCode.KAFKA_STORAGE_ERROR
        return FetchedPartition(
            asked.topic,
            asked.topic_id,
            asked.index,
            code,
            high_watermark,
            stable,
            log.start,
            aborted,
            records,
        )


class _Waiting:
    """One fetch that waits. Answered once: by ``partition_moved`` or by ``expire``."""

    __slots__ = ("_endpoint", "_partitions", "_read", "_reply", "_request", "timer")

    def __init__(
        self,
        endpoint: FetchEndpoint,
        read: Callable[[], tuple[FetchedPartition, ...]],
        request: Fetch,
        reply: Reply,
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

    def _answer(self, rows: tuple[FetchedPartition, ...]) -> None:
        self._endpoint.waiting.discard(self)
        for partition in self._partitions:
            partition.waiting.discard(self)
        if self.timer is not None:
            self.timer.cancel()
        self._reply(FetchAnswer(partitions=rows))


def epoch_error(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Whether who asks takes the leader for what it is (KIP-320); -1: he does not say."""
    if current_leader_epoch in (-1, partition.leader_epoch):
        return ErrorCode.NONE
    is_old = current_leader_epoch < partition.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH


def _is_enough(request: Fetch, rows: tuple[FetchedPartition, ...]) -> bool:
    if not rows or request.min_bytes <= 0:
        return True
    if any(row.error_code != ErrorCode.NONE for row in rows):
        return True
    return sum(len(row.records) for row in rows) >= min(request.min_bytes, request.max_bytes)
