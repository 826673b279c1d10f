"""Requests of which a part is allowed: the endpoint sees that part, and the answer has all."""

import uuid
from typing import Any

import msgspec
import pytest

from fencepost.broker.access.door import AuthorizerRules, Door
from fencepost.broker.access.guard import nothing_sure
from fencepost.broker.access.needs import ROWS
from fencepost.controller.acl_book import AclBook
from fencepost.controller.acl_errors import ClusterOperationDenied, TransactionalIdAuthorizationFailed
from fencepost.controller.acl_types import Acl, Operation, Permission, ResourceType
from fencepost.controller.acls import AclChange
from fencepost.controller.errors import CoordinatorLoadInProgress, NotCoordinator
from fencepost.controller.groups.describe import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsAnswer,
)
from fencepost.controller.topics import (
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    NewTopic,
    TopicCreated,
    TopicDeleted,
)
from fencepost.controller.transactions.describe import (
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.types import NodeId, ProducerId
from fencepost.wire.dispatch import CONTROLLER, Context
from fencepost.wire.k00_produce import PartitionData, PartitionProduced, Produce, ProduceAnswer
from fencepost.wire.k01_fetch import Fetch, FetchAnswer, FetchedPartition, FetchPartition
from fencepost.wire.k03_metadata import Metadata, MetadataAnswer, TopicMetadata, TopicQuery
from fencepost.wire.k60_describe_cluster import DescribeCluster, DescribeClusterAnswer
from fencepost.wire.registry import APIS
from tests.broker.access.doors import HOST, ROOT, TOPIC_ID, Asked, allow
from tests.together import table
from tests.wire.sample_messages import SAMPLES

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


def echo_produce(request: Produce) -> ProduceAnswer:
    return ProduceAnswer(tuple(PartitionProduced(each.topic, each.index) for each in request.partitions))


TWO = (PartitionData("orders", 0, b"a"), PartitionData("secret", 0, b"b"))


def test_produce_appends_to_what_is_allowed() -> None:
    asked = ask([allow(OP.WRITE, T, "orders")], 0, Produce(None, -1, 1, TWO), echo_produce)
    assert [each.partitions for each in asked.given] == [TWO[:1]]
    assert [(each.topic, each.error_code) for each in asked.outcome.partitions] == [
        ("orders", 0),
        ("secret", 29),
    ]


def test_produce_of_a_transaction_needs_its_id() -> None:
    asked = ask([allow(OP.WRITE, T)], 0, Produce("t", -1, 1, TWO), echo_produce)
    assert isinstance(asked.outcome, TransactionalIdAuthorizationFailed)
    assert asked.given == []


def test_what_a_transaction_is_allowed_by_acls_passes_without_the_guard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The guard would be one instruction in twenty of a node's work for a transaction."""
    monkeypatch.delattr(Door, "allows")
    acls = [allow(OP.WRITE, T), allow(OP.WRITE, X)]
    for key, row in ROWS.items():
        request = SAMPLES[key][0]
        if row.is_allowed is not nothing_sure:
            assert ask(acls, key, request).given == [request]
    with pytest.raises(AttributeError, match="allows"):
        ask(acls[:1], 0, Produce("t", -1, 1, TWO))


def test_an_error_of_the_endpoint_is_the_answer() -> None:
    asked = ask([allow(OP.WRITE, T, "orders")], 0, Produce(None, -1, 1, TWO))
    asked.answer(NotCoordinator("no"))
    assert isinstance(asked.outcome, NotCoordinator)


def partition(topic: str | None, topic_id: uuid.UUID | None = None) -> FetchPartition:
    return FetchPartition(topic, topic_id, 0, -1, 0, -1, -1, 1)


def fetch(*partitions: FetchPartition, replica_id: int = -1) -> Fetch:
    return Fetch(replica_id, 0, 1, 1, 0, 0, -1, partitions)


def fetched(request: Fetch) -> FetchAnswer:
    rows = (
        FetchedPartition(each.topic, each.topic_id, each.index, records=b"r") for each in request.partitions
    )
    return FetchAnswer(partitions=tuple(rows))


def seen(asked: Asked) -> list[tuple[Any, int, bytes]]:
    return [(each.topic or each.topic_id, each.error_code, each.records) for each in asked.outcome.partitions]


def test_fetch_by_name_and_by_id() -> None:
    acls = [allow(OP.READ, T, "orders")]
    asked = ask(acls, 1, fetch(partition("orders"), partition("secret")), fetched)
    assert seen(asked) == [("orders", 0, b"r"), ("secret", 29, b"")]
    names = {TOPIC_ID: "orders", OTHER_ID: "secret"}
    by_id = fetch(partition(None, TOPIC_ID), partition(None, OTHER_ID))
    asked = ask(acls, 1, by_id, fetched, names=names)
    assert seen(asked) == [(TOPIC_ID, 0, b"r"), (OTHER_ID, 29, b"")]
    assert asked.given[0].partitions == by_id.partitions[:1]


def test_a_topic_that_is_found_by_its_id_meanwhile_is_checked_before_it_is_shown() -> None:
    names: dict[uuid.UUID, str] = {}
    asked = ask([allow(OP.READ, T, "orders")], 1, fetch(partition(None, OTHER_ID)), names=names)
    names[OTHER_ID] = "secret"
    asked.answer(fetched(asked.given[0]))
    assert seen(asked) == [(OTHER_ID, 29, b"")]
    asked = ask([allow(OP.READ, T, "orders")], 1, fetch(partition(None, OTHER_ID)), fetched, names={})
    assert seen(asked) == [(OTHER_ID, 29, b"")], "records of a topic without a name"


def test_a_parked_fetch_is_checked_again_when_acls_change() -> None:
    acl = allow(OP.READ, T, "orders")
    asked = ask([acl], 1, fetch(partition("orders")))
    asked.book.take([AclChange(acl.acl_id)], 2)
    asked.answer(fetched(asked.given[0]))
    assert seen(asked) == [("orders", 29, b"")]


def test_a_follower_needs_cluster_action() -> None:
    follower = fetch(partition("orders"), replica_id=2)
    assert seen(ask([allow(OP.READ, T)], 1, follower, fetched)) == [("orders", 29, b"")]
    assert seen(ask([allow(OP.CLUSTER_ACTION, C)], 1, follower, fetched)) == [("orders", 0, b"r")]


KNOWN = ("orders", "secret")


def described(request: Metadata) -> MetadataAnswer:
    """As a broker that knows KNOWN, and creates others if the request lets it."""
    if request.topics is None:
        return MetadataAnswer(cluster_id="c", topics=tuple(TopicMetadata(name=each) for each in KNOWN))
    creates = request.allow_auto_topic_creation
    return MetadataAnswer(
        cluster_id="c",
        topics=tuple(
            TopicMetadata(name=each.name, error_code=0 if each.name in KNOWN or creates else 3)
            for each in request.topics
        ),
    )


def topics_of(asked: Asked) -> dict[str | None, int]:
    return {each.name: each.error_code for each in asked.outcome.topics}


def of(*names: str, creates: bool = True) -> Metadata:
    return Metadata(tuple(TopicQuery(each) for each in names), creates)


def test_metadata_of_all_topics_has_those_that_may_be_described() -> None:
    asked = ask([allow(OP.DESCRIBE, T, "orders")], 3, Metadata(None), described)
    assert topics_of(asked) == {"orders": 0}
    assert topics_of(ask([], 3, Metadata(None), described)) == {}


def test_metadata_of_a_topic_that_may_not_be_described_is_refused_whether_it_is_there_or_not() -> None:
    asked = ask([allow(OP.DESCRIBE, T, "orders")], 3, of("orders", "secret", "nothing"), described)
    assert topics_of(asked) == {"orders": 0, "secret": 29, "nothing": 29}
    refused = {each.name: each for each in asked.outcome.topics}
    assert msgspec.structs.replace(refused["secret"], name="nothing") == refused["nothing"]


CREATION = [
    pytest.param([allow(OP.DESCRIBE, T)], {"orders": 0, "new": 29}, id="describe-is-not-enough"),
    pytest.param(
        [allow(OP.DESCRIBE, T), allow(OP.CREATE, T, "new")], {"orders": 0, "new": 0}, id="the-topic"
    ),
    pytest.param([allow(OP.DESCRIBE, T), allow(OP.CREATE, C)], {"orders": 0, "new": 0}, id="the-cluster"),
    pytest.param([allow(OP.CREATE, T)], {"orders": 29, "new": 29}, id="create-is-not-enough"),
]


@table(("acls", "expected"), CREATION)
def test_a_topic_is_created_by_who_may(acls: list[Acl], expected: dict[str | None, int]) -> None:
    asked = ask(acls, 3, of("orders", "new"), described)
    assert topics_of(asked) == expected
    created = [
        each.name
        for one in asked.given
        if one.allow_auto_topic_creation
        for each in one.topics
        if each.name == "new"
    ]
    assert bool(created) is (expected["new"] == 0)


def test_a_topic_that_is_not_created_is_unknown_to_who_may_describe_it() -> None:
    acls = [allow(OP.DESCRIBE, T)]
    assert topics_of(ask(acls, 3, of("new", creates=False), described)) == {"new": 3}
    asked = ask(acls, 3, of("new", creates=False), described, creates_topics=False)
    assert topics_of(asked) == {"new": 3}


def test_metadata_by_id_shows_no_name_that_may_not_be_seen() -> None:
    query = Metadata((TopicQuery(None, OTHER_ID),), allow_auto_topic_creation=False)
    (row,) = ask([], 3, query, described, names={OTHER_ID: "secret"}).outcome.topics
    assert (row.name, row.error_code, row.topic_id) == (None, 29, OTHER_ID)
    found = MetadataAnswer(cluster_id="c", topics=(TopicMetadata(name="secret", topic_id=OTHER_ID),))
    (row,) = ask([], 3, query, found, names={}).outcome.topics
    assert (row.name, row.error_code) == (None, 29), "its endpoint found it meanwhile"


def test_authorized_operations() -> None:
    request = Metadata((TopicQuery("orders"),), False, True, True)
    asked = ask([allow(OP.READ, T), allow(OP.ALTER, C)], 3, request, described)
    assert asked.outcome.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    assert asked.outcome.cluster_authorized_operations == 1 << 7 | 1 << 8
    without = ask([allow(OP.READ, T), allow(OP.CREATE, C)], 3, request, described)
    assert without.outcome.cluster_authorized_operations == 0, "who may not describe the cluster"
    asked = ask(
        [allow(OP.ALL, C)],
        60,
        DescribeCluster(include_cluster_authorized_operations=True),
        DescribeClusterAnswer(cluster_id="c", controller_id=NodeId(1), brokers=()),
    )
    assert asked.outcome.cluster_authorized_operations == sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))
    groups = DescribeGroups(("g", "h"), include_authorized_operations=True)
    answer = DescribeGroupsAnswer((DescribedGroup("g", state="Stable"),))
    asked = ask([allow(OP.DELETE, G, "g")], 15, groups, answer)
    assert asked.given[0].group_ids == ("g",)
    assert [(each.group_id, each.error_code) for each in asked.outcome.groups] == [("g", 0), ("h", 30)]
    assert asked.outcome.groups[0].authorized_operations == 1 << 6 | 1 << 8


