"""Three nodes of Apache Kafka of any version, each with two log directories: they die, and are started again.

Small       heaps of 256 MiB, few internal partitions, everything periodic is soon.
Replicas    three of each internal partition; what is written waits for two of them.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka.admin import AdminClient

from tests.audit.kafka.broker import SETTINGS
from tests.clients.kafka_broker import Broker, fetch
from tests.ports import free_port

T = TypeVar("T")

NODES: Final = (1, 2, 3)
LOG_DIRS: Final = ("a", "b")
JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
WAIT_SECONDS_MAX: Final = 90.0
STOP_SECONDS_MAX: Final = 25.0  # the last of three has no quorum to say goodbye to
POLL_SECONDS: Final = 0.2

REPLICATED: Final = """\
default.replication.factor=3
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
transactional.id.expiration.ms=20000
transaction.remove.expired.transaction.cleanup.interval.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=3000
metadata.log.segment.ms=15000
"""


class Three:
    """The nodes by number; none outlives ``kill_all``."""

    def __init__(self, home: Path, version: str) -> None:
        """Formats the directories. Raises NotHere, RuntimeError."""
        fetch(version)
        self.home = home
        controllers = {node_id: free_port() for node_id in NODES}
        settings = _replaced(SETTINGS, REPLICATED)
        self.nodes = {
            node_id: Broker(home / str(node_id), settings, node_id=node_id, port=free_port(),
                            controllers=controllers, jvm=JVM, version=version, log_dirs=LOG_DIRS)
            for node_id in NODES
        }  # fmt: skip
        self.bootstrap = ",".join(each.bootstrap for each in self.nodes.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def start(self) -> None:
        """Returns when each shows all. Raises RuntimeError."""
        for each in self.nodes.values():
            each.launch()
        for each in self.nodes.values():
            each.await_brokers(len(NODES))

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads it. Raises TimeoutError: none does."""

        def found() -> int | None:
            known = self.admin.list_topics(topic, timeout=5).topics[topic].partitions.get(partition)
            return known.leader if known is not None and known.leader in self.nodes else None

        return until(found, f"a leader of {topic}-{partition}")

    def await_in_sync(self) -> None:
        """Returns when each replica of each partition is in sync. Raises TimeoutError."""

        def lagging() -> str | None:
            partitions = [
                (name, each)
                for name, topic in self.admin.list_topics(timeout=5).topics.items()
                for each in topic.partitions.values()
            ]
            late = [f"{name}-{each.id}" for name, each in partitions if len(each.isrs) < len(each.replicas)]
            return None if late else "none"

        until(lagging, "all replicas in sync")

    def stop_all(self) -> None:
        """SIGTERM to all at once, as an operator's tool does; SIGKILL to whom that does not end in time."""
        for each in self.nodes.values():
            each.terminate()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while time.monotonic() < deadline and not all(each.has_ended() for each in self.nodes.values()):
            time.sleep(POLL_SECONDS)
        self.kill_all()

    def kill_all(self) -> None:
        for each in self.nodes.values():
            each.kill()


@contextlib.contextmanager
def running(home: Path, version: str) -> Iterator[Three]:
    """The nodes, up; killed at the end. Raises NotHere, RuntimeError."""
    cluster = Three(home, version)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill_all()


def until(looked: Callable[[], T | None], wanted: str, seconds: float = WAIT_SECONDS_MAX) -> T:
    """What ``looked`` finds at last; its failures are looked past. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(Exception):
            found = looked()
            if found is not None:
                return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{wanted}: not in {seconds:.0f} s")
        time.sleep(POLL_SECONDS)


def until_done(call: Callable[[], None], wanted: str) -> None:
    """Call until it raises nothing. Raises TimeoutError."""

    def done() -> bool:
        call()
        return True

    until(done, wanted)


def _replaced(settings: str, by: str) -> str:
    names = {line.partition("=")[0] for line in by.splitlines()}
    kept = [line for line in settings.splitlines() if line.partition("=")[0] not in names]
    return "".join(f"{line}\n" for line in kept) + by
