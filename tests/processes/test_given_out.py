"""Real nodes against pairs that were never given out, and a directory on which the version before halts.

``FENCEPOST_PAIR_REQUESTS`` is how many requests of attackers the load makes: 4,000 here; 100,000 by hand,
with ``-o faulthandler_timeout=0``.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.cli.main import fencepost
from tests.harness.command import contents
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes import txn_requests as requests
from tests.processes import versions
from tests.processes.pairs import (
    AGAIN,
    Attacker,
    Producer,
    Sender,
    World,
    bumped_to,
    code_added,
    code_of,
    leapt_to,
)

pytestmark = pytest.mark.slow

REQUESTS: Final = int(os.environ.get("FENCEPOST_PAIR_REQUESTS", "4000"))
TOPIC: Final = "pairs"
PARTITIONS: Final = 6
PRODUCERS: Final = 4
ATTACKERS: Final = 8 if REQUESTS < 20_000 else 24
OWN_IDS: Final = ("attacked-0", "attacked-1", "attacked-2", "edge")  # the edge's epoch is about to run out
EDGE_EPOCH: Final = 32_764
COMMITS_MIN: Final = 20
SECONDS_MAX: Final = 120.0
TIMEOUT_MS: Final = 4_000  # of transactions that are to be open while nodes are killed


def world_of(nodes: Nodes) -> World:
    """Of a cluster, with a new topic."""
    nodes.run("topics", "create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
    client = AdminClient({"bootstrap.servers": bootstrap(nodes)})

    def leaders() -> list[tuple[str, int]]:
        metadata = client.list_topics(TOPIC, timeout=10)
        partitions = metadata.topics[TOPIC].partitions
        found = [metadata.brokers.get(partitions[index].leader) for index in sorted(partitions)]
        known = [(str(each.host), int(each.port)) for each in found if each is not None]
        return known if len(known) == PARTITIONS else []

    brokers = [nodes.address(node_id, "client") for node_id in nodes.node_ids]
    first = nodes.node_ids.index(nodes.leader())
    return World(TOPIC, wait_for("every partition has a leader", leaders), brokers, first)


def bootstrap(nodes: Nodes) -> str:
    return ",".join("{}:{}".format(*nodes.address(node_id, "client")) for node_id in nodes.node_ids)


class Load:
    """Producers and attackers, each on a thread of its own, until the attackers sent their requests."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.producers = [Producer(world, number) for number in range(PRODUCERS)]
        own = list(OWN_IDS)
        self.attackers = [Attacker(world, number, own, self.victims) for number in range(ATTACKERS)]

    def victims(self) -> list[str]:
        """The producers' ids that exist: an unknown one is begun anew whatever pair is presented."""
        return [producer.id for producer in self.producers if self.world.given[producer.id]]

    def run(self, count: int) -> None:
        attacking = [self._thread(partial(each.run, count // ATTACKERS)) for each in self.attackers]
        producing = [self._thread(producer.run) for producer in self.producers]
        for thread in attacking:
            thread.join()
        self.world.stop.set()
        for thread in producing:
            thread.join()
        for producer in self.producers:
            producer.sender.close()
        for attacker in self.attackers:
            attacker.sender.close()
        if self.world.failures:
            raise self.world.failures[0]

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def carried() -> None:
            try:
                work()
            except Exception as failure:  # noqa: BLE001 - raised again by ``run``
                self.world.failures.append(failure)
                self.world.stop.set()

        thread = threading.Thread(target=carried)
        thread.start()
        return thread


def asked(nodes: Nodes, *command: str) -> Any:
    """What a command of ``transactions`` prints; ``find-hanging`` has status 1 if it finds anything."""
    where = ("--dir", str(nodes.directory), "--format", "json")
    ended = CliRunner().invoke(fencepost, ["transactions", *command, *where])
    assert ended.exit_code in (0, 1), ended.output
    return contents(ended.stdout)


def found_hanging(nodes: Nodes) -> list[dict[str, Any]]:
    """Open transactions that no coordinator ends, and what is set aside."""
    found = asked(nodes, "find-hanging", "--max-transaction-timeout", "0")
    return [*found["hanging"], *found["set_aside"]]


def in_states(nodes: Nodes, *states: str) -> list[str]:
    """The ids that are in one of these."""
    filters = [word for state in states for word in ("--state", state)]
    return [row["transactional_id"] for row in asked(nodes, "list", *filters)]


def open_on_partitions(nodes: Nodes) -> set[tuple[int, int, int]]:
    """(partition, producer id, start offset) of every open transaction that a partition knows."""
    return {
        (index, row["producer_id"], row["current_transaction_start_offset"])
        for index in range(PARTITIONS)
        for row in asked(nodes, "describe-producers", "--topic", TOPIC, "--partition", str(index))
        if row["current_transaction_start_offset"] is not None
    }


def settle(nodes: Nodes) -> Counter[str]:
    """Transactions time out, wedged ones are ended, and nothing is open any more that is not listed."""
    done: Counter[str] = Counter()
    wait_for("open transactions time out", lambda: not in_states(nodes, "Ongoing"), SECONDS_MAX)

    def ended() -> bool:
        for row in found_hanging(nodes):
            if row.get("kind") is not None:
                done[f"forced: {row['kind']}"] += 1
                nodes.run("transactions", "force-terminate", "--transactional-id", row["key"])
        return not in_states(nodes, "PrepareCommit", "PrepareAbort", "Ongoing")

    wait_for("every transaction is complete", ended, SECONDS_MAX)
    listed = {(row["partition"], row["producer_id"], row["start_offset"]) for row in found_hanging(nodes)}
    assert open_on_partitions(nodes) == listed, "find-hanging hides an open transaction"
    for partition, _, start_offset in sorted(listed):
        where = ("--topic", TOPIC, "--partition", str(partition), "--start-offset", str(start_offset))
        nodes.read("transactions", "abort", *where)
        done["aborted by hand"] += 1
    assert open_on_partitions(nodes) == set()
    return done


def read_committed(nodes: Nodes) -> Counter[str]:
    """Every record that a read_committed consumer sees, up to the ends."""
    settings = {
        "bootstrap.servers": bootstrap(nodes),
        "group.id": "reader",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    seen: Counter[str] = Counter()
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"no end of partitions {set(range(PARTITIONS)) - at_end}"
        error, index, value = message.error(), message.partition(), message.value()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end.add(-1 if index is None else index)
        else:
            seen[(value or b"").decode()] += 1
    consumer.close()
    return seen


def test_no_pair_that_was_never_given_out_stops_or_confuses_three_nodes(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", NO_QUOTA) as nodes:
        world = world_of(nodes)
        bumped_to(world, ["attacked-0", "attacked-1", "attacked-2"], 1)
        leapt_to(nodes, world, ["edge"], EDGE_EPOCH)
        load = Load(world)
        load.run(REQUESTS)
        assert [nodes.node(node_id).status() for node_id in nodes.node_ids] == ["running"] * 3
        done = settle(nodes)
        seen = read_committed(nodes)
        violations = [each for node_id in nodes.node_ids for each in nodes.events(node_id, "decision_failed")]
    given = {pair for pairs in world.given.values() for pair in pairs}
    for what, of, pair in world.accepted:
        assert pair[1] != 32767, f"{what} of {of} was accepted with 32767"
        # What a partition has open says who its producer is, not which transactional id.
        known = given if what == "produce" else world.given[of]
        assert pair in known, f"{what} of {of} was accepted with {pair}, which was never given out"
    assert violations == []
    lost = {value for value in world.committed if seen[value] != 1}
    assert not lost, f"{len(lost)} acknowledged records are not there once: {sorted(lost)[:5]}"
    assert not world.aborted & seen.keys(), "aborted records are seen"
    assert len(world.committed) > 2 * COMMITS_MIN
    summary = {
        "requests": world.sent.total(),
        "accepted": len(world.accepted),
        "committed": len(world.committed) // 2,
        "lives": sum(producer.generation for producer in load.producers),
        **done,
        "codes": dict(sorted(world.codes.items())),
    }
    sys.stderr.write(f"{summary}\n")


def test_a_directory_with_a_transaction_at_32767_starts_and_heals(
    tmp_path: Path, earlier_tree: versions.Trees
) -> None:
    """The version before accepts 32767, by real requests; its leaders would halt at the timeout."""
    tree = earlier_tree(versions.BEFORE_LEVELS)
    with versions.earlier_cluster(tmp_path / "cluster", tree, NO_QUOTA) as nodes:
        world = world_of(nodes)
        leapt_to(nodes, world, ["poisoned", "recovers"], 32_766, timeout_ms=TIMEOUT_MS, tree=tree)
        sender = Sender(world)
        pairs = {each: world.given[each][-1] for each in ("poisoned", "recovers")}
        for each, pair in pairs.items():
            assert pair[1] == 32_766
            assert added(sender, each, pair) == 0
        wait_for("both time out", lambda: len(in_states(nodes, "CompleteAbort")) == 2, SECONDS_MAX)
        for each, (producer_id, _) in pairs.items():
            assert added(sender, each, (producer_id, 32_767)) == 0, "the version before takes it"
        nodes.kill(*nodes.node_ids)
        sender.close()
        versions.start(nodes, None, *nodes.node_ids)
        wait_for("both are aborted", lambda: len(in_states(nodes, "CompleteAbort")) == 2, SECONDS_MAX)
        world.coordinator = nodes.node_ids.index(nodes.leader())
        sender = Sender(world)
        for each, (producer_id, _) in pairs.items():
            assert added(sender, each, (producer_id, 32_767)) == 90
        for each, pair in (("poisoned", requests.NONE), ("recovers", pairs["recovers"])):
            answer = sender.to_coordinator(requests.init(each, pair, timeout_ms=TIMEOUT_MS), code_of)
            fresh = int(answer.producer_id), int(answer.producer_epoch)
            assert (code_of(answer), fresh[1]) == (0, 0)
            assert fresh[0] != pairs[each][0]
            assert added(sender, each, fresh) == 0
            assert code_of(sender.to_coordinator(requests.end(each, fresh, True), code_of)) == 0
        sender.close()


def added(sender: Sender, of: str, pair: requests.Pair) -> int:
    """The code of AddPartitionsToTxn."""
    request = requests.add(of, pair, TOPIC, (0, 1))
    while code := code_added(sender.to_coordinator(request, code_added)):
        if code not in AGAIN:
            break
    return code
