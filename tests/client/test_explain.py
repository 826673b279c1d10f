"""Who holds a last stable offset, by what brokers of the test's own loop answer, refuse and do not answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencepost.client import Admin, ClientError, TopicPartition, UnknownTopic
from fencepost.client.explain import EXPLAINED_MAX, Explained, Explainer
from fencepost.records.open_transactions import Holding
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.k20065_explain_transaction import EXPLAIN_TRANSACTION, Explanation, FenceExplained
from fencepost.wire.k20066_list_set_aside import SetAside
from fencepost.wire.requests import ErrorCode
from tests.client.explained_cluster import ExplainedCluster, transaction
from tests.client.scripted import Lost, Refuse
from tests.together import table

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCERS, LISTED, FIND_COORDINATOR = 61, 66, 10
COORDINATORS = "__transaction_state"
Question = Callable[[Explainer], Coroutine[Any, Any, Any]]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look follows the first one."""
    monkeypatch.setattr("fencepost.client.explain.CONFIRM_S", 0.0)


def ask(cluster: ExplainedCluster, question: Question) -> Any:
    answers: list[Any] = []

    async def play() -> None:
        async with (
            cluster.serving() as bootstrap,
            Admin(bootstrap) as admin,
        ):
            answers.append(await question(admin.explain))

    asyncio.run(play())
    return answers[0]


def look(cluster: ExplainedCluster, where: TopicPartition = T0) -> Explained:
    explained = ask(cluster, lambda explainer: explainer.partition(where))
    assert isinstance(explained, Explained)
    return explained


def holdings(explained: Explained) -> list[Holding]:
    return [each.judged.holding for partition in explained.partitions for each in partition.held]


def reasons(explained: Explained) -> str:
    return " | ".join(f"{each.of}: {each.reason}" for each in explained.unanswered)


def test_nothing_is_open() -> None:
    cluster = ExplainedCluster()
    cluster.ends[T0] = (5, 5)
    explained = look(cluster)
    (partition,) = explained.partitions
    assert (partition.held, partition.behind, explained.unanswered) == ((), 0, ())
    assert not cluster.seen[LISTED], "coordinators have nothing to say"


def test_the_oldest_holds_and_all_are_judged() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 300, producer_id=43)
    cluster.open(T0, 100)
    cluster.listed_by = {1: [transaction()]}
    explained = look(cluster)
    (partition,) = explained.partitions
    assert [each.opened.start_offset for each in partition.held] == [100, 300]
    assert (partition.last_stable_offset, partition.high_watermark, partition.behind) == (100, 310, 210)
    assert holdings(explained) == [Holding.ONGOING, Holding.HANGING]
    first = partition.held[0].owner
    assert first is not None
    assert (first.transactional_id, first.coordinator, first.due_ms) == ("billing", 0, 61_000)


def test_what_ends_between_two_looks_does_not_hang() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)

    def ended() -> None:
        cluster.producers[T0].clear()
        cluster.ends[T0] = (110, 110)

    cluster.at_look[2] = ended
    explained = look(cluster)
    assert holdings(explained) == []
    assert cluster.looked == 2


def test_what_begins_between_two_looks_is_not_yet_known_to_hang() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.at_look[2] = lambda: cluster.open(T0, 200, producer_id=43)
    explained = look(cluster)
    assert holdings(explained) == [Holding.HANGING, Holding.UNKNOWN]


def test_answers_of_two_moments_are_requested_again() -> None:
    cluster = ExplainedCluster()
    cluster.ends[T0] = (100, 110)
    cluster.at_look[2] = lambda: cluster.ends.update({T0: (110, 110)})
    assert look(cluster).partitions[0].behind == 0


def test_without_a_coordinators_answer_nothing_hangs() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.faults[LISTED].extend([Lost(done=False)] * 3)
    explained = look(cluster)
    assert holdings(explained) == [Holding.UNKNOWN]
    assert "broker " in reasons(explained)
    assert explained.partitions[0].last_stable_offset == 100, "the rest is shown"


def test_without_a_leader_of_a_coordinators_partition_nothing_hangs() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.topics[COORDINATORS] = cluster.topics["t"]
    cluster.leaders[TopicPartition(COORDINATORS, 1)] = -1
    explained = look(cluster)
    assert holdings(explained) == [Holding.UNKNOWN]
    assert f"{COORDINATORS}-1: it has no leader" in reasons(explained)


def test_in_a_cluster_of_ours_one_node_answers_for_all() -> None:
    cluster = ExplainedCluster(node_count=3)
    cluster.open(T0, 100)
    cluster.coordinating = {1}
    assert holdings(look(cluster)) == [Holding.HANGING]


def test_if_no_node_coordinates_nothing_hangs() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.coordinating = set()
    explained = look(cluster)
    assert holdings(explained) == [Holding.UNKNOWN]
    assert [each.code for each in explained.unanswered] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_an_id_that_may_not_be_described_is_named() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.listed_by = {0: [transaction()]}
    cluster.describes = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    explained = look(cluster)
    assert holdings(explained) == [Holding.UNKNOWN]
    assert [(each.of, each.code) for each in explained.unanswered] == [("transactional id 'billing'", 53)]


