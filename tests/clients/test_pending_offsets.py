"""A consumer waits for an offset that is pending, though its assignment changes before the answer."""

from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.harness.nodes import NO_QUOTA, running, wait_for

pytestmark = pytest.mark.slow

COMMITTED, PENDING, RECORDS = 10, 15, 20
ASSIGNMENTS = 60
CALL_SECONDS = 20.0


def test_librdkafka_does_not_take_a_pending_offset_for_none(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", NO_QUOTA, count=1) as nodes:
        nodes.run("topics", "create", "--topic", "t", "--partitions", "2")
        common = {"bootstrap.servers": nodes.bootstrap, "log_level": 0}
        group = {
            **common,
            "group.id": "g",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
        producer: Any = confluent_kafka.Producer({**common, "transactional.id": "x"})
        producer.init_transactions(CALL_SECONDS)
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce("t", b"record", partition=0)
        producer.commit_transaction(CALL_SECONDS)
        committer: Any = confluent_kafka.Consumer(group)
        committer.commit(offsets=[TopicPartition("t", 0, COMMITTED)], asynchronous=False)
        producer.begin_transaction()
        offsets = [TopicPartition("t", 0, PENDING)]
        producer.send_offsets_to_transaction(offsets, committer.consumer_group_metadata(), CALL_SECONDS)
        consumer: Any = confluent_kafka.Consumer(group)
        for number in range(ASSIGNMENTS):
            more = [TopicPartition("t", 1)] if number % 2 else []
            consumer.assign([TopicPartition("t", 0), *more])
            message = consumer.poll(0.02)
            # The other partition has no offset at all.
            assert message is None or message.partition() == 1, message.error() or message.offset()
        producer.commit_transaction(CALL_SECONDS)
        consumer.assign([TopicPartition("t", 0)])
        first = wait_for("a record is read", partial(of_partition_0, consumer))
        assert (str(first.error()), first.offset()) == ("None", PENDING)
        consumer.close()
        committer.close()


def of_partition_0(consumer: Any) -> Any:
    """The next message of it, or None; what was said of the other partition may still come."""
    message = consumer.poll(0.1)
    return None if message is None or message.partition() == 1 else message
