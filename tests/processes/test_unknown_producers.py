"""A partition leader asks the coordinator about a producer that it does not know (KIP-360, KIP-890)."""

import pytest

from fencepost.client.read_back import READ_COMMITTED, read_topic
from tests.harness.nodes import Nodes, wait_for
from tests.processes.raw_client import LOADING, RawClient
from tests.processes.txn_requests import NONE, Pair, add, added, end, init, write, written

pytestmark = pytest.mark.slow

ID, TOPIC = "unknown-producer", "unknown-producer"
CONCURRENT_TRANSACTIONS, RETRIED = 51, frozenset((3, 6, 14, 15, 16, 19, 51))
FENCED = 47  # INVALID_PRODUCER_EPOCH: a partition leader never says PRODUCER_FENCED


def instance(coordinator: RawClient, pair: Pair = NONE) -> Pair:
    """InitProducerId, once it is answered."""

    def look() -> Pair | None:
        answer = coordinator.call(init(ID, pair, timeout_ms=60_000))
        if int(answer.error_code) in (LOADING, CONCURRENT_TRANSACTIONS):
            return None
        assert int(answer.error_code) == 0
        return int(answer.producer_id), int(answer.producer_epoch)

    return wait_for("a producer id", look)


@pytest.mark.row("360.6")
def test_a_fenced_producer_that_the_leader_never_saw_writes_nothing(nodes: Nodes) -> None:
    """The partition is in the transaction, but in the newer instance's epoch."""
    leader = nodes.leader()
    other = next(each for each in nodes.node_ids if each != leader)
    nodes.run("topics", "create", "--topic", TOPIC, "--replica-assignment", str(other))

    def code_of(partition_leader: RawClient, pair: Pair, value: str) -> int:
        def look() -> tuple[int] | None:
            code = written(partition_leader.call(write(ID, pair, TOPIC, 0, 0, value)))
            return None if code in RETRIED else (code,)

        return wait_for("an answer", look)[0]

    with (
        RawClient(nodes.address(leader, "client")) as coordinator,
        RawClient(nodes.address(other, "client")) as partition_leader,
    ):
        zombie = instance(coordinator)
        newer = instance(coordinator)
        assert newer == (zombie[0], zombie[1] + 1)
        assert added(coordinator.call(add(ID, newer, TOPIC, [0]))) == {0}
        assert code_of(partition_leader, zombie, "zombie") == FENCED
        assert code_of(partition_leader, newer, "newer") == 0
        assert int(coordinator.call(end(ID, newer, True)).error_code) == 0
    seen = read_topic(nodes.bootstrap, TOPIC, READ_COMMITTED, timeout_s=30)
    assert [each.value for each in seen] == [b"newer"]
