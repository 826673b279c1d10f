"""Real nodes whose wall clocks are eight days ahead or back: nothing is deleted or expired by them."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest

from fencepost.cluster import lifecycle
from fencepost.cluster.local_cluster import create_cluster
from fencepost.records.types import NodeId
from tests.harness.command import contents, in_process
from tests.harness.moved_clocks import MovedClock, compiled
from tests.harness.nodes import JSON_LOGS, NO_QUOTA, Nodes, ended_clean, wait_for
from tests.ports import cluster_port
from tests.processes.raw_client import RawClient
from tests.processes.txn_requests import Pair, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]

DAYS_S = 8 * 24 * 3600
SETTINGS = (
    NO_QUOTA,
    "log.retention.check.interval.ms=100",
    "log.segment.bytes=14",
    "log.retention.ms=86400000",
    "transaction.remove.expired.transaction.cleanup.interval.ms=100",
    "offsets.retention.check.interval.ms=100",
)
BY_AGE, BY_SIZE = "by-age", "by-size"
RETRIED = frozenset((3, 6))
NO_PRODUCER: Pair = (-1, -1)


class Clocks:
    """A cluster whose nodes have clocks that a test moves."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._moved = {each: MovedClock(nodes.node(each).directory) for each in nodes.node_ids}

    def move(self, seconds: int, *node_ids: int) -> None:
        """These clocks jump; each node says so once."""
        for node_id in node_ids:
            self._moved[NodeId(node_id)].move(seconds)
        for node_id in node_ids:
            self.nodes.await_event(node_id, "clock_jumped" if seconds else "clock_is_back")


@contextlib.contextmanager
def clocks(folder: Path, count: int) -> Iterator[Clocks]:
    """New nodes, up, each with a clock of its own."""
    nodes = Nodes(create_cluster(folder / "cluster", count, cluster_port(), (JSON_LOGS, *SETTINGS)))
    made = Clocks(nodes)
    with pytest.MonkeyPatch.context() as patched, ended_clean(nodes):
        patched.setenv("LD_PRELOAD", str(compiled(folder)))
        nodes._children += lifecycle.bring_up(nodes.cluster).values()
        yield made


def write_once(nodes: Nodes, topic: str, text: str, at: int = 1) -> None:
    """A record of this moment by the machine's clock."""

    def look() -> bool:
        with RawClient(nodes.address(at, "client")) as client:
            answer = client.call(write(None, NO_PRODUCER, topic, 0, -1, text, int(time.time() * 1000)))
        (found,) = answer.responses[0].partition_responses
        assert int(found.error_code) in (0, *RETRIED)
        return int(found.error_code) == 0

    wait_for("the partition's leader answers", look)


def earliest(nodes: Nodes, topic: str) -> int:
    def look() -> list[dict[str, object]] | None:
        ended = in_process(
            "get-offsets",
            "--topic",
            topic,
            "--time",
            "earliest",
            "--format",
            "json",
            "--dir",
            nodes.directory,
        )
        return None if ended.status else contents(ended.stdout)

    (row,) = wait_for(f"a broker leads {topic}", look)
    return int(str(row["offset"]))


