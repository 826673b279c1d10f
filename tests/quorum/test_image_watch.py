"""Nodes compare their images: who differs from a majority answers nothing, and comes back by a snapshot."""

import uuid
from collections import defaultdict
from typing import Any

import msgspec
import pytest

import fencepost.quorum.image_watch
import fencepost.snapshots.digests
from fencepost.controller import producer_ids
from fencepost.controller.errors import RequestTimedOut
from fencepost.quorum.image_marks import trust
from fencepost.quorum.messages import (
    EARLIER_MAX,
    REPORTS_MAX,
    Ack,
    AppendEntries,
    TimeoutNow,
    decode,
    encode,
)
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import NodeId
from tests.quorum.clients import Silence
from tests.quorum.conftest import MakeRig
from tests.quorum.image_rig import (
    EVERY,
    advance,
    bad,
    change,
    differ,
    heal,
    read,
    same_images,
    to_before_a_digest,
    version_of,
)
from tests.quorum.rig import Rig


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.snapshots.digests, "DIGEST_EVERY", EVERY)


class Kept(Silence):
    def __init__(self, said: list[tuple[str, dict[str, Any]]]) -> None:
        self._said = said

    def error(self, event: str, **facts: object) -> None:
        self._said.append((event, facts))


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[tuple[str, dict[str, Any]]]]:
    """The errors that each node logs."""
    said: dict[int, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    monkeypatch.setattr(Rig, "log_of", lambda _rig, node: Kept(said[int(node)]))
    return said


@pytest.fixture
def rig(logs: object, make_rig: MakeRig) -> Rig:
    """Three voters of which node 1 leads; all of them have ids up to 1000 or more."""
    rig = make_rig(3)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1)
    return rig


def test_sound_nodes_confirm_each_other(rig: Rig, logs: dict[int, Any]) -> None:
    advance(rig, 1, 3 * EVERY)
    last = version_of(rig, 1) // EVERY * EVERY
    for replica in rig.replicas.values():
        assert {replica.watch._reports.confirmed(NodeId(node)) for node in (1, 2, 3)} == {last}
    assert not bad(rig)
    assert not any(logs.values())


@pytest.mark.parametrize("node", [2, 3])
def test_a_follower_that_differs_stops_and_comes_back_by_a_snapshot(
    rig: Rig, logs: dict[int, Any], node: int
) -> None:
    differ(rig, node)
    assert bad(rig) == {node}
    assert [event for event, _ in logs[node]] == ["image_bad"]
    stopped_at = rig[node].applied[0]
    assert advance(rig, 1, 3).codes
    assert rig[node].applied[0] == stopped_at, "it applies nothing to a bad image"
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)
    advance(rig, 1, 2 * EVERY)
    assert not bad(rig)
    assert same_images(rig)
    assert "snapshot_refused" not in dict(logs[node]), "what it installed is sound"


def test_a_leader_that_differs_steps_down_and_answers_nothing_of_its_image(rig: Rig) -> None:
    to_before_a_digest(rig)
    advance(rig, 1)
    change(rig, 1, by=1000)
    read(rig, 1)
    assert bad(rig) == {1}
    assert not rig[1].raft.is_leader
    assert rig.allocate(1).codes == ["NotController"]
    rig.wait(1.0)
    rig.elect(2, 3)
    granted = advance(rig, 2).all
    assert len(granted) == 1
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)


def test_what_waits_at_a_leader_that_differs_is_unknown(rig: Rig) -> None:
    """An entry in flight."""
    to_before_a_digest(rig)
    advance(rig, 1)
    change(rig, 1, by=1000)
    read(rig, 1, 1, 2)  # node 3 hears later: no majority has another digest yet
    assert not bad(rig)
    rig.deliver(1, 3)
    rig.drop(3, 1)
    waiting = rig.allocate(1)
    rig.turn(1)
    rig.deliver(1, 3)
    rig.deliver(3, 1)  # one frame has its acknowledgement and its digest
    assert bad(rig) == {1}
    assert [type(answer) for answer in waiting.all] == [RequestTimedOut]


def test_without_a_majority_no_one_stops_and_it_is_logged(rig: Rig, logs: dict[int, Any]) -> None:
    rig.crash(3)
    differ(rig, 2)
    assert not bad(rig)
    assert not logs[1], "the third may report still"
    rig.wait(3.0)
    rig.maintenance_tick()
    assert not bad(rig)
    for node in (1, 2):
        events = dict(logs[node])
        assert set(events) == {"images_differ"}
        assert set(events["images_differ"]["digests"]) == {"1", "2"}
        assert "storage repair --trust" in events["images_differ"]["next"]


