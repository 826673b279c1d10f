"""Batches that wait to be written, by partition.

Sequence    given to a batch when it is first sent, and never changed while it may have been written: a broker
            that has it already answers as if it had just been written (KIP-98).
Order       a partition's batches are sent in order, up to IN_FLIGHT_MAX without an answer. When one of them
            fails, none is sent until all are answered; those that failed are then sent again, in order.
First       a leader that knows nothing of a producer accepts any sequence from it. So one batch at a time is
            without an answer until the leader is known to remember this producer id.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from fencepost.client.types import RecordMetadata, TopicPartition
from fencepost.records.batch import Header
from fencepost.records.batch_builder import BatchBuilder
from fencepost.records.invariant import invariant

IN_FLIGHT_MAX: Final = 5
"""Batches of one producer and partition that a broker remembers: beyond, a repeated one is not recognised."""

REMEMBERED_S: Final = 3600.0
"""After so long without a batch a leader may have forgotten the producer (producer.id.expiration.ms)."""

SEQUENCE_MASK: Final = 0x7FFF_FFFF  # after 2^31 - 1 comes 0


class ProducerIdentity(NamedTuple):
    """The producer id and epoch that batches are written with."""

    producer_id: int = -1
    epoch: int = -1


class Batch:
    """Records of one partition that are written together. ``number`` orders the batches of a partition."""

    __slots__ = (
        "attempts",
        "body",
        "builder",
        "codec",
        "created_s",
        "encoded",
        "futures",
        "identity",
        "maybe_written",
        "number",
        "partition",
        "sequence",
    )

    def __init__(self, partition: TopicPartition, number: int, codec: int, created_s: float) -> None:
        self.partition = partition
        self.number = number
        self.codec = codec
        self.created_s = created_s
        self.builder = BatchBuilder()
        self.futures: list[asyncio.Future[RecordMetadata]] = []
        self.body: bytes | None = None  # its records as they are sent; set when none is added any more
        self.encoded = b""
        self.identity = ProducerIdentity()
        self.sequence = -1
        self.attempts = 0
        self.maybe_written = False  # an attempt of it had no answer, or one that does not say

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int,
        future: "asyncio.Future[RecordMetadata]",
    ) -> None:
        """Add a record, whose outcome ``future`` will have."""
        self.builder.append(key, value, headers, timestamp_ms)
        self.futures.append(future)

    def encode(self, *, transactional: bool) -> bytes:
        """The bytes to send, with the identity and sequence that the batch has."""
        if self.body is None:
            self.body = self.builder.body(self.codec)
        if not self.encoded:
            self.encoded = self.builder.build(
                self.body,
                codec=self.codec,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                base_sequence=self.sequence,
                transactional=transactional,
            )
        return self.encoded

    def forget_sequence(self) -> None:
        """Let another sequence be given to a batch that was never written."""
        invariant(not self.maybe_written, "a batch that may have been written changes its sequence")
        self.sequence = -1
        self.encoded = b""

    def succeed(self, base_offset: int, append_time_ms: int, timestamp_ms: int) -> None:
        """Every record has its place. ``base_offset`` -1: the place is not known."""
        topic, partition = self.partition
        at_ms = append_time_ms if append_time_ms >= 0 else timestamp_ms
        for index, future in enumerate(self.futures):
            if not future.done():
                offset = base_offset + index if base_offset >= 0 else -1
                future.set_result(RecordMetadata(topic, partition, offset, at_ms))

    def fail(self, error: Exception, *, silent: bool) -> None:
        """No record is written, or it is not known. ``silent``: the transaction raises it, too."""
        for future in self.futures:
            if not future.done():
                future.set_exception(error)
                if silent:
                    future.exception()  # asyncio does not log it as never retrieved


class Lane:
    """The batches of one partition: ``queue`` to be sent, ``in_flight`` sent, ``failed`` to be sent again."""

    __slots__ = (
        "attempts",
        "failed",
        "identity",
        "in_flight",
        "known_id",
        "known_s",
        "needs_identity",
        "next_number",
        "next_sequence",
        "not_before_s",
        "partition",
        "queue",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.queue: deque[Batch] = deque()
        self.in_flight: dict[int, Batch] = {}  # by number
        self.failed: list[Batch] = []
        self.identity: ProducerIdentity | None = None
        self.next_sequence = 0
        self.next_number = 0
        self.needs_identity = False  # a sequence number was lost: a new identity begins at 0
        self.not_before_s = 0.0
        self.attempts = 0  # that failed since one succeeded
        self.known_id = -1  # the producer id of the last batch that the leader has
        self.known_s = 0.0

    def may_send(self, identity: ProducerIdentity, now_s: float) -> bool:
        """Whether another batch may be sent now. ``identity``: the producer's, for a lane without one."""
        if self.failed or self.needs_identity or not self.queue:
            return False
        producer_id = (self.identity or identity).producer_id
        is_known = producer_id == self.known_id and now_s - self.known_s < REMEMBERED_S
        return len(self.in_flight) < (IN_FLIGHT_MAX if is_known else 1)

    def written(self, batch: Batch, now_s: float) -> None:
        """The leader has the batch."""
        del self.in_flight[batch.number]
        self.attempts = 0
        self.known_id, self.known_s = batch.identity.producer_id, now_s

    def open_batch(self, size: int, bytes_max: int) -> Batch | None:
        """The batch that a record of ``size`` bytes can be added to, if there is one."""
        if not self.queue:
            return None
        last = self.queue[-1]
        if last.body is not None or last.builder.size + size > bytes_max:
            return None
        return last

    def new_batch(self, codec: int, now_s: float) -> Batch:
        """A batch behind all others."""
        batch = Batch(self.partition, self.next_number, codec, now_s)
        self.next_number += 1
        self.queue.append(batch)
        return batch

    def take(self, identity: ProducerIdentity) -> Batch:
        """The next batch to send, with its sequence. ``identity``: the producer's, for a lane without one."""
        batch = self.queue.popleft()
        if self.identity is None:
            self.identity, self.next_sequence = identity, 0
        if batch.sequence < 0:
            batch.identity, batch.sequence = self.identity, self.next_sequence
            self.next_sequence = (self.next_sequence + batch.builder.count) & SEQUENCE_MASK
        self.in_flight[batch.number] = batch
        batch.attempts += 1
        return batch

    def is_first(self, batch: Batch) -> bool:
        """No batch before it waits for its outcome."""
        return all(each.number >= batch.number for each in (*self.in_flight.values(), *self.failed))

    def put_back(self) -> None:
        """Queue what failed again, in order, before all others. All that was sent is answered."""
        self.failed.sort(key=lambda batch: batch.number)
        self.queue.extendleft(reversed(self.failed))
        self.failed = []
