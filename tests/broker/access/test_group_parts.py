"""Requests about groups and transactions of which a part is allowed."""

import uuid
from typing import Any

import msgspec
import pytest

from fencepost.controller.acl_errors import ClusterOperationDenied, GroupAuthorizationFailed
from fencepost.controller.acl_types import Acl, Operation, ResourceType
from fencepost.controller.errors import (
    ApiError,
)
from fencepost.controller.groups import offset_messages as offsets
from fencepost.controller.groups.describe import (
    ListedGroup,
    ListGroups,
    ListGroupsAnswer,
)
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsAnswer,
    ListTransactions,
    Selection,
)
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.controller.transactions.states import State, Transaction
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import BROKER, CONTROLLER, ListenerKind
from fencepost.wire.k10_find_coordinator import Coordinator, FindCoordinator, FindCoordinatorAnswer
from fencepost.wire.k61_describe_producers import DescribeProducers, EncodedAnswer, EncodedPartition
from fencepost.wire.k66_list_transactions import EncodedList
from fencepost.wire.registry import APIS
from tests.broker.access.doors import ROOT, Asked, allow
from tests.together import table

T, G, C, X = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
OP = Operation
OTHER_ID = uuid.UUID(int=8)
PRODUCER = ProducerId(7)


def ask(acls: list[Acl], key: int, request: Any, response: Any = None, **how: Any) -> Asked:
    return Asked(acls, APIS[key], request, response, **how)


def test_offsets_are_committed_of_topics_that_may_be_read() -> None:
    rows = (offsets.OffsetToCommit("orders", 0, 1), offsets.OffsetToCommit("secret", 0, 1))
    request = offsets.CommitOffsets("g", rows)
    acls = [allow(OP.READ, G, "g"), allow(OP.READ, T, "orders")]
    asked = ask(acls, 8, request, offsets.PartitionCodes((offsets.PartitionCode("orders", 0),)))
    assert asked.given[0].offsets == rows[:1]
    assert [(each.topic, each.code) for each in asked.outcome.rows] == [("orders", 0), ("secret", 29)]
    assert isinstance(ask(acls[1:], 8, request).outcome, GroupAuthorizationFailed)


def test_offsets_are_fetched_of_what_may_be_described() -> None:
    def found(request: offsets.FetchOffsets) -> offsets.FetchOffsetsAnswer:
        every = (("orders", 0), ("secret", 0))
        return offsets.FetchOffsetsAnswer(
            tuple(
                offsets.FetchedGroup(
                    each.group_id,
                    tuple(
                        offsets.FetchedOffset(*row, 5)
                        for row in (every if each.partitions is None else each.partitions)
                    ),
                )
                for each in request.groups
            )
        )

    wanted = (("orders", 0), ("secret", 0))
    request = offsets.FetchOffsets(
        tuple(offsets.GroupQuery(each, of) for each, of in (("no", None), ("all", None), ("some", wanted)))
    )
    acls = [allow(OP.DESCRIBE, G, "all"), allow(OP.DESCRIBE, G, "some"), allow(OP.DESCRIBE, T, "orders")]
    rows = ask(acls, 9, request, found).outcome.groups
    assert [(each.group_id, each.code) for each in rows] == [("no", 30), ("all", 0), ("some", 0)]
    assert [(each.topic, each.offset, each.code) for each in rows[1].offsets] == [("orders", 5, 0)]
    assert [(each.topic, each.offset, each.code) for each in rows[2].offsets] == [
        ("orders", 5, 0),
        ("secret", -1, 29),
    ]


def test_groups_are_listed_by_what_may_be_described() -> None:
    groups = ListGroupsAnswer(
        (ListedGroup("g", "consumer", "Stable"), ListedGroup("h", "consumer", "Stable"))
    )
    assert ask([allow(OP.DESCRIBE, G, "h")], 16, ListGroups(), groups).outcome.groups == groups.groups[1:]
    assert ask([allow(OP.DESCRIBE, C)], 16, ListGroups(), groups).outcome == groups


@table("kind", [BROKER, CONTROLLER])
def test_transactions_are_listed_by_what_may_be_described(kind: ListenerKind) -> None:
    """The coordinator answers with bytes: it is handed who may see which id."""
    asked = ask([allow(OP.WRITE, X, "b")], 66, ListTransactions(), EncodedList((), 0, ()), kind=kind)
    selection = Selection(asked.given[0])
    rows = [Transaction(each, PRODUCER, 0, 1_000, State.EMPTY) for each in ("a", "b")]
    assert [each.transactional_id for each in rows if selection.takes(each, 0)] == ["b"]
    root = ask([], 66, ListTransactions(), EncodedList((), 0, ()), kind=kind, principal=ROOT)
    assert all(Selection(root.given[0]).takes(each, 0) for each in rows)