def test_a_controller_that_has_no_acls_yet_says_who_leads() -> None:
    """Kafka's needs ALTER; ours is how a broker finds the one that knows its CLUSTER_ACTION."""
    found = DescribeClusterAnswer(cluster_id="c", controller_id=NodeId(2), brokers=())
    assert ask([], 60, DescribeCluster(2), found, kind=CONTROLLER).outcome == found
    asked = ask([], 60, DescribeCluster(2, True), found, kind=CONTROLLER)
    assert asked.outcome.cluster_authorized_operations == 0, "and no more"


def created(request: CreateTopics) -> CreateTopicsAnswer:
    rows = (TopicCreated(each.name, partition_count=3, replication_factor=1) for each in request.topics)
    return CreateTopicsAnswer(tuple(rows))


def test_topics_are_created_by_name() -> None:
    request = CreateTopics((NewTopic("a"), NewTopic("b")))
    asked = ask([allow(OP.CREATE, T, "a")], 19, request, created)
    assert [(each.name, each.error_code, each.partition_count) for each in asked.outcome.topics] == [
        ("a", 0, -1),
        ("b", 29, -1),
    ]
    shown = ask([allow(OP.CREATE, C), allow(OP.DESCRIBE_CONFIGS, T, "b")], 19, request, created)
    assert [each.partition_count for each in shown.outcome.topics] == [-1, 3]


