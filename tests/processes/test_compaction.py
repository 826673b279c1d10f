"""A compacted topic of a node that is killed while it cleans: sizes, consumers, transactions, the audit."""

import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from fencepost.broker.log.offset_checkpoint import CLEANER_FILE, load_offsets
from tests.harness.command import in_process
from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

RECORDS: Final = int(os.environ.get("FENCEPOST_COMPACTION_RECORDS", "60000"))
"""A million takes some minutes."""

KEYS: Final = 1_000
SEGMENT_BYTES: Final = 1024 * 1024
TOPIC: Final = "compacted"
SETTINGS: Final = (
    "log.cleaner.backoff.ms=100", "log.retention.check.interval.ms=200", "transaction.max.timeout.ms=900000",
)  # fmt: skip
TOPIC_SETTINGS: Final = {
    "cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "3000", "delete.retention.ms": "1000",
}  # fmt: skip
Values = dict[bytes, bytes | None]


class Seen(NamedTuple):
    """A record, as a consumer sees it."""

    offset: int
    key: bytes
    value: bytes | None


def fill(nodes: Nodes, first: int, end: int) -> Values:
    """Records [first, end), in transactions of 1,000 of which every third aborts; what is committed last."""
    producer = Producer(
        {"bootstrap.servers": nodes.bootstrap, "log_level": 0, "linger.ms": 5, "transactional.id": "filler"}
    )
    producer.init_transactions(30)
    last: Values = {}
    for start in range(first, end, 1_000):
        producer.begin_transaction()
        values: Values = {}
        for number in range(start, min(start + 1_000, end)):
            key = b"key-%d" % (number * 7 % KEYS)
            value = None if number % 97 == 0 else b"%d" % number + b"." * 90
            values[key] = value
            producer.produce(TOPIC, value, key, partition=0)
            producer.poll(0)
        if start // 1_000 % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            last |= values
    return last


def consume(nodes: Nodes, isolation: str) -> list[Seen]:
    """What confluent-kafka's consumer sees that begins at the log's start."""
    consumer = Consumer(
        {
            "bootstrap.servers": nodes.bootstrap, "group.id": isolation, "isolation.level": isolation,
            "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    seen: list[Seen] = []
    until = time.monotonic() + 60
    try:
        while time.monotonic() < until:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                return seen
            seen.append(Seen(message.offset(), message.key(), message.value()))  # type: ignore[arg-type]
    finally:
        consumer.close()
    raise AssertionError("the consumer does not come to the end")


def consume_plainly(nodes: Nodes) -> list[Seen]:
    """What kafka-python's consumer sees with its defaults: it reads what is not committed, too."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=nodes.bootstrap, auto_offset_reset="earliest")
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    end = consumer.end_offsets([partition])[partition]
    seen: list[Seen] = []
    until = time.monotonic() + 60
    while consumer.position(partition) < end:
        polled = consumer.poll(1_000).get(partition, ())
        seen += [Seen(message.offset, message.key, message.value) for message in polled]
        assert time.monotonic() < until, "the consumer does not come to the end"
    consumer.close()
    return seen


def is_aborted(seen: Seen) -> bool:
    """Its transaction was aborted; of a tombstone it is not known."""
    return seen.value is not None and int(seen.value.rstrip(b".")) // 1_000 % 3 == 2


def last_values(seen: list[Seen]) -> Values:
    """The last value of each key that has one."""
    values = {each.key: each.value for each in seen}
    return {key: value for key, value in values.items() if value is not None}


def check_plain(seen: list[Seen], clean_end: int, live: Mapping[bytes, bytes | None]) -> None:
    """What Kafka's cleaner leaves: of what is clean a record for each key, and none that was aborted."""
    cleaned = [each for each in seen if each.offset < clean_end]
    assert max(Counter(each.key for each in cleaned).values(), default=1) == 1  # none: a later pass took them
    assert not [each for each in cleaned if is_aborted(each)]
    committed = {each.key: each.value for each in seen if each.value is not None and not is_aborted(each)}
    assert {key: committed.get(key) for key in live} == live
    assert [each.offset for each in seen] == sorted({each.offset for each in seen})


def folder(nodes: Nodes) -> Path:
    """The partition's log."""
    return next(nodes.home(1).rglob(f"{TOPIC}-0"))


def segments(nodes: Nodes) -> list[Path]:
    """Its segments."""
    return sorted(folder(nodes).glob("*.log"))


def clean_end(nodes: Nodes) -> int:
    """Up to which offset the cleaner says that the log is clean."""
    return load_offsets(folder(nodes).parent / CLEANER_FILE).by_folder.get(f"{TOPIC}-0", -1)


def is_clean(nodes: Nodes) -> bool:
    """All but the active segment is clean."""
    return clean_end(nodes) >= int(segments(nodes)[-1].stem)


def test_a_compacted_topic_keeps_the_last_values_and_little_else(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", *SETTINGS, count=1) as nodes:
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=TOPIC_SETTINGS)])[TOPIC].result(30)
        expected = fill(nodes, 0, RECORDS // 2)
        for _ in range(5):  # kill -9 while it cleans, and at other times
            wait_for("a pass begins", lambda: nodes.events(1, "log_cleaned") or None, 60)
            expected |= fill(nodes, RECORDS // 2, RECORDS // 2 + 5_000)
            nodes.kill(1)
            nodes.start(1)
        expected |= fill(nodes, RECORDS // 2, RECORDS)
        live = {key: value for key, value in expected.items() if value is not None}
        wait_for("all but the active segment is clean", lambda: is_clean(nodes) or None, 120)
        live_bytes = sum(len(key) + len(value or b"") + 20 for key, value in live.items())
        size = sum(path.stat().st_size for path in segments(nodes))
        assert size <= 2 * live_bytes + 2 * SEGMENT_BYTES
        clean = clean_end(nodes)
        assert last_values(consume(nodes, "read_committed")) == live
        check_plain(consume(nodes, "read_uncommitted"), clean, live)
        check_plain(consume_plainly(nodes), clean, live)
        metrics = nodes.metrics(1)
        assert metrics["fencepost_log_cleaner_passes_total"] >= 1
        assert metrics["fencepost_log_cleaner_uncleanable_partitions"] == 0
        nodes.down()
        said = in_process("audit", "check", nodes.home(1), "--engine", "embedded", "--allow-unknown")
        assert said.status == 0, said.stdout + said.stderr
