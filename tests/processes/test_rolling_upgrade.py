"""From an earlier version three nodes are upgraded one by one, under load; then the log level rises.

From the version before log levels to the highest at once, and from the one before the highest.

No id is handed out twice, every committed transaction is seen whole and once, and no node halts: also with
nodes of both versions, whichever leads. This holds for every byte between nodes, not only for the log's.
"""

import itertools
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fencepost.bench.demo_transactions import PARTITIONS, TOPIC, Writers, check
from fencepost.cli.main import fencepost
from fencepost.cluster.console import Failed, Unreadable
from fencepost.cluster.target import brokers_of
from fencepost.records.levels import LEVEL_MAX
from tests.harness.nodes import NO_QUOTA, Nodes, wait_for
from tests.processes import versions
from tests.processes.checks import check_run
from tests.processes.load import Load
from tests.processes.upgrades import BLOCKS, Work, stop, versions_of_leader_changes

pytestmark = pytest.mark.slow

COMMITTED_SECONDS_MAX = 30
BEFORE_LEVEL_MAX = versions.LEVEL_OF[versions.BEFORE_GROUPS]
ABOVE_IT = f"has log level {LEVEL_MAX}, this node reads levels up to {BEFORE_LEVEL_MAX}: upgrade this node"
FROM = (versions.BEFORE_LEVELS, versions.BEFORE_GROUPS)
EVERY_RUN = list(itertools.product(FROM, itertools.permutations((1, 2, 3))))
RUNS = EVERY_RUN if os.environ.get("FENCEPOST_EVERY_ORDER") else EVERY_RUN[::10]
"""Commit and order. FENCEPOST_EVERY_ORDER=1 tries all twelve: a minute each."""


def refusal(nodes: Nodes) -> str:
    """Why ``features upgrade`` does nothing; an older leader does not even know it, or that level."""
    command = ("features", "upgrade", "--log-level", str(LEVEL_MAX), "--dir", str(nodes.directory))
    ended = CliRunner().invoke(fencepost, command, standalone_mode=False)
    assert isinstance(ended.exception, Failed | Unreadable), f"{ended.exception!r}: {ended.output}"
    return ended.exception.message


def described(nodes: Nodes) -> tuple[int, dict[int, int | None]]:
    said = nodes.read("features", "describe")
    return said["log_level"], {each["node_id"]: each["log_level_max"] for each in said["voters"]}


@pytest.mark.parametrize(
    ("commit", "order"), RUNS, ids=lambda each: each if isinstance(each, str) else "-".join(map(str, each))
)
def test_upgrade_node_by_node_under_load(
    tmp_path: Path, earlier_tree: versions.Trees, commit: str, order: tuple[int, ...]
) -> None:
    earlier, level = earlier_tree(commit), versions.LEVEL_OF[commit]
    first = {0: 1, 1: 0}[level]  # the version of the LeaderChanges that it writes
    above = ABOVE_IT if level else None
    with versions.earlier_cluster(tmp_path / "cluster", earlier, NO_QUOTA, expected=above) as nodes:
        nodes.leader()
        nodes.run("topics", "create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
        target = brokers_of(nodes.cluster)
        with Load(nodes, seed=order[0], clients=4, pause_s=0.02) as load, Writers(target) as writers:
            work = Work(load, writers)
            work.goes_on()
            for step, node_id in enumerate(order):
                stop(nodes, node_id, cleanly=step % 2 == 0)
                said = refusal(nodes)
                if step == len(order) - 1:  # the others are new, and so is who leads
                    assert f"node {node_id} is not connected to the active controller: start it" in said
                work.allocates()
                versions.start(nodes, None, node_id)
                work.goes_on()
                if step < len(order) - 1:
                    assert refusal(nodes), "with an old node"
            nodes.await_followed()
            read = dict.fromkeys(order, LEVEL_MAX)
            wait_for("every voter reads the highest level", lambda: described(nodes) == (level, read))
            assert set(versions_of_leader_changes(nodes)) == {first}, "another is written before the raise"
            with pytest.raises(KafkaException) as refused:
                commit_offset(nodes, 5)
            assert refused.value.args[0].code() == KafkaError.UNSUPPORTED_VERSION
            upgrade = ("features", "upgrade", "--log-level", str(LEVEL_MAX), "--format", "json")
            assert json.loads(nodes.run(*upgrade))["log_level"] == LEVEL_MAX
            if level:
                ends_by_name(nodes, earlier, order[-1], work)
            else:
                refused_by_name(nodes, earlier, order[-1], work)
            work.goes_on()
            commit_offset(nodes, 7)
            leader = nodes.leader()
            nodes.kill(leader)
            work.allocates()
            nodes.start(leader)
            work.goes_on()
            assert committed_offset(nodes) == 7
            writers.stop()
        check_run(nodes, load, 0)
        verdict = check(target, writers.outcomes)
        assert not verdict.faults, verdict.faults[:5]
        changes = versions_of_leader_changes(nodes)
        assert changes == sorted(changes, reverse=True), "version 1 before the raise, 0 after it"
        assert set(changes) == {0, first}
        assert described(nodes)[0] == LEVEL_MAX


def commit_offset(nodes: Nodes, offset: int) -> None:
    """A consumer without a group's members commits. Raises KafkaException."""
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": "readers"})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def committed_offset(nodes: Nodes) -> int:
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=COMMITTED_SECONDS_MAX)
    consumer.close()
    return int(found.offset)


