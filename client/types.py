"""Values that the client library takes and gives. All are immutable."""

from typing import Final, NamedTuple

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RecordMetadata(NamedTuple):
    """Where a record was written.

    ``offset`` is -1 if it is not known: ``acks`` was 0, or the broker had the record from an earlier attempt.
    ``timestamp_ms`` is the broker's if the topic uses log append time, else the record's own.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    """A record as it lies in the log. ``headers``: (name, content or None) in their order.

    ``timestamp_ms``    -1 if it has none. ``is_append_time``: the broker's time, of a topic that says so.
    ``producer_id``     who wrote it, with ``producer_epoch``; -1: a producer without idempotence.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    is_append_time: bool = False
    producer_id: int = -1
    producer_epoch: int = -1


class OffsetAndMetadata(NamedTuple):
    """The next offset to read of a partition, with a text of the application's."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record that is not older than a time."""

    offset: int
    timestamp_ms: int


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group, for ``Producer.send_offsets_to_transaction`` (KIP-447)."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class GroupAssignment(NamedTuple):
    """What a consumer was assigned in a generation, for ``Producer.init_transactions`` (KIP-447)."""

    member: GroupMetadata
    partitions: tuple[TopicPartition, ...]


class PreparedTxnState(NamedTuple):
    """Which transaction was prepared: to be kept with what is written beside it (KIP-939).

    ``str`` is "producerId:epoch", "" for none; ``PreparedTxnState.parse`` is its inverse.
    """

    producer_id: int = -1
    epoch: int = -1

    def __str__(self) -> str:
        return "" if self.producer_id < 0 else f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> "PreparedTxnState":
        """Raises ValueError."""
        if not text:
            return cls()
        producer_id, epoch = text.split(":")
        return cls(int(producer_id), int(epoch))
