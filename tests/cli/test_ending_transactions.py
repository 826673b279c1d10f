"""'transactions abort' and 'force-terminate': what is sent, what is refused, and the exit status."""

from typing import Any

import pytest

from fencepost.controller.acl_errors import TransactionalIdAuthorizationFailed
from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    ErrorCode,
)
from fencepost.controller.transactions.describe import DescribedTransaction, DescribeTransactions
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.types import ProducerId
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    TxnMarker,
    WriteTxnMarkers,
    WriteTxnMarkersAnswer,
)
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from tests.cli.transaction_cluster import OPEN, Capture, Cluster, described_as, producers
from tests.harness.command import here


def written(request: WriteTxnMarkers) -> WriteTxnMarkersAnswer:
    return WriteTxnMarkersAnswer(tuple((each.producer_id, (("t", ((0, 0),)),)) for each in request.markers))


@pytest.mark.parametrize(
    ("words", "marker"),
    [
        pytest.param(("--start-offset", 100), TxnMarker(42, 3, False, (("t", (0,)),), 5), id="by-offset"),
        pytest.param(
            ("--start-offset", 200), TxnMarker(43, 0, False, (("t", (0,)),), 0), id="never-had-a-marker"
        ),
        pytest.param(
            ("--producer-id", 9, "--producer-epoch", 1, "--coordinator-epoch", 2),
            TxnMarker(9, 1, False, (("t", (0,)),), 2),
            id="by-producer",
        ),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True], ids=["written", "dry-run"])
def test_an_abort_writes_one_marker(
    cluster: Cluster, words: tuple[object, ...], marker: TxnMarker, dry_run: bool
) -> None:
    cluster.answers({DESCRIBE_PRODUCERS: producers, WRITE_TXN_MARKERS: written})
    flags = ("--dry-run",) if dry_run else ()
    done = cluster.document("abort", "--topic", "t", "--partition", 0, *words, *flags)
    assert done["dry_run"] is dry_run
    assert (done["producer_id"], done["producer_epoch"]) == (marker.producer_id, marker.producer_epoch)
    sent = [each for each in cluster.broker.asked if isinstance(each, WriteTxnMarkers)]
    assert sent == ([] if dry_run else [WriteTxnMarkers((marker,))])


def test_an_abort_of_no_transaction_is_refused(cluster: Cluster) -> None:
    cluster.answers({DESCRIBE_PRODUCERS: producers})
    said = cluster.run("abort", "--topic", "t", "--partition", 0, "--start-offset", 1)
    assert (said.status, "open ones start at 100, 200" in said.stderr) == (1, True)


def test_an_abort_that_the_leader_refuses_failed(cluster: Cluster) -> None:
    def refused(request: WriteTxnMarkers) -> WriteTxnMarkersAnswer:
        return WriteTxnMarkersAnswer(((42, (("t", ((0, 47),)),)),))

    cluster.answers({DESCRIBE_PRODUCERS: producers, WRITE_TXN_MARKERS: refused})
    said = cluster.run("abort", "--topic", "t", "--partition", 0, "--start-offset", 100)
    assert (said.status, "t-0 refuses the marker" in said.stderr) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="nothing"),
        pytest.param(("--producer-id", 1), id="half-a-producer"),
        pytest.param(("--start-offset", 1, "--producer-id", 1), id="both"),
    ],
)
def test_an_abort_names_one_transaction(capsys: Capture, words: tuple[object, ...]) -> None:
    where = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--partition", 0)
    said = here(capsys, "transactions", "abort", *where, *words)
    assert said.status == 2


# -- force-terminate --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(("force-terminate", "--transactional-id"), id="ours"),
        pytest.param(("forceTerminateTransaction", "--transactionalId"), id="the-drafts-spelling"),
    ],
)
def test_force_terminate_fences_with_the_timeout_that_the_id_has(
    cluster: Cluster, verb: tuple[str, str]
) -> None:
    answers: list[Any] = [ConcurrentTransactions("ending"), InitProducerIdAnswer(ProducerId(42), 5)]
    cluster.answers(
        {DESCRIBE_TRANSACTIONS: described_as(OPEN), INIT_PRODUCER_ID: lambda request: answers.pop(0)}
    )
    assert cluster.document(*verb, "orders") == {
        "transactional_id": "orders",
        "transaction_state": "Ongoing",
        "producer_id": 42,
        "producer_epoch": 5,
        "dry_run": False,
    }
    (*_, asked) = cluster.broker.asked
    assert isinstance(asked, InitProducerId)
    assert (asked.transactional_id, asked.transaction_timeout_ms) == ("orders", 60_000)
    assert (asked.producer_id, asked.producer_epoch) == (-1, -1)


def test_a_dry_run_terminates_nothing(cluster: Cluster) -> None:
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(OPEN)})
    said = cluster.run("force-terminate", "--transactional-id", "orders", "--dry-run")
    assert (said.status, "would be aborted" in said.stdout) == (0, True)


def test_an_id_that_nobody_knows_is_not_made(cluster: Cluster) -> None:
    unknown = DescribedTransaction("typo", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(unknown)})
    assert cluster.run("force-terminate", "--transactional-id", "typo").status == 1
    assert [type(each) for each in cluster.broker.asked] == [DescribeTransactions]


def test_who_may_not_is_status_4(cluster: Cluster) -> None:
    def refuse(request: InitProducerId) -> ApiError:
        return TransactionalIdAuthorizationFailed("User:eve may not")

    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(OPEN), INIT_PRODUCER_ID: refuse})
    assert cluster.run("force-terminate", "--transactional-id", "orders").status == 4