def used(nodes: Nodes, transactional_id: str, topic: str) -> None:
    """A transactional id and a group that are not used again."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": nodes.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(30)
    words = ("transactions", "describe", "--transactional-id", transactional_id)
    wait_for("the marker", lambda: nodes.read(*words)["transaction_state"] == "CompleteCommit")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": nodes.bootstrap, "group.id": transactional_id, "enable.auto.commit": False}
    )
    place = confluent_kafka.TopicPartition(topic, 0, 1)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


def known(nodes: Nodes) -> tuple[set[str], set[str]]:
    """Transactional ids, and groups with an offset."""
    ids = {row["transactional_id"] for row in nodes.read("transactions", "list")}
    return ids, {row["group"] for row in nodes.read("groups", "list")}


def maintained(nodes: Nodes) -> None:
    """Each node has looked for what to delete, and deleted what is too much."""
    for node_id in nodes.node_ids:
        topic = f"{BY_SIZE}-{node_id}"
        write_once(nodes, topic, "first", node_id)
        begin = earliest(nodes, topic)
        for number in range(3):
            write_once(nodes, topic, str(number), node_id)
        wait_for(f"node {node_id} deletes what is too much", lambda: earliest(nodes, topic) >= begin + 2)  # noqa: B023


def trusts(nodes: Nodes, node_id: int) -> bool:
    return any(nodes.events(node_id, name) for name in ("clock_accepted", "clock_agrees_with_a_majority"))


def created(nodes: Nodes) -> None:
    for node_id in nodes.node_ids:
        at = ("--replica-assignment", str(node_id))
        nodes.run("topics", "create", "--topic", f"{BY_AGE}-{node_id}", *at)
        nodes.run("topics", "create", "--topic", f"{BY_SIZE}-{node_id}", *at, "--config", "retention.bytes=1")
        for number in range(3):
            write_once(nodes, f"{BY_AGE}-{node_id}", str(number), node_id)


def begins(nodes: Nodes) -> list[int]:
    return [earliest(nodes, f"{BY_AGE}-{node_id}") for node_id in nodes.node_ids]


def test_a_clock_eight_days_ahead_deletes_nothing_until_it_is_accepted(tmp_path: Path) -> None:
    with clocks(tmp_path, 1) as moved:
        nodes = moved.nodes
        created(nodes)
        nodes.kill(1)
        moved._moved[NodeId(1)].move(DAYS_S)
        nodes._children += lifecycle.bring_up(nodes.cluster).values()
        nodes.await_event(1, "clock_jumped")
        maintained(nodes)
        assert begins(nodes) == [0]
        nodes.run("storage", "accept-clock", "--node", 1)
        nodes.await_event(1, "clock_accepted")
        wait_for("what is too old is deleted", lambda: begins(nodes) >= [2])
        assert len(nodes.events(1, "clock_jumped")) == 1


def test_clocks_of_all_nodes_eight_days_ahead_delete_and_expire_nothing(tmp_path: Path) -> None:
    """They agree, and all jumped: no majority makes that true. An operator does."""
    with clocks(tmp_path, 3) as moved:
        nodes = moved.nodes
        created(nodes)
        used(nodes, "idle", f"{BY_AGE}-1")
        moved.move(DAYS_S, *nodes.node_ids)
        maintained(nodes)
        used(nodes, "used-meanwhile", f"{BY_AGE}-2")
        maintained(nodes)
        assert begins(nodes) == [0, 0, 0]
        assert known(nodes) == ({"idle", "used-meanwhile"},) * 2
        assert not any(nodes.events(node_id, "clock_agrees_with_a_majority") for node_id in nodes.node_ids)
        for node_id in nodes.node_ids:
            nodes.run("storage", "accept-clock", "--node", node_id)
        accepted = agreed = 0
        for node_id in nodes.node_ids:  # the last one may agree with the others before it is its turn
            wait_for(f"node {node_id} trusts its clock", partial(trusts, nodes, node_id))
            accepted += len(nodes.events(node_id, "clock_accepted"))
            agreed += len(nodes.events(node_id, "clock_agrees_with_a_majority"))
        assert accepted >= 2
        assert accepted + agreed == 3
        wait_for("what is too old is deleted", lambda: min(begins(nodes)) >= 2)
        for node_id in nodes.node_ids:
            assert len(nodes.events(node_id, "clock_jumped")) == 1, "one warning"


@pytest.mark.parametrize("how_many", [1, 3])
def test_clocks_eight_days_back_expire_nothing_early_once_they_are_right_again(
    tmp_path: Path, how_many: int
) -> None:
    """What is used meanwhile has no stamp of eight days ago, by the leader's clock least of all."""
    with clocks(tmp_path, 3) as moved:
        nodes = moved.nodes
        created(nodes)
        used(nodes, "idle", f"{BY_AGE}-1")
        leader = nodes.leader()
        back = [leader] if how_many == 1 else nodes.node_ids
        moved.move(-DAYS_S, *back)
        maintained(nodes)
        used(nodes, "used-meanwhile", f"{BY_AGE}-2")
        moved.move(0, *back)
        maintained(nodes)
        nodes.kill(leader)  # another leads, and compares the stamps with its own clock
        nodes._children += lifecycle.bring_up(nodes.cluster).values()
        maintained(nodes)
        assert begins(nodes) == [0, 0, 0]
        assert known(nodes) == ({"idle", "used-meanwhile"},) * 2
        for node_id in nodes.node_ids:
            assert len(nodes.events(node_id, "clock_jumped")) == (node_id in back), "one warning"
