"""Real Kafka clients get producer ids from every node of a real cluster, and never one twice.

The blocks are small, so that the ids of a few producers already come from many of them, and so that
clients see the answer 14 when they are faster than the controller: they retry it unnoticed.
"""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fencepost.bench.demo_clients import CLIENTS
from fencepost.controller.errors import CoordinatorLoadInProgress
from fencepost.wire.connection import Connection
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from tests.harness.nodes import COMMAND_SECONDS_MAX, NO_QUOTA, Nodes, running

pytestmark = pytest.mark.slow

BLOCK_LENGTH = 4
PRODUCERS = 9
ROUNDS_MAX = 8  # by then each of three nodes was chosen, but for one run in 10^12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    directory = tmp_path_factory.mktemp("clients") / "cluster"
    with running(directory, f"producer.id.block.size={BLOCK_LENGTH}", NO_QUOTA) as started:
        yield started


@pytest.fixture(scope="module")
def issued() -> set[int]:
    """Every id that any client of this module got."""
    return set()


def claim_each_once(issued: set[int], producer_ids: list[int]) -> None:
    assert len(set(producer_ids)) == len(producer_ids), f"an id twice in {sorted(producer_ids)}"
    assert issued.isdisjoint(producer_ids), f"ids again: {sorted(issued & set(producer_ids))}"
    issued.update(producer_ids)


def start_asking(library: str, *bootstraps: str, threads: int = 1) -> subprocess.Popen[str]:
    """PRODUCERS producers of one library, in a process of their own."""
    arguments = [library, str(PRODUCERS), str(threads), *bootstraps]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.clients.ask_for_ids", *arguments], stdout=subprocess.PIPE, text=True
    )


def ids_of(asking: subprocess.Popen[str]) -> list[int]:
    """The ids that the process got, all of them."""
    printed, _ = asking.communicate(timeout=COMMAND_SECONDS_MAX)
    assert asking.returncode == 0
    producer_ids = [int(line) for line in printed.split()]
    assert len(producer_ids) == PRODUCERS
    return producer_ids


@pytest.mark.row("730.1", "730.2", "730.7", "card.4")
@pytest.mark.parametrize("library", CLIENTS)
def test_producers_get_distinct_ids_from_all_three_nodes(
    cluster: Nodes, issued: set[int], library: str
) -> None:
    # Each producer starts from another node; which one it then asks for its id is its library's choice.
    bootstraps = [cluster.client_address(node_id) for node_id in cluster.node_ids]
    owners: set[int] = set()
    for _ in range(ROUNDS_MAX):
        producer_ids = ids_of(start_asking(library, *bootstraps))
        claim_each_once(issued, producer_ids)
        owners |= owners_of(cluster, producer_ids)
        if owners == set(cluster.node_ids):
            return
    pytest.fail(f"only nodes {owners} were ever asked")


def test_producers_of_all_libraries_at_once_get_distinct_ids(cluster: Nodes, issued: set[int]) -> None:
    asking = [start_asking(library, cluster.bootstrap, threads=PRODUCERS) for library in CLIENTS]
    claim_each_once(issued, [each for process in asking for each in ids_of(process)])


@pytest.mark.row("730.2", "730.3", "730.10")
def test_every_id_of_a_node_lies_in_a_block_that_the_log_gave_to_its_broker(
    cluster: Nodes, issued: set[int]
) -> None:
    answers = {
        node_id: asyncio.run(ids_from(cluster.address(node_id, "client"), 25)) for node_id in cluster.node_ids
    }
    claim_each_once(issued, [each for ids in answers.values() for each in ids])
    history = cluster.history()
    for node_id, producer_ids in answers.items():
        blocks = [range(b["start"], b["end"]) for b in history if b["broker_id"] == node_id]
        assert all(any(each in block for block in blocks) for each in producer_ids)
    assert {block["len"] for block in history} == {BLOCK_LENGTH}
    assert all(before["end"] <= after["start"] for before, after in itertools.pairwise(history))


@pytest.mark.row("730.7", "card.7")
def test_the_leader_dies_and_every_library_still_gets_new_ids(cluster: Nodes, issued: set[int]) -> None:
    dead = cluster.leader()
    cluster.kill(dead)
    asking = [start_asking(library, cluster.bootstrap) for library in CLIENTS]  # of the dead one, too
    claim_each_once(issued, [each for process in asking for each in ids_of(process)])

    # What was left of the dead broker's blocks is lost with it: its next id is from a new block.
    given = cluster.history()[-1]["end"]
    cluster.up()  # not only `start`: a client's listener opens after the controller's
    producer_ids = asyncio.run(ids_from(cluster.address(dead, "client"), 2 * BLOCK_LENGTH))
    claim_each_once(issued, producer_ids)
    assert min(producer_ids) >= given


def owners_of(cluster: Nodes, producer_ids: list[int]) -> set[int]:
    """The brokers that these ids were allocated to; an id that was allocated to none fails."""
    history = cluster.history()
    owners = set()
    for each in producer_ids:
        (owner,) = [block["broker_id"] for block in history if block["start"] <= each < block["end"]]
        owners.add(int(owner))
    return owners


async def ids_from(address: tuple[str, int], count: int) -> list[int]:
    """So many ids from this very node, asked for one after the other; 14 is asked again, as clients do."""
    connection = await Connection.open(*address)
    request = InitProducerId(transactional_id=None, transaction_timeout_ms=-1)
    producer_ids: list[int] = []
    try:
        while len(producer_ids) < count:
            try:
                answer = await connection.call(INIT_PRODUCER_ID, request)
            except CoordinatorLoadInProgress:
                continue
            assert answer.producer_epoch == 0
            producer_ids.append(answer.producer_id)
    finally:
        connection.close()
    return producer_ids
