"""A majority of stores is gone: a snapshot and the partition logs make a cluster that goes on."""

import shutil
from pathlib import Path

import confluent_kafka
import pytest

from fencepost.cluster.local_cluster import open_cluster
from fencepost.controller.transactions import states
from fencepost.snapshots.reader import read_store
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
    wait_for("its last marker", lambda: nodes.read(*words)["transaction_state"] == "CompleteCommit")


def opened(nodes: Nodes, transactional_id: str, value: bytes) -> confluent_kafka.Producer:
    made = producer(nodes, transactional_id)
    made.begin_transaction()
    made.produce(TOPIC, value, partition=0)
    made.flush(WAIT_S)
    return made


def is_saved(nodes: Nodes, node: int, transactional_id: str) -> bool:
    """A node's image on the disk, which is saved now and then, has the transaction open."""
    with read_store(nodes.home(node) / "store") as store:
        row = states.get(store, transactional_id)
        return row is not None and row.state is states.State.ONGOING


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

    wait_for(f"{count} committed records", poll)
    consumer.close()
    return values


def test_a_cluster_goes_on_from_a_snapshot_and_its_partition_logs(tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as nodes:
        nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", "1")
        committed(nodes, "early", b"a", b"b")
        known_open = opened(nodes, "open", b"x")
        wait_for("node 1 saved its image", lambda: is_saved(nodes, 1, "open"))
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
        known, unknown = sorted(done["aborted"], reverse=True)
        assert known == "open"
        assert unknown.startswith("fencepost-restored-")
        nodes.cluster = open_cluster(nodes.directory)
        nodes.up()
        committed(nodes, "early", b"d")
        assert read_committed(nodes, 4) == [b"a", b"b", b"c", b"d"]
        nodes.await_equal_images()
