"""``explain`` on a real node: transactions that hang, are under way, are wedged; its commands end them."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.client.read_back import READ_COMMITTED, read_topic
from tests.clients.hanging import produce_hanging
from tests.harness.command import TIMEOUT_S, contents, in_process
from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

UNVERIFIED = "transaction.partition.verification.enable=false"
STRANGER = 1 << 40  # no coordinator's


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("explain") / "cluster", UNVERIFIED, count=1) as nodes:
        yield nodes


def explained(node: Nodes, *words: object, status: int) -> Any:
    said = in_process("explain", *words, "--bootstrap-server", node.bootstrap, "--format", "json")
    assert said.status == status, said
    return contents(said.stdout)


def status(node: Nodes, *words: object) -> int:
    return in_process("explain", *words, "--bootstrap-server", node.bootstrap).status


def run_as_printed(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "fencepost"
    said = in_process(*words)
    assert said.status == 0, said


def committed(node: Nodes, topic: str) -> list[bytes]:
    return [each.value for each in read_topic(node.bootstrap, topic, READ_COMMITTED, timeout_s=TIMEOUT_S)]


def open_transaction(node: Nodes, transactional_id: str, topic: str) -> Producer:
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": transactional_id, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return producer


def ours(held: Any) -> str:
    (command,) = [each["command"] for each in held["commands"] if each["tool"] == "fencepost"]
    return str(command)


def test_a_hanging_transaction_is_explained_and_ended_as_printed(node: Nodes) -> None:
    node.run("topics", "create", "--topic", "hung-1")
    wait_for("a leader", lambda: status(node, "hung-1-0") == 0)
    start = produce_hanging(node.address(1, "client"), "hung-1", producer_id=STRANGER)
    found = explained(node, "hung-1-0", status=1)
    (partition,) = found["partitions"]
    (held,) = partition["open"]
    assert (held["holding"], held["start_offset"], held["holds_last_stable_offset"]) == (
        "hanging",
        start,
        True,
    )
    assert (partition["last_stable_offset"], partition["behind"]) == (start, 1)
    by_producer = explained(node, STRANGER, status=1)
    assert [each["commands"] for row in by_producer["partitions"] for each in row["open"]] == [
        held["commands"]
    ]
    logs = in_process("explain", "hung-1-0", "--logs", node.directory, "--format", "json")
    assert logs.status == 1, logs
    ((by_logs,),) = (each["open"] for each in contents(logs.stdout)["partitions"])
    assert (by_logs["producer_id"], by_logs["start_offset"]) == (STRANGER, start)
    run_as_printed(ours(held))
    assert not explained(node, "hung-1-0", status=0)["partitions"][0]["open"]
    assert not explained(node, "--producer-id", STRANGER, status=0)["is_open"]
    assert committed(node, "hung-1") == []


def test_one_that_is_under_way_names_its_coordinator_and_its_timeout(node: Nodes) -> None:
    producer = open_transaction(node, "pay-0", "pay")
    (partition,) = explained(node, "--topic-partition", "pay-0", status=1)["partitions"]
    (held,) = partition["open"]
    transaction = held["transaction"]
    assert (held["holding"], transaction["transactional_id"], transaction["state"]) == (
        "ongoing",
        "pay-0",
        "Ongoing",
    )
    assert transaction["due_ms"] == transaction["started_ms"] + transaction["timeout_ms"]
    by_id = explained(node, "--transactional-id", "pay-0", status=1)
    assert by_id["transaction"] == transaction
    assert [each["open"][0]["holding"] for each in by_id["partitions"]] == ["ongoing"]
    both = in_process("explain", "pay-0", "--bootstrap-server", node.bootstrap)
    assert both.status == 2
    assert "--topic-partition pay-0 or --transactional-id pay-0" in both.stderr
    run_as_printed(ours(held))
    wait_for("its end", lambda: status(node, "--transactional-id", "pay-0") == 0)
    assert committed(node, "pay") == []
    del producer


def test_a_wedged_one_is_ended_as_it_was_decided(node: Nodes) -> None:
    producer = open_transaction(node, "victim", "wedged")
    (held,) = explained(node, "wedged-0", status=1)["partitions"][0]["open"]
    produce_hanging(node.address(1, "client"), "wedged", producer_id=held["producer_id"], epoch=7)
    producer.commit_transaction(TIMEOUT_S)
    wedged = wait_for("the refusal", lambda: explained(node, "victim", status=1)["wedged"])
    assert [(each["transactional_id"], each["partition"]) for each in wedged] == [("victim", "wedged-0")]
    (held,) = explained(node, "wedged-0", status=1)["partitions"][0]["open"]
    assert held["holding"] == "ending"
    assert [each["tool"] for each in held["commands"]] == ["fencepost"]
    run_as_printed(ours(held))
    explained(node, "wedged-0", status=0)
    assert committed(node, "wedged")[:1] == [b"open"]
