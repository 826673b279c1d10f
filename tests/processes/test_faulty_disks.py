"""Three real nodes of two log directories each: one directory after the other fails while clients produce.

It turns read-only, answers EIO, is full, is gone. Its partitions are offline by name, every other one takes
records all the time; once the directory is well again and its node was started, all of them do. In the end
each acknowledged record is there, at the offset that was acknowledged.
"""

import errno
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest

from fencepost.records.types import NodeId
from tests.harness.nodes import Nodes, wait_for
from tests.processes.disk_errors import Trial, trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]

TOPIC: Final = "spread"
COUNT: Final = 12  # partitions: four on each node, two in each directory
DISK: Final = "disk-b"
REFUSED_S: Final = 5  # a record that no leader takes
CONSUMED_S: Final = 60
CHANGING: Final = ("create", "write", "sync", "rename", "truncate", "unlink", "mkdir")
ADDING: Final = ("create", "write", "mkdir")


@dataclass
class Client:
    """What was acknowledged, by partition and offset, over the whole story."""

    bootstrap: str
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    sent: int = 0

    def produced(self) -> set[int]:
        """Two records to each partition. Returns those that took both."""
        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        producer = confluent_kafka.Producer(
            {**settings, "message.timeout.ms": REFUSED_S * 1000, "log_level": 0}
        )
        taken = dict.fromkeys(range(COUNT), 0)

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                at = message.partition(), message.offset()
                assert at not in self.acknowledged, f"{at} twice"
                self.acknowledged[at] = message.value()
                taken[message.partition()] += 1

        for _ in range(2):
            for partition in range(COUNT):
                self.sent += 1
                producer.produce(TOPIC, b"%d" % self.sent, partition=partition, on_delivery=delivered)
        assert producer.flush(10 * REFUSED_S) == 0
        return {partition for partition, count in taken.items() if count == 2}

    def consumed(self) -> dict[tuple[int, int], bytes]:
        """From each partition up to the last record that was acknowledged."""
        ends: dict[int, int] = {}
        for partition, offset in self.acknowledged:
            ends[partition] = max(offset, ends.get(partition, 0))
        found: dict[tuple[int, int], bytes] = {}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, "group.id": "check"})
        try:
            consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0) for partition in ends])

            def is_there() -> bool:
                for message in consumer.consume(500, timeout=1):
                    assert message.error() is None, message.error()
                    found[message.partition() or 0, message.offset() or 0] = message.value() or b""
                return all((partition, end) in found for partition, end in ends.items())

            wait_for("all acknowledged records are read", is_there, CONSUMED_S)
        finally:
            consumer.close()
        return found


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with trial(tmp_path_factory.mktemp("faulty-disks"), f"log.dirs=data,{DISK}") as made:
        yield made


def disk_of(nodes: Nodes, node: int) -> Path:
    return nodes.node(node).directory / DISK


def held(disk: Path) -> set[int]:
    return {int(each.name.rpartition("-")[2]) for each in disk.glob(f"{TOPIC}-*")}


def takes_all_but(client: Client, lost: set[int]) -> bool:
    taken = client.produced()
    assert not taken & lost
    return len(taken) == COUNT - len(lost)


def restarted(tried: Trial, node: int) -> None:
    tried.nodes.send(node, signal.SIGTERM)
    tried.nodes.await_status(node, "dead")
    mark = tried.nodes.log_size(node)
    tried.start(node)
    wait_for(f"node {node} is unfenced", lambda: tried.nodes.events(node, "broker_unfenced", mark))


def failing(calls: tuple[str, ...], error: int) -> Callable[[Trial, int], Callable[[], None]]:
    def begin(tried: Trial, node: int) -> Callable[[], None]:
        tried.faults[NodeId(node)].arm(calls, f"/{DISK}/", error)
        return tried.faults[NodeId(node)].disarm

    return begin


def unplugged(tried: Trial, node: int) -> Callable[[], None]:
    disk = disk_of(tried.nodes, node)
    away = disk.with_name("unplugged")
    disk.rename(away)

    def back() -> None:
        assert not disk.exists(), "nothing was made in its place"
        away.rename(disk)

    return back


STORY: Final = (  # the node, what becomes of its second directory, the words, whether they are of all of it
    (1, failing(CHANGING, errno.EROFS), os.strerror(errno.EROFS), True),
    (2, failing(("open", "read", *CHANGING), errno.EIO), os.strerror(errno.EIO), False),  # of a file, each
    (3, failing(ADDING, errno.ENOSPC), os.strerror(errno.ENOSPC), True),
    (1, unplugged, "", True),
)


def test_one_directory_after_the_other_fails_and_nothing_acknowledged_is_lost(tried: Trial) -> None:
    nodes = tried.nodes
    assignment = ",".join(str(nodes.node_ids[n % 3]) for n in range(COUNT))
    nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", assignment)
    client, everything = Client(nodes.bootstrap), set(range(COUNT))
    assert client.produced() == everything
    for node, begin, words, is_whole in STORY:
        disk, mark = disk_of(nodes, node), nodes.log_size(node)
        lost = held(disk)
        assert len(lost) == 2
        end = begin(tried, node)
        try:
            client.produced()  # what is found by it may have taken one
            wait_for("every other partition takes records", partial(takes_all_but, client, lost))
            if is_whole:
                said = nodes.await_event(node, "log_directory_offline", mark)
                assert said["directory"] == str(disk)
                assert words in said["reason"]
            offline = {each["partition"]: each for each in nodes.events(node, "partition_offline", mark)}
            assert set(offline) == {f"{TOPIC}-{partition}" for partition in lost}
            assert all(words in each["reason"] for each in offline.values())
            assert nodes.node(node).status() == "running"
        finally:
            end()
        restarted(tried, node)
        wait_for("every partition takes records", lambda: client.produced() == everything)
    found = client.consumed()
    assert {at: found.get(at) for at in client.acknowledged} == client.acknowledged
    nodes.await_equal_images()
