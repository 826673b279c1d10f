"""Produce, API key 0, versions 3-11: batches to append; 0-2 are advertised and refused.

3   transactional_id; record batches of magic 2 only      5   log_start_offset
8   record_errors, error_message      9   flexible       10   the current leader, for those who follow it
11  may be answered with TRANSACTION_ABORTABLE; below, INVALID_TXN_STATE says it
0-2 are advertised because librdkafka compresses nothing for a broker that has no version 2 (KAFKA-18659).
"""

from dataclasses import dataclass

from controller.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class PartitionData:
    """What to append to one partition: one or more record batches, unread; None is refused by the log."""

    topic: str
    index: int
    records: bytes | None


@dataclass(frozen=True, slots=True)
class Produce:
    """``acks`` 0: nothing is answered; 1: the leader has it; -1: all in-sync replicas have it."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: tuple[PartitionData, ...]
    version: int


@dataclass(frozen=True, slots=True)
class RecordError:
    """Why a batch was refused, at the record of this index."""

    batch_index: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionProduced:
    """What became of one partition's batches. ``base_offset`` -1 if they were not appended."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """One row per partition asked; those of one topic stand together."""

    partitions: tuple[PartitionProduced, ...]
