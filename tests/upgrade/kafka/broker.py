"""Real brokers of Apache Kafka 3.9 in ZooKeeper mode, from the jars that Maven fetches into .clients, once.

Directory   ``HOME/logs`` is a broker's ``log.dirs``, ``HOME/broker.log`` what it says, in Kafka's pattern.
"""

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.wire.connection import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from tests.clients import players
from tests.ports import free_port
from tests.zookeeper.servers import wait_until

VERSION: Final = "3.9.1"
HERE: Final = Path(__file__).parent
FOLDER: Final = players.FETCHED / f"kafka-{VERSION}-zookeeper"
JVM: Final = ("-Xms96m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_SECONDS_MAX: Final = 180.0  # generous: three of them start at once on a busy machine
ASK_SECONDS: Final = 20.0
SETTINGS: Final = """\
num.network.threads=1
num.io.threads=2
log.cleaner.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=1
default.replication.factor=3
controlled.shutdown.retry.backoff.ms=200
zookeeper.session.timeout.ms=6000
"""


class Broker:
    """One broker. ``start`` it again after ``stop``, with another protocol version if wanted."""

    def __init__(self, home: Path, connect: str, broker_id: int, protocol: str) -> None:
        self.home = home
        self.broker_id = broker_id
        self.port = free_port()
        self.protocol = protocol
        self.connect = connect
        self._launched_at = 0  # in its log
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Returns at once; ``await_serving`` or ``await_ended`` comes next."""
        config = self.home / "server.properties"
        config.write_text(
            f"broker.id={self.broker_id}\nzookeeper.connect={self.connect}\nlog.dirs={self.home / 'logs'}\n"
            f"listeners=PLAINTEXT://{self.bootstrap}\ninter.broker.protocol.version={self.protocol}\n{SETTINGS}",
            "utf-8",
        )
        command = [
            "java", *JVM, f"-Dlog4j.configuration=file:{HERE / 'log4j.properties'}",
            "-cp", f"{FOLDER}/lib/*", "kafka.Kafka", str(config),
        ]  # fmt: skip
        (self.home / "broker.log").touch()
        self._launched_at = len(self.log)
        with (self.home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_serving(self) -> None:
        """Returns when the process that was launched last says that it has started."""
        started = f"[KafkaServer id={self.broker_id}] started (kafka.server.KafkaServer)"

        def serves() -> bool:
            assert not self.has_ended, f"broker {self.broker_id} ended by itself:\n{self.log[-3000:]}"
            return started in self.log[self._launched_at :]

        wait_until(f"broker {self.broker_id} serves", serves, START_SECONDS_MAX)

    def start(self) -> None:
        self.launch()
        self.await_serving()

    def await_ended(self) -> None:
        """Returns when it has ended by itself."""
        wait_until(f"broker {self.broker_id} ends", lambda: self.has_ended, START_SECONDS_MAX)

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def stop(self) -> None:
        """SIGTERM; returns when it is gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS_MAX)
            self._process = None

    @property
    def log(self) -> str:
        """All that it ever said."""
        return (self.home / "broker.log").read_text("utf-8", "replace")

    def ask_for_id(self) -> int | str:
        """A producer id that it gives to a new idempotent producer, or the name of its error."""
        return asyncio.run(self._ask())

    async def _ask(self) -> int | str:
        connection = await Connection.open("127.0.0.1", self.port, timeout_s=ASK_SECONDS)
        try:
            answer = await connection.call(
                INIT_PRODUCER_ID, InitProducerId(None, 60_000), timeout_s=ASK_SECONDS
            )
        except ApiError as error:
            return type(error).__name__
        except (ConnectionLost, RequestTimeout) as error:
            return type(error).__name__
        finally:
            connection.close()
        return answer.producer_id


def fetch() -> None:
    """Raises players.NotHere: no Java, no Maven, or Maven cannot get the jars."""
    players.need("java", "mvn")
    players.copied(HERE / "pom.xml", FOLDER)


@contextlib.contextmanager
def running(folder: Path, connect: str, protocols: dict[int, str]) -> Iterator[dict[int, Broker]]:
    """Brokers by id, serving; killed at the end."""
    brokers = {
        broker_id: Broker(folder / f"kafka-{broker_id}", connect, broker_id, protocol)
        for broker_id, protocol in protocols.items()
    }
    try:
        for broker in brokers.values():
            broker.launch()
        for broker in brokers.values():
            broker.await_serving()
        yield brokers
    finally:
        for broker in brokers.values():
            broker.kill()