def test_topics_are_deleted_by_name_and_id_and_tell_nothing_else() -> None:
    acls = [allow(OP.DELETE, T, "orders"), allow(OP.DESCRIBE, T, "seen"), allow(OP.DESCRIBE, T, "gone")]
    names = {TOPIC_ID: "orders", OTHER_ID: "secret", uuid.UUID(int=9): "seen"}
    request = DeleteTopics(
        ("orders", "seen", "gone", "secret", "nothing"), (TOPIC_ID, *list(names)[1:], uuid.UUID(int=1))
    )

    def deleted(asked: DeleteTopics) -> DeleteTopicsAnswer:
        return DeleteTopicsAnswer(
            (
                *(TopicDeleted(each) for each in asked.names),
                *(TopicDeleted("orders", each) for each in asked.ids),
            )
        )

    asked = ask(acls, 20, request, deleted, names=names, topics=("orders", "seen", "secret"))
    assert asked.given == [DeleteTopics(("orders",), (TOPIC_ID,))]
    rows = [(each.name, each.topic_id.int, each.error_code) for each in asked.outcome.topics]
    assert rows == [
        ("orders", 0, 0),
        ("orders", 7, 0),
        ("seen", 0, 29),
        ("gone", 0, 3),
        ("secret", 0, 29),
        ("nothing", 0, 29),
        (None, 8, 29),
        ("seen", 9, 29),
        (None, 1, 100),
    ]


