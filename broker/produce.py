"""Produce: batches of clients, appended to the logs of the partitions that are hosted here.

Each partition of a request has its own outcome, and none waits for another's; the answer leaves when the last
has its own. Most are appended on the spot. What makes one wait:

checked     batches with many records, and large compressed ones, are checked in slices (broker/checks.py).
unknown     a partition that is unknown here is looked up at the controller, once.
verified    the first batch of a transaction on this partition, and an epoch older than the partition's: the
            coordinator verifies it, or adds the partition to the transaction for a client of transactions V2
            (broker/verification.py). What it allows is appended with the guard of the verification, so that a
            marker in between makes the verdict void (KIP-890).
flushed     ``flush.messages`` demands it. Else an answer means what Kafka's does: the operating system
            has it.

Source      Kafka ReplicaManager.handleProduceAppend; docs/kafka-notes.md B3, C1, C2; rows 360.6, 588.4.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from fencepost.broker.checks import SLICE_STEPS, Checks
from fencepost.broker.flushing import Flusher
from fencepost.broker.log.shapes import VerificationGuard
from fencepost.broker.log.validation import Budget, Checked
from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions
from fencepost.broker.unknown_partitions import UnknownPartitions
from fencepost.broker.verification import Producer, Verifier, verdict
from fencepost.controller.errors import (
    ApiError,
    CorruptMessage,
    ErrorCode,
    InvalidProducerEpoch,
    InvalidRequiredAcks,
)
from fencepost.records.batch import BatchHeader, Buffer
from fencepost.records.batch_layout import ATTRIBUTES_AT, COMPRESSION, HEADER_BYTES, TRANSACTIONAL, fields_of
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.errors import message_of
from fencepost.wire.k00_produce import PartitionProduced, Produce, ProduceAnswer
from fencepost.wire.k03_metadata import TopicQuery

APPEND_STEPS: Final = 64
"""What a partition costs beside its records, counted in steps of a check: the first append to a log opens it,
which takes 0.2 ms; 64 of them share a slice."""

SMALL_BYTES_MAX: Final = 4096
"""Of a batch that is checked in one go, if it is not compressed: at most some 2,000 steps."""

RECORD_BYTES_MIN: Final = 2  # of a record's header: the least that a step of a check takes

_CODEC_AT: Final = ATTRIBUTES_AT + 1  # their low byte
_PRODUCER: Final = fields_of("attributes", "producer_id", "producer_epoch", "base_sequence")


class _Pending:
    """The outcomes of one request, in its order, how many are still open, and what is to be begun."""

    __slots__ = ("_left", "_reply", "_rows", "budget", "is_looked_up", "request", "to_begin", "unknown")

    def __init__(self, request: Produce, reply: Reply[ProduceAnswer]) -> None:
        self.request = request
        self._reply = reply
        self._left = len(request.partitions)
        self._rows: list[PartitionProduced | None] = [None] * self._left
        self.to_begin: Iterator[int] = iter(range(self._left))  # positions
        self.unknown: list[int] = []  # positions of partitions that are not known here
        self.is_looked_up = False
        self.budget = Budget(SLICE_STEPS)

    def done(self, position: int, row: PartitionProduced) -> None:
        """The outcome of the partition at that position of the request; the last one sends the answer."""
        self._rows[position] = row
        self._left -= 1
        if self._left == 0:
            self._reply(ProduceAnswer(tuple(each for each in self._rows if each is not None)))

    def refused(self, position: int, code: int, message: str | None = None) -> None:
        """Note the error code of one partition: nothing was appended there."""
        data = self.request.partitions[position]
        self.done(position, PartitionProduced(data.topic, data.index, code, error_message=message))


class ProduceEndpoint:
    """The endpoint of Produce (API key 0)."""

    def __init__(
        self,
        partitions: Partitions,
        unknown: UnknownPartitions,
        verifier: Verifier,
        checks: Checks,
        flusher: Flusher,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._unknown = unknown
        self._verifier = verifier
        self._checks = checks
        self._flusher = flusher
        self._clock_ms = clock_ms

    def produce(self, request: Produce, context: Context, reply: Reply[ProduceAnswer]) -> None:
        """The endpoint. Raises InvalidRequest on acks that Kafka does not know."""
        if request.acks not in (-1, 0, 1):
            raise InvalidRequiredAcks(f"acks {request.acks}: expected -1, 0 or 1")
        if not request.partitions:
            reply(ProduceAnswer(()))
            return
        self._go_on(_Pending(request, reply))

    def _go_on(self, pending: _Pending) -> None:
        """Begin the partitions that are left; the rest in the next turn of the loop when a slice is full."""
        partitions, budget = pending.request.partitions, pending.budget
        for position in pending.to_begin:
            budget.steps -= APPEND_STEPS
            data = partitions[position]
            partition = self._partitions.find(data.topic, data.index)
            if partition is not None and partition.is_configured:
                self._begin(pending, position, partition, data.records)
            elif pending.is_looked_up:
                pending.refused(position, self._unknown.code(data.topic, data.index))
            else:
                pending.unknown.append(position)
            if budget.steps <= 0:
                budget.steps = SLICE_STEPS
                asyncio.get_running_loop().call_soon(self._go_on, pending)
                return
        if pending.unknown and not pending.is_looked_up:
            self._look_up(pending)

    def _look_up(self, pending: _Pending) -> None:
        """Ask for the partitions that are not known here, once, then begin them."""
        pending.is_looked_up = True
        pending.to_begin = iter(pending.unknown)
        topics = dict.fromkeys(pending.request.partitions[each].topic for each in pending.unknown)
        self._unknown.look_up_first(tuple(map(TopicQuery, topics)), lambda: self._go_on(pending))

    def _begin(self, pending: _Pending, position: int, partition: Partition, records: Buffer | None) -> None:
        """Append, or first ask the coordinator."""
        if records is None or len(records) < HEADER_BYTES:
            pending.refused(position, CorruptMessage.code, "a record batch of magic 2 was expected")
            return
        attributes, producer_id, epoch, sequence = _PRODUCER.unpack_from(records)
        if not attributes & TRANSACTIONAL:
            self._append(pending, position, partition, records, None, None)
            return
        transactional_id = pending.request.transactional_id
        if transactional_id is None:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            pending.refused(position, code, "a transactional batch without a transactional id")
            return
        producer = Producer(transactional_id, ProducerId(producer_id), epoch)
        log = partition.log
        guard = None
        adds = pending.request.adds_partitions
        if log.config.verification or adds:  # or the coordinator would not know what to end
            now_ms = self._clock_ms()
            guard = log.verification_guard(producer.producer_id, epoch, sequence, now_ms, adds=adds)
        if guard is None:  # its transaction is open here: the coordinator will end it
            self._append(pending, position, partition, records, None, producer)
            return
        if log.is_announced(producer.producer_id, epoch):
            self._append(pending, position, partition, records, guard, producer)
            return

        def verified(code: ErrorCode) -> None:
            if code != ErrorCode.NONE:
                pending.refused(position, verdict(code, pending.request), producer.refused(code))
            elif not partition.is_open:
                pending.refused(position, self._unknown.code(partition.topic, partition.index))
            else:
                self._append(pending, position, partition, records, guard, producer)

        self._verifier.ask(producer, partition.topic, partition.index, verified, adds=adds)

    def _append(
        self,
        pending: _Pending,
        position: int,
        partition: Partition,
        records: Buffer,
        guard: VerificationGuard | None,
        producer: Producer | None,
    ) -> None:
        """Check the batches, then append them: at once, unless they are many or large."""

        budget = pending.budget
        if (
            len(records) <= SMALL_BYTES_MAX
            and not records[_CODEC_AT] & COMPRESSION
            and partition.log.config.codec is None
            and self._checks.is_free(partition)
        ):
            budget.steps -= len(records) // RECORD_BYTES_MIN
            self._write(pending, position, partition, records, None, guard, producer)
            return

        def checked(found: Checked | ApiError) -> None:
            if isinstance(found, ApiError):
                self._refuse(pending, position, partition, None, found)
            elif not partition.is_open:
                pending.refused(position, self._unknown.code(partition.topic, partition.index))
            else:
                self._write(pending, position, partition, *found, guard, producer)

        self._checks.check(partition, records, self._clock_ms(), budget, checked)

    def _write(
        self,
        pending: _Pending,
        position: int,
        partition: Partition,
        records: Buffer,
        headers: tuple[BatchHeader, ...] | None,
        guard: VerificationGuard | None,
        producer: Producer | None,
    ) -> None:
        try:
            appended = partition.log.append(records, self._clock_ms(), partition.leader_epoch, guard, headers)
        except ApiError as error:
            self._refuse(pending, position, partition, None if guard is not None else producer, error)
            return
        except OSError as error:
            self._partitions.fail(partition, error, doing="append")
            pending.refused(position, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        if not appended.duplicate:
            partition.wake()
        row = PartitionProduced(
            partition.topic,
            partition.index,
            ErrorCode.NONE,
            appended.base_offset,
            appended.log_append_time_ms,
            partition.log.start,
        )
        if appended.flush_due:
            self._flush(pending, position, partition, row)
        else:
            pending.done(position, row)

    def _flush(self, pending: _Pending, position: int, partition: Partition, row: PartitionProduced) -> None:
        def flushed(is_safe: bool) -> None:
            if is_safe:
                pending.done(position, row)
            else:
                pending.refused(position, ErrorCode.KAFKA_STORAGE_ERROR)

        self._flusher.flush(partition, flushed)

    def _refuse(
        self,
        pending: _Pending,
        position: int,
        partition: Partition,
        producer: Producer | None,
        error: ApiError,
    ) -> None:
        """The log refused. Of an old epoch the coordinator knows why it is old: timed out, or fenced."""
        if producer is None or not isinstance(error, InvalidProducerEpoch):
            pending.refused(position, error.code, message_of(error))
            return

        def verified(code: ErrorCode) -> None:
            message = producer.refused(code)
            if code in (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE):
                code = InvalidProducerEpoch.code  # the partition knows better: it has seen a newer one
                message = str(error)
            pending.refused(position, verdict(code, pending.request), message)

        self._verifier.ask(producer, partition.topic, partition.index, verified)
