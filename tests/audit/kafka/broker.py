"""A real Apache Kafka, one KRaft node on loopback, from the jars that Maven fetches into .clients, once.

Directory   ``HOME/logs`` is its ``log.dirs``: what an audit reads. Its own output is ``HOME/broker.log``.
Small       few internal partitions, metadata snapshots every few kilobytes, expiry looked for twice a second.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from tests.clients import players
from tests.clients.players import NotHere
from tests.ports import free_port

__all__ = ["CLASS_PATH", "VERSION", "WORN", "Broker", "NotHere", "fetch", "running"]

VERSION: Final = "4.1.1"
HERE: Final = Path(__file__).parent
FOLDER: Final = players.FETCHED / "audit-kafka"
CLASS_PATH: Final = str(FOLDER / "lib/*")
START_SECONDS_MAX: Final = 90.0
STOP_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.1
MEMORY: Final = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER_ID: Final = "ZmVuY2Vwb3N0LWF1ZGl0MA"

SETTINGS: Final = """\
node.id=1
process.roles=broker,controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
num.partitions=2
auto.create.topics.enable=false
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
group.initial.rebalance.delay.ms=0
metadata.log.max.record.bytes.between.snapshots=4000
log.index.size.max.bytes=4096
log.cleaner.backoff.ms=300
log.cleaner.dedupe.buffer.size=16777216
log.initial.task.delay.ms=500
log.retention.check.interval.ms=1000
num.network.threads=1
num.io.threads=2
background.threads=2
"""

WORN: Final = """\
transactional.id.expiration.ms=3000
transaction.remove.expired.transaction.cleanup.interval.ms=500
metadata.log.segment.ms=2000
metadata.max.retention.ms=2000
metadata.max.idle.interval.ms=500
"""
"""As after months: the coordinator has forgotten ids, the metadata log begins at a snapshot."""


class Broker:
    """One broker that is also its own controller. ``start`` again after ``stop`` or ``kill``."""

    def __init__(self, home: Path, settings: str = "") -> None:
        self.home = home
        self.logs = home / "logs"
        self._config = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.port, controller = free_port(), free_port()
        home.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            f"{SETTINGS}{settings}log.dirs={self.logs}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n",
            "utf-8",
        )
        self._run(
            "kafka.tools.StorageTool", "format", "-c", str(self._config), "-t", CLUSTER_ID, "--standalone"
        )

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers. Raises RuntimeError with the end of its output."""
        command = ["java", *MEMORY, "-cp", CLASS_PATH, "kafka.Kafka", str(self._config)]
        with (self.home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.home, stdout=log, stderr=log)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            with contextlib.suppress(Exception):
                if admin.list_topics(timeout=1).brokers:
                    return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka does not answer: {self._tail()}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """As an operator does: SIGTERM; it closes its logs and writes that it did."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(STOP_SECONDS_MAX)
            self._process = None

    def _run(self, *arguments: str) -> None:
        ended = subprocess.run(
            ["java", *MEMORY, "-cp", CLASS_PATH, *arguments],
            cwd=self.home, capture_output=True, text=True, timeout=START_SECONDS_MAX, check=False,
        )  # fmt: skip
        if ended.returncode:
            raise RuntimeError(f"{arguments[0]}: status {ended.returncode}: {ended.stdout}{ended.stderr}")

    def _tail(self) -> str:
        return (self.home / "broker.log").read_text("utf-8", "replace")[-3000:]


def fetch() -> None:
    """Raises NotHere: no Java, no Maven, or Maven cannot get the jars."""
    players.need("java", "mvn")
    copy = [
        "mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies",
        "-DoutputDirectory=lib", "-DincludeScope=runtime",
    ]  # fmt: skip
    players._fetch(FOLDER, HERE / "pom.xml", copy)


@contextlib.contextmanager
def running(home: Path, settings: str = "") -> Iterator[Broker]:
    """A new broker, up; killed at the end if no test stopped it."""
    fetch()
    broker = Broker(home, settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
