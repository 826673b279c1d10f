"""A marker that a partition refuses: shown, tried again, forced; never forgotten, never turned round."""

from itertools import pairwise

import pytest

import fencepost.coordinator.marker_sender
import fencepost.coordinator.set_aside
import fencepost.coordinator.wedges
from fencepost.controller.authorization import Acls
from fencepost.controller.errors import ErrorCode
from fencepost.coordinator.wedges import RETRY_S
from fencepost.wire.dispatch import Context
from fencepost.wire.k20027_force_markers import ForceMarkers
from fencepost.wire.k20065_explain_transaction import ExplainTransaction, Explanation
from fencepost.wire.k20066_list_set_aside import QUARANTINED, ListSetAside, SetAsideList
from tests.coordinator.bench import TOPIC, Bench, Sent
from tests.coordinator.coordinator_node import CLIENT
from tests.coordinator.test_marker_sender import prepared
from tests.node.conftest import MakeStage

OLD = ErrorCode.INVALID_PRODUCER_EPOCH
CODES = [pytest.param(code, id=f"code-{code}") for code in (47, 52)]


def wedge(bench: Bench, code: int = OLD, *ids: str, committed: bool = True) -> None:
    """Transactions on both partitions; the first one's leader refuses."""
    prepared(bench, *(ids or ("alice",)), committed=committed)
    refusing, other = bench.take_sent()
    refusing.answer(code)
    other.answer()
    bench.settle()


def listed(bench: Bench) -> SetAsideList:
    answer = bench.ask(bench.server.set_aside.list_set_aside, ListSetAside())
    bench.settle()
    told = answer.answered()
    assert isinstance(told, SetAsideList)
    return told


def explained(bench: Bench, transactional_id: str = "alice") -> Explanation:
    answer = bench.ask(bench.server.set_aside.explain, ExplainTransaction(transactional_id))
    bench.settle()
    told = answer.answered()
    assert isinstance(told, Explanation)
    return told


def force(bench: Bench, transactional_id: str = "alice") -> object:
    answer = bench.ask(bench.server.set_aside.force, ForceMarkers(transactional_id))
    bench.settle()
    return answer.answered()


def flags(sent: Sent) -> list[tuple[bool, bool, tuple[str, ...]]]:
    """(forced, committed, partitions) of each marker."""
    return [
        (
            each.forced,
            each.committed,
            tuple(f"{topic}-{i}" for topic, indexes in each.topics for i in indexes),
        )
        for each in sent.request.markers
    ]


@pytest.mark.parametrize("code", CODES)
def test_it_is_shown_with_partition_code_and_time(bench: Bench, code: int) -> None:
    before_ms = bench.replica.proposer.now_ms()
    wedge(bench, code)
    bench.maintain()
    (row,) = listed(bench).rows
    assert (row.kind, row.concern, row.key, row.partition, row.code) == (
        "wedged", "marker", "alice", f"{TOPIC}-0", code,
    )  # fmt: skip
    assert before_ms <= row.since_ms <= bench.replica.proposer.now_ms()
    assert ErrorCode(code).name in row.reason
    assert bench.server.counts.wedged == 1
    since_ms = row.since_ms
    bench.wait(5.0)
    for sent in bench.take_sent():
        sent.answer(code)
    bench.settle()
    (row,) = listed(bench).rows
    assert row.since_ms == since_ms, "since when it is wedged, not since the last try"


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_nothing_claims_that_markers_are_being_written(bench: Bench, committed: bool) -> None:
    prepared(bench, "alice", committed=committed)
    assert "markers are being written to 2 partitions" in explained(bench).explanation
    refusing, other = bench.take_sent()
    refusing.answer(OLD)
    other.answer()
    bench.settle()
    told = explained(bench)
    assert "being written" not in told.explanation
    assert f"{TOPIC}-0 (error 47, for" in told.explanation
    assert "force-terminate" in told.explanation
    assert [each.partition for each in told.set_aside] == [f"{TOPIC}-0"]


@pytest.mark.parametrize("code", CODES)
def test_other_partitions_and_other_transactions_get_their_markers(bench: Bench, code: int) -> None:
    prepared(bench, "alice", "bob")
    refusing, other = bench.take_sent()
    alice = bench.row("alice").producer_id
    refusing.answer({(TOPIC, 0): 0})
    bench.settle()
    prepared(bench, "carol", indexes=(1,))
    other.done_with({alice: code})
    bench.settle()
    for sent in bench.take_sent():
        sent.answer()
    bench.settle()
    assert {each: bench.state(each) for each in ("alice", "bob", "carol")} == {
        "alice": "PrepareCommit", "bob": "CompleteCommit", "carol": "CompleteCommit",
    }  # fmt: skip
    assert [each.partition for each in listed(bench).rows] == [f"{TOPIC}-1"]


def test_it_is_tried_again_ever_more_slowly_and_ends_when_it_may(bench: Bench) -> None:
    wedge(bench)
    tries: list[float] = []
    for _ in range(2_000):  # 1,000 s
        for sent in bench.take_sent():
            assert flags(sent) == [(False, True, (f"{TOPIC}-0",))]
            tries.append(bench.stage.now)
            sent.answer(OLD)
        bench.wait(0.5, step_s=0.5)
    gaps = [after - before for before, after in pairwise(tries)]
    assert 8 <= len(tries) <= 13
    assert all(after > 1.5 * before for before, after in pairwise(gaps) if after < 500)
    bench.wait(fencepost.coordinator.wedges.RETRY_S_MAX, step_s=5.0)
    (sent,) = bench.take_sent()
    sent.answer()
    bench.settle()
    assert (bench.state("alice"), listed(bench)) == ("CompleteCommit", SetAsideList())
    bench.maintain()
    assert bench.server.counts.wedged == 0


