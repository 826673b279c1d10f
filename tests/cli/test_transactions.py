"""``transactions``: Kafka's verbs, flags and columns; what is asked of the cluster; and each refusal."""

import re
from typing import Any

import msgspec
import pytest

from fencepost.cli.output import snake_case
from fencepost.cli.transaction_calls import Described
from fencepost.cli.transaction_output import (
    BEYOND_KAFKA,
    LISTED_TWO_PHASE,
    assignment_lines,
    description,
    pending_lines,
)
from fencepost.cli.transaction_partitions import OpenTransaction, hanging
from fencepost.controller.errors import CoordinatorLoadInProgress, ErrorCode, NotCoordinator
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.records.types import ProducerId
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20065_explain_transaction import (
    EXPLAIN_TRANSACTION,
    Assignment,
    ExplainTransaction,
    PendingOffset,
    PendingOffsets,
)
from tests.cli.fake_broker import BROKER_ID
from tests.cli.transaction_cluster import (
    ENDED,
    NOW_MS,
    OPEN,
    PRODUCERS,
    WHY,
    Capture,
    Cluster,
    described_as,
    producers,
)
from tests.harness.command import contents, here
from tests.together import table

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
        ListedTransaction("a", ProducerId(1), "Ongoing", 12_000, is_kept=True),
    )
    cluster.answers({LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), listed)})
    rows = [("a", BROKER_ID, 1, "Ongoing", 12_000, True), ("b", BROKER_ID, 2, "Empty", None, False)]
    assert cluster.document("list", *words) == [
        dict(zip(map(snake_case, LISTED_TWO_PHASE), row, strict=True)) for row in rows
    ]
    assert cluster.broker.asked == [asked]


def test_a_list_has_the_columns_of_kafka(cluster: Cluster) -> None:
    cluster.answers({LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), ())})
    said = cluster.run("list")
    assert said.stdout.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]


def test_a_list_of_two_phase_commit_has_what_is_open_and_for_how_long(cluster: Cluster) -> None:
    listed = (
        ListedTransaction("plain", ProducerId(1), "Ongoing"),
        ListedTransaction("kept", ProducerId(2), "Ongoing", is_kept=True),
        ListedTransaction("waits", ProducerId(3), "Ongoing", 7),
    )
    cluster.answers({LIST_TRANSACTIONS: lambda request: ListTransactionsAnswer((), listed)})
    assert [line.split() for line in cluster.run("list", "--two-phase").stdout.splitlines()] == [
        [*LISTED_TWO_PHASE],
        ["kept", str(BROKER_ID), "2", "Ongoing", "None", "True"],
        ["waits", str(BROKER_ID), "3", "Ongoing", "7", "False"],
    ]
    assert [each["transactional_id"] for each in cluster.document("list", "--two-phase")] == ["kept", "waits"]
    assert "plain" in cluster.run("list").stdout


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
    assert (said.status, contents(said.stdout)) == (0, [])


# -- describe ---------------------------------------------------------------------------------------------


def test_a_description_has_the_columns_of_kafka_and_a_sentence(cluster: Cluster) -> None:
    cluster.answers({DESCRIBE_TRANSACTIONS: described_as(OPEN), EXPLAIN_TRANSACTION: lambda request: WHY})
    said = cluster.run("describe", "--transactional-id", "orders")
    columns, row, empty, why, fence = said.stdout.splitlines()
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
    assert re.fullmatch(
        r"  2025-10-09T08:53:20\+00:00 \(\d+ \w+ ago\): producer 42, epoch 2 was fenced by a new instance "
        r"\(client id 'orders-2'\); epoch 3 came after it",
        fence,
    ), fence
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
            "Cause": "a new instance",
            "ProducerId": 42,
            "ProducerEpoch": 2,
            "ClientId": "orders-2",
            "LaterProducerId": 42,
            "LaterProducerEpoch": 3,
            "TimeoutMs": None,
        }
    ]
    none = description(Described(1, ENDED, None), now_ms=NOW_MS)
    assert (none["CurrentTransactionStartTimeMs"], none["Explanation"], none["Fences"]) == (None, None, [])


def test_kafkas_columns_come_first_and_those_beyond_are_named() -> None:
    """tests/clients compares all others with what Apache Kafka's own command prints."""
    kafka = [
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    ]
    columns = list(description(Described(1, OPEN, WHY), now_ms=NOW_MS))
    assert columns[: len(kafka)] == kafka
    assert set(columns[len(kafka) :]) == BEYOND_KAFKA


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


@table(("known", "expected"), HANGING)
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
    assert cluster.document("find-hanging", status=1)["hanging"] == [
        {
            "topic": "t",
            "partition": 0,
            "producer_id": 43,
            "producer_epoch": 0,
            "coordinator_epoch": -1,
            "start_offset": 200,
            "last_timestamp": NOW_MS - 1_000_000,
            "duration_min": 16,
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
    assert cluster.document("find-hanging", *words) == {"hanging": [], "set_aside": []}


def test_a_partition_that_nobody_leads_is_named_and_nothing_is_said_to_be_clean(cluster: Cluster) -> None:
    unled = PartitionMetadata(partition_index=7, error_code=5, leader_id=-1, replica_nodes=(3,))
    cluster.answers({DESCRIBE_PRODUCERS: producers}, (TopicMetadata(name="t", partitions=(unled,)),))
    said = cluster.run("find-hanging")
    assert said.status == 3
    assert "t-7" in said.stderr


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        pytest.param(1, ["pending for group g: t-0 to offset 5"], id="all"),
        pytest.param(3, ["pending for group g: t-0 to offset 5", "and 2 more pending offsets"], id="more"),
    ],
)
def test_pending_offsets_are_lines(count: int, lines: list[str]) -> None:
    pending = PendingOffsets((PendingOffset("g", "t", 0, 5),), count)
    described = Described(BROKER_ID, OPEN, msgspec.structs.replace(WHY, pending=pending))
    assert pending_lines(description(described, now_ms=NOW_MS)["PendingOffsets"]) == lines
    without = description(Described(BROKER_ID, OPEN, WHY), now_ms=NOW_MS)
    assert pending_lines(without["PendingOffsets"]) == []


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        pytest.param(Assignment("g", 7, ("t-0",), 1), "generation 7: t-0", id="all"),
        pytest.param(Assignment("g", 7, ("t-0", "t-1"), 4), "generation 7: t-0, t-1, 2 more", id="more"),
        pytest.param(Assignment("g", 7, (), 0), "generation 7: no partitions", id="none"),
    ],
)
def test_assignments_are_lines(assignment: Assignment, line: str) -> None:
    why = msgspec.structs.replace(WHY, assignments=(assignment,))
    rows = description(Described(BROKER_ID, OPEN, why), now_ms=NOW_MS)["Assignments"]
    assert assignment_lines(rows) == [f"assigned by group g in {line}"]
    assert description(Described(BROKER_ID, OPEN, WHY), now_ms=NOW_MS)["Assignments"] == []