@pytest.mark.parametrize(
    ("commit", "version"),
    [(versions.BEFORE_LEVELS, 1), (versions.BEFORE_ONE_NAME, 0), (versions.BEFORE_GROUPS, 0)],
    ids=["levels", "one-name", "groups"],
)
def test_a_node_may_go_back_before_the_raise(
    tmp_path: Path, earlier_tree: versions.Trees, commit: str, version: int
) -> None:
    """A leader, and all of them: the earlier version reads what the newer one wrote, also snapshots."""
    earlier = earlier_tree(commit)
    with versions.earlier_cluster(tmp_path / "cluster", earlier, NO_QUOTA) as nodes:
        with Load(nodes, seed=4, clients=4, pause_s=0.02) as load:
            load.await_done(BLOCKS)
            for tree in (None, earlier):
                for _ in nodes.node_ids:
                    leader = nodes.leader()
                    stop(nodes, leader, cleanly=tree is None)
                    versions.start(nodes, tree, leader)
                    load.await_done(BLOCKS)
                for node_id in nodes.node_ids:
                    stop(nodes, node_id, cleanly=tree is not None)
                    versions.start(nodes, tree, node_id)
                    load.await_done(BLOCKS)
                nodes.run("snapshot", "create")
        check_run(nodes, load, 0)
        assert set(versions_of_leader_changes(nodes)) == {version}


def refused_by_name(nodes: Nodes, earlier: Path, node_id: int, work: Work) -> None:
    """The version before log levels is put back on one node, before anything is written at the new level.

    The others go on without it, and say what to do.
    """
    nodes.kill(node_id)
    others = [each for each in nodes.node_ids if each != node_id]
    marks = {each: nodes.log_size(each) for each in others}
    versions.start(nodes, earlier, node_id)
    for each, mark in marks.items():
        event = nodes.await_event(each, "peer_refused", mark)
        low = (
            f"node {node_id} reads log levels up to 0, this cluster is at {LEVEL_MAX}: upgrade node {node_id}"
        )
        assert low in event["reason"]
    work.allocates()
    is_alone(nodes, node_id)
    nodes.kill(node_id)
    comes_back(nodes, node_id)


def ends_by_name(nodes: Nodes, earlier: Path, node_id: int, work: Work) -> None:
    """An earlier version that knows levels is put back on a node whose image has that level: it ends."""
    stop(nodes, node_id, cleanly=True)
    with pytest.raises(Failed, match=ABOVE_IT):
        versions.start(nodes, earlier, node_id)
    work.allocates()
    is_alone(nodes, node_id)
    comes_back(nodes, node_id)


def is_alone(nodes: Nodes, node_id: int) -> None:
    read: dict[int, int | None] = dict.fromkeys(nodes.node_ids, LEVEL_MAX)
    assert described(nodes) == (LEVEL_MAX, read | {node_id: None})


def comes_back(nodes: Nodes, node_id: int) -> None:
    nodes.start(node_id)
    read = dict.fromkeys(nodes.node_ids, LEVEL_MAX)
    wait_for("it is back", lambda: described(nodes) == (LEVEL_MAX, read))


def test_a_new_cluster_is_at_the_highest_level(nodes: Nodes) -> None:
    wait_for("the highest level", lambda: described(nodes)[0] == LEVEL_MAX)
    leader = nodes.leader()
    nodes.kill(leader)
    nodes.leader()
    nodes.start(leader)
    nodes.await_followed()
    assert set(versions_of_leader_changes(nodes)) == {0}
