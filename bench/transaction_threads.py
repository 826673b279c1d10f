"""The producers of confluent-kafka (librdkafka) that load a cluster: a thread each."""

import os
import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaException

from fencepost.bench.transaction_records import Load, Written, values_of
from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer


class Threads:
    """See ``Writers``. Two meetings of all threads: each has its producer, and the window is known."""

    def __init__(self, load: Load, partitions: int) -> None:
        self.pids: Sequence[int] = (os.getpid(),)
        self.window_ns = (0, 0)
        self._together = threading.Barrier(load.producers + 1)
        self._writers = [_Writer(load, number, number % partitions, self) for number in range(load.producers)]

    def open(self) -> None:
        """See Writers."""
        for writer in self._writers:
            writer.start()
        self._meet()

    def write(self, begin_ns: int, end_ns: int) -> list[Written]:
        """See Writers."""
        self.window_ns = begin_ns, end_ns
        self._meet()
        self._join()
        return [Written(writer.committed, writer.latencies_ns) for writer in self._writers]

    def close(self) -> None:
        """See Writers."""
        self.abort()

    def meet(self) -> None:
        """Of a thread. Raises BrokenBarrierError: another one failed."""
        self._together.wait()

    def abort(self) -> None:
        """No meeting takes place any more."""
        self._together.abort()

    def _meet(self) -> None:
        try:
            self._together.wait()
        except threading.BrokenBarrierError:
            self._join()
            raise

    def _join(self) -> None:
        """Raises what a thread failed with."""
        for writer in self._writers:
            writer.join()
        failures = [writer.failure for writer in self._writers if writer.failure is not None]
        if failures:
            raise next((each for each in failures if isinstance(each, KafkaException)), failures[0])


class _Writer(threading.Thread):
    """The thread of one producer."""

    def __init__(self, load: Load, number: int, partition: int, threads: Threads) -> None:
        super().__init__(name=f"producer-{number}", daemon=True)
        self.latencies_ns: list[int] = []
        self.committed: list[int] = []
        self.failure: Exception | None = None
        self._load = load
        self._number = number
        self._partition = partition
        self._threads = threads

    def run(self) -> None:
        try:
            self._write()
        except (KafkaException, threading.BrokenBarrierError) as error:
            self.failure = error
            self._threads.abort()

    def _write(self) -> None:
        load = self._load
        producer = TransactionalProducer(load.bootstrap, f"{load.topic}-{self._number}", load.access)
        self._threads.meet()
        self._threads.meet()
        begin_ns, end_ns = self._threads.window_ns
        transaction = 0
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
            transaction += 1
        if load.hides_aborted:
            producer.write(self._records(transaction), commit=False)

    def _records(self, transaction: int) -> list[Record]:
        values = values_of(self._load, self._number, transaction)
        return [Record(self._load.topic, value, self._partition) for value in values]
