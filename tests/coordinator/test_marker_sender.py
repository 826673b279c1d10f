"""Markers: what is sent where, together with what, and what each answer leads to (docs/kafka-notes.md B5)."""

from typing import Any

import pytest

import fencepost.coordinator.completions
import fencepost.coordinator.marker_sender
from fencepost.controller import brokers, topics
from fencepost.controller.brokers import UnregisterBroker
from fencepost.controller.decision import Decision
from fencepost.controller.errors import NotController
from fencepost.controller.topics import TOPICS, Partition
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.view import View
from fencepost.coordinator.marker_job import Job
from fencepost.coordinator.marker_sender import RETRY_S_MAX, MarkerSender
from fencepost.quorum.port import Decide, Reply
from fencepost.records.schema import RemoveTopicRecord
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import BrokerId, ProducerId
from fencepost.wire.connection import ConnectionLost
from tests.coordinator.bench import TOPIC, Bench


def prepared(
    bench: Bench, *transactional_ids: str, committed: bool = True, indexes: tuple[int, ...] = (0, 1)
) -> None:
    """Transactions of these ids, ended together; their markers wait."""
    pairs = [bench.begun(each, *indexes) for each in transactional_ids]
    for each, pair in zip(transactional_ids, pairs, strict=True):
        bench.end(each, pair, committed=committed)
    bench.settle()


def test_transactions_that_end_together_share_a_request_per_broker(bench: Bench) -> None:
    prepared(bench, "alice", "bob", "carol")
    first, second = bench.take_sent()
    assert (len(first.request.markers), len(second.request.markers)) == (3, 3)


def test_what_ends_meanwhile_goes_with_the_next_request(bench: Bench) -> None:
    prepared(bench, "alice", indexes=(0,))
    (first,) = bench.take_sent()
    prepared(bench, "bob", "carol", indexes=(0,))
    assert bench.take_sent() == [], "one request per broker is under way"
    first.answer()
    bench.settle()
    (second,) = bench.take_sent()
    assert len(second.request.markers) == 2


def test_transactions_that_complete_together_share_an_entry(bench: Bench) -> None:
    prepared(bench, "alice", "bob", "carol", indexes=(0,))
    entries = bench.entries
    bench.take_sent()[0].answer()
    bench.settle()
    assert [bench.state(each) for each in ("alice", "bob", "carol")] == ["CompleteCommit"] * 3
    assert bench.entries == entries + 1


def test_a_broker_that_does_not_answer_keeps_no_other_transaction_waiting(bench: Bench) -> None:
    prepared(bench, "slow", indexes=(0,))
    prepared(bench, "alice", indexes=(1,))
    _, second = bench.take_sent()
    second.answer()
    bench.settle()
    assert (bench.state("slow"), bench.state("alice")) == ("PrepareCommit", "CompleteCommit")
    prepared(bench, "bob", indexes=(1,))
    bench.take_sent()[0].answer()
    bench.settle()
    assert bench.state("bob") == "CompleteCommit"


@pytest.mark.parametrize("code", [3, 6, 7, 19, 20, 56, 2, -1], ids="code-{}".format)
def test_a_partition_that_cannot_now_is_asked_again(bench: Bench, code: int) -> None:
    prepared(bench, "alice")
    first, second = bench.take_sent()
    first.answer(code)
    second.answer()
    bench.settle()
    assert bench.take_sent() == [], "not at once"
    bench.wait(RETRY_S_MAX)
    (again,) = bench.take_sent()
    assert [part[1:] for part in again.partitions] == [(TOPIC, 0)], "what is written is not asked again"
    again.answer()
    bench.settle()
    assert bench.state("alice") == "CompleteCommit"


@pytest.mark.parametrize("code", [0, 35, 43], ids="code-{}".format)
def test_codes_that_mean_done(bench: Bench, code: int) -> None:
    prepared(bench, "alice", indexes=(0,))
    bench.take_sent()[0].answer(code)
    bench.settle()
    assert bench.state("alice") == "CompleteCommit"


def test_a_lost_request_is_sent_again_with_what_came_meanwhile(bench: Bench) -> None:
    prepared(bench, "alice", indexes=(0,))
    (first,) = bench.take_sent()
    prepared(bench, "bob", indexes=(0,))
    first.done(ConnectionLost("it died"))
    bench.wait(RETRY_S_MAX)
    (again,) = bench.take_sent()
    assert len(again.request.markers) == 2


def test_a_failing_broker_is_asked_less_and_less_often(bench: Bench) -> None:
    prepared(bench, "alice", indexes=(0,))
    asked = 0
    for _ in range(200):  # 10 s
        for sent in bench.take_sent():
            asked += 1
            sent.done(ConnectionLost("it is dead"))
        bench.wait(0.05)
    assert 8 <= asked <= 20


def test_a_partition_without_a_leader_waits_for_one(bench: Bench) -> None:
    bench.heartbeat(1, want_fence=True)
    prepared(bench, "alice", indexes=(0,))
    bench.wait(3.0)
    assert bench.take_sent() == []
    bench.register(1, 9099)
    bench.wait(RETRY_S_MAX)
    (sent,) = bench.take_sent()
    assert sent.port == 9099, "it is reached where it registered last"


def test_a_broker_that_moved_is_asked_at_its_new_address(bench: Bench) -> None:
    prepared(bench, "alice", indexes=(0,))
    (lost,) = bench.take_sent()
    bench.register(1, 9099)
    lost.done(ConnectionLost("it restarted"))
    bench.wait(RETRY_S_MAX)
    (again,) = bench.take_sent()
    assert again.port == 9099


def test_a_broker_that_was_removed_is_waited_for(bench: Bench) -> None:
    bench.decide(lambda view, _now: brokers.decide_unregister(view, UnregisterBroker(BrokerId(1))))
    prepared(bench, "alice", indexes=(0,))
    bench.wait(1.0)
    assert (bench.take_sent(), bench.state("alice")) == ([], "PrepareCommit")


@pytest.mark.parametrize("asked", [False, True], ids=["before-it-is-asked", "while-it-is-asked"])
def test_a_deleted_topic_needs_no_marker(bench: Bench, asked: bool) -> None:
    topic = bench.replica.image.get(TOPICS, TOPIC)
    assert topic is not None
    removed = RemoveTopicRecord(topic_id=topic.topic_id)
    pair = bench.begun("alice", 0, 1)
    if not asked:
        bench.decide(lambda _view, _now: Decision((removed,), None))
    bench.end("alice", pair)
    bench.settle()
    if asked:
        bench.decide(lambda _view, _now: Decision((removed,), None))
        for sent in bench.take_sent():
            sent.answer(3)
        bench.wait(RETRY_S_MAX)
    assert bench.state("alice") == "CompleteCommit"


def test_a_new_leadership_sends_all_markers_again_with_its_own_epoch(bench: Bench) -> None:
    prepared(bench, "alice", "bob")
    versions = {each: bench.row(each).prepared_version for each in ("alice", "bob")}
    before, _ = bench.take_sent()
    bench.server.deposed()
    before.answer()
    bench.settle()
    assert bench.state("alice") == "PrepareCommit", "an answer of another leadership counts no more"
    bench.server.activated(0)
    bench.settle()
    first, second = bench.take_sent()
    assert {marker.image_version for marker in first.request.markers} == set(versions.values())
    for sent in (first, second):
        sent.answer()
    bench.settle()
    assert bench.state("alice") == bench.state("bob") == "CompleteCommit"


