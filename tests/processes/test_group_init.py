"""Group-aware InitProducerId on three nodes, by requests of our own: zombies, moved partitions (KIP-447)."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.read_back import READ_COMMITTED, read_topic
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.records.types import ProducerId
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, GROUP, TRANSACTION, FindCoordinator
from fencepost.wire.k26_end_txn import END_TXN
from tests.harness.nodes import NO_QUOTA, Nodes, running
from tests.processes.group_loop import Loop, Pair
from tests.processes.test_transactions_v2 import connected, restart_leader

pytestmark = pytest.mark.slow

A, B = "a", "b"
READ_S = 60.0


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("group-init") / "cluster", NO_QUOTA) as nodes:
        yield nodes


def pair_of(answer: Any) -> Pair:
    return answer.producer_id, answer.producer_epoch


def zombie(loop: Loop, name: str, *, offsets: bool) -> Pair:
    """Member A's producer has outputs of partition 1, and its offset; the partition moves to member B."""
    loop.rebalance({A: (0, 1)})
    pair = pair_of(loop.init(A, 0, 1, of=name))
    assert loop.producer(name).write(pair, b"zombie") == 0
    if offsets:
        assert loop.commit(name, pair, A, 1, 10) == 0
    loop.rebalance({A: (0,), B: (1,)})
    return pair


def read(loop: Loop) -> list[bytes]:
    found = read_topic(loop.nodes.bootstrap, loop.output, READ_COMMITTED, timeout_s=READ_S)
    return sorted(each.value or b"" for each in found)


def codes_of_ends(loop: Loop, name: str, pair: Pair) -> dict[int, int]:
    """The refusal of its commit, in each version of EndTxn."""

    async def end(version: int) -> int:
        request = EndTxn(name, ProducerId(pair[0]), pair[1], True, bumps_epoch=version >= 5)
        async with connected(await loop.producer(name)._address()) as connection:
            try:
                await connection.call(END_TXN, request, version=version)
            except ApiError as error:
                return int(error.code)
        return 0

    return {version: asyncio.run(end(version)) for version in END_TXN.versions}


@pytest.mark.row("447.4")
@pytest.mark.row("447.1")
@pytest.mark.parametrize("offsets", [True, False], ids=["with-offsets", "with-outputs-alone"])
@pytest.mark.parametrize("restarts", [False, True], ids=["one-leader", "another-leader"])
def test_a_zombie_whose_partition_moved_commits_nothing(nodes: Nodes, offsets: bool, restarts: bool) -> None:
    case = f"{offsets}-{restarts}".lower()
    loop, old, new = Loop(nodes, case), f"old-{case}", f"new-{case}"
    pair = zombie(loop, old, offsets=offsets)
    if offsets:
        assert loop.offset(1)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    if restarts:
        restart_leader(nodes)

    mine = pair_of(loop.init(B, 1, of=new))
    assert loop.producer(old).stored().state in ("CompleteAbort", "Empty")
    assert loop.offset(1) == (-1, 0), "what the zombie wrote is gone, and nothing is pending"
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH
    assert loop.producer(old).write(pair, b"late", partition=2) == fenced
    assert loop.commit(old, pair, A, 1, 11, generation=loop.generation - 1) == fenced
    assert loop.commit(old, pair, A, 1, 11) == fenced, "in the generation, too"
    assert codes_of_ends(loop, old, pair) == {
        version: ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
        for version in END_TXN.versions
    }

    assert loop.producer(new).write(mine, b"mine") == 0
    assert loop.commit(new, mine, B, 1, 10) == 0
    loop.producer(new).end(mine)
    assert loop.offset(1) == (10, 0)
    again = pair_of(loop.init(A, 0, of=old))
    assert again[1] > pair[1]
    assert loop.producer(old).write(again, b"again", partition=3) == 0
    loop.producer(old).end(again)
    assert read(loop) == [b"again", b"mine"]


