"""A broker that comes back without a log: offline by name, not empty. A lost store costs no log."""

import shutil

import confluent_kafka
import pytest

from tests.harness.command import in_process
from tests.harness.nodes import Nodes, wait_for, wipe

pytestmark = pytest.mark.slow

TOPIC = "lost"
GROUP = "readers"
COUNT = 5
TIMEOUT_S = 60


def produced(nodes: Nodes, partition: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": nodes.bootstrap})
    refused = []
    for number in range(COUNT):
        producer.produce(
            TOPIC,
            f"value-{number}".encode(),
            partition=partition,
            on_delivery=lambda error, _message: refused.append(error),
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not any(refused)


def committed(nodes: Nodes, offset: int) -> None:
    """A group has committed this offset of partition 0."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": GROUP})
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def offsets(nodes: Nodes) -> str:
    return nodes.run("get-offsets", "--topic", TOPIC)


def leaders(nodes: Nodes) -> dict[int, int | None]:
    """By partition, as any broker's Metadata has them."""
    (topic,) = nodes.read("topics", "describe", "--topic", TOPIC)
    return {each["partition"]: each["leader"] for each in topic["partitions"]}


def restarted(nodes: Nodes) -> int:
    """Start node 1. Returns where its log ended before."""
    mark = nodes.log_size(1)
    nodes.start(1)
    wait_for("node 1 is unfenced", lambda: nodes.events(1, "broker_unfenced", mark))
    return mark


def test_a_log_that_is_lost_is_offline_by_name_and_a_repaired_store_loses_none(nodes: Nodes) -> None:
    nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", "1,2")
    produced(nodes, 0)
    produced(nodes, 1)
    both = f"{TOPIC}:0:{COUNT}\n{TOPIC}:1:{COUNT}\n"
    assert offsets(nodes) == both

    # The store is lost: a new voter, the same directory, every record.
    nodes.kill(1)
    shutil.rmtree(nodes.home(1) / "store")
    mark = restarted(nodes)
    assert nodes.events(1, "store_lost", mark)
    nodes.await_followed()
    assert offsets(nodes) == both
    assert not nodes.events(1, "partition_offline", mark)

    # One folder is gone, and comes back.
    nodes.kill(1)
    folder, aside = nodes.home(1) / f"{TOPIC}-0", nodes.node(1).directory / "aside"
    folder.rename(aside)
    mark = restarted(nodes)
    event = nodes.await_event(1, "partition_offline", mark)
    assert event["partition"] == f"{TOPIC}-0"
    assert str(folder) in event["reason"]
    produced(nodes, 1)
    assert not folder.exists()
    nodes.kill(1)
    aside.rename(folder)
    mark = restarted(nodes)
    assert offsets(nodes) == f"{TOPIC}:0:{COUNT}\n{TOPIC}:1:{2 * COUNT}\n"
    assert not nodes.events(1, "partition_offline", mark)

    # The whole directory is replaced by an empty one.
    nodes.kill(1)
    wipe(nodes, 1)
    mark = restarted(nodes)
    event = nodes.await_event(1, "partition_offline", mark, partition=f"{TOPIC}-0")
    assert "in a log directory that this broker had before" in event["reason"]
    assert not folder.exists()
    produced(nodes, 1)

    # An operator gives it up: it begins anew, above its end and what a group has committed.
    wait_for("its leader is none", lambda: leaders(nodes) == {0: None, 1: 2})
    words = ("topics", "recover", f"{TOPIC}-0")
    shown = nodes.read(*words, status=1)
    assert (shown["start_offset"], shown["reported_end"], shown["committed_offsets"]) == (COUNT, COUNT, {})
    committed(nodes, COUNT + 2)
    shown = nodes.read(*words, status=1)
    assert (shown["start_offset"], shown["recovered"]) == (COUNT + 2, False)
    assert shown["committed_offsets"] == {GROUP: COUNT + 2}
    assert nodes.read(*words, "--start-offset", 100, status=1)["start_offset"] == 100
    done = nodes.read(*words, "--accept-data-loss")
    assert (done["start_offset"], done["leader_epoch"], done["recovered"]) == (COUNT + 2, 1, True)
    event = nodes.await_event(1, "log_given_up", mark)
    assert event["start_offset"] == COUNT + 2
    produced(nodes, 0)
    assert f"{TOPIC}:0:{2 * COUNT + 2}\n" in offsets(nodes)
    refused = in_process(*words, "--accept-data-loss", "--dir", nodes.directory)
    assert (refused.status, "can be read" in refused.stderr) == (1, True)
    nodes.kill(1)
    mark = restarted(nodes)
    assert not nodes.events(1, "partition_offline", mark)
    assert f"{TOPIC}:0:{2 * COUNT + 2}\n" in offsets(nodes)

    # Another topic of its name begins at 0.
    nodes.run("topics", "delete", "--topic", TOPIC)
    homes = [nodes.home(node_id) for node_id in (1, 2)]
    # Not by its event: ten a minute are logged, and other tests' topics were deleted, too.
    wait_for("the logs are deleted", lambda: not [each for home in homes for each in home.glob(f"{TOPIC}-*")])
    nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", "1,2")
    produced(nodes, 0)
    assert offsets(nodes) == f"{TOPIC}:0:{COUNT}\n{TOPIC}:1:0\n"
    nodes.run("topics", "delete", "--topic", TOPIC)
