"""``transactions``, ``produce`` and ``consume`` on a real node, with transactions left open."""

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from fencepost.client.read_back import READ_COMMITTED, read_topic
from tests.clients.hanging import leave_hanging
from tests.harness.command import TIMEOUT_S, command, environment, in_process
from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow


class Node:
    """A cluster of one node, as its users see it."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.directory = nodes.directory
        self.bootstrap = nodes.bootstrap

    def ask(self, *words: object) -> Any:
        """The JSON of a ``transactions`` command."""
        return self.nodes.read("transactions", *words)

    def description(self, transactional_id: str) -> dict[str, Any]:
        """Of the id's transaction."""
        described: dict[str, Any] = self.ask("describe", "--transactional-id", transactional_id)
        return described

    def committed(self, topic: str) -> list[bytes]:
        """What a read_committed consumer sees; it must get to the end."""
        return [each.value for each in read_topic(self.bootstrap, topic, READ_COMMITTED, timeout_s=TIMEOUT_S)]

    def producer(self, transactional_id: str) -> Producer:
        """A real one, ready to begin."""
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id, "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(TIMEOUT_S)
        return producer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Up as long as the tests of this module."""
    with running(tmp_path_factory.mktemp("live") / "cluster", count=1) as nodes:
        yield Node(nodes)


def open_transaction(node: Node, transactional_id: str, topic: str) -> Producer:
    producer = node.producer(transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return producer


@pytest.mark.row("939.7")
@pytest.mark.row("360.5")
def test_an_open_transaction_is_listed_and_described(node: Node) -> None:
    producer = open_transaction(node, "listed", "listing")
    began = time.monotonic()
    found = node.ask("list", "--state", "Ongoing")
    assert [each["transactional_id"] for each in found] == ["listed"]
    assert node.ask("list", "--state", "Ongoing", "--producer-id", found[0]["producer_id"]) == found
    assert node.ask("list", "--transactional-id-pattern", "list.*") == found
    assert node.ask("list", "--transactional-id-pattern", "list") == []
    described = node.description("listed")
    assert (described["transaction_state"], described["topic_partitions"]) == ("Ongoing", ["listing-0"])
    assert described["current_transaction_start_time_ms"] <= time.time() * 1000
    assert described["transaction_duration_ms"] >= 0
    assert described["explanation"]
    open_ms = round((time.monotonic() - began) * 1000)  # it was open before we began to look
    assert node.ask("list", "--runningLongerThanMs", open_ms) == found
    assert node.ask("list", "--running-longer-than-ms", 10 * 60_000) == []
    producer.commit_transaction(TIMEOUT_S)
    wait_for("its end", lambda: node.description("listed")["transaction_state"] == "CompleteCommit")
    assert node.committed("listing") == [b"open"]


@pytest.mark.row("939.8")
def test_force_terminate_aborts_and_fences(node: Node) -> None:
    producer = open_transaction(node, "stuck", "stuck")
    before = node.description("stuck")
    dry = node.ask("force-terminate", "--transactional-id", "stuck", "--dry-run")
    assert dry["dry_run"] is True
    assert node.description("stuck")["transaction_state"] == "Ongoing"
    done = node.ask("forceTerminateTransaction", "--transactionalId", "stuck")
    assert (done["transaction_state"], done["producer_id"]) == ("Ongoing", before["producer_id"])
    assert done["producer_epoch"] > before["producer_epoch"]
    after = node.description("stuck")
    assert after["transaction_timeout_ms"] == before["transaction_timeout_ms"]
    assert [(each["producer_epoch"], each["client_id"]) for each in after["fences"]][-1:] == [
        (before["producer_epoch"], "fencepost-cli")
    ]
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()
    assert node.committed("stuck") == []


def test_an_id_that_nobody_has_is_not_made(node: Node) -> None:
    for verb in ("describe", "force-terminate"):
        said = in_process("transactions", verb, "--transactional-id", "nobody", "--dir", node.directory)
        assert (said.status, "there is no transactional id 'nobody'" in said.stderr) == (1, True)
    assert node.ask("list", "--transactional-id-pattern", "nobody") == []


def test_a_hanging_transaction_is_found_and_ended(node: Node) -> None:
    node.nodes.run("topics", "create", "--topic", "hung")
    leave_hanging(node.nodes, "hung")
    where = ("--topic", "hung", "--dir", node.directory, "--format", "json")
    silent = ("--max-transaction-timeout", 0)
    assert in_process("transactions", "find-hanging", *where).status == 0  # not silent for long enough
    found = in_process("transactions", "find-hanging", *where, *silent)
    assert (found.status, '"start_offset": 0' in found.stdout) == (1, True), found.stderr
    (held,) = node.ask("describe-producers", "--topic", "hung", "--partition", 0)
    assert (held["producer_id"], held["current_transaction_start_offset"]) == (7, 0)

    one = ("--topic", "hung", "--partition", 0, "--start-offset", 0)
    assert node.ask("abort", *one, "--dry-run")["producer_id"] == 7
    assert in_process("transactions", "find-hanging", *where, *silent).status == 1
    node.ask("abort", *one)
    assert in_process("transactions", "find-hanging", *where, *silent).status == 0
    assert node.committed("hung") == []


def test_lines_go_in_and_the_committed_ones_come_out(node: Node) -> None:
    def run(*words: object, stdin: str = "") -> str:
        arguments = command(*words, "--topic", "lines", "--dir", node.directory)
        done = subprocess.run(
            arguments,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment(),
            check=True,
        )
        return done.stdout

    assert run("produce", "--transactional-id", "a", stdin="1\n2\n") == "2 records to lines, committed\n"
    assert (
        run("produce", "--transactional-id", "a", "--abort", stdin="3\n") == "1 records to lines, aborted\n"
    )
    assert run("produce", "--compression-codec", "zstd", stdin="4\n") == "1 records to lines\n"
    everything = ("consume", "--from-beginning", "--max-messages")
    assert run(*everything, 3, "--isolation-level", "read_committed").split() == ["1", "2", "4"]
    assert run(*everything, 4).split() == ["1", "2", "3", "4"]
