"""A majority of stores is gone: a snapshot and the partition logs make a cluster that goes on."""

import shutil
from pathlib import Path

import confluent_kafka
import pytest

from fencepost.cluster.local_cluster import open_cluster
from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

TOPIC = "kept"
WAIT_S = 30


def producer(nodes: Nodes, transactional_id: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {"bootstrap.servers": nodes.bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    made.init_transactions(WAIT_S)
    return made


def committed(nodes: Nodes, transactional_id: str, *values: bytes) -> None:
    made = producer(nodes, transactional_id)
    for value in values:
        made.begin_transaction()
        made.produce(TOPIC, value, partition=0)
        made.commit_transaction(WAIT_S)
    words = ("transactions", "describe", "--transactional-id", transactional_id)
    wait_for("its last marker", lambda: nodes.read(*words)["TransactionState"] == "CompleteCommit")


def opened(nodes: Nodes, transactional_id: str, value: bytes) -> confluent_kafka.Producer:
    made = producer(nodes, transactional_id)
    made.begin_transaction()
    made.produce(TOPIC, value, partition=0)
    made.flush(WAIT_S)
    return made


def read_committed(nodes: Nodes, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": nodes.bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []

    def poll() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        return len(values) >= count

    wait_for(f"{count} committed records, {values} so far", poll)
    consumer.close()
    return values


def test_a_cluster_goes_on_from_a_snapshot_and_its_partition_logs(tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as nodes:
        nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", "1")
        committed(nodes, "early", b"a", b"b")
        known_open = opened(nodes, "open", b"x")
        taken = nodes.read("snapshot", "create", "--node", 1)[0]["snapshot"]
        committed(nodes, "late", b"c")
        unknown_open = opened(nodes, "later", b"y")
        given = nodes.read("producer-ids", "describe")["end"]
        nodes.kill(1, 2, 3)
        del known_open, unknown_open
        for node in (2, 3):
            shutil.rmtree(nodes.home(node) / "store")
        done = nodes.read("snapshot", "restore", taken, "--skip-ids", 5000)
        assert done["producer_id_end"] >= given + 5000
        assert len(done["aborted"]) == 2, "by its id, or as an unknown one: the image is saved now and then"
        assert any(each.startswith("fencepost-restored-") for each in done["aborted"])
        nodes.cluster = open_cluster(nodes.directory)
        nodes.up()
        committed(nodes, "early", b"d")
        assert read_committed(nodes, 4) == [b"a", b"b", b"c", b"d"]
        nodes.await_equal_images()
