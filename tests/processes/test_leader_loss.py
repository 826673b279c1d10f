"""The leader dies, pauses, leaves; all die at once. No id is given twice, and nothing refused was done."""

import asyncio
import contextlib
import signal
import time
import uuid
from typing import Any

import pytest

from fencepost.controller.brokers import Endpoint, RegisterBroker
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.records.types import BrokerEpoch, BrokerId, NodeId
from fencepost.wire.client import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorum
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.harness.nodes import Nodes, wait_for
from tests.processes.checks import check_run
from tests.processes.load import UNKNOWN_CODES, Load

pytestmark = pytest.mark.slow

KILLS = 5
PAUSES = 2
SLEEPER_ID = BrokerId(900)
ANSWER_SECONDS_MAX = 20.0
FROZEN_SECONDS = 1.5  # election timeouts are 0.3 to 0.6 s
ALONE_SECONDS = 2.0  # more than a leader believes in itself without an answer (0.6 s)


@pytest.mark.row("730.3", "730.9", "card.1", "card.7")
def test_kill_9_of_the_leader_under_load_again_and_again(nodes: Nodes, since: int) -> None:
    with Load(nodes, seed=1) as load:
        load.await_done(20)
        for _ in range(KILLS):
            leader = nodes.leader()
            nodes.kill(leader)
            load.await_done(20)
            nodes.start(leader)
    check_run(nodes, load, since)


@pytest.mark.row("730.3", "card.7")
def test_a_leader_that_is_paused_under_load_tells_nobody_anything(nodes: Nodes, since: int) -> None:
    # Some wait for its answer however long it sleeps: what was under way is told as it ended, or not at all.
    with Load(nodes, seed=2) as load, Load(nodes, seed=7, patience_s=ANSWER_SECONDS_MAX) as deferrable:
        load.await_done(20)
        for _ in range(PAUSES):
            leader = nodes.leader()
            told = asyncio.run(ask_while_paused(nodes, leader, load))
            assert set(told) <= {"refused", "unknown"}, f"the deposed leader answered: {told}"
            wait_for("the deposed leader follows", lambda: nodes.metrics(leader)["role.leader"] == 0)  # noqa: B023
            load.await_done(20)
    check_run(nodes, load, since, deferrable)


@pytest.mark.row("730.3", "card.7")
def test_a_leader_without_a_majority_tells_nobody_anything(nodes: Nodes, since: int) -> None:
    """Quiet before, so that nothing is in flight: the leader decides, and must keep it to itself."""
    leader = nodes.await_followed()
    others = nodes.followers()
    told = asyncio.run(ask_when_alone(nodes, leader, others))
    assert set(told) <= {"refused", "unknown"}, f"without a majority it answered: {told}"
    with Load(nodes, seed=6) as load:
        load.await_done(20)
    check_run(nodes, load, since)


async def ask_when_alone(nodes: Nodes, leader: int, others: list[NodeId]) -> list[str]:
    """What the leader answers while both others sleep: it still leads, as far as it knows."""
    async with contextlib.AsyncExitStack() as stack:
        asked = await questions(nodes, leader, stack)
        for other in others:
            nodes.send(other, signal.SIGSTOP)
            stack.callback(nodes.send, other, signal.SIGCONT)
        return await asyncio.gather(*(_outcome(*each, timeout_s=ALONE_SECONDS) for each in asked))


async def ask_while_paused(nodes: Nodes, leader: int, load: Load) -> list[str]:
    """What the leader answers, when it wakes up, to what it was asked while it slept."""
    async with contextlib.AsyncExitStack() as stack:
        asked = await questions(nodes, leader, stack)
        nodes.send(leader, signal.SIGSTOP)
        try:
            answers = asyncio.gather(*(_outcome(*each, timeout_s=ANSWER_SECONDS_MAX) for each in asked))
            await asyncio.sleep(0)  # the questions are written
            await asyncio.to_thread(load.await_done, 20, time.time_ns())
        finally:
            nodes.send(leader, signal.SIGCONT)
        return await answers


