"""A partition's log: Kafka's own files, appended to, read from, recovered.

Threads     one owner thread calls everything; ``flush`` alone may run in another thread beside it.
Flush       ``append`` and ``append_marker`` return when the bytes are with the operating system; what must
            survive a power cut is answered after ``flush()``.
Replicas    there is one: the high watermark is the end of the log.
Errors      refusals are ``fencepost.controller.errors.ApiError``; after an OSError the state of the disk is
            unknown: nothing is appended any more until the log is opened again.
Source      Kafka UnifiedLog.
"""

import errno
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from fencepost.broker.log.cleanable import Cleanable
from fencepost.broker.log.durability import Durability
from fencepost.broker.log.recovery import make_log, recover
from fencepost.broker.log.retention import count_past, is_expired, is_full, is_overdue
from fencepost.broker.log.scrub import Scrubbable
from fencepost.broker.log.search import Places
from fencepost.broker.log.segment import Segment, header_placed
from fencepost.broker.log.shapes import (
    NO_TIMESTAMP,
    Aborted,
    Appended,
    EpochEnd,
    LogConfig,
    MarkerOutcome,
    ProducerRow,
    TimedOffset,
    VerificationGuard,
)
from fencepost.broker.log.validation import check_produced, placed_batches
from fencepost.controller.errors import FencedLeaderEpoch, OffsetOutOfRange
from fencepost.records.batch import BatchHeader, Buffer, batch_header
from fencepost.records.end_marker import EndMarker, encode_end_marker
from fencepost.records.invariant import invariant
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term
from fencepost.snapshots.flushes import sync_path
from fencepost.snapshots.segments import LOG_START
from fencepost.wire.descriptors import is_exhausted


