"""What goes into a partition log and what comes out of it: settings, outcomes, rows.

Offsets     half-open: ``first`` is inclusive, ``end`` is exclusive, ``last`` is inclusive.
Times       milliseconds since the epoch.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, NewType

from fencepost.records.compression import GZIP, LZ4, ZSTD
from fencepost.records.types import Offset, ProducerId, Term

SEGMENT_BYTES_MAX: Final = 2**31 - 1
"""Positions in a segment are int32 in Kafka's index."""

NEVER: Final = 2**63 - 1
"""Kafka's default of ``log.flush.interval.messages`` and ``max.compaction.lag.ms``: never for that reason."""

UNLIMITED: Final = -1
"""Kafka's ``retention.ms`` or ``retention.bytes`` without a limit."""

NO_TIMESTAMP: Final = -1
NO_EPOCH: Final = Term(-1)
NO_OFFSET: Final = Offset(-1)
NO_SEQUENCE: Final = -1
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = -1

VerificationGuard = NewType("VerificationGuard", int)
"""Names one question to the coordinator about one producer (KIP-890). Compared for equality only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one partition's log, with Kafka's defaults. May be replaced while the log is open."""

    segment_bytes: int = 1024 * 1024 * 1024  # segment.bytes, at most SEGMENT_BYTES_MAX
    retention_ms: int = 7 * 24 * 3_600_000  # retention.ms
    segment_ms: int = 7 * 24 * 3_600_000  # segment.ms
    retention_bytes: int = UNLIMITED  # retention.bytes
    delete: bool = True  # cleanup.policy has "delete"
    compact: bool = False  # cleanup.policy has "compact"
    delete_retention_ms: int = 86_400_000  # delete.retention.ms
    min_compaction_lag_ms: int = 0  # min.compaction.lag.ms
    max_compaction_lag_ms: int = NEVER  # max.compaction.lag.ms
    min_cleanable_dirty_ratio: float = 0.5  # min.cleanable.dirty.ratio
    message_bytes_max: int = 1_048_588  # max.message.bytes: one whole batch
    index_interval_bytes: int = 4096  # index.interval.bytes
    index_bytes_max: int = 10 * 1024 * 1024  # segment.index.bytes: of one index of a segment
    segment_jitter_ms: int = 0  # segment.jitter.ms
    flush_messages: int = NEVER  # flush.messages
    producer_expiration_ms: int = 86_400_000  # producer.id.expiration.ms
    codec: int | None = None  # compression.type, by Kafka's number; None: as the producer sent it
    gzip_level: int = -1  # compression.gzip.level
    lz4_level: int = 9  # compression.lz4.level
    zstd_level: int = 3  # compression.zstd.level
    log_append_time: bool = False  # message.timestamp.type=LogAppendTime
    timestamp_after_ms_max: int = 3_600_000  # message.timestamp.after.max.ms
    timestamp_before_ms_max: int = NEVER  # message.timestamp.before.max.ms
    verification: bool = True  # transaction.partition.verification.enable

    @property
    def level(self) -> int | None:
        """How hard ``codec`` is to work; None: as it does by default."""
        levels = {GZIP: self.gzip_level, LZ4: self.lz4_level, ZSTD: self.zstd_level}
        return None if self.codec is None else levels.get(self.codec)


class Appended(NamedTuple):
    """Where the records lie. Of a duplicate: where they have been lying since the first time."""

    base_offset: Offset
    last_offset: Offset
    duplicate: bool
    log_append_time_ms: int = NO_TIMESTAMP  # of a log with LogAppendTime only
    flush_due: bool = False  # ``flush_messages`` demands ``flush()`` before the answer


class MarkerOutcome(NamedTuple):
    """``offset`` is None if nothing was appended: a late duplicate of a marker, answered NONE.

    Either way ``flush()`` comes before the answer: the first copy may not be on the disk yet.
    """

    offset: Offset | None

    @property
    def appended(self) -> bool:
        """Whether the marker was appended; False for a duplicate."""
        return self.offset is not None


class Aborted(NamedTuple):
    """An aborted transaction, as Fetch has it: batches of its producer from ``first_offset`` on."""

    producer_id: ProducerId
    first_offset: Offset


class TimedOffset(NamedTuple):
    """A record found by its time."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: Term


class EpochEnd(NamedTuple):
    """Where a leader epoch ends; (NO_EPOCH, NO_OFFSET) if nothing is known of it."""

    leader_epoch: Term
    end_offset: Offset


class ProducerRow(NamedTuple):
    """One active producer, as DescribeProducers shows it."""

    producer_id: ProducerId
    producer_epoch: int
    last_sequence: int  # NO_SEQUENCE if its state holds no batch
    last_timestamp_ms: int
    coordinator_epoch: int  # of the last marker; -1 without one
    transaction_first: Offset  # NO_OFFSET without an open transaction
