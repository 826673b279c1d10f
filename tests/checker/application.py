"""A read-process-write application (confluent-kafka): one consumer and one transactional producer.

Loop      read up to ``batch_max`` records, write an output for each, send the offsets with the group's
          metadata in the same transaction, commit. Some transactions are aborted on purpose, and read again.
Points    between the steps of a transaction: a process stops or kills itself there, as a signal asks.
No group  the position is found in the output topic after InitProducerId, and no offsets are sent.
Plants    faults of the application that the checker must find: see ``PLANTS``.
"""

import json
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.checker.application_process import ApplicationProcess
from tests.checker.evidence import Outcome
from tests.checker.history import History
from tests.checker.library_log import CONSUMER, PRODUCER, LibraryLog, Requests
from tests.checker.outputs import outputs
from tests.checker.reading import consumer as static_consumer
from tests.checker.reading import read_to_end
from tests.checker.settings import (
    CALL_SECONDS,
    CALLS_MAX,
    CLIENT,
    OUTPUT,
    READ_SECONDS_MAX,
    TRANSACTION_TIMEOUT_MS,
    Part,
    until_terminated,
)

INIT_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.25

PLANTS: Final = {
    "no-rewind": "goes on behind the records of an aborted transaction",
    "no-transaction": "writes its outputs outside of transactions",
    "offsets-outside": "commits its offsets by themselves, before the transaction",
    "no-generation": "sends its offsets without the group's generation and member id",
}
REFUSALS: Final = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._FENCED,
}
_PREFIX: Final = b"CGMDv2:"  # of librdkafka's group metadata; the generation follows


class Ended(Exception):
    """This process cannot go on; another one takes its place."""


