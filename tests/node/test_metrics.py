"""What a scrape shows."""

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client import generate_latest

from fencepost.controller.transactions.describe import OpenTimes
from fencepost.coordinator.groups.group_counts import GroupCounts
from fencepost.coordinator.transaction_counts import TransactionCounts
from fencepost.node.metrics import NodeMetrics, watch_loop
from fencepost.records.types import NodeId, Offset, Term


def scrape(metrics: NodeMetrics) -> dict[str, float]:
    """Sample name with labels -> value."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_a_scrape_shows_what_was_set() -> None:
    metrics = NodeMetrics()
    metrics.raft_role("leader")
    metrics.raft_leader_id(NodeId(2))
    metrics.raft_epoch(Term(7))
    metrics.raft_high_watermark(Offset(41))
    metrics.commit_latency_seconds(0.003)
    metrics.producer_id_blocks_total("granted")
    metrics.producer_ids_left(12)
    metrics.loop_stalled(0.2)
    metrics.loop_stalled(0.1)
    samples = scrape(metrics)
    assert samples['fencepost_raft_role{fencepost_raft_role="leader"}'] == 1
    assert samples['fencepost_raft_role{fencepost_raft_role="follower"}'] == 0
    assert samples["fencepost_raft_leader_id"] == 2
    assert samples["fencepost_raft_epoch"] == 7
    assert samples["fencepost_raft_high_watermark"] == 41
    assert samples["fencepost_commit_latency_seconds_count"] == 1
    assert samples['fencepost_producer_id_blocks_total{outcome="granted"}'] == 1
    assert samples['fencepost_producer_id_blocks_total{outcome="refused"}'] == 0
    assert samples["fencepost_producer_ids_left"] == 12
    assert samples["fencepost_loop_stall_seconds_max"] == 0.2


@pytest.mark.row("939.9")
def test_what_changes_back_is_shown_as_it_is_now() -> None:
    metrics = NodeMetrics()
    shown = []
    for leader_id, role in ((None, "follower"), (NodeId(2), "leader"), (None, "follower")):
        metrics.raft_leader_id(leader_id)
        metrics.raft_role(role)
        samples = scrape(metrics)
        leads = samples['fencepost_raft_role{fencepost_raft_role="leader"}']
        shown.append((samples["fencepost_raft_leader_id"], leads))
    assert shown == [(-1, 0), (2, 1), (-1, 0)]


def test_a_scrape_shows_the_numbers_of_groups() -> None:
    metrics = NodeMetrics()
    counts = GroupCounts(rebalances=3, expired=2, offset_commits=40, active=5, states={"Empty": 7})
    metrics.groups(counts)
    assert (counts.rebalances, counts.active) == (0, 5), "totals are taken once"
    counts.rebalances, counts.states = 1, {"Stable": 4}
    metrics.groups(counts)
    samples = scrape(metrics)
    assert samples["fencepost_group_completed_rebalances_total"] == 4
    assert samples["fencepost_group_members_expired_total"] == 2
    assert samples["fencepost_group_offset_commits_total"] == 40
    assert samples["fencepost_groups_active"] == 5
    assert samples['fencepost_groups{state="Stable"}'] == 4
    assert samples['fencepost_groups{state="Empty"}'] == 0


def test_a_scrape_shows_the_coordinators_numbers() -> None:
    metrics = NodeMetrics()
    counts = TransactionCounts(
        committed=3,
        aborted=2,
        timed_out=1,
        fenced=1,
        parked=4,
        markers_waiting=5,
        wedged=6,
        open_times=OpenTimes(61_500, 2, 3_000),
    )
    metrics.transactions(counts)
    metrics.quarantined_rows(7)
    assert (counts.committed, counts.parked) == (0, 4), "totals are taken once"
    counts.committed = 1
    metrics.transactions(counts)
    samples = scrape(metrics)
    assert samples['fencepost_transactions_completed_total{outcome="committed"}'] == 4
    assert samples['fencepost_transactions_completed_total{outcome="aborted"}'] == 2
    assert samples["fencepost_transactions_timed_out_total"] == 1
    assert samples["fencepost_transactions_fenced_total"] == 1
    assert samples["fencepost_active_transaction_open_time_max_seconds"] == 61.5
    assert samples["fencepost_two_phase_transactions_open"] == 2
    assert samples["fencepost_two_phase_transaction_open_time_max_seconds"] == 3
    assert samples["fencepost_transaction_requests_held"] == 4
    assert samples["fencepost_transaction_markers_waiting"] == 5
    assert samples['fencepost_set_aside{kind="wedged"}'] == 6
    assert samples['fencepost_set_aside{kind="quarantined"}'] == 7


def test_a_loop_that_stood_still_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    stalls: list[float] = []
    metrics = NodeMetrics()
    monkeypatch.setattr(metrics, "loop_stalled", stalls.append)
    loop = asyncio.new_event_loop()
    try:
        moments = iter([0.0, 0.5])
        calls: list[Callable[[], None]] = []
        monkeypatch.setattr(loop, "time", lambda: next(moments))
        monkeypatch.setattr(loop, "call_at", lambda _due, callback: calls.append(callback))
        watch_loop(loop, metrics)
        calls[0]()
    finally:
        monkeypatch.undo()
        loop.close()
    assert stalls == [pytest.approx(0.48)]


def test_a_scrape_shows_what_held_the_loop() -> None:
    metrics = NodeMetrics()
    assert not [name for name in scrape(metrics) if name.startswith("fencepost_loop_stall_ms")]
    metrics.stalls.longest_s["Produce"] = 0.03
    metrics.stalls.flush.longest_s = 0.2
    samples = scrape(metrics)
    assert samples['fencepost_loop_stall_ms{work="Produce"}'] == pytest.approx(30)
    assert samples["fencepost_flush_ms_max"] == pytest.approx(200)
