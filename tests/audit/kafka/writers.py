"""Clients that write to a cluster for as long as it takes, whatever becomes of its brokers.

Python    threads: transactions of librdkafka and of kafka-python, a producer that waits for its leader alone.
Java      Kafka's own clients, in a process: transactions (KIP-890's where brokers have them), a group that
          copies with its offsets, an idempotent producer (``java/Writers.java``); and Kafka Streams
          (``java/Counts.java``) where Maven has it.
Errors    are expected: what can be aborted is, and a producer that is over is replaced by another.
"""

import contextlib
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, Self

from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from tests.clients.kafka_broker import class_path
from tests.clients.players import FETCHED, NotHere, copied

HERE: Final = Path(__file__).parent
STREAMS_POM: Final = HERE.parents[1] / "clients/streams/pom.xml"
PARTITIONS: Final = 3
TIMEOUT_MS: Final = 2500
CALL_SECONDS: Final = 8.0
PAUSE_SECONDS: Final = 0.06
JOIN_SECONDS_MAX: Final = 40.0
ABORT_EVERY: Final = 4
ODD_EVERY: Final = 30  # a transaction that times out, or is fenced
RECORDS_MAX: Final = 4
KEYS: Final = 12
JAVA: Final = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET: Final = logging.Logger("librdkafka", logging.CRITICAL + 1)  # noqa: LOG001  (failures are expected)

Turn = Callable[[], None]


class Writers:
    """All of them at work, in ``with``; ``stop`` lets each end what it has open."""

    def __init__(
        self, bootstrap: str, topics: Sequence[str], seed: int, home: Path, *, version: str, protocol: str
    ) -> None:
        self._ended = threading.Event()
        self._bootstrap, self._topics, self._seed, self._home = bootstrap, topics, seed, home
        makers = {"rd-0": self._librdkafka, "rd-1": self._librdkafka, "py-0": self._kafka_python}
        self.done = dict.fromkeys((*makers, "plain"), 0)
        self._threads = [
            threading.Thread(target=self._work, args=(name, make), daemon=True)
            for name, make in (*makers.items(), ("plain", self._plain))
        ]
        own = str(HERE / "java/Writers.java")
        self._commands = {
            "java": [*JAVA, "-cp", class_path(version), own, bootstrap, str(seed), protocol, *topics]
        }
        with contextlib.suppress(NotHere):
            jars = copied(STREAMS_POM, FETCHED / "streams")
            counts, state = str(HERE / "java/Counts.java"), str(home / "streams")
            self._commands["streams"] = [
                *JAVA, "-cp", f"{jars}/*", counts, bootstrap, topics[0], topics[1], state
            ]  # fmt: skip
        self._closed_last: list[Any] = []
        self._java: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
        for name, command in self._commands.items():
            with (self._home / f"{name}.log").open("wb") as log:
                self._java.append(
                    subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                    )
                )
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for producer in self._closed_last:
            with contextlib.suppress(KafkaError, AssertionError):
                producer.close(timeout=0)
        for each in self._java:
            each.kill()
            each.wait()

    def stop(self) -> None:
        """Each ends its transaction, as far as brokers let it."""
        self._ended.set()
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        for program in self._java:
            if program.stdin is not None:
                program.stdin.close()
        for each in self._threads:
            each.join(max(0.0, deadline - time.monotonic()))
        for program in self._java:
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(max(1.0, deadline - time.monotonic()))

    def _work(self, name: str, make: Callable[[str, Random], Turn]) -> None:
        random = Random(f"{self._seed} {name}")
        turn: Turn | None = None
        while not self._ended.is_set():
            try:
                turn = turn or make(name, random)
                turn()
                self.done[name] += 1
            except (KafkaException, KafkaError, BufferError, AssertionError, ValueError, OSError):
                turn = None  # another producer of the same name goes on
            self._ended.wait(random.uniform(0, 2 * PAUSE_SECONDS))

    def _librdkafka(self, name: str, random: Random) -> Turn:
        producer = self._made(name)

        def turn() -> None:
            nonlocal producer
            producer.begin_transaction()
            for topic, partition, key, value in self._records(name, random):
                producer.produce(topic, value, key, partition)
            if random.randrange(ODD_EVERY):
                _ended(producer, commits=bool(random.randrange(ABORT_EVERY)))
                return
            producer.flush(CALL_SECONDS)
            if random.randrange(2):
                self._ended.wait(TIMEOUT_MS / 1000 + 1.5)
                _ended(producer, commits=False)
            else:
                producer = self._made(name)  # fences the first

        return turn

    def _made(self, name: str) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": TIMEOUT_MS,
                "socket.timeout.ms": 2000,
                "linger.ms": 3,
                "log_level": 0,
            },
            logger=_QUIET,
        )
        producer.init_transactions(CALL_SECONDS)
        return producer

    def _kafka_python(self, name: str, random: Random) -> Turn:
        producer: Any = KafkaProducer(
            bootstrap_servers=self._bootstrap.split(","),
            transactional_id=name,
            transaction_timeout_ms=TIMEOUT_MS,
            delivery_timeout_ms=8000,
            request_timeout_ms=2000,
            max_block_ms=8000,
        )
        self._closed_last.append(producer)
        producer.init_transactions()

        def turn() -> None:
            try:
                producer.begin_transaction()
                for topic, partition, key, value in self._records(name, random):
                    producer.send(topic, value, key, partition=partition)
                producer.flush(CALL_SECONDS)
                if random.randrange(ABORT_EVERY):
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
            except BaseException:
                producer.close(timeout=0.5)
                raise

        return turn

    def _plain(self, name: str, random: Random) -> Turn:
        """Without ids, acknowledged by the leader alone: what only a leader has that dies."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap, "acks": 1, "enable.idempotence": False, "log_level": 0
        }  # fmt: skip
        producer = Producer(settings, logger=_QUIET)

        def turn() -> None:
            for _ in range(5):
                producer.produce("plain", f"{name} {time.time_ns()}", partition=random.randrange(PARTITIONS))
            producer.poll(0)

        return turn

    def _records(self, name: str, random: Random) -> list[tuple[str, int, bytes, bytes | None]]:
        found = []
        for _ in range(1 + random.randrange(RECORDS_MAX)):
            topic = random.choice(self._topics)
            is_removed = topic.startswith("compacted") and random.randrange(8) == 0
            value = None if is_removed else f"{name} {self.done[name]}".encode()
            found.append((topic, random.randrange(PARTITIONS), b"key %d" % random.randrange(KEYS), value))
        return found


def _ended(producer: Producer, *, commits: bool) -> None:
    try:
        if commits:
            producer.commit_transaction(CALL_SECONDS)
            return
        producer.flush(CALL_SECONDS)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
    producer.abort_transaction(CALL_SECONDS)