def test_a_node_with_a_bad_image_goes_on_acknowledging(rig: Rig) -> None:
    differ(rig, 3)
    assert bad(rig) == {3}
    rig.crash(2)  # stopped for maintenance
    answers = advance(rig, 1, 2)
    assert len(answers.all) == 2
    assert all(isinstance(answer, producer_ids.ProducerIdBlock) for answer in answers.all)
    assert bad(rig) == {3}


def test_a_node_with_a_bad_image_votes_and_does_not_campaign(rig: Rig) -> None:
    differ(rig, 3)
    term = rig[3].raft.term
    rig.receive(3, 1, TimeoutNow(term))
    rig.campaign(3)
    assert rig[3].raft.term == term
    rig.crash(1)
    rig.wait(1.0)
    rig.elect(2, 3)
    assert rig[2].proposer.active


def test_a_bad_image_stays_bad_over_a_restart(rig: Rig, logs: dict[int, Any]) -> None:
    differ(rig, 3)
    rig.crash(3)
    logs[3].clear()
    rig.start(3)
    assert bad(rig) == {3}
    assert [event for event, _ in logs[3]] == ["image_bad"]
    rig.connect(3)
    advance(rig, 1, 2 * EVERY)
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)
    rig.flush(3)
    rig.crash(3)
    rig.start(3)
    assert not bad(rig), "what was restored is restored for good"


def test_snapshots_of_a_bad_image_are_set_aside(rig: Rig, logs: dict[int, Any]) -> None:
    to_before_a_digest(rig)
    advance(rig, 1)
    change(rig, 3)
    taken: list[Any] = []
    rig[3].snapshotter.take(taken.append)
    rig.maintenance_tick(3)
    rig.work()
    assert taken[0].exists()
    read(rig, 1)
    assert bad(rig) == {3}
    assert not taken[0].exists()
    assert "snapshot_refused" in dict(logs[3])


def test_a_snapshot_of_a_node_that_no_majority_confirms_is_not_taken(rig: Rig) -> None:
    differ(rig, 3)
    for replica in rig.replicas.values():
        for node in (1, 2, 3):
            replica.watch._reports.forget(NodeId(node))
    heal(rig)
    assert bad(rig) == {3}
    advance(rig, 1, EVERY)
    heal(rig)
    assert not bad(rig)


def test_a_node_to_which_a_record_does_not_apply_ends_and_comes_back_by_a_snapshot(rig: Rig) -> None:
    change(rig, 3, by=5000)
    with pytest.raises(InvariantViolation):
        advance(rig, 1)
    rig.crash(3)
    rig.start(3)
    assert bad(rig) == {3}
    rig.connect(3)
    rig.crash(2)
    waiting = rig.allocate(1)
    rig.settle()
    assert not waiting.all, "it acknowledges nothing: the leader's image may be the bad one"
    rig.start(2)
    rig.connect(2)
    advance(rig, 1, 2 * EVERY)
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)


def test_a_record_that_applies_by_now_ends_the_doubt(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of the software, not of the image: the next version goes on."""
    import fencepost.quorum.replica as replica

    def broken(*_: object, **__: object) -> None:
        raise InvariantViolation("a bug")

    with monkeypatch.context() as context:
        context.setattr(replica, "apply", broken)
        with pytest.raises(InvariantViolation, match="a bug"):
            advance(rig, 1)
    rig.close()
    for node in (1, 2, 3):
        rig.start(node)
    assert not bad(rig)


def test_an_operator_says_whose_image_is_right(rig: Rig) -> None:
    """All three differ; two are given the word, the third leads and sends its image."""
    to_before_a_digest(rig)
    advance(rig, 1)
    change(rig, 2, by=-1)
    change(rig, 3, by=-2)
    read(rig, 1)
    assert not bad(rig)
    for node in (2, 3):
        rig.flush(node)
        rig.crash(node)
        trust(rig.root / f"node-{node}", NodeId(1), NodeId(node))
    for node in (2, 3):
        rig.start(node)
        rig.connect(node)
    assert bad(rig) == {2, 3}
    rig.settle()
    assert isinstance(advance(rig, 1).all[0], producer_ids.ProducerIdBlock), "they acknowledge meanwhile"
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)


def test_the_operators_word_is_of_one_node_only(rig: Rig) -> None:
    """Also when another node leads, and has a majority."""
    rig.flush(3)
    rig.crash(3)
    trust(rig.root / "node-3", NodeId(2), NodeId(3))
    rig.start(3)
    rig.connect(3)
    advance(rig, 1, 2 * EVERY)
    heal(rig)
    assert bad(rig) == {3}
    rig.wait(1.0)
    rig.elect(2)
    heal(rig)
    assert not bad(rig)
    assert same_images(rig)


def test_an_operator_trusts_a_nodes_own_image(rig: Rig) -> None:
    differ(rig, 3)
    rig.crash(3)
    trust(rig.root / "node-3", NodeId(3), NodeId(3))
    rig.start(3)
    assert not bad(rig)


def test_earlier_versions_say_nothing_and_ignore_what_is_said() -> None:
    class OldAck(msgspec.Struct, frozen=True, array_like=True, tag=3):
        term: int
        next_index: int
        reset: bool
        success: bool

    class OldEntries(msgspec.Struct, frozen=True, array_like=True, tag=1):
        term: int
        commit_index: int
        prev_index: int
        prev_term: int
        entries: list[tuple[bytes, int, int]]

    digest = b"d" * 16
    ack = Ack(1, 2, False, True, (64, digest), 9, 5, [(32, digest)])
    entries = AppendEntries(1, 1, 1, 0, [], [(1, 64, digest)])
    old = msgspec.msgpack.Decoder(OldAck | OldEntries).decode
    assert old(encode(ack)) == OldAck(1, 2, False, True)
    assert old(encode(entries)) == OldEntries(1, 1, 1, 0, [])
    assert decode(encode(OldAck(1, 2, False, True))) == Ack(1, 2, False, True)
    assert decode(encode(OldEntries(1, 1, 1, 0, []))) == AppendEntries(1, 1, 1, 0, [])
    assert (decode(encode(ack)), decode(encode(entries))) == (ack, entries)


def test_a_wiped_voters_reports_are_forgotten(rig: Rig) -> None:
    advance(rig, 1, EVERY)
    assert rig[1].watch._reports.last(NodeId(2)) is not None
    rig.crash(2)
    rig.wipe(2, 77)
    rig.met(1, NodeId(2), uuid.UUID(int=77), {}, 0)
    assert rig[1].watch._reports.last(NodeId(2)) is None


def covered_up(rig: Rig, node: int, late: int, by: int) -> None:
    """The image of a node differs at one version with a digest, and no more at the next one.

    Node ``late`` applies all entries in one turn, the other two each as it comes.
    """
    among = tuple({1, 2, 3} - {late})
    to_before_a_digest(rig)
    advance(rig, 1)
    change(rig, node, by=by)
    read(rig, 1, *among)
    assert version_of(rig, 1) % EVERY == 0
    advance(rig, 1, EVERY, among=among)
    rig.deliver(1, late)
    assert version_of(rig, late) == version_of(rig, 1), "both digests, and no ack in between"
    assert not bad(rig)
    assert same_images(rig)


def test_a_divergence_that_a_later_entry_covers_up_is_found(rig: Rig) -> None:
    covered_up(rig, 1, late=3, by=1000)
    rig.settle()
    assert bad(rig) == {1}


def test_a_report_that_was_lost_with_its_connection_comes_again(rig: Rig) -> None:
    covered_up(rig, 1, late=3, by=1000)
    rig.heartbeat(1)
    rig.deliver(1, 3)
    rig.disconnect(3)
    rig.connect(3)
    rig.settle()
    assert bad(rig) == {1}


def test_the_leader_passes_on_all_that_a_follower_reported(rig: Rig) -> None:
    covered_up(rig, 3, late=2, by=-1000)
    rig.settle()
    assert bad(rig) == {3}


def test_reports_in_one_message_are_bounded(rig: Rig) -> None:
    """Two processes that speak for the first time."""
    last = 1_000 + REPORTS_MAX + 8
    for version in range(1_000, last + 1):
        rig[1].watch._heard_of(NodeId(1), version, b"d" * 16)
        rig[3].watch._heard_of(NodeId(3), version, b"d" * 16)
    rig.disconnect(3)
    rig.connect(3)
    rig.heartbeat(1)
    reports = rig.take(1, 3, AppendEntries).reports
    assert len(reports) == REPORTS_MAX
    assert (1, last, b"d" * 16) in reports
    for version in (last + 1, last + 2):
        rig[1].watch._heard_of(NodeId(1), version, b"d" * 16)
    rig.heartbeat(1)
    assert [v for node, v, _ in rig.take(1, 3, AppendEntries).reports if node == 1] == [last + 1, last + 2]
    rig.heartbeat(1)
    rig.deliver(1, 3)
    ack = rig.take(3, 1, Ack)
    assert ack.report == (last, b"d" * 16)
    assert [version for version, _ in ack.earlier] == list(range(last - EARLIER_MAX, last))
    rig.heartbeat(1)
    rig.deliver(1, 3)
    assert not rig.take(3, 1, Ack).earlier, "each is said once"