@pytest.mark.row("447.4")
def test_it_is_answered_when_the_markers_are_written(nodes: Nodes) -> None:
    """The leader of the zombie's output stands still: until it goes on, no pair is given out."""
    loop = Loop(nodes, "markers")
    pair = zombie(loop, "old-markers", offsets=True)
    answers: list[Any] = []
    leader = nodes.leader()
    stalled = max(each for each in nodes.node_ids if each != leader)  # node 1 says who coordinates
    for partition in (1, 2, 3):
        assert loop.producer("old-markers").write(pair, b"z", partition) == 0
    nodes.send(stalled, signal.SIGSTOP)
    try:
        asking = threading.Thread(target=lambda: answers.append(loop.init(B, 1, of="new-markers")))
        asking.start()
        asking.join(5.0)
        assert answers == []
        assert loop.producer("old-markers").stored().state == "PrepareAbort"
    finally:
        nodes.send(stalled, signal.SIGCONT)
    asking.join(60.0)
    assert len(answers) == 1
    assert loop.producer("old-markers").stored().state == "CompleteAbort"


@pytest.mark.row("447.8")
def test_without_a_transactional_id_the_answer_names_one(nodes: Nodes) -> None:
    loop = Loop(nodes, "null")
    loop.rebalance({A: (0,), B: (1,)})
    first, second = loop.init(A, 0, of=None), loop.init(B, 1, of=None)
    assert first.transactional_id == f"{loop.group_id}-{first.producer_id}"
    assert second.transactional_id not in (None, first.transactional_id)
    name = str(first.transactional_id)
    assert loop.producer(name).write(pair_of(first), b"one") == 0
    assert loop.commit(name, pair_of(first), A, 0, 5) == 0
    loop.producer(name).end(pair_of(first))
    restart_leader(nodes)
    assert loop.offset(0) == (5, 0)
    again = loop.init(A, 0, of=name)
    assert (again.transactional_id, again.producer_id) == (name, first.producer_id)
    described = nodes.read("transactions", "describe", "--transactional-id", name, "--format", "json")
    assert described["assignments"] == [
        {
            "group": loop.group_id,
            "generation": loop.generation,
            "count": 1,
            "partitions": [f"{loop.input}-0"],
        }
    ]
    assert read(loop) == [b"one"]


@pytest.mark.row("447.8")
def test_what_is_not_so_is_refused_and_aborts_nothing(nodes: Nodes) -> None:
    loop = Loop(nodes, "refused")
    pair = zombie(loop, "old-refused", offsets=True)
    refusals: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"group_id": "unknown"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"generation": loop.generation - 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": loop.ids[A]}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    ]
    for said, code in refusals:
        for name in ("new-refused", None):
            partitions = (0, 1) if said == {"member_id": ""} else (1,)
            with pytest.raises(ApiError) as refused:
                loop.init(B, *partitions, of=name, **said)
            assert refused.value.code == code, said
    assert loop.producer("old-refused").stored().state == "Ongoing"
    assert loop.commit("old-refused", pair, A, 0, 7) == 0
    loop.producer("old-refused").end(pair)
    assert (loop.offset(0), loop.offset(1)) == ((7, 0), (10, 0))
    assert read(loop) == [b"zombie"]


@pytest.mark.row("447.4")
def test_the_transaction_coordinator_is_found_by_group_id(nodes: Nodes) -> None:
    async def found(request: FindCoordinator) -> Any:
        async with connected(nodes.address(1, "client")) as connection:
            return (await connection.call(FIND_COORDINATOR, request)).coordinators

    by_group = FindCoordinator(TRANSACTION, ("bill", ""), by_group=True)
    where, unnamed = asyncio.run(found(by_group))
    (plain,) = asyncio.run(found(FindCoordinator(TRANSACTION, ("any",))))
    assert (where.key, where.node_id, where.port) == ("bill", plain.node_id, plain.port)
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
    (refused,) = asyncio.run(found(FindCoordinator(GROUP, ("bill",), by_group=True)))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