def test_on_the_controller_listener_brokers_forward_for_clients_that_they_checked() -> None:
    broker = [allow(OP.CLUSTER_ACTION, C)]
    ids = ListTransactionsAnswer((), (ListedTransaction("a", PRODUCER, "Ongoing"),))
    assert ask(broker, 66, ListTransactions(), ids, kind=CONTROLLER).given == [ListTransactions()]
    may_see = ask(broker, 66, ListTransactions(), ids).given[0].may_see
    assert may_see is not None
    assert not may_see("a")
    request = CreateTopics((NewTopic("a"),))
    assert len(ask(broker, 19, request, created, kind=CONTROLLER).given) == 1
    assert ask(broker, 19, request, created).given == []
    assert isinstance(
        ask(broker, 22, InitProducerId(None, 1_000), kind=CONTROLLER).outcome, ClusterOperationDenied
    )


def test_without_acls_super_users_alone_are_served() -> None:
    door = Door(
        AuthorizerRules(frozenset((ROOT,)), allow_if_no_acl=True, creates_topics=True),
        lambda: None,
        topic_name=lambda _id: None,
        has_topic=lambda _name: False,
    )
    root, alice = (Context(each, "X", None, f"{HOST}:1") for each in (ROOT, "User:alice"))
    assert door.allows_topic(root, OP.READ, "orders")
    with pytest.raises(CoordinatorLoadInProgress):
        door.allows_topic(alice, OP.READ, "orders")
    assert not door.is_remembered(alice, OP.READ, T, "orders")
    assert door.changes == -1


@pytest.mark.parametrize(
    ("peer", "host"), [("127.0.0.1:9092", "127.0.0.1"), ("[::1]:9092", "::1"), ("::1:9092", "::1")]
)
def test_hosts_are_addresses(peer: str, host: str) -> None:
    assert Context("User:a", "X", None, peer).host == host


def test_the_host_of_an_acl_is_the_connection_s() -> None:
    acls = [
        allow(OP.READ, T, host="10.0.0.9"),
        allow(OP.READ, T, permission=Permission.DENY, host="10.0.0.8"),
    ]
    request = fetch(partition("orders"))
    assert [
        seen(ask(acls, 1, request, fetched, host=each))[0][1] for each in ("10.0.0.9", "10.0.0.8", HOST)
    ] == [0, 29, 29]


def test_a_book_that_is_empty_denies() -> None:
    assert AclBook().bits(T, "orders", "User:alice", HOST) is None


def test_acls_that_are_in_doubt_when_a_request_is_answered_are_an_answer() -> None:
    """Not an exception out of the coordinator's reply, after which none would come."""
    asked = ask([allow(OP.DESCRIBE, T, "orders")], 3, Metadata(None))
    asked.book = None  # type: ignore[assignment]
    asked.answer(MetadataAnswer(cluster_id="c", topics=(TopicMetadata(name="orders"),)))
    assert isinstance(asked.outcome, CoordinatorLoadInProgress)
