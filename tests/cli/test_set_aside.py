"""Transactions that the coordinator set aside: how commands show them, and how they end."""

import pytest

from fencepost.cli.transaction_calls import Described, Terminated
from fencepost.cli.transaction_output import sentence
from fencepost.controller.transactions.describe import DescribedTransaction
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.types import ProducerId
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkers, WriteTxnMarkersAnswer
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducersAnswer
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k20027_force_markers import FORCE_MARKERS, ForcedMarkers, ForceMarkers
from fencepost.wire.k20065_explain_transaction import EXPLAIN_TRANSACTION, Explanation
from fencepost.wire.k20066_list_set_aside import LIST_SET_ASIDE, QUARANTINED, WEDGED, SetAside, SetAsideList
from tests.cli.fake_broker import Answer
from tests.cli.transaction_cluster import NOW_MS, Cluster, described_as, producers
from tests.together import table

WEDGE = SetAside(
    kind=WEDGED,
    concern="marker",
    key="orders",
    partition="t-0",
    code=47,
    reason="why",
    since_ms=NOW_MS - 5_000,
)
QUARANTINE = SetAside(
    kind=QUARANTINED, concern="timeout", key="bob", reason="epoch 32767", since_ms=NOW_MS - 9_000
)
WEDGE_ROW = {
    "kind": "wedged",
    "concern": "marker",
    "key": "orders",
    "topic": "t",
    "partition": 0,
    "error_code": 47,
    "reason": "why",
    "since_ms": NOW_MS - 5_000,
}
PREPARED = DescribedTransaction(
    "orders", state="PrepareCommit", producer_id=ProducerId(42), transaction_timeout_ms=60_000
)


def set_aside(*rows: SetAside) -> Answer:
    return lambda request: SetAsideList(rows, len(rows))


def test_a_description_names_what_is_set_aside(cluster: Cluster) -> None:
    why = Explanation("it is wedged", (), (WEDGE,))
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(PREPARED), EXPLAIN_TRANSACTION: lambda request: why})
    assert cluster.document("describe", "--transactional-id", "orders")["set_aside"] == [WEDGE_ROW]
    assert "it is wedged" in cluster.run("describe", "--transactional-id", "orders").stdout


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        pytest.param((), ["orders", "bob"], id="all"),
        pytest.param(("--topic", "t"), ["orders"], id="of-its-topic"),
        pytest.param(("--topic", "t", "--partition", 0), ["orders"], id="of-its-partition"),
        pytest.param(("--topic", "t", "--partition", 1), [], id="of-another-partition"),
    ],
)
def test_what_is_set_aside_is_found(cluster: Cluster, words: tuple[object, ...], keys: list[str]) -> None:
    cluster.answers(
        {
            DESCRIBE_PRODUCERS: lambda request: DescribeProducersAnswer(()),
            LIST_SET_ASIDE: set_aside(WEDGE, QUARANTINE),
        }
    )
    status = 1 if keys else 0
    found = cluster.document("find-hanging", *words, status=status)["set_aside"]
    assert [each["key"] for each in found] == keys
    said = cluster.run("find-hanging", *words)
    assert said.status == status
    assert ("wedged for 5 s: marker of orders on t-0: why; 'fencepost" in said.stdout) == ("orders" in keys)
    assert ("quarantined for 9 s: timeout of bob: epoch 32767\n" in said.stdout) == ("bob" in keys)


def test_force_terminate_of_a_wedged_transaction_forces_its_marker(cluster: Cluster) -> None:
    why = Explanation("it is wedged", (), (WEDGE,))
    cluster.answers(
        {
            DESCRIBE_TRANSACTIONS: described_as(PREPARED),
            EXPLAIN_TRANSACTION: lambda request: why,
            FORCE_MARKERS: lambda request: ForcedMarkers(("t-0",)),
            INIT_PRODUCER_ID: lambda request: InitProducerIdAnswer(ProducerId(42), 5),
        }
    )
    dry = cluster.run("force-terminate", "--transactional-id", "orders", "--dry-run")
    assert "wedged on t-0: its marker would be forced there" in dry.stdout
    assert not any(isinstance(each, ForceMarkers) for each in cluster.broker.asked)
    said = cluster.run("force-terminate", "--transactional-id", "orders")
    assert "wedged on t-0: its marker is forced there" in said.stdout, said.stderr
    assert [type(each) for each in cluster.broker.asked[-2:]] == [ForceMarkers, InitProducerId]


def test_an_abort_of_what_the_coordinator_will_end_says_what_to_do(cluster: Cluster) -> None:
    def refused(request: WriteTxnMarkers) -> WriteTxnMarkersAnswer:
        return WriteTxnMarkersAnswer(((42, (("t", ((0, 48),)),)),))

    cluster.answers({DESCRIBE_PRODUCERS: producers, WRITE_TXN_MARKERS: refused})
    said = cluster.run("abort", "--topic", "t", "--partition", 0, "--start-offset", 100)
    assert (said.status, "force-terminate" in said.stderr) == (1, True)


SENTENCES = [
    pytest.param("Ongoing", "Its transaction is aborted", "Its transaction would be aborted", id="open"),
    pytest.param(
        "PrepareCommit", "was being committed already", "is being committed already", id="committing"
    ),
    pytest.param("PrepareAbort", "was being aborted already", "is being aborted already", id="aborting"),
    pytest.param("Empty", "No transaction was open (Empty)", "No transaction was open (Empty)", id="none"),
]


@table(("state", "done", "would_be"), SENTENCES)
def test_force_terminate_says_what_it_did(state: str, done: str, would_be: str) -> None:
    before = Described(1, DescribedTransaction("orders", state=state, producer_epoch=3), None)
    assert done in sentence(Terminated(before, InitProducerIdAnswer(ProducerId(42), 5)))
    assert would_be in sentence(Terminated(before, None))