class PartitionLog:
    """One partition's log, open. Use ``open``."""

    def __init__(
        self, directory: Path, config: LogConfig, now_ms: int, topic_id: UUID | None, went_down: bool
    ) -> None:
        """Not called directly: use ``open``."""
        self.directory = directory
        self.config = config  # may be replaced at any time
        self.topic_id = topic_id
        self.first_kept = LOG_START  # records before it are deleted; it may be raised at any time
        self._durability = Durability(directory)
        self.take_sums_failure = self._durability.take_sums_failure
        self._offline = ""  # why nothing is appended any more
        self._load(now_ms, went_down)

    def _load(self, now_ms: int, went_down: bool) -> None:
        interval_bytes = self.config.index_interval_bytes
        recovered = recover(self.directory, self.topic_id, interval_bytes, now_ms, went_down)
        self.repairs = tuple(recovered.repairs)
        """What opening had to mend, in sentences; empty after a clean close."""
        self._segments = recovered.segments
        self._epochs = recovered.epochs
        self._states = recovered.states
        self._end = recovered.end
        self._places = Places(recovered)
        self._durability.begin(recovered)
        self.cleanable = Cleanable(recovered, self._places, self._durability)
        self.scrubbable = Scrubbable(recovered, self._durability)
        if recovered.end > recovered.durable_end:
            self._request_snapshot()  # the next opening need not read the same again

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        now_ms: int,
        topic_id: UUID | None = None,
        *,
        machine_went_down: bool = True,
        start: Offset = LOG_START,
    ) -> "PartitionLog":
        """Open or make the log of a directory, recovering what a crash left.

        ``topic_id`` is written to a new log's partition.metadata and must be that of an old one.
        ``machine_went_down`` since it was open last, or that is not known: see damage.py.
        ``start`` is where a new log begins.
        Raises   CorruptData: another topic's directory, or it is damaged; its bytes are as they were.
        """
        known = make_log(directory, topic_id, start)
        log = cls(directory, config, now_ms, known, machine_went_down)
        log.release_files()
        return log

    def release_files(self) -> None:
        """Close all files, which open again by themselves: another thread uses the log next."""
        for segment in self._segments:
            segment.close()

    @property
    def start(self) -> Offset:
        """The first offset of the log that is kept."""
        return max(self.first_kept, self._segments[0].base)

    @property
    def end(self) -> Offset:
        """The offset that the next record gets."""
        return self._end

    @property
    def high_watermark(self) -> Offset:
        """What consumers may read: everything before it. With one replica it is ``end``."""
        return self._end

    @property
    def last_stable_offset(self) -> Offset:
        """What read_committed consumers may read: everything before it."""
        unstable = self._states.first_unstable()
        return self._end if unstable is None else max(unstable, self.start)

    @property
    def size(self) -> int:
        """Bytes of the batches in all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def flush_wanted(self) -> bool:
        """A full segment or a snapshot of the producers waits for ``flush``; some seconds are fine."""
        return self._durability.is_wanted

    def append(
        self,
        records: Buffer,
        now_ms: int,
        leader_epoch: Term,
        guard: VerificationGuard | None = None,
        headers: tuple[BatchHeader, ...] | None = None,
    ) -> Appended:
        """Check a producer's batches as Kafka does and append them, all or none.

        ``headers`` are what ``validation.checking`` returned, if these bytes are checked already.

        Raises   CorruptMessage, InvalidRecord, MessageTooLarge, InvalidTimestamp,
                 UnsupportedCompressionType, OutOfOrderSequence, InvalidProducerEpoch, InvalidTxnState
                 (also: a transaction's first batch without the current ``guard``), FencedLeaderEpoch.
        """
        config = self.config
        if headers is None:
            headers = check_produced(records, config, now_ms)
        first = headers[0]
        if first.producer_id >= 0:
            known = self._states.duplicate(first)
            if known is not None:
                append_time = known.timestamp_ms if config.log_append_time else NO_TIMESTAMP
                base = Offset(known.last_offset - known.offset_delta)
                return Appended(base, known.last_offset, duplicate=True, log_append_time_ms=append_time)
            self._states.check(first, guard, verification=config.verification or guard is not None)
        base = self._end
        append_time_ms = now_ms if config.log_append_time else NO_TIMESTAMP
        batches, headers = placed_batches(records, headers, base, leader_epoch, append_time_ms)
        self._write(batches, headers, leader_epoch)
        if first.producer_id >= 0:
            self._states.take(headers[0], base, now_ms)
        self._snapshot_if_due(len(batches), len(headers))
        return Appended(
            base,
            Offset(self._end - 1),
            duplicate=False,
            log_append_time_ms=append_time_ms,
            flush_due=self._end - self._durability.durable_end >= config.flush_messages,
        )

    def append_marker(
        self, marker: EndMarker, now_ms: int, leader_epoch: Term | None = None, *, forced: bool = False
    ) -> MarkerOutcome:
        """End a producer's transaction here, unless the marker is a late duplicate.

        Without ``leader_epoch`` it is that of the batch before it.
        Raises   InvalidProducerEpoch, TransactionCoordinatorFenced, FencedLeaderEpoch.
        """
        if not self._states.check_marker(marker, forced=forced):
            self._states.pass_over(marker)
            return MarkerOutcome(None)
        epoch = leader_epoch if leader_epoch is not None else max(self._epochs.latest, Term(0))
        offset = self._end
        batch = encode_end_marker(marker, base_offset=offset, leader_epoch=epoch, now_ms=now_ms)
        self._write(batch, (batch_header(batch),), epoch)
        ended = self._states.take_marker(marker, offset, now_ms, now_ms)
        if ended is not None and not marker.committed:
            try:
                self._segments[-1].index_aborted(ended)
            except OSError:
                self._offline = "an earlier write failed"
                raise
        self._snapshot_if_due(len(batch), 1)
        return MarkerOutcome(offset)

    def read(self, offset: Offset, bytes_max: int, upper: Offset, *, at_least_one: bool = True) -> bytes:
        """Whole batches, from the one that holds ``offset``, up to ``upper``; b"" if there is none.

        At most ``bytes_max`` bytes, except that with ``at_least_one`` a larger first batch comes whole.
        Raises   OffsetOutOfRange: ``offset`` is not in [start, end].
        """
        return self._read(offset, bytes_max, upper, at_least_one=at_least_one)[0]

    def read_committed(
        self, offset: Offset, bytes_max: int, *, at_least_one: bool = True
    ) -> tuple[bytes, tuple[Aborted, ...]]:
        """As ``read``, up to the last stable offset, with the aborted transactions in what is read."""
        records, end = self._read(offset, bytes_max, self.last_stable_offset, at_least_one=at_least_one)
        return self._places.with_aborted(records, offset, end) if records else (b"", ())

    def _read(
        self, offset: Offset, bytes_max: int, upper: Offset, *, at_least_one: bool
    ) -> tuple[bytes, Offset]:
        if not self.start <= offset <= self._end:
            raise OffsetOutOfRange(f"offset {offset}, the log holds [{self.start}, {self._end})")
        upper = min(upper, self._end)
        if offset >= upper:
            return b"", offset
        return self._places.read(offset, bytes_max, upper, self._end, at_least_one=at_least_one)

    def aborted(self, offset: Offset, upper: Offset) -> tuple[Aborted, ...]:
        """The aborted transactions that touch [offset, upper)."""
        return self._places.aborted(offset, upper)

    def offset_for_time(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record whose time is at or after ``timestamp_ms``; None if there is none."""
        return self._places.first_since(timestamp_ms, self.start)

    def offset_of_newest(self) -> TimedOffset | None:
        """The first record with the greatest time (ListOffsets -3); None without a time in the log."""
        return self._places.newest(self.start)

    def epoch_at(self, offset: Offset) -> Term:
        """The leader epoch of an offset, NO_EPOCH if none is known (ListOffsets answers it)."""
        return self._epochs.at(offset)

    def offset_for_epoch(self, leader_epoch: Term) -> EpochEnd:
        """The greatest epoch at or below ``leader_epoch``, and where it ends (OffsetForLeaderEpoch)."""
        return self._epochs.end_of(leader_epoch, self._end)

    def verification_guard(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        base_sequence: int,
        now_ms: int,
        *,
        adds: bool = False,
    ) -> VerificationGuard | None:
        """Begin to ask the coordinator about a transactional batch; None: its transaction is open here.

        ``adds``: it is of a client of transactions V2.
        """
        return self._states.verification_guard(producer_id, producer_epoch, base_sequence, now_ms, adds=adds)

    def announce(self, producer_id: ProducerId, producer_epoch: int, version: ImageVersion) -> None:
        """The coordinator says unasked that a transaction holds this partition, as of an image version."""
        self._states.announce(producer_id, producer_epoch, version)

    def is_announced(self, producer_id: ProducerId, producer_epoch: int) -> bool:
        """It said so of the transaction that this producer is about to write."""
        return self._states.is_announced(producer_id, producer_epoch)

    def check_marker(self, marker: EndMarker) -> None:
        """Raises what ``append_marker`` would raise of a marker that is not forced."""
        self._states.check_marker(marker)

    def state_of(self, producer_id: ProducerId) -> object:
        """The producer's state, None without one: the same object as long as nothing of it is appended."""
        return self._states.table.get(producer_id)

    def producer(self, producer_id: ProducerId) -> ProducerRow | None:
        """The state of one producer."""
        return self._states.row(producer_id)

    def producer_ids(self) -> tuple[ProducerId, ...]:
        """Every active producer's id, in order."""
        return tuple(sorted(self._states.table))

    def producers(self, producer_ids: Iterable[ProducerId] | None = None) -> tuple[ProducerRow, ...]:
        """Those of these producers that are active, every one by default; in the order given."""
        rows = map(self._states.row, self.producer_ids() if producer_ids is None else producer_ids)
        return tuple(row for row in rows if row is not None)

    def expire_producers(self, now_ms: int, limit: int) -> bool:
        """Look at ``limit`` more producers, forget the expired. True: there are more to look at."""
        return self._states.expire(now_ms, self.config.producer_expiration_ms, limit)

    def flush(self) -> Offset:
        """Flush to the disk, in any thread; what is before the answer is safe. Raises OSError, ever after."""
        return self._durability.flush()

    def truncate_to(self, offset: Offset, now_ms: int) -> None:
        """Cut every batch that holds ``offset`` or comes after it, and the producers' state with them."""
        invariant(offset >= self.start, "a log is cut before its start", offset=offset, start=self.start)
        if offset >= self._end:
            return
        with self._durability.locked():
            self._durability.forget_snapshots(offset)
            kept = [segment for segment in self._segments if segment.base < offset] or self._segments[:1]
            for segment in reversed(self._segments[len(kept) :]):
                segment.delete()
            kept[-1].cut(kept[-1].locate(offset))
            for segment in kept:
                segment.close()
            sync_path(self.directory)
            self._load(now_ms, went_down=False)

    def retain(self, now_ms: int) -> int:
        """Delete segments past retention.ms or retention.bytes; returns how many. Producers stay known.

        A segment goes only when a producer snapshot after it is on the disk: ``flush`` sees to it.
        """
        if is_expired(self._segments[-1], self.config, now_ms):
            self._roll()
        gone = count_past(self._segments, self.config, now_ms, self.start, self._durability.newest_snapshot)
        if gone:
            self._forget_segments(gone)
        return gone

    def roll_overdue(self, now_ms: int) -> None:
        """The active segment is full if older than ``segment.ms`` or ``max.compaction.lag.ms``."""
        if is_overdue(self._segments[-1], self.config, now_ms):
            self._roll()

    def close(self) -> None:
        """Flush, save the producers, close the files. Raises OSError; the files are closed anyway."""
        try:
            if not self._offline:  # else an index may lack what a snapshot would say is there
                self._segments[-1].index_time()
            if not self._offline and self._durability.newest_snapshot != self._end:
                self._durability.request_snapshot(self._end, dict(self._states.table), self._segments)
            self._durability.flush()
        finally:
            self._let_go()

    def _write(
        self, batches: bytes | bytearray, headers: tuple[BatchHeader, ...], leader_epoch: Term
    ) -> None:
        """Into the active segment, or a new one. Raises OSError, from then on always if any was written."""
        if leader_epoch < self._epochs.latest:
            raise FencedLeaderEpoch(f"leader epoch {leader_epoch}, the log has {self._epochs.latest}")
        if self._offline:
            raise OSError(errno.EIO, self._offline, str(self.directory))
        position = -1
        try:
            if is_full(self._segments[-1], len(batches), headers[-1], self.config):
                self._roll()
            active = self._segments[-1]
            active.make_ready()
            self._epochs.assign(leader_epoch, self._end)  # first: else a crash leaves what looks damaged
            position = active.append(batches)
            for header in headers:
                active.index(header_placed(header, position), self.config.index_interval_bytes)
                position += header.size
        except OSError as error:
            if position >= 0 or not is_exhausted(error):
                self._offline = "an earlier write failed"
            raise
        self._end = headers[-1].end

    def _roll(self) -> None:
        """The active segment is full: its index is completed, a new one begins at the end."""
        self._segments[-1].index_time()
        self._segments[-1].close()
        self._segments.append(Segment.create(self.directory, self._end))
        self._durability.rolled(self._segments[-1])
        self._request_snapshot()

    def _snapshot_if_due(self, size: int, batches: int) -> None:
        if self._durability.wrote(self._end, size, batches):
            self._request_snapshot()

    def _request_snapshot(self) -> None:
        self._durability.request_snapshot(self._end, dict(self._states.table), self._segments)
        self._durability.prune({segment.base for segment in self._segments})

    def _forget_segments(self, count: int) -> None:
        """Delete the oldest segments. Those that wait for a flush, or are in one, need none any more."""
        gone, self._segments[:count] = self._segments[:count], []
        self._durability.deleted(gone)
        self._epochs.forget_before(self.start)
        self._epochs.save()  # first: what begins before the log says later that segments were lost
        for segment in gone:
            segment.delete()
        self._places.clear()
        self._durability.prune({segment.base for segment in self._segments})

    def _let_go(self) -> None:
        self._durability.close()
        self._offline = "the log is closed"
        self.release_files()