def test_a_described_transaction_has_the_topics_that_may_be_described() -> None:
    found = DescribedTransaction(
        "a",
        partitions=(
            TopicPartitions(topic="orders", partition_ids=(0,)),
            TopicPartitions(topic="secret", partition_ids=(0,)),
        ),
    )
    acls = [allow(OP.DESCRIBE, X, "a"), allow(OP.DESCRIBE, T, "orders")]
    asked = ask(acls, 65, DescribeTransactions(("a", "b")), DescribeTransactionsAnswer((found,)))
    rows = asked.outcome.transactions
    assert [(each.transactional_id, each.error_code) for each in rows] == [("a", 0), ("b", 53)]
    assert [each.topic for each in rows[0].partitions] == ["orders"]


def test_partitions_are_added_all_or_none() -> None:
    topics = tuple(TopicPartitions(topic=each, partition_ids=(0, 1)) for each in ("orders", "secret"))
    request = AddPartitionsToTxn((AddPartitions("t", PRODUCER, 1, topics),))
    asked = ask([allow(OP.WRITE, X, "t"), allow(OP.WRITE, T, "orders")], 24, request)
    assert asked.given == []
    ((_, answer),) = asked.outcome.results
    assert answer.errors == (("orders", ((0, 55), (1, 55))), ("secret", ((0, 29), (1, 29))))
    batched = msgspec.structs.replace(request, batched=True)
    assert isinstance(
        ask([allow(OP.WRITE, X), allow(OP.WRITE, T)], 24, batched).outcome, ClusterOperationDenied
    )


def initial(transactional_id: str | None = None, **other: Any) -> InitProducerId:
    return InitProducerId(transactional_id, 1_000, **other)


IN_GROUP = MemberAssignment("g", 1)
INITS = [
    pytest.param([], initial(), 31, id="nothing"),
    pytest.param([allow(OP.WRITE, T, "x")], initial(), 0, id="write-on-any-topic"),
    pytest.param([allow(OP.IDEMPOTENT_WRITE, C)], initial(), 0, id="idempotent-write"),
    pytest.param([allow(OP.WRITE, T)], initial("t"), 53, id="an-id-needs-more"),
    pytest.param([allow(OP.WRITE, X, "t")], initial("t"), 0, id="an-id"),
    pytest.param([allow(OP.WRITE, X, "t")], initial("t", enables_two_phase=True), 53, id="two-phase"),
    pytest.param(
        [allow(OP.WRITE, X, "t"), allow(OP.TWO_PHASE_COMMIT, X, "t")],
        initial("t", enables_two_phase=True),
        0,
        id="two-phase-allowed",
    ),
    pytest.param([allow(OP.WRITE, X, "t")], initial("t", member=IN_GROUP), 30, id="a-group-s-member"),
    pytest.param([allow(OP.WRITE, T), allow(OP.READ, G, "g")], initial(member=IN_GROUP), 0, id="a-made-id"),
]


@table(("acls", "request_", "code"), INITS)
def test_producer_ids(acls: list[Acl], request_: InitProducerId, code: int) -> None:
    asked = ask(acls, 22, request_, InitProducerIdAnswer(PRODUCER, 0))
    found = int(asked.outcome.code) if isinstance(asked.outcome, ApiError) else 0
    assert (found, len(asked.given)) == (code, int(code == 0))


def test_coordinators_are_found_of_what_may_be_described() -> None:
    request = FindCoordinator(1, ("a", "b"))
    asked = ask([allow(OP.WRITE, X, "a")], 10, request, FindCoordinatorAnswer((Coordinator("a", 1, "h", 1),)))
    assert [(each.key, each.error_code) for each in asked.outcome.coordinators] == [("a", 0), ("b", 53)]
    groups = ask([allow(OP.WRITE, X)], 10, FindCoordinator(0, ("a",)))
    assert [(each.key, each.error_code) for each in groups.outcome.coordinators] == [("a", 30)]
    by_group = ask([allow(OP.WRITE, X)], 10, FindCoordinator(1, ("a",), by_group=True))
    assert by_group.outcome.coordinators[0].error_code == 30
    assert len(ask([], 10, FindCoordinator(9, ("a",))).given) == 1, "the endpoint refuses other types"


def test_producers_are_described_in_the_form_of_the_answer() -> None:
    request = DescribeProducers((("orders", (0,)), ("secret", (0, 1))))
    found = EncodedAnswer((EncodedPartition("orders", 0),))
    rows = ask([allow(OP.READ, T, "orders")], 61, request, found).outcome.partitions
    assert [(type(each), each.topic, each.index, each.error_code) for each in rows] == [
        (EncodedPartition, "orders", 0, 0),
        (EncodedPartition, "secret", 0, 29),
        (EncodedPartition, "secret", 1, 29),
    ]
