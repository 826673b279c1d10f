"""The process that loads a cluster for ``bench transactions``, and reads back what it wrote.

Producers   one thread each, one partition each (producer p of n writes to partition p modulo the topic's);
            each begins its next transaction as soon as the last one is committed.
Measured    from before begin_transaction to after commit_transaction, of what lies in the window whole.
Value       producer u32 | transaction u64 | record u32 | zeros, to VALUE_BYTES.
Verified    a read_committed consumer sees each producer's committed records, each once, in order. Each
            producer also aborts one transaction at the end, outside the window, that must not be seen where
            ``hides_aborted``: the mock cluster shows aborted records, and forgets the oldest ones of a full
            log, so there the records are compared from the first one that is left.
"""

import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

import msgspec
from confluent_kafka import KafkaException, Producer

from fencepost.bench.process import Answer, serve, write_answer
from fencepost.client.read_back import READ_COMMITTED, NotReadToEnd, read_topic
from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer

VALUE_BYTES: Final = 100
READ_SECONDS_MAX: Final = 120.0
TOPIC_SECONDS_MAX: Final = 20.0
ASK_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.05
_VALUE: Final = struct.Struct(">IQI")
_PADDING: Final = bytes(VALUE_BYTES - _VALUE.size)


class Mock(msgspec.Struct, frozen=True, tag="mock"):
    """Start librdkafka's in-memory mock cluster in this process. Answer: its bootstrap servers."""

    brokers: int


class Load(msgspec.Struct, frozen=True, tag="load", kw_only=True):
    """Load a cluster. Answer: ``Loaded``."""

    bootstrap: str
    topic: str
    producers: int
    messages: int
    warm_up_s: float
    seconds: float
    hides_aborted: bool


class Loaded(msgspec.Struct, frozen=True):
    """``latencies_ns``: of each transaction in the window. ``fault``: how the read-back differs, or empty."""

    latencies_ns: list[int]
    fault: str


class _Writer(threading.Thread):
    """The thread of one producer."""

    def __init__(self, load: Load, number: int, partitions: int, together: threading.Barrier) -> None:
        super().__init__(name=f"producer-{number}", daemon=True)
        self.latencies_ns: list[int] = []
        self.committed: list[int] = []
        self.aborted = 0  # in the window or not, but for the last one, which is ours
        self.failure: Exception | None = None
        self._load = load
        self._number = number
        self._partition = number % partitions
        self._together = together

    def run(self) -> None:
        try:
            self._write()
        except (KafkaException, threading.BrokenBarrierError) as error:
            self.failure = error
            self._together.abort()

    def _write(self) -> None:
        load = self._load
        producer = TransactionalProducer(load.bootstrap, f"{load.topic}-{self._number}")
        transaction = 0
        self._together.wait()
        begin_ns = time.monotonic_ns() + round(load.warm_up_s * 1e9)
        end_ns = begin_ns + round(load.seconds * 1e9)
        now_ns = 0
        while now_ns < end_ns:
            records = self._records(transaction)
            sent_ns = time.monotonic_ns()
            outcome = producer.write(records)
            now_ns = time.monotonic_ns()
            if outcome is Outcome.COMMITTED:
                self.committed.append(transaction)
                if begin_ns <= sent_ns and now_ns <= end_ns:
                    self.latencies_ns.append(now_ns - sent_ns)
            else:
                self.aborted += 1
            transaction += 1
        if load.hides_aborted:
            producer.write(self._records(transaction), commit=False)

    def _records(self, transaction: int) -> list[Record]:
        return [
            Record(self._load.topic, _VALUE.pack(self._number, transaction, each) + _PADDING, self._partition)
            for each in range(self._load.messages)
        ]


def load_cluster(load: Load) -> Loaded:
    """Run the producers, then read everything back. Raises KafkaException: no row can be had."""
    partitions = _await_topic(load.bootstrap, load.topic)
    together = threading.Barrier(load.producers)
    writers = [_Writer(load, number, partitions, together) for number in range(load.producers)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    failures = [writer.failure for writer in writers if writer.failure is not None]
    if failures:
        raise next((each for each in failures if isinstance(each, KafkaException)), failures[0])
    latencies_ns = [each for writer in writers for each in writer.latencies_ns]
    return Loaded(latencies_ns, _difference(load, [writer.committed for writer in writers]))


def _difference(load: Load, committed: list[list[int]]) -> str:
    """Between what is seen and the transactions each producer committed, in words; empty if there is none."""
    expected = [_expected(each, load.messages) for each in committed]
    begun = [load.hides_aborted] * load.producers  # else a full log may begin in the middle
    try:
        for record in read_topic(load.bootstrap, load.topic, READ_COMMITTED, timeout_s=READ_SECONDS_MAX):
            number, *seen = _VALUE.unpack_from(record.value)
            wanted = next(expected[number], None)
            while not begun[number] and wanted is not None and wanted != tuple(seen):
                wanted = next(expected[number], None)
            begun[number] = True
            if wanted != tuple(seen):
                return f"producer {number}: saw (transaction, record) {tuple(seen)}, expected {wanted}"
    except (NotReadToEnd, KafkaException) as error:
        return str(error)
    for number, rest in enumerate(expected):
        missing = next(rest, None)
        if missing is not None:
            return f"producer {number}: never saw (transaction, record) {missing} and what follows"
    return ""


def _expected(committed: list[int], messages: int) -> Iterator[tuple[int, int]]:
    return ((transaction, each) for transaction in committed for each in range(messages))


def _await_topic(bootstrap: str, topic: str) -> int:
    """Have the topic created, as a producer's first metadata request does. Returns its partition count."""
    asker = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + TOPIC_SECONDS_MAX
    while True:
        found = asker.list_topics(topic, timeout=ASK_SECONDS).topics[topic]
        if found.error is None and found.partitions:
            if all(each.leader >= 0 for each in found.partitions.values()):
                return len(found.partitions)
        if time.monotonic() > deadline:
            raise KafkaException(found.error)
        time.sleep(POLL_SECONDS)


def start_mock(mock: Mock) -> tuple[Producer, str]:
    """The client that holds the mock cluster, and the cluster's bootstrap servers."""
    holder = Producer({"test.mock.num.brokers": mock.brokers, "log_level": 0})
    brokers = holder.list_topics(timeout=ASK_SECONDS).brokers.values()
    return holder, ",".join(f"{each.host}:{each.port}" for each in brokers)


def main() -> None:
    """Execute commands from stdin until its end."""
    mocks: list[Producer] = []

    def execute(command: Mock | Load) -> str | Loaded:
        if isinstance(command, Load):
            return load_cluster(command)
        holder, bootstrap = start_mock(command)
        mocks.append(holder)
        return bootstrap

    try:
        serve(Mock | Load, execute)
    except KafkaException as error:
        write_answer(Answer(error=str(error)))
        sys.exit(1)


if __name__ == "__main__":
    main()
