"""ListOffsets and OffsetForLeaderEpoch: where a time, and where a leader epoch, lies in a partition's log.

LATEST      the high watermark; the last stable offset to who reads only what is committed.
Others      EARLIEST, MAX_TIMESTAMP, or the first record at or after a time; the tiers of Kafka's remote
            storage have no records here: -4 is EARLIEST, -5 and -6 find nothing. A special one that the
            request's version does not have: UNSUPPORTED_VERSION.
Source      Kafka UnifiedLog.fetchOffsetByTimestamp; KIP-320; docs/kafka-notes.md C4.
"""

from collections.abc import Iterator
from typing import Final

from fencepost.broker.fetch import epoch_error
from fencepost.broker.log.shapes import TimedOffset
from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions
from fencepost.broker.unknown_partitions import UnknownPartitions
from fencepost.controller.errors import ErrorCode
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k01_fetch import READ_COMMITTED
from fencepost.wire.k02_list_offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    ListOffsets,
    ListOffsetsAnswer,
    OffsetFound,
    OffsetQuery,
)
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k23_offset_for_leader_epoch import (
    EpochEnd,
    EpochQuery,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochAnswer,
)
from fencepost.wire.slices import Slices
from fencepost.wire.stalls import Stalls

EARLIEST_LOCAL: Final = -4
NO_TIME: Final = -1
TIMES_MAX: Final = 100  # looked up between two turns of the loop: each may read a batch
EPOCHS_MAX: Final = 1_000  # likewise; they are in memory


class OffsetsEndpoint:
    """API keys 2 and 23."""

    def __init__(self, partitions: Partitions, unknown: UnknownPartitions, *, stalls: Stalls) -> None:
        self._partitions = partitions
        self._unknown = unknown
        self._stalls = stalls

    def list_offsets(self, request: ListOffsets, context: Context, reply: Reply[ListOffsetsAnswer]) -> None:
        """Serve ListOffsets: the offsets of the timestamps in the request."""

        rows: list[OffsetFound] = []

        def steps() -> Iterator[None]:
            if len(request.partitions) > TIMES_MAX:
                yield  # reading so long a request was enough for one turn
            for count, each in enumerate(request.partitions, 1):
                rows.append(self._find_offset(each, request))
                if count % TIMES_MAX == 0:
                    yield
            reply(ListOffsetsAnswer(tuple(rows)))

        def answer() -> None:
            Slices("ListOffsets", steps(), reply, self._stalls).start()

        topics = dict.fromkeys(each.topic for each in request.partitions)
        self._unknown.look_up_first(map(TopicQuery, topics), answer)

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpoch, context: Context, reply: Reply[OffsetForLeaderEpochAnswer]
    ) -> None:
        """Serve OffsetForLeaderEpoch: the end offsets of the leader epochs in the request."""

        rows: list[EpochEnd] = []

        def steps() -> Iterator[None]:
            if len(request.partitions) > EPOCHS_MAX:
                yield  # reading so long a request was enough for one turn
            for count, each in enumerate(request.partitions, 1):
                rows.append(self._find_end(each))
                if count % EPOCHS_MAX == 0:
                    yield
            reply(OffsetForLeaderEpochAnswer(tuple(rows)))

        def answer() -> None:
            Slices("OffsetForLeaderEpoch", steps(), reply, self._stalls).start()

        topics = dict.fromkeys(each.topic for each in request.partitions)
        self._unknown.look_up_first(map(TopicQuery, topics), answer)

    def _find_offset(self, query: OffsetQuery, request: ListOffsets) -> OffsetFound:
        partition = self._partitions.find(query.topic, query.index)
        if partition is None:
            return OffsetFound(query.topic, query.index, self._unknown.code(query.topic, query.index))
        code = epoch_error(partition, query.current_leader_epoch)
        if code == ErrorCode.NONE and query.timestamp_ms < request.special_lowest:
            code = ErrorCode.UNSUPPORTED_VERSION
        if code != ErrorCode.NONE:
            return OffsetFound(query.topic, query.index, code)
        try:
            found = _offset_at(partition, query.timestamp_ms, request.isolation_level)
        except (OSError, CorruptData) as error:
            self._partitions.fail(partition, error, doing="read")
            return OffsetFound(query.topic, query.index, ErrorCode.KAFKA_STORAGE_ERROR)
        if found is None:
            return OffsetFound(query.topic, query.index)
        return OffsetFound(
            query.topic, query.index, ErrorCode.NONE, found.timestamp_ms, found.offset, found.leader_epoch
        )

    def _find_end(self, query: EpochQuery) -> EpochEnd:
        partition = self._partitions.find(query.topic, query.index)
        if partition is None:
            return EpochEnd(query.topic, query.index, self._unknown.code(query.topic, query.index))
        code = epoch_error(partition, query.current_leader_epoch)
        if code != ErrorCode.NONE:
            return EpochEnd(query.topic, query.index, code)
        found = partition.log.offset_for_epoch(Term(query.leader_epoch))
        return EpochEnd(query.topic, query.index, ErrorCode.NONE, found.leader_epoch, found.end_offset)


def _offset_at(partition: Partition, timestamp_ms: int, isolation_level: int) -> TimedOffset | None:
    log = partition.log
    upper = log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark
    if timestamp_ms == LATEST:
        return TimedOffset(upper, NO_TIME, partition.leader_epoch)
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return TimedOffset(log.start, NO_TIME, log.epoch_at(Offset(log.start)))
    found: TimedOffset | None = None
    if timestamp_ms == MAX_TIMESTAMP:
        found = log.offset_of_newest()
    elif timestamp_ms >= 0:
        found = log.offset_for_time(timestamp_ms)
    return found if found is not None and found.offset < upper else None
