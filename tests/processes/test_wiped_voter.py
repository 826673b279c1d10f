"""A voter that lost its disk forgot its votes: it waits until the others, without it, take it in again."""

import os
import shutil

import pytest

from tests.harness.command import fencepost
from tests.harness.nodes import Nodes, wait_for, wipe
from tests.processes.checks import check_run
from tests.processes.load import Load

pytestmark = pytest.mark.slow

CANDIDACIES = 3


@pytest.mark.row("card.1", "card.7")
def test_a_wiped_voter_does_not_vote_before_it_is_readmitted(nodes: Nodes, since: int) -> None:
    leader = nodes.await_followed()
    wiped, witness = nodes.followers()
    with Load(nodes, seed=21) as load:
        load.await_done(20)
        old_directory = nodes.directory_id(wiped)
        nodes.kill(wiped)
        wipe(nodes, wiped)
        assert nodes.directory_id(wiped) != old_directory

        # Without the leader there is no majority: the wiped one does not count, and knows it.
        nodes.kill(leader)
        marks = {node_id: nodes.log_size(node_id) for node_id in (wiped, witness)}
        nodes.start(wiped)
        epoch = nodes.epoch(witness)
        wait_for(
            f"node {witness} stands for election again and again",
            lambda: nodes.epoch(witness) >= epoch + CANDIDACIES,
        )
        for node_id, mark in marks.items():
            assert nodes.events(node_id, "controller_activated", mark) == []
        assert nodes.metrics(wiped)["role.follower"] == 1

        # With it there is one, of the other two; the wiped one catches up and is readmitted.
        nodes.start(leader)
        load.await_done(20)
        chosen = nodes.leader()
        assert chosen != wiped
        wait_for(
            f"node {wiped} is readmitted",
            lambda: any(
                nodes.events(node_id, "voter_readmitted", mark)
                for node_id, mark in (*marks.items(), (leader, 0))
            ),
        )
        load.await_done(20)  # what was proposed before these is committed
        nodes.await_followed()
        # Now it counts: with the wiped one and one of the others alone, the quorum goes on.
        nodes.kill(nodes.leader())
        load.await_done(20)
        dead = [node_id for node_id in nodes.node_ids if nodes.node(node_id).pid() is None]
        nodes.start(*dead)
    check_run(nodes, load, since)


def test_a_voter_whose_store_was_deleted_does_not_come_back_as_who_it_was(nodes: Nodes, since: int) -> None:
    leader = nodes.await_followed()
    robbed, witness = nodes.followers()
    with Load(nodes, seed=22) as load:
        load.await_done(20)
        old_directory, old_voter = nodes.directory_id(robbed), nodes.voter_id(robbed)
        nodes.kill(robbed)
        shutil.rmtree(nodes.home(robbed) / "store")
        nodes.kill(leader)
        marks = {node_id: nodes.log_size(node_id) for node_id in (robbed, witness)}
        nodes.start(robbed)
        assert nodes.voter_id(robbed) != old_voter
        assert nodes.directory_id(robbed) == old_directory
        assert nodes.events(robbed, "store_lost", marks[robbed])
        epoch = nodes.epoch(witness)
        wait_for(
            f"node {witness} stands for election again and again",
            lambda: nodes.epoch(witness) >= epoch + CANDIDACIES,
        )
        for node_id, mark in marks.items():
            assert nodes.events(node_id, "controller_activated", mark) == []
        nodes.start(leader)
        load.await_done(20)
        wait_for(
            f"node {robbed} is readmitted",
            lambda: any(nodes.events(each, "voter_readmitted") for each in nodes.node_ids),
        )
        nodes.await_followed()
        nodes.kill(robbed)
        nodes.start(robbed)  # it has its store: nothing to say
        assert len(nodes.events(robbed, "store_lost")) == 1
        load.await_done(20)
        nodes.kill(robbed)
        os.truncate(nodes.home(robbed) / "store/data.mdb", 0)  # as a crash of the machine may leave it
        mark = nodes.log_size(robbed)
        nodes.start(robbed)
        assert nodes.events(robbed, "store_lost", mark)
        load.await_done(20)
    check_run(nodes, load, since)


def test_a_store_of_another_directory_is_refused(nodes: Nodes) -> None:
    nodes.await_followed()
    first, second = nodes.followers()
    nodes.kill(first, second)
    shutil.rmtree(nodes.home(first) / "store")
    shutil.copytree(nodes.home(second) / "store", nodes.home(first) / "store")
    ended = fencepost("node", "--config", nodes.node(first).directory / "node.properties")
    assert ended.status == 1
    assert "not the store of this directory" in ended.stderr
    shutil.rmtree(nodes.home(first) / "store")
    nodes.start(first, second)
    nodes.await_followed()


@pytest.mark.row("beyond.13")
def test_an_older_copy_of_the_store_forgot_votes_though_no_archive_says_so(nodes: Nodes) -> None:
    nodes.await_followed()
    first, _ = nodes.followers()
    store = nodes.home(first) / "store"
    nodes.kill(first)
    shutil.copytree(store, nodes.home(first) / "older")
    nodes.start(first)
    nodes.await_followed()
    nodes.kill(first)
    shutil.rmtree(store)
    (nodes.home(first) / "older").rename(store)
    verified = fencepost("storage", "verify", "--node", first, "--dir", nodes.cluster.directory)
    assert verified.status == 1
    assert "the store is older than" in verified.stdout
    mark = nodes.log_size(first)
    nodes.start(first)
    assert nodes.events(first, "store_damaged", mark)
    assert nodes.events(first, "store_lost", mark)
    nodes.await_followed()