def test_many_prepared_transactions_are_walked_in_slices(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(bench, *(f"id-{n}" for n in range(9)), indexes=(0,))
    bench.take_sent()
    monkeypatch.setattr(fencepost.coordinator.marker_sender, "WALK_ROWS_MAX", 2)
    bench.server.deposed()
    bench.server.activated(0)
    bench.settle()
    sent = bench.take_sent()
    while sent:
        for each in sent:
            each.answer()
        bench.settle()
        sent = bench.take_sent()
    assert {bench.state(f"id-{n}") for n in range(9)} == {"CompleteCommit"}


def test_past_the_bound_the_rest_waits_for_its_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.marker_sender, "JOBS_MAX", 2)
    prepared(bench, *(f"id-{n}" for n in range(5)), indexes=(0,))
    assert bench.server.markers.waiting == 2
    for _ in range(6):
        for sent in bench.take_sent():
            sent.answer()
        bench.wait(1.1)
    assert {bench.state(f"id-{n}") for n in range(5)} == {"CompleteCommit"}


def test_a_request_has_a_bound(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.marker_sender, "PARTITIONS_MAX", 2)
    prepared(bench, "alice", "bob", "carol", indexes=(0,))
    (first,) = bench.take_sent()
    assert len(first.partitions) == 2
    first.answer()
    bench.settle()
    (second,) = bench.take_sent()
    assert len(second.partitions) == 1


def test_one_decision_completes_no_more_than_its_bound(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.completions, "COMPLETIONS_MAX", 2)
    prepared(bench, *(f"id-{n}" for n in range(5)), indexes=(0,))
    entries = bench.entries
    bench.take_sent()[0].answer()
    bench.settle()
    assert {bench.state(f"id-{n}") for n in range(5)} == {"CompleteCommit"}
    assert bench.entries == entries + 1, "three decisions share an entry"
    assert bench.server.counts.committed == 5


@pytest.mark.parametrize("how", ["one-transaction", "many"])
def test_markers_are_routed_in_slices_and_none_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Of a transaction with many partitions, and of many that a new leader finds."""
    monkeypatch.setattr(fencepost.coordinator.marker_sender, "ROUTED_MAX", 2)
    bench.create("wide", *[1] * 5)
    names = ["alice"] if how == "one-transaction" else ["alice", "bob", "carol"]
    routed: list[int] = []
    for name in names:
        pair = bench.begun(name, 0)
        part = AddPartitions(name, ProducerId(pair[0]), pair[1], (TopicPartitions("wide", tuple(range(5))),))
        bench.ask(bench.server.add_partitions, AddPartitionsToTxn((part,)))
        bench.settle()
        bench.end(name, pair)
    bench.settle()
    bench.take_sent()
    route = MarkerSender._route

    def noting(sender: MarkerSender, job: Job, parts: tuple[Any, ...]) -> None:
        routed.append(0)
        route(sender, job, parts)

    def counted(view: View, partition: Partition) -> Any:
        routed[-1] += 1
        return leader_of(view, partition)

    leader_of = topics.leader_of
    monkeypatch.setattr(topics, "leader_of", counted)

    monkeypatch.setattr(MarkerSender, "_route", noting)
    bench.server.deposed()
    bench.server.activated(bench.replica.proposer.now_ms())
    for _ in range(20):
        for sent in bench.take_sent():
            sent.answer()
        bench.wait(0.2)
    assert {bench.state(name) for name in names} == {"CompleteCommit"}
    assert sum(routed) >= 6 * len(names)
    assert max(routed) <= 2


def test_a_completion_of_unknown_fate_is_found_by_the_walk(bench: Bench) -> None:
    prepared(bench, "alice", indexes=(0,))
    sweep = bench.server.markers._completions._sweep
    submit = sweep._submit

    def refuse(decide: Decide[Any], reply: Reply[Any], **_how: Any) -> None:
        reply(NotController("not now"), 0)

    sweep._submit = refuse
    bench.take_sent()[0].answer()
    bench.settle()
    sweep._submit = submit
    assert bench.state("alice") == "PrepareCommit"
    bench.wait(1.5)
    bench.take_sent()[0].answer()
    bench.settle()
    assert bench.state("alice") == "CompleteCommit"
