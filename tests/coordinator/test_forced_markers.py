"""An operator forces the markers of a wedged transaction."""

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.coordinator.marker_sender import RETRY_S_MAX
from fencepost.coordinator.wedges import RETRY_S
from fencepost.wire.k20027_force_markers import ForcedMarkers
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.test_marker_sender import prepared
from tests.coordinator.test_wedges import OLD, flags, force, listed, told_51, wedge


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_the_same_marker_is_sent_again_forced(bench: Bench, committed: bool) -> None:
    wedge(bench, committed=committed)
    version = bench.row("alice").prepared_version
    assert force(bench) == ForcedMarkers((f"{TOPIC}-0",))
    (sent,) = bench.take_sent()
    assert flags(sent) == [(True, committed, (f"{TOPIC}-0",))]
    assert [each.image_version for each in sent.request.markers] == [version]
    assert force(bench) == ForcedMarkers((f"{TOPIC}-0",))
    bench.wait(2 * RETRY_S)
    assert bench.take_sent() == [], "it is on its way, once"
    sent.answer()
    bench.settle()
    assert bench.state("alice") == ("CompleteCommit" if committed else "CompleteAbort")
    assert listed(bench).rows == ()


def test_what_was_not_refused_is_not_forced(bench: Bench) -> None:
    prepared(bench, "alice")
    refusing, _unanswered = bench.take_sent()
    refusing.answer(OLD)
    bench.settle()
    assert force(bench) == ForcedMarkers((f"{TOPIC}-0",))
    (sent,) = bench.take_sent()
    assert flags(sent) == [(True, True, (f"{TOPIC}-0",))]


def test_forced_and_plain_partitions_of_one_broker_share_a_request(bench: Bench) -> None:
    bench.create("two", 1, 1)
    pair = bench.begun("alice", 0, 1, topic="two")
    bench.end("alice", pair)
    bench.settle()
    (sent,) = bench.take_sent()
    sent.answer({("two", 0): OLD, ("two", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER})
    bench.settle()
    blocking_pair = bench.begun("bob", 0)
    bench.end("bob", blocking_pair)
    bench.settle()
    (blocking,) = bench.take_sent()
    force(bench)
    bench.wait(RETRY_S_MAX)
    blocking.answer()
    bench.settle()
    (both,) = bench.take_sent()
    assert sorted(flags(both)) == [(False, True, ("two-1",)), (True, True, ("two-0",))]
    both.answer()
    bench.settle()
    assert bench.state("alice") == "CompleteCommit"


def test_what_is_tried_and_forced_at_once_is_completed_once(bench: Bench) -> None:
    """The marker waited for its broker twice, and was answered twice in one request."""
    wedge(bench)
    prepared(bench, "bob", indexes=(0,))
    (blocking,) = bench.take_sent()
    bench.wait(1.5 * RETRY_S)  # the try that was put off waits behind bob's
    force(bench)
    blocking.answer()
    bench.settle()
    (sent,) = bench.take_sent()
    sent.answer()
    bench.settle()
    assert (bench.state("alice"), bench.state("bob")) == ("CompleteCommit", "CompleteCommit")
    assert bench.server.counts.committed == 2
    assert bench.replica.quarantine.rows() == ()
    assert not bench.replica.proposer.violations


def test_a_broker_that_cannot_be_forced_leaves_it_wedged(bench: Bench) -> None:
    """One of an older version skips the tag."""
    wedge(bench)
    force(bench)
    (sent,) = bench.take_sent()
    sent.answer(OLD)
    bench.settle()
    assert [each.partition for each in listed(bench).rows] == [f"{TOPIC}-0"]
    bench.wait(3 * RETRY_S)
    (again,) = bench.take_sent()
    assert flags(again) == [(False, True, (f"{TOPIC}-0",))], "force is for one try"


def test_a_forced_marker_whose_broker_was_lost_is_still_forced(bench: Bench) -> None:
    wedge(bench)
    force(bench)
    (lost,) = bench.take_sent()
    lost.done(ConnectionError("it died"))
    bench.wait(RETRY_S_MAX)
    (again,) = bench.take_sent()
    assert flags(again) == [(True, True, (f"{TOPIC}-0",))]


@pytest.mark.parametrize(
    ("prepare", "outcome"),
    [
        pytest.param(False, ForcedMarkers(), id="nothing-is-wedged"),
        pytest.param(None, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, id="no-such-id"),
    ],
)
def test_where_there_is_nothing_to_force_nothing_is_sent(
    bench: Bench, prepare: bool | None, outcome: object
) -> None:
    if prepare is not None:
        prepared(bench, "alice")
    sent = len(bench.take_sent())
    assert force(bench) == outcome
    assert (bench.take_sent(), sent) == ([], 0 if prepare is None else 2)


def test_while_it_is_forced_a_new_instance_waits_for_it(bench: Bench) -> None:
    wedge(bench)
    assert told_51(bench), "wedged: nothing would end it"
    force(bench)
    waiting = bench.init("alice")
    bench.settle()
    assert waiting.answered() == ...
    bench.take_sent()[0].answer()
    bench.settle()
    assert waiting.answered().producer_epoch == 1
