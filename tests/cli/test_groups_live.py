"""``groups`` and ``consume --group`` on a real node, with a group of a real client library."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.command import TIMEOUT_S
from tests.harness.nodes import Nodes, running
from tests.harness.shell_pages import is_what, shell_blocks, steps, typed

pytestmark = pytest.mark.slow

TOPIC, GROUP = "orders", "readers"
PARTITIONS, RECORDS = 3, 10  # records of each partition


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A node with a topic, up as long as the tests of this module."""
    with running(tmp_path_factory.mktemp("groups") / "cluster", count=1) as up:
        up.run("topics", "create", "--topic", TOPIC, "--partitions", PARTITIONS)
        producer = Producer({"bootstrap.servers": up.bootstrap})
        for index in range(PARTITIONS):
            for each in range(RECORDS):
                producer.produce(TOPIC, b"%d" % each, partition=index)
        assert producer.flush(TIMEOUT_S) == 0
        yield up


def described(nodes: Nodes, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = nodes.read("groups", "describe", "--group", GROUP, *words)
    return rows


def read_all(consumer: Consumer, count: int) -> None:
    """So many records, or AssertionError after a while."""
    deadline_s = time.monotonic() + TIMEOUT_S
    seen = 0
    while seen < count and time.monotonic() < deadline_s:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            seen += 1
    assert seen == count


def test_a_description_of_a_transaction_shows_its_pending_offsets(nodes: Nodes) -> None:
    settings = {"bootstrap.servers": nodes.bootstrap}
    consumer = Consumer(settings | {"group.id": "etl", "enable.auto.commit": "false"})
    consumer.subscribe([TOPIC])
    while not consumer.assignment():
        consumer.poll(0.1)
    producer = Producer(settings | {"transactional.id": "etl"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    place = TopicPartition(TOPIC, 1, 5)
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), TIMEOUT_S)
    describe = ("transactions", "describe", "--transactional-id", "etl")
    listed = {"group": "etl", "topic": TOPIC, "partition": 1, "offset": 5}
    assert nodes.read(*describe)["pending_offsets"] == {"count": 1, "offsets": [listed]}
    assert f"pending for group etl: {TOPIC}-1 to offset 5" in nodes.run(*describe)
    producer.commit_transaction(TIMEOUT_S)
    assert nodes.read(*describe)["pending_offsets"] is None
    (row,) = nodes.read("groups", "describe", "--group", "etl")[1:2]
    assert row["current_offset"] == 5
    consumer.close()


def test_a_group_is_watched_reset_read_again_and_deleted(nodes: Nodes) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": nodes.bootstrap,
            "group.id": GROUP,
            "client.id": "app",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    read_all(consumer, PARTITIONS * RECORDS)
    consumer.commit(asynchronous=False)

    listed = {row["group"]: row for row in nodes.read("groups", "list", "--state", "Stable")}
    assert listed[GROUP] == {"group": GROUP, "type": "Classic", "protocol": "consumer", "state": "Stable"}
    (member,) = described(nodes, "--members", "--verbose")
    assert (member["client_id"], member["current_assignment"]) == ("app", f"{TOPIC}:0,1,2")
    (state,) = described(nodes, "--state")
    assert (state["state"], state["members"], state["assignment_strategy"]) == ("Stable", 1, "range")
    for row in described(nodes):
        assert (row["current_offset"], row["log_end_offset"], row["lag"]) == (RECORDS, RECORDS, 0)
        assert row["consumer_id"] == member["consumer_id"]

    reset = ("groups", "reset-offsets", "--group", GROUP, "--all-topics", "--to-offset", 4)
    nodes.run(*reset, "--execute", status=1)
    (deleted,) = nodes.read("groups", "delete", "--group", GROUP, status=1)
    assert deleted["status"] == "Error: NON_EMPTY_GROUP"
    consumer.close()

    assert [row["new_offset"] for row in nodes.read(*reset, "--dry-run")] == [4, 4, 4]
    assert {row["current_offset"] for row in described(nodes)} == {RECORDS}, "nothing was committed"
    assert [row["new_offset"] for row in nodes.read(*reset, "--execute")] == [4, 4, 4]
    left = PARTITIONS * (RECORDS - 4)
    again = nodes.run("consume", "--topic", TOPIC, "--group", GROUP, "--max-messages", left)
    assert Counter(again.split()) == {str(each): PARTITIONS for each in range(4, RECORDS)}
    assert {row["lag"] for row in described(nodes)} == {0}

    forgotten = nodes.read("groups", "delete-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0")
    assert [row["status"] for row in forgotten] == ["Successful"]
    assert [row["partition"] for row in described(nodes)] == [1, 2]
    nodes.run("groups", "delete", "--group", GROUP)
    assert GROUP not in [row["group"] for row in nodes.read("groups", "list")]


def test_the_page_of_groups_is_what_happens(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another topic, and another group."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".fencepost").symlink_to(nodes.directory)
    nodes.run("topics", "create", "--topic", "paged", "--partitions", 2)
    producer = Producer({"bootstrap.servers": nodes.bootstrap})
    for each in ("one", "two", "three"):
        producer.produce("paged", each, partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    first, then, _bench, offsets = shell_blocks("groups.md")
    for block in (first, then, offsets):
        for words, printed in steps(block.replace(TOPIC, "paged").replace(GROUP, "pagers")):
            said = typed(words)
            assert is_what(printed, said), f"$ {words}\n{said}"
