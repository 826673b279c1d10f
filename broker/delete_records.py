"""DeleteRecords: partitions begin at a later offset from now on.

Order       the log is flushed up to there, the offset is on the disk (log/log_starts.py), then readers find
            the log to begin there, and the request is answered. Retention deletes the segments before it.
Refused     OFFSET_OUT_OF_RANGE above the high watermark and below -1; POLICY_VIOLATION if the policy of the
            topic's cleaning is not to delete. An offset before the log's start changes nothing, as in Kafka.
Source      Kafka ReplicaManager.deleteRecords, Partition.deleteRecordsOnLeader.
"""

import asyncio
from functools import partial
from typing import Final

from fencepost.broker.flushing import Flusher
from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions
from fencepost.broker.unknown_partitions import UnknownPartitions
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.errors import CoordinatorLoadInProgress, ErrorCode
from fencepost.records.types import Offset
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k21_delete_records import (
    HIGH_WATERMARK,
    DeleteRecords,
    DeleteRecordsAnswer,
    RecordsDeleted,
    RecordsToDelete,
)

UNDER_WAY_MAX: Final = 100
"""Requests that wait for the disk; one more is refused with 14, which is retriable."""


class DeleteRecordsEndpoint:
    """The endpoint of DeleteRecords (API key 21)."""

    def __init__(
        self, partitions: Partitions, unknown: UnknownPartitions, flusher: Flusher, acls: Acls
    ) -> None:
        self._partitions = partitions
        self._unknown = unknown
        self._flusher = flusher
        self._acls = acls
        self._under_way: set[asyncio.Task[None]] = set()

    def delete(self, request: DeleteRecords, context: Context, reply: Reply[DeleteRecordsAnswer]) -> None:
        """Serve DeleteRecords: one row for each partition in the request."""
        self._acls.require(context.principal, Operation.DELETE)
        if len(self._under_way) >= UNDER_WAY_MAX:
            raise CoordinatorLoadInProgress(f"{UNDER_WAY_MAX} requests to delete records are under way")
        topics = dict.fromkeys(each.topic for each in request.partitions)
        self._unknown.look_up_first(map(TopicQuery, topics), partial(self._begin, request, reply))

    async def stop(self) -> None:
        """Wait for what is under way: before the logs are closed."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _begin(self, request: DeleteRecords, reply: Reply[DeleteRecordsAnswer]) -> None:
        task = asyncio.get_running_loop().create_task(self._delete(request, reply))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _delete(self, request: DeleteRecords, reply: Reply[DeleteRecordsAnswer]) -> None:
        codes: dict[RecordsToDelete, ErrorCode] = {}
        starts: dict[Partition, Offset] = {}
        for each in request.partitions:
            partition = self._partitions.find(each.topic, each.index)
            if partition is None:
                codes[each] = self._unknown.code(each.topic, each.index)
                continue
            codes[each] = _refusal(partition, each.offset)
            if codes[each] == ErrorCode.NONE:
                offset = partition.log.high_watermark if each.offset == HIGH_WATERMARK else each.offset
                starts[partition] = max(Offset(offset), starts.get(partition, partition.log.start))
        raised = {each: start for each, start in starts.items() if start > each.log.start}
        flushed = await asyncio.gather(*map(self._flushed, raised))
        sound = dict(each for each, is_safe in zip(raised.items(), flushed, strict=True) if is_safe)
        try:
            await self._partitions.delete_records(sound)
        except OSError as error:
            for partition in sound:
                self._partitions.fail(partition, error, doing="delete records")
        reply(DeleteRecordsAnswer(tuple(self._row(each, codes[each]) for each in request.partitions)))

    async def _flushed(self, partition: Partition) -> bool:
        """The partition is on the disk. False: it is offline now."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flusher.flush(partition, done.set_result)
        return await done

    def _row(self, wanted: RecordsToDelete, code: ErrorCode) -> RecordsDeleted:
        topic, index = wanted.topic, wanted.index
        if code != ErrorCode.NONE:
            return RecordsDeleted(topic, index, code)
        partition = self._partitions.find(topic, index)
        if partition is None:  # it went offline, or its topic was deleted, meanwhile
            return RecordsDeleted(topic, index, self._unknown.code(topic, index))
        return RecordsDeleted(topic, index, ErrorCode.NONE, partition.log.start)


def _refusal(partition: Partition, offset: int) -> ErrorCode:
    if not partition.log.config.delete:
        return ErrorCode.POLICY_VIOLATION
    if not HIGH_WATERMARK <= offset <= partition.log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE
