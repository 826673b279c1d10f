"""What the coordinator announces of open transactions: to whom, when, and as of which image."""

import pytest

import fencepost.coordinator.announcer
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.coordinator.announcer import Here
from fencepost.records.invariant import InvariantViolation
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import BrokerId, ProducerId
from fencepost.wire.k20024_announce_partitions import Announcement
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import CLIENT
from tests.node.stage import ONE
from tests.wire.answering import Answering


def test_each_partition_leader_is_told_its_own_part_as_of_the_decisions_image(bench: Bench) -> None:
    pair = bench.begun("alice", 0, 1)
    first, second = bench.announced
    version = bench.replica.image.header.version
    assert (first.broker_id, second.broker_id) == (1, 2)
    (told,) = first.request.announcements
    assert told == Announcement(*pair, told.image_version, ((TOPIC, (0,)),))
    assert told.image_version <= version
    bench.end("alice", pair)
    bench.settle()
    assert told.image_version < bench.row("alice").prepared_version, "a marker is newer than what began it"


def test_it_is_sent_before_the_producer_is_answered(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    before: list[int] = []
    request = AddPartitions("alice", ProducerId(pair[0]), pair[1], (TopicPartitions(TOPIC, (1,)),))
    bench.server.add_partitions(
        AddPartitionsToTxn((request,), batched=False),
        CLIENT,
        Answering(lambda *_: before.append(len(bench.announced))),
    )
    bench.settle()
    assert before == [2]


def pair_of(bench: Bench, whose: str) -> tuple[int, int]:
    """Of a producer without a transaction."""
    answer = bench.init(whose)
    bench.settle()
    return answer.answered().producer_id, answer.answered().producer_epoch


def test_those_of_one_entry_are_announced_together(bench: Bench) -> None:
    pairs = {whose: pair_of(bench, whose) for whose in ("alice", "bob", "carol")}
    for whose, pair in pairs.items():
        bench.add(whose, pair, 0)
    bench.settle()
    (together,) = bench.announced
    assert [each.producer_id for each in together.request.announcements] == [id_ for id_, _ in pairs.values()]


def test_to_the_broker_of_this_process_it_is_a_call(bench: Bench) -> None:
    here: list[Announcement] = []
    bench.server.announcer.here = Here(BrokerId(1), here.extend)
    pair = bench.begun("alice", 0, 1)
    assert [(each.producer_id, each.topics) for each in here] == [(pair[0], ((TOPIC, (0,)),))]
    assert [each.broker_id for each in bench.announced] == [2]


@pytest.mark.parametrize("bound", ["TOGETHER_MAX", "ANSWERS_MAX"])
def test_many_are_announced_in_several_requests(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(fencepost.coordinator.announcer, bound, 2)
    for whose, pair in [(each, pair_of(bench, each)) for each in ("alice", "bob", "carol")]:
        bench.add(whose, pair, 0)
    bench.settle()
    assert [len(each.request.announcements) for each in bench.announced] == [2, 1]


def test_an_answer_that_cannot_be_given_closes_its_connection_and_no_other(bench: Bench) -> None:
    def fail(*_: object) -> None:
        raise InvariantViolation("a bug of ours")

    given: list[object] = []
    failing, other = Answering(fail), Answering(lambda outcome, _: given.append(outcome))
    pairs = {"alice": (pair_of(bench, "alice"), failing), "bob": (pair_of(bench, "bob"), other)}
    for whose, (pair, reply) in pairs.items():
        request = AddPartitions(whose, ProducerId(pair[0]), pair[1], (TopicPartitions(TOPIC, (0,)),))
        bench.server.add_partitions(AddPartitionsToTxn((request,), batched=False), CLIENT, reply)
    bench.stage.rest()
    assert "service_failed" in bench.stage.lines[ONE].events
    assert failing.closed
    assert len(given) == 1


@pytest.mark.parametrize(("most", "announced"), [(2, 2), (1, 0)])
def test_a_wide_transaction_is_not_announced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, most: int, announced: int
) -> None:
    monkeypatch.setattr(fencepost.coordinator.announcer, "ANNOUNCED_MAX", most)
    bench.begun("alice", 0, 1)
    assert len(bench.announced) == announced


def test_a_refused_addition_is_not_announced(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.add("alice", (pair[0], pair[1] + 1), 1)
    bench.settle()
    assert len(bench.announced) == 1


def test_a_broker_that_is_not_there_is_told_nothing(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.heartbeat(2, want_fence=True)
    bench.add("alice", pair, 1)
    bench.settle()
    assert [each.broker_id for each in bench.announced] == [1]


def test_a_change_of_the_cluster_is_announced_once_to_every_broker_that_is_not_fenced(bench: Bench) -> None:
    bench.maintain()
    begun = tuple(bench.changes_announced)
    bench.maintain()
    assert (begun, bench.changes_announced) == ((1, 2), [1, 2]), "a leader that begins, then no change"
    bench.create("shipments", 1)
    bench.create("returns", 2)
    bench.maintain()
    assert bench.changes_announced[2:] == [1, 2], "two changes of one tick are one announcement"
    bench.heartbeat(2, want_fence=True)
    bench.remove("returns")
    bench.maintain()
    assert bench.changes_announced[4:] == [1]


def test_changes_are_announced_to_the_broker_of_this_process_and_by_the_next_leader(bench: Bench) -> None:
    here: list[list[Announcement]] = []
    bench.server.announcer.here = Here(BrokerId(1), lambda some: here.append(list(some)))
    bench.maintain()
    assert (here, bench.changes_announced) == ([[]], [2])
    bench.server.deposed()
    bench.server.activated(0)
    bench.maintain()
    assert (here, bench.changes_announced) == ([[], []], [2, 2])