def test_a_partition_without_a_leader() -> None:
    cluster = ExplainedCluster()
    cluster.leaders[T0] = -1
    explained = look(cluster)
    assert explained.partitions[0].last_stable_offset is None
    assert "t-0: it has no leader" in reasons(explained)


def test_a_topic_that_may_not_be_read_is_named_and_the_others_are_shown() -> None:
    cluster = ExplainedCluster()
    cluster.topics["secret"] = cluster.topics["t"]
    cluster.codes["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.open(T1, 100)
    explained = ask(cluster, lambda explainer: explainer.producer_id(42))
    assert [(each.topic, each.partition) for each in explained.partitions] == [("t", 1)]
    assert [(each.of, each.code) for each in explained.unanswered] == [("topic 'secret'", 29)]


def test_a_transactional_id_with_what_is_open_missing_and_left_behind() -> None:
    cluster = ExplainedCluster()
    cluster.topics["other"] = cluster.topics["t"]
    cluster.open(T0, 100)
    cluster.open(TopicPartition("other", 1), 7)
    cluster.open(T1, 9, producer_id=43)  # of another producer
    cluster.listed_by = {1: [transaction(partitions=(TopicPartitions("t", (0, 1)),))]}
    explained = ask(cluster, lambda explainer: explainer.transactional_id("billing"))
    assert [(each.topic, each.partition) for each in explained.partitions] == [("other", 1), ("t", 0)]
    assert holdings(explained) == [Holding.HANGING, Holding.ONGOING]
    assert explained.missing == (("t", 1),)


def test_a_producer_id_that_is_remembered_and_has_nothing_open() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, -1)
    cluster.listed_by = {0: [transaction(state="CompleteCommit", partitions=())]}
    explained = ask(cluster, lambda explainer: explainer.producer_id(42))
    assert (explained.partitions, explained.remembered, explained.unanswered) == ((), 1, ())
    assert explained.owner.transactional_id == "billing"


def test_what_a_wedged_marker_says() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.listed_by = {0: [transaction(state="PrepareCommit")]}
    row = SetAside(kind="wedged", concern="markers", key="billing", reason="no", since_ms=5, partition="t-0")
    cluster.explanation = Explanation("why", (), (row,))
    explained = look(cluster)
    assert holdings(explained) == [Holding.ENDING]
    assert [(each.partition, each.reason, each.since_ms) for each in explained.wedged] == [("t-0", "no", 5)]


def test_a_coordinator_of_ours_says_who_was_fenced() -> None:
    """Of ids that hold a partition, and of one that has ended; more than ten are not looked at."""
    fences = (FenceExplained(5, "a new instance", 42, 2),)
    for state in ("Ongoing", "CompleteCommit"):
        cluster = ExplainedCluster()
        cluster.explanation = Explanation("why", fences)
        cluster.open(T0, 100)
        cluster.listed_by = {0: [transaction(state=state)]}
        explained = ask(cluster, lambda explainer: explainer.transactional_id("billing"))
        assert explained.fences == {"billing": fences}
    cluster = ExplainedCluster()
    cluster.explanation = Explanation("why", fences)
    cluster.listed_by = {0: []}
    for number in range(EXPLAINED_MAX + 2):
        cluster.open(T0, 100 + number, producer_id=number)
        cluster.listed_by[0].append(transaction(f"id-{number}", producer_id=number))
    assert len(look(cluster).fences) == EXPLAINED_MAX


def test_apache_kafka_does_not_say_why_a_marker_is_not_written() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.listed_by = {0: [transaction(state="PrepareAbort", epoch=4)]}
    explained = look(cluster)
    assert (holdings(explained), explained.wedged, explained.unanswered) == ([Holding.ENDING], (), ())


@table(
    ("where", "said"),
    [
        pytest.param(TopicPartition("nothing", 0), "there is no topic 'nothing'", id="topic"),
        pytest.param(TopicPartition("t", 7), "topic 't' has 2 partitions, no 7", id="partition"),
    ],
)
def test_what_is_not_there(where: TopicPartition, said: str) -> None:
    with pytest.raises(UnknownTopic, match=said):
        look(ExplainedCluster(), where)


def test_an_id_that_no_coordinator_knows() -> None:
    assert ask(ExplainedCluster(), lambda explainer: explainer.transactional_id("nothing")) is None


@pytest.mark.parametrize("has_transactions", [False, True])
def test_looking_for_an_id_makes_no_topic_of_coordinators_on_apache_kafka(has_transactions: bool) -> None:
    cluster = ExplainedCluster()
    del cluster.rules[EXPLAIN_TRANSACTION]  # which is of ours alone
    if has_transactions:
        cluster.topics[COORDINATORS] = cluster.topics["t"]
    assert ask(cluster, lambda explainer: explainer.transactional_id("nothing")) is None
    assert bool(cluster.seen[FIND_COORDINATOR]) == has_transactions


def test_a_refusal_of_the_id_itself_is_raised() -> None:
    cluster = ExplainedCluster()
    cluster.describes = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with pytest.raises(ClientError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        ask(cluster, lambda explainer: explainer.transactional_id("billing"))


def test_a_leader_that_moves_is_requested_again() -> None:
    cluster = ExplainedCluster()
    cluster.open(T0, 100)
    cluster.listed_by = {0: [transaction()]}
    cluster.faults[PRODUCERS].append(Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert holdings(look(cluster)) == [Holding.ONGOING]