def test_a_deleted_topic_frees_it(bench: Bench) -> None:
    wedge(bench)
    bench.remove(TOPIC)
    bench.wait(2 * RETRY_S)
    assert (bench.state("alice"), listed(bench).rows) == ("CompleteCommit", ())


# -- leaders change ----------------------------------------


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("changes", [1, 2], ids=["there", "there-and-back"])
def test_the_job_survives_a_change_of_leadership(bench: Bench, code: int, changes: int) -> None:
    wedge(bench, code)
    for _ in range(changes):
        bench.server.deposed()
        bench.maintain()
        assert (bench.server.counts.wedged, tuple(bench.server.markers.wedges.rows())) == (0, ())
        bench.wait(2 * RETRY_S)
        assert bench.take_sent() == [], "what was put off is of the leadership that is over"
        bench.server.activated(0)
        bench.settle()
        refusing, other = bench.take_sent()
        refusing.answer(code)
        other.answer()
        bench.settle()
        assert [each.partition for each in listed(bench).rows] == [f"{TOPIC}-0"]
    bench.server.deposed()
    bench.server.activated(0)
    bench.settle()
    for sent in bench.take_sent():
        sent.answer()
    bench.settle()
    assert (bench.state("alice"), listed(bench).rows) == ("CompleteCommit", ())


def told_51(bench: Bench) -> bool:
    answer = bench.init("alice")
    bench.settle()
    return bool(answer.answered() == ErrorCode.CONCURRENT_TRANSACTIONS)


# -- bounds ----------------------------------------


def test_wedged_transactions_keep_no_others_waiting(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.marker_sender, "JOBS_MAX", 2)
    wedge(bench, OLD, "alice", "bob")
    prepared(bench, "carol", "dave", indexes=(1,))
    for sent in bench.take_sent():
        sent.answer()
    bench.settle()
    assert {bench.state(each) for each in ("carol", "dave")} == {"CompleteCommit"}


@pytest.mark.parametrize("past", [0, 1], ids=["at-the-bound", "one-past"])
def test_past_the_bound_the_oldest_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, past: int
) -> None:
    monkeypatch.setattr(fencepost.coordinator.wedges, "WEDGED_MAX", 3 - past)
    wedge(bench, OLD, "alice", "bob", "carol")
    assert [each.key for each in listed(bench).rows] == ["alice", "bob", "carol"][past:]
    bench.wait(1.1)  # the walk
    retried = {marker.producer_id for sent in bench.take_sent() for marker in sent.request.markers}
    assert (bench.row("alice").producer_id in retried) or not past


def test_a_list_has_a_bound_and_says_how_many_there_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.coordinator.set_aside, "ROWS_MAX", 3)
    wedge(bench)
    for n, total in ((1, 2), (2, 3), (3, 4)):
        bench.replica.quarantine.add("transaction timeout", f"id-{n}", "why")
        answer = listed(bench)
        assert (len(answer.rows), answer.total) == (min(total, 3), total)
    assert [each.key for each in answer.rows] == ["alice", "id-1", "id-2"]


def test_a_quarantined_row_is_shown_and_explained(bench: Bench) -> None:
    bench.begun("alice", 0)
    bench.begun("bob", 1)
    quarantine = bench.replica.quarantine
    quarantine.add("transaction timeout", "alice", "epoch 32767")
    quarantine.add("broker session", "bob", "a broker's id, if it were one")
    (row, _) = listed(bench).rows
    assert (row.kind, row.concern, row.key, row.reason) == (
        QUARANTINED, "transaction timeout", "alice", "epoch 32767",
    )  # fmt: skip
    told = explained(bench)
    assert "set it aside 0.0 s ago and tries it again: epoch 32767" in told.explanation
    assert told.set_aside == (row,)
    assert explained(bench, "bob").set_aside == ()


# -- who may ----------------------------------------

ACLS = Acls.parse("User:operator ALTER\nUser:looker DESCRIBE\nUser:broker CLUSTER_ACTION\n")
MAY = {
    "20065": {"User:operator", "User:looker", "User:broker"},
    "20066": {"User:operator", "User:looker", "User:broker"},
    "20027": {"User:operator"},
}


@pytest.mark.parametrize("who", ["User:operator", "User:looker", "User:broker", "User:mallory"])
def test_who_may_look_and_who_may_force(make_stage: MakeStage, who: str) -> None:
    bench = Bench(make_stage(), acls=ACLS)
    bench.elect()
    context = Context(who, CLIENT.listener, CLIENT.client_id, CLIENT.peer)
    server = bench.server.set_aside
    asked = {
        "20065": bench.ask(server.explain, ExplainTransaction("alice"), context),
        "20066": bench.ask(server.list_set_aside, ListSetAside(), context),
        "20027": bench.ask(server.force, ForceMarkers("alice"), context),
    }
    bench.settle()
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allowed = {key for key, answer in asked.items() if answer.answered() != denied}
    assert allowed == {key for key, principals in MAY.items() if who in principals}


def test_a_marker_that_waits_twice_completes_its_transaction_once(bench: Bench) -> None:
    """Two retries of one partition are due while its broker is busy with another transaction."""
    wedge(bench)
    blocking_pair = bench.begun("bob", 0)
    bench.end("bob", blocking_pair)
    bench.settle()
    (blocking,) = bench.take_sent()
    markers = bench.server.markers
    job = markers._jobs["alice"]
    for _ in range(2):
        markers._route_again(markers._leadership, job, tuple(job.missing))
    blocking.answer()
    bench.settle()
    (sent,) = bench.take_sent()
    sent.answer()
    bench.settle()
    assert bench.state("alice") == "CompleteCommit"
    assert not bench.replica.proposer.violations
