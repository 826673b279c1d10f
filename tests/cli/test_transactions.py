"""``transactions``: Kafka's verbs, flags and columns; what is asked of the cluster; and each refusal."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.cli.transaction_calls import Described, Terminated
from fencepost.cli.transaction_output import description, sentence
from fencepost.cli.transaction_partitions import OpenTransaction, hanging
from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    ErrorCode,
    NotCoordinator,
    TransactionalIdAuthorizationFailed,
)
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsAnswer,
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.controller.transactions.init_producer_id import InitProducerId, InitProducerIdAnswer
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    TxnMarker,
    WriteTxnMarkers,
    WriteTxnMarkersAnswer,
)
from fencepost.wire.k61_describe_producers import (
    DESCRIBE_PRODUCERS,
    ActiveProducer,
    DescribeProducers,
    DescribeProducersAnswer,
    PartitionProducers,
)
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20027_force_markers import FORCE_MARKERS, ForcedMarkers, ForceMarkers
from fencepost.wire.k20065_explain_transaction import (
    EXPLAIN_TRANSACTION,
    ExplainTransaction,
    Explanation,
    FenceTold,
)
from fencepost.wire.k20066_list_set_aside import (
    LIST_SET_ASIDE,
    QUARANTINED,
    WEDGED,
    SetAside,
    SetAsideList,
)
from tests.cli.fake_broker import BROKER_ID, Answer, FakeBroker
from tests.harness.command import Result, here

Capture = pytest.CaptureFixture[str]
NOW_MS = 1_760_000_000_000

OPEN = DescribedTransaction(
    "orders",
    state="Ongoing",
    transaction_timeout_ms=60_000,
    started_ms=NOW_MS - 1500,
    producer_id=ProducerId(42),
    producer_epoch=3,
    partitions=(TopicPartitions("t", (0, 1)), TopicPartitions("u", (0,))),
)
ENDED = DescribedTransaction(
    "orders",
    state="CompleteCommit",
    transaction_timeout_ms=60_000,
    producer_id=ProducerId(42),
    producer_epoch=3,
)
WHY = Explanation("It is open for 1.5 s.", (FenceTold(NOW_MS, "new instance", 42, 2, "orders-2"),))
TOPICS = (
    TopicMetadata(
        name="t",
        partitions=tuple(
            PartitionMetadata(partition_index=each, leader_id=BROKER_ID, replica_nodes=(BROKER_ID,))
            for each in range(2)
        ),
    ),
)
PRODUCERS = (
    ActiveProducer(42, 3, 17, NOW_MS - 1_000_000, 5, 100),
    ActiveProducer(43, 0, 0, NOW_MS - 1_000_000, -1, 200),
    ActiveProducer(44, 0, 8, NOW_MS - 1_000_000, 5, -1),
)


class Cluster:
    """Runs commands against a fake broker."""

    def __init__(self, stack: ExitStack, capsys: Capture) -> None:
        self._stack = stack
        self._capsys = capsys
        self.broker = FakeBroker({})
        self.bootstrap = ""

    def answers(
        self, answers: dict[Api[Any, Any], Answer], topics: tuple[TopicMetadata, ...] | None = None
    ) -> None:
        """Start it with these."""
        self.broker = FakeBroker(answers, TOPICS if topics is None else topics)
        self.bootstrap = self._stack.enter_context(self.broker.serving())

    def run(self, *words: object) -> Result:
        """One command."""
        return here(self._capsys, "transactions", *words, "--bootstrap-server", self.bootstrap)

    def document(self, *words: object, status: int = 0) -> Any:
        """Its JSON."""
        said = self.run(*words, "--format", "json")
        assert said.status == status, said.stderr
        return json.loads(said.stdout)


@pytest.fixture
def cluster(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr("fencepost.cli.transactions._now_ms", lambda: NOW_MS)
    monkeypatch.setattr("fencepost.cluster.brokers.TIMEOUT_SECONDS", 3.0)
    with ExitStack() as stack:
        yield Cluster(stack, capsys)


def described_as(transaction: DescribedTransaction) -> Answer:
    return lambda request: DescribeTransactionsAnswer((transaction,))


def producers(request: DescribeProducers) -> DescribeProducersAnswer:
    """Those of partition 0; partition 1 has none."""
    return DescribeProducersAnswer(
        tuple(
            PartitionProducers(topic, index, producers=PRODUCERS if index == 0 else ())
            for topic, indexes in request.topics
            for index in indexes
        )
    )


# -- list -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        pytest.param((), ListTransactions(), id="all"),
        pytest.param(("--duration-filter", 5), ListTransactions(duration_ms=5), id="kafkas-spelling"),
        pytest.param(("--duration-filter", -7), ListTransactions(), id="below-0-is-all"),
        pytest.param(("--running-longer-than-ms", 5), ListTransactions(duration_ms=5), id="our-spelling"),
        pytest.param(("--runningLongerThanMs", 0), ListTransactions(duration_ms=0), id="the-drafts-spelling"),
        pytest.param(("--transactional-id-pattern", "a.*"), ListTransactions(pattern="a.*"), id="pattern"),
        pytest.param(
            ("--state", "Ongoing", "--state", "Empty", "--producer-id", 4),
            ListTransactions(("Ongoing", "Empty"), (ProducerId(4),)),
            id="state-and-producer",
        ),
    ],
)
def test_a_list_asks_for_what_its_flags_say(
    cluster: Cluster, words: tuple[object, ...], asked: ListTransactions
) -> None:
    listed = (
        ListedTransaction("b", ProducerId(2), "Empty"),
        ListedTransaction("a", ProducerId(1), "Ongoing"),
    )
    cluster.answers({LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), listed)})
    assert cluster.document("list", *words) == [
        {"TransactionalId": "a", "Coordinator": BROKER_ID, "ProducerId": 1, "TransactionState": "Ongoing"},
        {"TransactionalId": "b", "Coordinator": BROKER_ID, "ProducerId": 2, "TransactionState": "Empty"},
    ]
    assert cluster.broker.asked == [asked]


def test_a_list_has_the_columns_of_kafka(cluster: Cluster) -> None:
    cluster.answers({LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), ())})
    said = cluster.run("list")
    assert said.stdout.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]


def test_a_list_waits_for_a_coordinator(cluster: Cluster) -> None:
    answers: list[Any] = [
        NotCoordinator("no"),
        CoordinatorLoadInProgress("soon"),
        ListTransactionsAnswer((), ()),
    ]
    cluster.answers({LIST_TRANSACTIONS: lambda request: answers.pop(0)})
    assert cluster.document("list") == []
    assert not answers


def test_a_state_that_is_none_is_refused(cluster: Cluster) -> None:
    cluster.answers({LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer(("Open",), ())})
    said = cluster.run("list", "--state", "Open")
    assert (said.status, "no such state: Open" in said.stderr) == (1, True)


def test_the_cluster_may_be_named_before_the_verb(cluster: Cluster, capsys: Capture) -> None:
    cluster.answers({LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), ())})
    said = here(capsys, "transactions", "--bootstrap-server", cluster.bootstrap, "list", "--format", "json")
    assert (said.status, said.stdout) == (0, "[]\n")


# -- describe ---------------------------------------------------------------------------------------------


def test_a_description_has_the_columns_of_kafka_and_a_sentence(cluster: Cluster) -> None:
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(OPEN), EXPLAIN_TRANSACTION: lambda request: WHY})
    said = cluster.run("describe", "--transactional-id", "orders")
    columns, row, empty, why = said.stdout.splitlines()
    assert dict(zip(columns.split(), row.split(), strict=True)) == {
        "CoordinatorId": str(BROKER_ID),
        "TransactionalId": "orders",
        "ProducerId": "42",
        "ProducerEpoch": "3",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": "60000",
        "CurrentTransactionStartTimeMs": str(NOW_MS - 1500),
        "TransactionDurationMs": "1500",
        "TopicPartitions": "t-0,t-1,u-0",
    }
    assert (empty, why) == ("", "orders: It is open for 1.5 s.")
    assert cluster.broker.asked == [DescribeTransactions(("orders",)), ExplainTransaction("orders")]


def test_a_description_of_no_transaction_says_none(cluster: Cluster) -> None:
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(ENDED)})  # a broker that cannot explain
    said = cluster.run("describe", "--transactionalId", "orders")
    assert said.stdout.splitlines()[1].split()[-3:] == ["None", "None", "None"]
    assert len(said.stdout.splitlines()) == 2


def test_a_description_is_json() -> None:
    row = description(Described(1, OPEN, WHY), now_ms=NOW_MS)
    assert row["TopicPartitions"] == ["t-0", "t-1", "u-0"]
    assert row["Explanation"] == "It is open for 1.5 s."
    assert row["Fences"] == [
        {
            "AtMs": NOW_MS,
            "Cause": "new instance",
            "ProducerId": 42,
            "ProducerEpoch": 2,
            "ClientId": "orders-2",
        }
    ]
    none = description(Described(1, ENDED, None), now_ms=NOW_MS)
    assert (none["CurrentTransactionStartTimeMs"], none["Explanation"], none["Fences"]) == (None, None, [])


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        pytest.param(
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, 1, "there is no transactional id 'orders'", id="105"
        ),
        pytest.param(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            4,
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            id="53",
        ),
    ],
)
def test_a_description_that_is_refused(cluster: Cluster, code: ErrorCode, status: int, words: str) -> None:
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(DescribedTransaction("orders", code))})
    said = cluster.run("describe", "--transactional-id", "orders")
    assert (said.status, words in said.stderr) == (status, True), said.stderr


def test_nobody_there_is_status_3(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.cluster.brokers.TIMEOUT_SECONDS", 0.0)
    said = here(capsys, "transactions", "list", "--bootstrap-server", "127.0.0.1:1")
    assert (said.status, "no broker at 127.0.0.1:1" in said.stderr) == (3, True)


# -- partitions -------------------------------------------------------------------------------------------


def test_producers_have_the_columns_of_kafka(cluster: Cluster) -> None:
    cluster.answers({DESCRIBE_PRODUCERS: producers})
    said = cluster.run("describe-producers", "--topic", "t", "--partition", 0)
    columns, first, *_, last = said.stdout.splitlines()
    assert dict(zip(columns.split(), first.split(), strict=True)) == {
        "ProducerId": "42",
        "ProducerEpoch": "3",
        "LatestCoordinatorEpoch": "5",
        "LastSequence": "17",
        "LastTimestamp": str(NOW_MS - 1_000_000),
        "CurrentTransactionStartOffset": "100",
    }
    assert last.split()[-1] == "None"


def test_a_broker_may_be_asked_instead_of_the_leader(cluster: Cluster) -> None:
    cluster.answers({DESCRIBE_PRODUCERS: producers})
    words = ("describe-producers", "--topic", "t", "--partition", 1, "--broker-id", BROKER_ID)
    assert cluster.document(*words) == []


def test_a_partition_that_is_not_there_is_wrong_usage(cluster: Cluster) -> None:
    cluster.answers({})
    said = cluster.run("describe-producers", "--topic", "t", "--partition", 2)
    assert (said.status, "no partition 2" in said.stderr) == (2, True)


HANGING = [
    pytest.param({}, [42, 43], id="no-coordinator-knows-them"),
    pytest.param({42: OPEN}, [43], id="one-is-known"),
    pytest.param({42: ENDED}, [42, 43], id="its-transaction-has-ended"),
    pytest.param({42: OPEN, 43: OPEN}, [], id="all-are-known"),
]


@pytest.mark.parametrize(("known", "expected"), HANGING)
def test_hanging_is_what_no_coordinator_will_end(
    known: dict[int, DescribedTransaction], expected: list[int]
) -> None:
    candidates = [OpenTransaction("t", 0, each) for each in PRODUCERS[:2]]
    assert [each.producer.producer_id for each in hanging(candidates, known)] == expected


def test_hanging_transactions_are_found(cluster: Cluster) -> None:
    listed = (ListedTransaction("orders", ProducerId(42), "Ongoing"),)
    cluster.answers(
        {
            DESCRIBE_PRODUCERS: producers,
            LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), listed),
            DESCRIBE_TRANSACTIONS: described_as(OPEN),
        }
    )
    assert cluster.document("find-hanging", status=1) == [
        {
            "Topic": "t",
            "Partition": 0,
            "ProducerId": 43,
            "ProducerEpoch": 0,
            "CoordinatorEpoch": -1,
            "StartOffset": 200,
            "LastTimestamp": NOW_MS - 1_000_000,
            "Duration(min)": 16,
        }
    ]
    assert ListTransactions(producer_id_filters=(ProducerId(42), ProducerId(43))) in cluster.broker.asked


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--max-transaction-timeout", 17), id="not-silent-for-long"),
        pytest.param(("--topic", "t", "--partition", 1), id="another-partition"),
        pytest.param(("--broker-id", 1), id="another-broker"),
    ],
)
def test_nothing_hangs(cluster: Cluster, words: tuple[object, ...]) -> None:
    cluster.answers({DESCRIBE_PRODUCERS: producers})
    assert cluster.document("find-hanging", *words) == []


def test_a_partition_that_nobody_leads_is_named_and_nothing_is_said_to_be_clean(cluster: Cluster) -> None:
    unled = PartitionMetadata(partition_index=7, error_code=5, leader_id=-1, replica_nodes=(3,))
    cluster.answers({DESCRIBE_PRODUCERS: producers}, (TopicMetadata(name="t", partitions=(unled,)),))
    said = cluster.run("find-hanging")
    assert said.status == 3
    assert "t-7" in said.stderr


# -- abort ------------------------------------------------------------------------------------------------


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
    assert done["DryRun"] is dry_run
    assert (done["ProducerId"], done["ProducerEpoch"]) == (marker.producer_id, marker.producer_epoch)
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
        "TransactionalId": "orders",
        "TransactionState": "Ongoing",
        "ProducerId": 42,
        "ProducerEpoch": 5,
        "DryRun": False,
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


# -- what is set aside ------------------------------------------------------------------------------------

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
    "Kind": "wedged",
    "Concern": "marker",
    "Key": "orders",
    "Topic": "t",
    "Partition": 0,
    "ErrorCode": 47,
    "Reason": "why",
    "SinceMs": NOW_MS - 5_000,
}
PREPARED = DescribedTransaction(
    "orders", state="PrepareCommit", producer_id=ProducerId(42), transaction_timeout_ms=60_000
)


def set_aside(*rows: SetAside) -> Answer:
    return lambda request: SetAsideList(rows, len(rows))


def test_a_description_names_what_is_set_aside(cluster: Cluster) -> None:
    why = Explanation("it is wedged", (), (WEDGE,))
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(PREPARED), EXPLAIN_TRANSACTION: lambda request: why})
    assert cluster.document("describe", "--transactional-id", "orders")["SetAside"] == [WEDGE_ROW]
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
    found = cluster.document("find-hanging", *words, status=status)
    assert [each["Key"] for each in found] == keys
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


@pytest.mark.parametrize(("state", "done", "would_be"), SENTENCES)
def test_force_terminate_says_what_it_did(state: str, done: str, would_be: str) -> None:
    before = Described(1, DescribedTransaction("orders", state=state, producer_epoch=3), None)
    assert done in sentence(Terminated(before, InitProducerIdAnswer(ProducerId(42), 5)))
    assert would_be in sentence(Terminated(before, None))
