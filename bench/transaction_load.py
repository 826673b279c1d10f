"""The process that loads a cluster for ``bench transactions``, and reads back what it wrote.

Producers   each begins its next transaction as soon as the last one is committed (transaction_threads.py,
            transaction_tasks.py, transaction_java.py); their values are those of transaction_records.py.
Measured    from before begin_transaction to after commit_transaction, of what lies in the window whole.
CPU         of the cluster's nodes and of the client, from the window's begin to its end: read twice.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from fencepost.bench.load import cpu_seconds
from fencepost.bench.loop_load import Create, create_topic
from fencepost.bench.process import serve
from fencepost.bench.transaction_aiokafka import AiokafkaProducer
from fencepost.bench.transaction_java import JavaWriters
from fencepost.bench.transaction_records import Load, LoadFailed, Writers, difference
from fencepost.bench.transaction_tasks import FencepostProducer, Tasks
from fencepost.bench.transaction_threads import Threads

AIOKAFKA: Final = "aiokafka"
CONFLUENT: Final = "confluent"
FENCEPOST: Final = "fencepost"
JAVA: Final = "java"
CLIENT: Final = "client"  # whose CPU time it is, beside the nodes'
TOPIC_SECONDS_MAX: Final = 20.0
ASK_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.05

CLIENTS: Final[Mapping[str, Callable[[Load, int], Writers]]] = {
    AIOKAFKA: partial(Tasks, new=AiokafkaProducer),
    CONFLUENT: Threads,
    FENCEPOST: partial(Tasks, new=FencepostProducer),
    JAVA: JavaWriters,
}


class Mock(msgspec.Struct, frozen=True, tag="mock"):
    """Start librdkafka's in-memory mock cluster in this process. Answer: its bootstrap servers."""

    brokers: int


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """Delete topics, for the sake of the disk. The response is null."""

    bootstrap: str
    topics: list[str]
    access: dict[str, str] = {}


class Loaded(msgspec.Struct, frozen=True):
    """``latencies_ns``: of each transaction in the window. ``fault``: how the read-back differs, or empty.

    ``cpu_s``: CPU seconds in the window of each node whose process is known, and of the client, whose
    processes are ``pids``.
    """

    latencies_ns: list[int]
    cpu_s: dict[str, float]
    fault: str
    pids: list[int] = []


class _CpuMeter(threading.Thread):
    """Reads CPU times at the begin and at the end of a window."""

    def __init__(self, pids: Mapping[str, Sequence[int]], begin_ns: int, end_ns: int) -> None:
        super().__init__(name="cpu", daemon=True)
        self._pids = pids
        self._window_ns = begin_ns, end_ns
        self._readings: list[dict[str, float]] = []
        self._cancelled = threading.Event()

    def run(self) -> None:
        for at_ns in self._window_ns:
            if self._cancelled.wait((at_ns - time.monotonic_ns()) / 1e9):
                return
            self._readings.append(self._read())

    def result(self) -> dict[str, float]:
        """Seconds by name, once the window is over. A process that came or went in it is left out."""
        self.join()
        before, after = self._readings
        return {name: after[name] - before[name] for name in self._pids if name in before and name in after}

    def cancel(self) -> None:
        """The window does not take place."""
        self._cancelled.set()

    def _read(self) -> dict[str, float]:
        found = {}
        for name, pids in self._pids.items():
            used = [cpu_seconds(pid) for pid in pids]
            if None not in used:
                found[name] = sum(each for each in used if each is not None)
        return found


def load_cluster(load: Load) -> Loaded:
    """Run the producers, then read everything back. Raises KafkaException, LoadFailed, RuntimeError."""
    if load.partitions:
        create_topic(Create(load.bootstrap, load.topic, load.partitions, load.access))
    partitions = load.partitions or _await_topic(load.bootstrap, load.topic)
    writers = CLIENTS[load.client](load, partitions)
    try:
        writers.open()
        begin_ns = time.monotonic_ns() + round(load.warm_up_s * 1e9)
        end_ns = begin_ns + round(load.seconds * 1e9)
        pids = {name: (pid,) for name, pid in load.nodes.items()} | {CLIENT: tuple(writers.pids)}
        meter = _CpuMeter(pids, begin_ns, end_ns)
        meter.start()
        try:
            written = writers.write(begin_ns, end_ns)
        except BaseException:
            meter.cancel()
            raise
        cpu_s = meter.result()
    finally:
        writers.close()
    latencies_ns = [each for producer in written for each in producer.latencies_ns]
    fault = difference(load, [producer.committed for producer in written]) if load.is_verified else ""
    return Loaded(latencies_ns, cpu_s, fault, list(writers.pids))


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


def delete_topics(delete: Delete) -> None:
    """Returns when the cluster has them no more. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": delete.bootstrap, "log_level": 0, **delete.access})
    for future in admin.delete_topics(delete.topics, operation_timeout=TOPIC_SECONDS_MAX).values():
        future.result(TOPIC_SECONDS_MAX)


def start_mock(mock: Mock) -> tuple[Producer, str]:
    """The client that holds the mock cluster, and the cluster's bootstrap servers."""
    holder = Producer({"test.mock.num.brokers": mock.brokers, "log_level": 0})
    brokers = holder.list_topics(timeout=ASK_SECONDS).brokers.values()
    return holder, ",".join(f"{each.host}:{each.port}" for each in brokers)


def main() -> None:
    """Execute commands from stdin until its end."""
    mocks: list[Producer] = []

    def execute(command: Mock | Load | Delete) -> str | Loaded | None:
        if isinstance(command, Load):
            return load_cluster(command)
        if isinstance(command, Delete):
            delete_topics(command)
            return None
        holder, bootstrap = start_mock(command)
        mocks.append(holder)
        return bootstrap

    serve(Mock | Load | Delete, execute, (KafkaException, LoadFailed, RuntimeError))


if __name__ == "__main__":
    main()
