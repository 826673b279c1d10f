"""What real clients do to a broker, so that its logs hold every shape that an audit has to read as clean.

Clients     confluent-kafka (librdkafka: an ending leaves the epoch as it is) and Kafka's own client
            (KIP-890: each ending bumps the epoch, so that a marker's epoch is one above its data's).
Shapes      commits, aborts, fencing by a second instance, timeouts, an open transaction, a producer without
            transactions and one without ids, each codec, several partitions, offsets of a group committed in
            transactions, rolled segments, a compacted topic, a trimmed one, one deleted and made again.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from tests.audit.kafka.broker import Broker
from tests.clients.players import PLAYERS, CallFailed, Player

WAIT_SECONDS: Final = 40.0
CLEANED_SECONDS: Final = 120.0  # Kafka cleans its metadata log once a minute
POLL_SECONDS: Final = 0.05
TIMEOUT_MS: Final = 1500
OPEN_MS: Final = 600_000  # of the transaction that is still open at the end, within its rights
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_QUIET: Final = logging.Logger("librdkafka", logging.CRITICAL + 1)  # noqa: LOG001  (fenced is as it should be)
TOPICS: Final[dict[str, dict[str, str]]] = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "payments": {},
    "rolled": {"segment.bytes": str(1 << 20)},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "0",
    },
    "trimmed": {"segment.ms": "50", "file.delete.delay.ms": "100"},
    "again": {"file.delete.delay.ms": "100"},
}


WEARING: Final = {
    "cleanup.policy": "compact",  # what is not named here gets its default
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "200",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "2000",
}
"""Of an internal topic: it is compacted all the time."""


class Traffic:
    """All that is done to one broker; producers that are named stay for the next act."""

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        self._bootstrap = bootstrap
        self._replicas = replicas
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._open: list[Producer] = []

    def make_topics(self, topics: Mapping[str, dict[str, str]], partitions: int = 2) -> None:
        """With these settings of their own."""
        wanted = [
            NewTopic(name, partitions, self._replicas, config=settings) for name, settings in topics.items()
        ]
        _await(self._admin.create_topics(wanted))

    def commits_and_aborts(self, rounds: int) -> None:
        """Each codec has a producer, which aborts every third transaction, on two partitions."""
        producers = [self._producer(f"codec-{codec}", compression=codec) for codec in CODECS]
        for turn in range(rounds):
            for codec, producer in zip(CODECS, producers, strict=True):
                _transaction(producer, f"codec-{codec}", range(12), abort=turn % 3 == 2)

    def spread(self, topic: str, partitions: int) -> None:
        """Of each partition a producer; a second instance of it goes on, with an epoch of its own."""
        for partition in range(partitions):
            for _ in range(2):
                producer = self._producer(f"{topic}-{partition}")
                for turn in range(3):
                    producer.begin_transaction()
                    for number in range(4):
                        producer.produce(topic, b"%d.%d" % (turn, number), partition=partition)
                        producer.flush(WAIT_SECONDS)
                    _end(producer, abort=turn == 1)

    def without_transactions(self) -> None:
        """One producer that is idempotent, one that has no id at all, in between the others' batches."""
        for idempotent in (True, False):
            producer = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "log_level": 0,
                    "enable.idempotence": idempotent,
                    "linger.ms": 2,
                }
            )
            for number in range(60):
                producer.produce("payments", b"plain %d" % number, partition=number % 2)
                if number % 7 == 0:
                    producer.flush(WAIT_SECONDS)
            producer.flush(WAIT_SECONDS)

    def fenced(self) -> None:
        """A second instance of an id comes while the first has a transaction open; the first tries on."""
        first = self._producer("fenced")
        _send(first, "payments", range(5))
        second = self._producer("fenced")
        _transaction(second, "payments", range(3))
        _refused(lambda _: _send(first, "payments", range(2), begin=False))

    def timed_out(self) -> None:
        """The coordinator ends it; the producer hears so, and another instance goes on."""
        late = self._producer("late", transaction_timeout_ms=TIMEOUT_MS)
        _send(late, "payments", range(4))
        self._await_aborted("payments", late)
        _refused(late.commit_transaction)
        _transaction(self._producer("late"), "payments", range(4))

    def group(self, rounds: int) -> None:
        """Consume, produce and commit the offsets in the transaction; every second is aborted."""
        settings = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,
            "group.id": "copier",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        consumer, producer = Consumer(settings), self._producer("copier")
        consumer.subscribe(["codec-zstd"])
        for turn in range(rounds):
            messages = consumer.consume(6, timeout=WAIT_SECONDS)
            producer.begin_transaction()
            for each in messages:
                producer.produce("payments", each.value(), partition=turn % 2)
            ends = {each.partition() or 0: (each.offset() or 0) + 1 for each in messages}
            positions = [TopicPartition("codec-zstd", partition, end) for partition, end in ends.items()]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_SECONDS)
            _end(producer, abort=turn % 2 == 1)
        consumer.commit(asynchronous=False)
        consumer.close()

    def segments(self, mebibytes: int) -> None:
        """More than a segment of ``rolled`` holds; packed, the values are as good as nothing."""
        producer = self._producer("rolls")
        for number in range(mebibytes * 2):
            producer.begin_transaction()
            for each in range(9):
                producer.produce("rolled", b"%d " % number + bytes(65_536), partition=each % 2)
            _end(producer, abort=number % 4 == 3)

    def compacted(self, rounds: int) -> None:
        """The same keys, again and again: the cleaner leaves holes, and markers whose records are gone."""
        producer = self._producer("compacted")
        for turn in range(rounds):
            producer.begin_transaction()
            for key in range(4):
                value = None if key == 3 and turn % 2 else b"%d" % turn
                producer.produce("compacted", value, b"key %d" % key, partition=key % 2)
            _end(producer, abort=turn % 4 == 3)
            time.sleep(0.06)  # segment.ms

    def trimmed(self, rounds: int, logs: Path) -> None:
        """Records before an offset are deleted, segments with them: the log begins in the middle."""
        producer = self._producer("trims")
        for _ in range(rounds):
            _transaction(producer, "trimmed", range(4))
            time.sleep(0.06)  # segment.ms
        _await(self._admin.delete_records([TopicPartition("trimmed", 0, rounds * 2)]))
        first = logs / "trimmed-0" / f"{0:020}.log"
        _until(lambda: not first.exists())

    def deleted_and_made_again(self) -> None:
        """A topic of the same name and another id; the same producer writes to both."""
        producer = self._producer("again")
        _transaction(producer, "again", range(4))
        _await(self._admin.delete_topics(["again"]))
        _until(lambda: "again" not in self._admin.list_topics(timeout=5).topics)
        _await(self._admin.create_topics([NewTopic("again", 2, self._replicas)]))
        _until(lambda: len(self._admin.list_topics("again", timeout=5).topics["again"].partitions) == 2)
        _transaction(self._producer("again-2"), "again", range(4))

    def settings(self, count: int) -> None:
        """Metadata of other kinds, until snapshots are taken."""
        for number in range(count):
            resource = ConfigResource("topic", "payments", {"retention.ms": str(604_800_000 + number)})
            _await(self._admin.alter_configs([resource]))

    def wear(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """From now on the logs of the coordinators lose what newer records replace."""
        settings = {**WEARING, **settings}
        for topic in ("__transaction_state", "__consumer_offsets"):
            _await(self._admin.alter_configs([ConfigResource("topic", topic, settings)]))

    def left_open(self) -> None:
        """Neither committed nor aborted when the broker stops, and not late yet."""
        producer = self._producer("left-open", transaction_timeout_ms=OPEN_MS)
        _send(producer, "payments", range(3))
        self._open.append(producer)  # else it would abort as it goes

    def java(self, folder: Path, rounds: int) -> None:
        """Transactions of Kafka's own client: commits, aborts, one fenced, one timed out."""
        with _playing(self._bootstrap, folder) as player:
            player.call("make", "a", "transactional.id=java-a", "linger.ms=5")
            for turn in range(rounds):
                player.call("begin", "a")
                player.call("send", "a", "payments", *[f"{turn}.{each}" for each in range(5)])
                player.call("abort" if turn % 3 == 2 else "commit", "a")
            player.call("begin", "a")
            player.call("send", "a", "payments", "fenced")
            player.call("make", "b", "transactional.id=java-a", "compression.type=zstd")
            player.call("begin", "b")
            player.call("send", "b", "payments", "x", "y")
            player.call("commit", "b")
            for verb in ("commit", "abort"):  # the first instance learns that it is fenced
                try:
                    player.call(verb, "a")
                except CallFailed:
                    pass
                else:
                    raise AssertionError(f"{verb} by a fenced producer went through")
            player.call("make", "c", "transactional.id=java-c", f"transaction.timeout.ms={TIMEOUT_MS}")
            player.call("begin", "c")
            player.call("send", "c", "payments", "late")
            time.sleep(TIMEOUT_MS / 1000 + 1.5)
            player.call("make", "d", "transactional.id=java-c")
            player.call("begin", "d")
            player.call("send", "d", "payments", "in time")
            player.call("commit", "d")

    def _producer(
        self, transactional_id: str, *, compression: str = "none", transaction_timeout_ms: int = 60_000
    ) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": transactional_id,
                "compression.type": compression,
                "transaction.timeout.ms": transaction_timeout_ms,
                "linger.ms": 3,
                "log_level": 0,
            },
            logger=_QUIET,
        )
        _patiently(producer.init_transactions)
        return producer

    def _await_aborted(self, topic: str, producer: Producer) -> None:
        """The partition's log grows by a marker without a producer that writes."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "-", "log_level": 0})

        def end() -> int:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5, cached=False)[1])

        before = end()
        _until(lambda: end() > before)
        producer.poll(0)
        consumer.close()


def perform(broker: Broker, folder: Path, rounds: int = 6) -> None:
    """Every act, with a clean restart and one after a SIGKILL in between; the broker is left running."""
    traffic = Traffic(broker.bootstrap)
    traffic.make_topics(TOPICS)
    traffic.commits_and_aborts(rounds)
    traffic.without_transactions()
    traffic.fenced()
    broker.stop()
    broker.start()
    traffic.timed_out()
    traffic.group(rounds)
    traffic.java(folder, rounds)
    traffic.segments(3)
    traffic.compacted(rounds * 2)
    traffic.settings(30)
    broker.kill()
    broker.start()
    traffic.trimmed(rounds, broker.logs)
    traffic.deleted_and_made_again()
    traffic.commits_and_aborts(rounds)
    traffic.java(folder, 2)
    traffic.left_open()


def wear_out(broker: Broker, folder: Path, rounds: int = 6) -> None:
    """What months do: compacted internal topics, forgotten ids, a metadata log that begins at a snapshot."""
    traffic = Traffic(broker.bootstrap)
    traffic.make_topics(TOPICS)
    traffic.commits_and_aborts(1)
    traffic.group(2)
    traffic.wear()
    for turn in range(4):
        traffic.commits_and_aborts(rounds)
        traffic.fenced()
        traffic.timed_out()
        traffic.group(2)
        traffic.settings(30)
        if turn == 1:
            broker.stop()
            broker.start()
    traffic.java(folder, rounds)
    metadata = broker.logs / "__cluster_metadata-0"
    _until(lambda: not (metadata / f"{0:020}.log").exists(), CLEANED_SECONDS)
    traffic.left_open()


@contextmanager
def _playing(bootstrap: str, folder: Path) -> Iterator[Player]:
    player = PLAYERS["java"](bootstrap, folder)
    try:
        yield player
    finally:
        player.end()


def _transaction(producer: Producer, topic: str, values: Sequence[int], *, abort: bool = False) -> None:
    _send(producer, topic, values)
    _end(producer, abort=abort)


def _send(producer: Producer, topic: str, values: Sequence[int], *, begin: bool = True) -> None:
    if begin:
        producer.begin_transaction()
    for each in values:
        producer.produce(topic, b"value %d" % each, partition=each % 2)
    producer.flush(WAIT_SECONDS)


def _end(producer: Producer, *, abort: bool) -> None:
    if abort:
        producer.flush(WAIT_SECONDS)
        _patiently(producer.abort_transaction)
    else:
        _patiently(producer.commit_transaction)


def _patiently(call: Callable[[float], None]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return call(10)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _refused(call: Callable[[float], None]) -> None:
    try:
        _patiently(call)
    except KafkaException as error:
        if error.args[0].fatal() or error.args[0].txn_requires_abort():
            return
        raise
    raise AssertionError("a producer that was fenced went on")


def _await(futures: dict[Any, Any]) -> None:
    for each in futures.values():
        each.result(WAIT_SECONDS)


def _until(holds: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {seconds:.0f} s")
        time.sleep(POLL_SECONDS)
