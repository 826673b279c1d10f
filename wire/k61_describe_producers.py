"""DescribeProducers, API key 61, version 0: which producers a partition's leader remembers (KIP-664)."""

from dataclasses import dataclass

from controller.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class DescribeProducers:
    """(topic, partition indexes)."""

    topics: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """One producer. -1: no sequence, timestamp, marker, or open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """The producers of one partition, or why they are not told."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    producers: tuple[ActiveProducer, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersAnswer:
    """One row per partition asked; those of one topic stand together."""

    partitions: tuple[PartitionProducers, ...]
