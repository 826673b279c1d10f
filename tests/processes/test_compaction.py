"""A compacted topic of a node that is killed while it cleans: sizes, consumers, transactions, the audit."""

import os
import time
from pathlib import Path
from typing import Final

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


def consume(nodes: Nodes, isolation: str, group: str) -> Values:
    """The last value of each key, as a consumer sees it that begins at the log's start."""
    consumer = Consumer(
        {
            "bootstrap.servers": nodes.bootstrap, "group.id": group, "isolation.level": isolation,
            "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: Values = {}
    until = time.monotonic() + 60
    try:
        while time.monotonic() < until:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                return {key: value for key, value in values.items() if value is not None}
            values[message.key()] = message.value()  # type: ignore[index]
    finally:
        consumer.close()
    raise AssertionError("the consumer does not come to the end")


def folder(nodes: Nodes) -> Path:
    """The partition's log."""
    return next(nodes.home(1).rglob(f"{TOPIC}-0"))


def segments(nodes: Nodes) -> list[Path]:
    """Its segments."""
    return sorted(folder(nodes).glob("*.log"))


def is_clean(nodes: Nodes) -> bool:
    """All but the active segment is clean."""
    clean_end = load_offsets(folder(nodes).parent / CLEANER_FILE).by_folder.get(f"{TOPIC}-0", -1)
    return clean_end >= int(segments(nodes)[-1].stem)


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
        assert consume(nodes, "read_committed", "committed") == live
        metrics = nodes.metrics(1)
        assert metrics["fencepost_log_cleaner_passes_total"] >= 1
        assert metrics["fencepost_log_cleaner_uncleanable_partitions"] == 0
        nodes.down()
        said = in_process("audit", "check", nodes.home(1), "--engine", "embedded", "--allow-unknown")
        assert said.status == 0, said.stdout + said.stderr
