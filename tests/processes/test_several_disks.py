"""A node with several log directories: one goes, is replaced, comes back; the others serve all the time."""

import shutil
from pathlib import Path

import confluent_kafka
import pytest

from fencepost.settings.meta_properties import META_PROPERTIES
from tests.harness.command import in_process, stdout_of
from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

TOPIC = "spread"
COUNT = 6
TIMEOUT_S = 60
DISKS = "log.dirs=data,disk-b,disk-c"


def produced(nodes: Nodes, partitions: set[int]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": nodes.bootstrap})
    refused = []
    for partition in partitions:
        producer.produce(
            TOPIC, b"x", partition=partition, on_delivery=lambda error, _message: refused.append(error)
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not any(refused)


def held(disk: Path) -> set[int]:
    return {int(each.name.rpartition("-")[2]) for each in disk.glob(f"{TOPIC}-*")}


def restarted(nodes: Nodes) -> int:
    mark = nodes.log_size(1)
    nodes.start(1)
    wait_for("node 1 is unfenced", lambda: nodes.events(1, "broker_unfenced", mark))
    return mark


def offline(nodes: Nodes, mark: int) -> set[int]:
    return {int(each["partition"].rpartition("-")[2]) for each in nodes.events(1, "partition_offline", mark)}


def ends(nodes: Nodes) -> list[int]:
    lines = nodes.run("get-offsets", "--topic", TOPIC).split()
    return [int(line.rpartition(":")[2]) for line in sorted(lines)]


def test_a_node_goes_on_with_the_disks_that_it_has(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", DISKS, count=1) as nodes:
        folder = nodes.node(1).directory
        disks = [folder / name for name in ("data", "disk-b", "disk-c")]
        (row,) = nodes.read("storage", "info")["nodes"]
        assert list(row["log_dirs"]) == [str(disk) for disk in disks]
        assert len(set(row["log_dirs"].values())) == 3
        nodes.run("topics", "create", "--topic", TOPIC, "--partitions", COUNT)
        produced(nodes, set(range(COUNT)))
        assert [len(held(disk)) for disk in disks] == [2, 2, 2]
        on_b, on_c = held(disks[1]), held(disks[2])

        # A disk is not mounted: its partitions are offline by name, the others serve.
        nodes.kill(1)
        disks[1].rename(folder / "unplugged")
        mark = restarted(nodes)
        event = nodes.await_event(1, "log_directory_offline", mark)
        assert event["directory"] == str(disks[1])
        assert "is its disk mounted?" in event["reason"]
        assert offline(nodes, mark) == on_b
        produced(nodes, set(range(COUNT)) - on_b)
        assert not disks[1].exists()

        # It is back, and nothing is missing.
        nodes.kill(1)
        (folder / "unplugged").rename(disks[1])
        mark = restarted(nodes)
        assert offline(nodes, mark) == set()
        assert ends(nodes) == [1 if index in on_b else 2 for index in range(COUNT)]

        # Another is replaced by an empty one: offline, not empty, until an operator decides.
        nodes.kill(1)
        shutil.rmtree(disks[2])
        again = ("storage", "format", "--config", folder / "node.properties", "--ignore-formatted")
        stdout_of(in_process(*again, "--cluster-id", nodes.cluster.cluster_id))
        assert (disks[2] / META_PROPERTIES).exists()
        mark = restarted(nodes)
        assert offline(nodes, mark) == on_c
        produced(nodes, set(range(COUNT)) - on_c)
        assert held(disks[2]) == set()

        nodes.down()
        (report,) = nodes.read("storage", "verify", status=1)["nodes"]
        logs = [part for part in report["parts"] if part["part"] == "partition"]
        assert len(logs) == COUNT
        lost = {part["path"] for part in report["parts"] if not part["sound"]}
        assert lost == {f"{TOPIC}-{index}" for index in on_c}
        assert sum(part["part"] == "log dir" for part in report["parts"]) == 2
        nodes.up()
        mark = nodes.log_size(1)
        nodes.run("topics", "delete", "--topic", TOPIC)
        wait_for("all logs are deleted", lambda: len(nodes.events(1, "partition_deleted", mark)) == COUNT)
        nodes.run("topics", "create", "--topic", TOPIC, "--partitions", COUNT)
        produced(nodes, set(range(COUNT)))
        assert [len(held(disk)) for disk in disks] == [2, 2, 2]
