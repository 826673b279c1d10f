"""Who was given which ids, when, in which epoch: the command and an independent reader say the same."""

import time
from itertools import pairwise
from typing import Any

import pytest

from tests.harness.nodes import Nodes, wait_for
from tests.processes import archive_reader
from tests.processes.checks import check_run
from tests.processes.load import Load
from tests.processes.raw_client import RawClient, allocation, producer_id, register

pytestmark = pytest.mark.slow

REPEATS = 5
BLOCK_LENGTH = 1000


@pytest.mark.row("730.1", "730.9")
def test_blocks_follow_each_other_half_open_and_a_repeated_request_wastes_one(nodes: Nodes) -> None:
    leader = nodes.leader()
    with RawClient(nodes.address(leader, "controller")) as client:
        request = allocation(601, register(client, nodes.cluster.cluster_id, 601))
        answers = [client.call(request) for _ in range(REPEATS)]
    assert {(int(answer.error_code), int(answer.producer_id_len)) for answer in answers} == {
        (0, BLOCK_LENGTH)
    }
    starts = [int(answer.producer_id_start) for answer in answers]
    for before, after in pairwise(starts):
        assert after >= before + BLOCK_LENGTH
    end = starts[-1] + BLOCK_LENGTH  # answered; the archive, which history reads, has it a moment later
    wait_for("the last block in the history", lambda: nodes.history()[-1]["end"] >= end)
    owned = nodes.read("producer-ids", "history", "--broker-id", "601")
    assert [(row["start"], row["end"]) for row in owned] == [
        (start, start + BLOCK_LENGTH) for start in starts
    ]


@pytest.mark.row("730.7")
def test_a_broker_that_restarts_never_hands_out_the_rest_of_its_block(nodes: Nodes) -> None:
    broker = nodes.followers()[0]
    address = nodes.address(broker, "client")
    before = [producer_id(address) for _ in range(3)]
    nodes.kill(broker)
    nodes.start(broker)
    after = producer_id(address)
    block = block_of(nodes, before[-1])
    assert before == [*range(before[0], before[0] + 3)]
    assert block["broker_id"] == broker
    assert after >= block["end"], "the rest of the old block was used"
    assert block_of(nodes, after)["broker_id"] == broker


@pytest.mark.row("730.1", "730.10")
def test_what_was_answered_is_told_at_once_also_by_a_cluster_that_was_killed(nodes: Nodes) -> None:
    """A node saves its image twice a second; what it answered since then is in journals alone."""
    leader = nodes.leader()
    with RawClient(nodes.address(leader, "controller")) as client:
        request = allocation(602, register(client, nodes.cluster.cluster_id, 602))
        for _ in range(REPEATS):
            end = int(client.call(request).producer_id_start) + BLOCK_LENGTH
            assert nodes.read("producer-ids", "describe")["next_producer_id"] >= end
        end = int(client.call(request).producer_id_start) + BLOCK_LENGTH
        nodes.kill(*nodes.node_ids)
    assert nodes.read("producer-ids", "describe")["next_producer_id"] >= end
    nodes.start(*nodes.node_ids)
    wait_for(  # the next leader commits it once more
        "the block in the history", lambda: nodes.read("producer-ids", "history")[-1]["end"] >= end
    )


def block_of(nodes: Nodes, wanted: int) -> dict[str, Any]:
    """The block that an id is in."""
    rows = nodes.read("producer-ids", "history")
    (block,) = [row for row in rows if row["start"] <= wanted < row["end"]]
    return dict(block)


@pytest.mark.row("730.10", "card.1")
def test_history_is_what_an_independent_reader_finds_after_kills_and_restarts(
    nodes: Nodes, since: int
) -> None:
    began_ms = time.time() * 1000
    with Load(nodes, seed=41) as load:
        load.await_done(20)
        leader = nodes.leader()
        nodes.kill(leader)
        load.await_done(20)
        nodes.start(leader)
        nodes.kill(*nodes.node_ids)
        nodes.start(*nodes.node_ids)
        load.await_done(20)
    recent = check_run(nodes, load, since)
    assert len({block.epoch for block in recent}) >= 3, "kills make epochs"
    for block in recent:  # a node's own broker, just started, may have asked before the load began
        earliest_ms = 0 if block.broker_id in nodes.node_ids else began_ms - 1
        assert earliest_ms <= block.timestamp_ms <= time.time() * 1000 + 1
    assert {block.broker_id for block in recent} - {*nodes.node_ids}, "the load was given blocks"

    homes = [nodes.home(node_id) for node_id in nodes.node_ids]

    def look() -> bool:
        """Nothing was allocated while the two were read: a node's own broker may be prefetching."""
        rows = nodes.read("producer-ids", "history")
        found = list(archive_reader.allocations(archive_reader.merged(homes)))
        if len(rows) != len(found):
            return False
        first = 0
        for row, block in zip(rows, found, strict=True):
            told = (
                row["offset"],
                row["leader_epoch"],
                row["timestamp_ms"],
                row["broker_id"],
                row["broker_epoch"],
            )
            assert told == block[:5]
            assert (row["start"], row["end"], row["len"]) == (first, block.end, block.end - first)
            first = block.end
        return True

    wait_for("command and reader see the same log", look)
    text = nodes.run("producer-ids", "history", "--broker-id", str(recent[-1].broker_id))
    assert str(recent[-1].end) in text