class Application(ApplicationProcess):
    """One process's state. ``ended`` is set when it is to leave."""

    def __init__(
        self, part: Part, history: History, requests: Requests, *, is_over: Callable[[], bool]
    ) -> None:
        super().__init__(part, history, requests)
        self._is_over = is_over
        self._batch: list[Any] = []
        plain = {"enable.idempotence": True}
        transactional = {
            "transactional.id": part.transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": part.bootstrap,
                **CLIENT,
                **PRODUCER,
                "linger.ms": 1,
                **(plain if part.plant == "no-transaction" else transactional),
            }
        )
        self._consumer = static_consumer(part.bootstrap) if part.group is None else self._member(part.group)

    def run(self) -> None:
        """To the end. Raises Ended, KafkaException."""
        if self._part.plant != "no-transaction":
            self._call(self._producer.init_transactions, INIT_SECONDS)
        self._history.write("application_started", **self._named())
        if self._part.group is None:
            self._consumer.assign(self._positions())
        else:
            topics = sorted({topic for topic, _ in self._part.partitions})
            self._consumer.subscribe(
                topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
        while not self._is_over():
            self._read()
            if self._batch:
                self._transact()
        self._consumer.close()
        self._history.write("application_left", **self._named())

    # -- one transaction -----------------------------------------------------------------------------------

    def _read(self) -> None:
        """Callbacks of a rebalance run in here, and nowhere else: no transaction is open."""
        self._batch = []
        while len(self._batch) < self._part.batch_max:
            message = self._consumer.poll(0 if self._batch else POLL_SECONDS)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._batch.append(message)
                continue
            self._history.write("consumer_failed", **self._named(), error=str(error))
            if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise Ended(str(error))

    def _transact(self) -> None:
        self._number += 1
        named = {**self._named(), "number": self._number}
        metadata = None if self._part.group is None else self._consumer.consumer_group_metadata()
        generation = generation_of(metadata)
        sources = [(*_where(each), int(each.value())) for each in self._batch]
        self._history.write("transaction_began", **named, generation=generation, sources=sources)
        committing = False
        outcome = Outcome.IN_DOUBT
        try:
            self._point()
            self._produce(generation, sources)
            self._point()
            self._send_offsets(metadata)
            self._point()
            if self._random.random() < self._part.abort_rate:
                outcome = Outcome.ABORTED
                self._history.write("transaction_aborting", **named)
                self._abort()
            else:
                self._history.write("transaction_committing", **named)
                committing = True
                self._point()
                if self._part.plant != "no-transaction":
                    self._call(self._producer.commit_transaction, CALL_SECONDS)
                outcome = Outcome.COMMITTED
                self._point()
        except KafkaException as failed:
            outcome = self._failed(failed.args[0], committing, named)
        self._history.write("transaction_ended", **named, outcome=outcome)
        if outcome is not Outcome.COMMITTED and self._part.plant != "no-rewind":
            self._rewind()

    def _produce(self, generation: int, sources: list[tuple[str, int, int, int]]) -> None:
        if self._part.plant != "no-transaction":
            self._producer.begin_transaction()
        for place, value in outputs(self._part, self._number, generation, sources):
            self._producer.produce(OUTPUT, value, partition=place)
        if self._part.plant == "no-transaction":
            self._producer.flush(CALL_SECONDS)

    def _send_offsets(self, metadata: Any) -> None:
        if metadata is None:
            return
        ends = {_where(each)[:2]: each.offset() + 1 for each in self._batch}
        offsets = [TopicPartition(*where, offset) for where, offset in ends.items()]
        if self._part.plant in ("offsets-outside", "no-transaction"):
            self._consumer.commit(offsets=offsets, asynchronous=False)
            return
        if self._part.plant == "no-generation":
            metadata = _PREFIX + struct.pack("=i", -1) + str(self._part.group).encode() + b"\0\0\1"
        self._call(self._producer.send_offsets_to_transaction, offsets, metadata, CALL_SECONDS)

    def _failed(self, error: Any, committing: bool, named: dict[str, Any]) -> Outcome:
        """Abort it. Raises Ended if the producer cannot go on."""
        self._history.write("transaction_failed", **named, committing=committing, error=str(error))
        refused = error.code() in REFUSALS
        if error.txn_requires_abort() or self._part.plant is not None:
            self._abort()
            return Outcome.REFUSED if refused else Outcome.ABORTED
        if not committing:
            self._history.write("transaction_ended", **named, outcome=Outcome.REFUSED)
        raise Ended(str(error))

    def _abort(self) -> None:
        if self._part.plant != "no-transaction":
            self._call(self._producer.abort_transaction, CALL_SECONDS)

    def _call(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Again while the library says that it may be tried again. Raises KafkaException."""
        for left in range(CALLS_MAX, 0, -1):
            try:
                with self._watch.call(call.__name__, self._number):
                    call(*arguments)
            except KafkaException as failed:
                named = {"call": call.__name__, "number": self._number, "error": str(failed.args[0])}
                self._history.write("call_failed", **self._named(), **named)
                if left == 1 or not failed.args[0].retriable():
                    raise
            else:
                return

    def _rewind(self) -> None:
        firsts: dict[tuple[str, int], int] = {}
        for each in self._batch:
            firsts.setdefault(_where(each)[:2], each.offset())
        for where, offset in firsts.items():
            self._consumer.seek(TopicPartition(*where, offset))

    # -- positions ----------------------------------------------------------------------------------------

    def _positions(self) -> list[TopicPartition]:
        """Behind the last output of each partition. InitProducerId has ended what was open."""
        ends = {(each[0], each[1]): 0 for each in self._part.partitions}
        outputs = range(self._part.output_partitions)
        for _, _, value in read_to_end(self._part.bootstrap, OUTPUT, outputs, READ_SECONDS_MAX):
            topic, partition, offset, _ = json.loads(value)["source"]
            if (topic, partition) in ends:
                ends[topic, partition] = max(ends[topic, partition], offset + 1)
        return [TopicPartition(*where, offset) for where, offset in ends.items()]

    def _member(self, group: str) -> Any:
        static = {} if self._part.instance_id is None else {"group.instance.id": self._part.instance_id}
        return confluent_kafka.Consumer(
            {
                **static,
                "bootstrap.servers": self._part.bootstrap,
                **CLIENT,
                **CONSUMER,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                # librdkafka (2.16) takes a pending offset (88) for none if its assignment changes before the
                # answer, and starts where this says. "error": the process ends, and another takes its place.
                "auto.offset.reset": "error",
                "session.timeout.ms": self._part.session_ms,
                "heartbeat.interval.ms": 500,
                "max.poll.interval.ms": max(10_000, self._part.session_ms),
                "partition.assignment.strategy": self._part.strategy,
            }
        )

    def _assigned(self, member: Any, partitions: list[TopicPartition]) -> None:
        generation = generation_of(member.consumer_group_metadata())
        self._history.write(
            "partitions_assigned", **self._named(), generation=generation, partitions=_named(partitions)
        )

    def _revoked(self, _: Any, partitions: list[TopicPartition]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        self._batch = [each for each in self._batch if _where(each)[:2] not in gone]
        self._history.write("partitions_revoked", **self._named(), partitions=_named(partitions))


def generation_of(metadata: Any) -> int:
    """-1 without a group. confluent-kafka shows no more of it than librdkafka's own bytes."""
    if metadata is None:
        return -1
    assert metadata.startswith(_PREFIX), metadata
    return int(struct.unpack_from("=i", metadata, len(_PREFIX))[0])


def _where(message: Any) -> tuple[str, int, int]:
    return message.topic(), message.partition(), message.offset()


def _named(partitions: list[TopicPartition]) -> list[tuple[str, int]]:
    return [(each.topic, each.partition) for each in partitions]


def main() -> None:
    """Exit status: 0 it was to leave, 1 it could not go on."""
    part = Part.of_command_line()
    history = History(part.path, part.name)
    over = until_terminated()
    requests = Requests()
    library_log = LibraryLog(part.path, part.name, requests)
    try:
        Application(part, history, requests, is_over=over.is_set).run()
        library_log.remove()
    except (Ended, KafkaException) as failed:
        history.write("application_failed", application=part.name, group=part.group, error=str(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
