"""The coordinator's timers under virtual time: timeouts, forgotten ids, the oldest open transaction."""

from collections.abc import Iterator

import pytest

import fencepost.controller.transactions.expiry
import fencepost.coordinator.transaction_timers
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions import states
from fencepost.coordinator.transaction_timers import FIRST_EXPIRY_S_MAX, OPEN_WALK_S, TransactionTimes
from fencepost.wire.k20065_explain_transaction import UNKNOWN, ExplainTransaction, FenceExplained
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import CLIENT
from tests.node.conftest import MakeStage


@pytest.mark.parametrize("begins_in", ["this-leadership", "one-before"])
def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_goes_on(
    bench: Bench, begins_in: str
) -> None:
    pair = bench.begun("alice", 0, timeout_ms=5_000)
    if begins_in == "one-before":
        bench.server.deposed()
        bench.server.activated(bench.replica.proposer.now_ms())
    bench.wait(4.9)
    assert (bench.state("alice"), bench.take_sent()) == ("Ongoing", [])
    bench.wait(1.5)
    assert bench.state("alice") == "PrepareAbort"
    (sent,) = bench.take_sent()
    (marker,) = sent.request.markers
    assert (marker.producer_epoch, marker.committed) == (pair[1] + 1, False)
    late, recovering = bench.end("alice", pair), bench.init("alice", *pair)
    sent.answer()
    bench.settle()
    assert late.answered() == ErrorCode.UNKNOWN_PRODUCER_ID, "timed out, not fenced"
    assert (recovering.answered().producer_id, recovering.answered().producer_epoch) == (pair[0], pair[1] + 1)
    assert (bench.server.counts.timed_out, bench.server.counts.aborted) == (1, 1)


def test_the_history_of_fences_says_which_timeout_and_which_epoch_came_after(bench: Bench) -> None:
    def fences() -> list[FenceExplained]:
        explained = bench.ask(bench.server.set_aside.explain, ExplainTransaction("alice"))
        bench.settle()
        return list(explained.answered().fences)

    pair = bench.begun("alice", 0, timeout_ms=5_000)
    assert fences() == []
    bench.wait(6.4)
    bench.take_sent()[0].answer()
    bench.settle()
    bench.init("alice", timeout_ms=7_000)
    bench.settle()
    found = [(each.cause, each.epoch, each.client_id, each.later_epoch, each.timeout_ms) for each in fences()]
    assert found == [
        ("its timeout", pair[1], "", pair[1] + 1, 7_000),
        ("a new instance", pair[1] + 1, CLIENT.client_id, pair[1] + 2, UNKNOWN),
    ]
    assert {each.later_producer_id for each in fences()} == {pair[0]}


def test_markers_of_a_timeout_do_not_wait_for_the_walk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.transaction_timers, "WALK_S", 1_000.0)
    bench.server.activated(bench.replica.proposer.now_ms())
    bench.begun("alice", 0, timeout_ms=1_000)
    bench.wait(3.0)
    assert len(bench.take_sent()) == 1


def test_nobody_times_out_within_the_grace_of_a_new_leadership(bench: Bench) -> None:
    bench.begun("alice", 0, timeout_ms=1)
    bench.server.deposed()
    bench.stage.now += 60.0
    bench.server.activated(bench.replica.proposer.now_ms())
    bench.wait(0.9)
    assert bench.state("alice") == "Ongoing"
    bench.wait(1.2)
    assert bench.state("alice") == "PrepareAbort"


def test_many_that_time_out_are_aborted_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.controller.transactions.expiry, "TIMEOUTS_MAX", 2)
    names = [f"id-{n}" for n in range(7)]
    for name in names:
        bench.begun(name, 0, timeout_ms=1_000)
    bench.wait(3.0)
    assert {bench.state(name) for name in names} == {"PrepareAbort"}


def test_markers_of_wide_transactions_that_time_out_together_are_sent_in_slices(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.coordinator.transaction_timers, "LOOKED_AT_MAX", 4)
    monkeypatch.setattr(fencepost.coordinator.transaction_timers, "WALK_S", 1_000.0)
    bench.server.activated(bench.replica.proposer.now_ms())
    bench.create("wide", *[1] * 3)
    names = [f"id-{n}" for n in range(7)]
    for name in names:
        bench.begun(name, 0, 1, 2, timeout_ms=1_000, topic="wide")
    slices: list[list[str]] = []
    timers, markers = bench.server._timers, bench.server.markers
    look, look_at = timers._look, markers.look

    def slice_of(leadership: int, transactional_ids: Iterator[str]) -> None:
        slices.append([])
        look(leadership, transactional_ids)

    def noting(transactional_id: str) -> bool:
        slices[-1].append(transactional_id)
        return look_at(transactional_id)

    monkeypatch.setattr(timers, "_look", slice_of)
    monkeypatch.setattr(markers, "look", noting)
    bench.wait(3.0)
    assert sorted(name for each in slices for name in each) == names
    assert max(map(len, slices)) == 2  # the second passes four partitions
    for _ in range(10):
        for sent in bench.take_sent():
            sent.answer()
        bench.wait(0.1)
    assert {bench.state(name) for name in names} == {"CompleteAbort"}


def test_nothing_is_proposed_while_nothing_times_out(bench: Bench) -> None:
    bench.begun("alice", 0)
    entries = bench.entries
    bench.wait(10.0)
    assert bench.entries == entries


def test_ids_that_nobody_uses_are_forgotten_in_slices(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.controller.transactions.expiry, "EXPIRED_MAX", 3)
    bench = Bench(make_stage(), TransactionTimes(expiration_ms=10_000))
    bench.elect()
    bench.register(1)
    bench.create(TOPIC, 1)
    for n in range(10):
        bench.init(f"id-{n}")
    bench.begun("alice", 0, timeout_ms=600_000)
    bench.settle()
    before = bench.entries
    bench.wait(FIRST_EXPIRY_S_MAX + 2)
    left = [states.get(bench.replica.image, f"id-{n}") for n in range(10)]
    assert left == [None] * 10
    assert bench.entries - before == 4, "three at a time"
    assert bench.state("alice") == "Ongoing", "what is open is never forgotten"


@pytest.mark.row("939.9")
def test_the_oldest_open_transaction_is_known(bench: Bench) -> None:
    pair = bench.begun("alice", 0)
    bench.wait(10.0)
    bench.begun("bob", 1)
    bench.wait(OPEN_WALK_S + 1)
    assert bench.server.counts.open_times.longest_ms >= 10_000
    bench.end("alice", pair)
    bench.settle()
    bench.wait(OPEN_WALK_S + 1)
    assert 0 < bench.server.counts.open_times.longest_ms < 10_000
    bench.server.deposed()
    assert bench.server.counts.open_times.longest_ms == 0
