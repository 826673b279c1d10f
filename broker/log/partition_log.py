"""A partition's log: Kafka's own files, appended to, read from, recovered.

Threads     one owner thread calls everything; ``flush`` alone may run in another thread beside it.
Flush       ``append`` and ``append_marker`` return when the bytes are with the operating system; what must
            survive a power cut is answered after ``flush()``.
Errors      refusals are ``controller.errors.ApiError``; an OSError means that nobody knows what is on the
            disk: the partition is offline until it is opened again.
Source      Kafka UnifiedLog; spec/kafka.md C.
"""

from pathlib import Path
from uuid import UUID

from broker.log.shapes import (
    Aborted,
    Appended,
    EpochEnd,
    LogConfig,
    MarkerOutcome,
    ProducerRow,
    TimedOffset,
    VerificationGuard,
)
from records.types import ImageVersion, Offset, ProducerId, Term


class PartitionLog:
    """One partition's log, open. Use ``open``."""

    config: LogConfig
    directory: Path
    topic_id: UUID | None
    repairs: tuple[str, ...]
    """What opening had to mend, in sentences; empty after a clean close."""

    @classmethod
    def open(
        cls, directory: Path, config: LogConfig, now_ms: int, topic_id: UUID | None = None
    ) -> "PartitionLog":
        """Open or make the log of a directory, recovering what a crash left.

        ``topic_id`` is written to a new log's partition.metadata and must be that of an old one.
        Raises   CorruptData: another topic's directory.
        """
        raise NotImplementedError

    @property
    def start(self) -> Offset:
        """The first offset kept."""
        raise NotImplementedError

    @property
    def end(self) -> Offset:
        """The offset that the next record gets."""
        raise NotImplementedError

    @property
    def high_watermark(self) -> Offset:
        """What consumers may read: everything before it. With one replica it is ``end``."""
        raise NotImplementedError

    @property
    def last_stable_offset(self) -> Offset:
        """What read_committed consumers may read: everything before it."""
        raise NotImplementedError

    @property
    def flush_wanted(self) -> bool:
        """A full segment or a snapshot of the producers waits for ``flush``; some seconds are fine."""
        raise NotImplementedError

    def append(
        self, records: bytes, now_ms: int, leader_epoch: Term, guard: VerificationGuard | None = None
    ) -> Appended:
        """Check a producer's batches as Kafka does and append them, all or none.

        Raises   CorruptMessage, InvalidRecord, MessageTooLarge, InvalidTimestamp,
                 UnsupportedCompressionType, OutOfOrderSequence, InvalidProducerEpoch, InvalidTxnState
                 (also: a transaction's first batch without the current ``guard``).
        """
        raise NotImplementedError

    def append_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        version: ImageVersion,
        now_ms: int,
        leader_epoch: Term | None = None,
    ) -> MarkerOutcome:
        """End a producer's transaction here. ``version`` 0: the sender knows none (an admin's abort).

        Without ``leader_epoch`` it is that of the batch before it.

        Raises   InvalidProducerEpoch, TransactionCoordinatorFenced.
        """
        raise NotImplementedError

    def read(self, offset: Offset, bytes_max: int, upper: Offset, *, at_least_one: bool = True) -> bytes:
        """Whole batches, from the one that holds ``offset``, up to ``upper``; b"" if there is none.

        At most ``bytes_max`` bytes, except that with ``at_least_one`` a larger first batch comes whole.
        Raises   OffsetOutOfRange: ``offset`` is not in [start, end].
        """
        raise NotImplementedError

    def aborted(self, offset: Offset, upper: Offset) -> tuple[Aborted, ...]:
        """The aborted transactions that touch [offset, upper)."""
        raise NotImplementedError

    def offset_for_time(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record whose time is at or after ``timestamp_ms``; None if there is none."""
        raise NotImplementedError

    def offset_of_newest(self) -> TimedOffset | None:
        """The record with the greatest time (ListOffsets -3); None of an empty log."""
        raise NotImplementedError

    def epoch_at(self, offset: Offset) -> Term:
        """The leader epoch of an offset, NO_EPOCH if none is known (ListOffsets answers it)."""
        raise NotImplementedError

    def offset_for_epoch(self, leader_epoch: Term) -> EpochEnd:
        """The greatest epoch at or below ``leader_epoch``, and where it ends (OffsetForLeaderEpoch)."""
        raise NotImplementedError

    def verification_guard(
        self, producer_id: ProducerId, producer_epoch: int, base_sequence: int, now_ms: int
    ) -> VerificationGuard | None:
        """Begin to ask the coordinator about a transactional batch; None: its transaction is open here."""
        raise NotImplementedError

    def knows(self, producer_id: ProducerId) -> bool:
        """There is state of this producer: without it, sequence 0 is verified first (KIP-360)."""
        raise NotImplementedError

    def producer(self, producer_id: ProducerId) -> ProducerRow | None:
        """The state of one producer."""
        raise NotImplementedError

    def producers(self) -> tuple[ProducerRow, ...]:
        """Every active producer, by id."""
        raise NotImplementedError

    def expire_producers(self, now_ms: int, limit: int) -> bool:
        """Look at ``limit`` more producers, forget the expired. True: there are more to look at."""
        raise NotImplementedError

    def flush(self) -> Offset:
        """Flush what was appended to the disk; from any thread. Everything before the answer is safe."""
        raise NotImplementedError

    def truncate_to(self, offset: Offset, now_ms: int) -> None:
        """Cut every batch that holds ``offset`` or comes after it, and the producers' state with them."""
        raise NotImplementedError

    def retain(self, now_ms: int) -> int:
        """Delete segments past retention.ms or retention.bytes; returns how many. Producers stay known."""
        raise NotImplementedError

    def close(self) -> None:
        """Flush, save the producers, let go of the files."""
        raise NotImplementedError