async def questions(
    nodes: Nodes, leader: int, stack: contextlib.AsyncExitStack
) -> list[tuple[Connection, Any, Any]]:
    """One of every kind whose answer depends on the image; each has a connection of its own."""
    sleeper = RegisterBroker(
        broker_id=SLEEPER_ID,
        cluster_id=nodes.cluster.cluster_id,
        incarnation_id=uuid.uuid4(),
        directory_id=uuid.UUID(int=900),
        endpoints=(Endpoint("NONE", "127.0.0.1", 1),),
    )

    async def connect() -> Connection:
        connection = await Connection.open(*nodes.address(leader, "controller"))
        stack.callback(connection.close)
        return connection

    epoch = await (await connect()).call(BROKER_REGISTRATION, sleeper)
    kinds: list[tuple[Any, Any]] = [
        (ALLOCATE_PRODUCER_IDS, AllocateProducerIds(SLEEPER_ID, epoch)),
        (ALLOCATE_PRODUCER_IDS, AllocateProducerIds(SLEEPER_ID, BrokerEpoch(epoch + 1))),  # 77
        (BROKER_REGISTRATION, sleeper),  # its own epoch, without a record
        (DESCRIBE_QUORUM, DescribeQuorum()),
        (DESCRIBE_CLUSTER, DescribeCluster()),
    ]
    return [(await connect(), api, question) for api, question in kinds]


async def _outcome(connection: Connection, api: Any, question: Any, *, timeout_s: float) -> str:
    try:
        answer = await connection.call(api, question, timeout_s=timeout_s)
    except ApiError as error:
        if error.code in UNKNOWN_CODES:
            return "unknown"
        return "refused" if error.code == ErrorCode.NOT_CONTROLLER else error.code.name
    except (ConnectionLost, RequestTimeout):
        return "unknown"
    return f"{api.name}: {answer}"


@pytest.mark.row("730.3", "730.7", "card.1", "card.7")
def test_kill_9_of_all_three_at_once_and_a_restart_go_on_where_they_were(nodes: Nodes, since: int) -> None:
    with Load(nodes, seed=3) as load:
        load.await_done(50)
        nodes.kill(*nodes.node_ids)
    acknowledged = max(attempt.end for attempt in load.done())
    nodes.start(*nodes.node_ids)
    assert nodes.leader()
    assert nodes.read("producer-ids", "describe")["next_producer_id"] >= acknowledged
    with Load(nodes, seed=4) as second:
        second.await_done(20)
    blocks = check_run(nodes, load, since, second)
    described = nodes.read("producer-ids", "describe")
    assert described["next_producer_id"] == blocks[-1].end, "the image and the log differ"


@pytest.mark.row("card.7")
def test_a_machine_that_stands_still_changes_no_leader(nodes: Nodes, since: int) -> None:
    """All processes paused for longer than any timeout of the election, and resumed: a frozen machine."""
    nodes.await_followed()
    leadership = nodes.leadership()
    with Load(nodes, seed=8) as load:
        load.await_done(20)
        for node_id in nodes.node_ids:
            nodes.send(node_id, signal.SIGSTOP)
        thawed = time.monotonic() + FROZEN_SECONDS
        wait_for("time passes", lambda: time.monotonic() > thawed)
        for node_id in nodes.node_ids:
            nodes.send(node_id, signal.SIGCONT)
        load.await_done(20)
        assert nodes.leadership() == leadership
    check_run(nodes, load, since)


@pytest.mark.row("card.7")
def test_a_clean_stop_hands_leadership_over(nodes: Nodes, since: int) -> None:
    with Load(nodes, seed=5) as load:
        load.await_done(20)
        for _ in range(2):
            nodes.await_followed()
            leader, epoch = nodes.leadership()
            mark = nodes.log_size(leader)
            nodes.send(leader, signal.SIGTERM)
            nodes.await_status(leader, "dead")
            stopped = nodes.await_event(leader, "controller_stopped", mark)
            assert stopped["handed_over"]
            assert nodes.await_event(leader, "node_stopped", mark)["status"] == 0
            load.await_done(20)
            # Handed over: one election, won by whom the leader chose.
            assert nodes.leadership()[1] == epoch + 1
            nodes.start(leader)
    check_run(nodes, load, since)
