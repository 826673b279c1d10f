"""Apply: the fence on (base version, controller epoch), and that replay is the same everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller import producer_ids
from fencepost.controller.replay import REPLAY, Applied, Superseded, apply, replay_record
from fencepost.controller.view import EmptyView, ImageHeader, Overlay
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.control import CONTROL_RECORDS, LeaderChange, encode_control
from fencepost.records.entry import Entry, decode_records
from fencepost.records.frame import encode_frame
from fencepost.records.invariant import InvariantViolation
from fencepost.records.schema import (
    METADATA_RECORDS,
    AllocateProducerIdsRecord,
    MetadataRecord,
    NoOpRecord,
    RegisterBrokerRecord,
)
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import ImageVersion, Log, NodeId, ProposalNumber, Term
from tests.controller.worlds import Step, allocated, histories, image, live_through, registered, rows
from tests.together import table


def entry(*records: MetadataRecord, base: int, epoch: int, proposer: int = 1, proposal: int = 1) -> Entry:
    """An entry with these records, or a barrier."""
    batches: tuple[tuple[Log, bytes], ...] = ()
    if records:
        frames = [BatchRecord(None, encode_frame(record)) for record in records]
        batches = ((Log.METADATA, encode_batch(frames, timestamp_ms=0)),)
    return Entry(ImageVersion(base), Term(epoch), NodeId(proposer), ProposalNumber(proposal), batches)


def leader_change(epoch: int, leader: int, base: int = 0) -> Entry:
    """A LeaderChange; its base version does not matter."""
    record = encode_control(LeaderChange(leader_id=NodeId(leader)))
    batch = encode_batch([BatchRecord(*record)], timestamp_ms=0, control=True)
    return Entry(ImageVersion(base), Term(epoch), NodeId(leader), ProposalNumber(1), ((Log.METADATA, batch),))


def applied(view: Overlay, one: Entry) -> bool:
    """Apply it; whether it took effect."""
    return isinstance(apply(view, one, decode_records(one)), Applied)


def at(version: int, epoch: int) -> Overlay:
    """An image at a version, led in an epoch, with broker 1."""
    view = image(registered(1, 100))
    view.header = ImageHeader(ImageVersion(version), Term(epoch), NodeId(1), (10, 0, 0))
    return view


FENCE = [
    pytest.param(entry(allocated(1000), base=5, epoch=2), True, id="same-version-same-epoch"),
    pytest.param(entry(base=5, epoch=2), True, id="a-barrier"),
    pytest.param(entry(allocated(1000), base=4, epoch=2), False, id="an-older-version"),
    pytest.param(entry(allocated(1000), base=6, epoch=2), False, id="a-version-of-the-future"),
    pytest.param(entry(allocated(1000), base=5, epoch=1), False, id="an-older-epoch"),
    pytest.param(entry(allocated(1000), base=5, epoch=3), False, id="an-epoch-without-its-leader-change"),
    pytest.param(leader_change(3, 2, base=0), True, id="a-leader-change-of-a-higher-epoch-at-any-version"),
    pytest.param(leader_change(9, 2, base=77), True, id="a-leader-change-that-skips-epochs"),
    pytest.param(leader_change(2, 2, base=5), False, id="a-leader-change-of-the-same-epoch"),
    pytest.param(leader_change(1, 2, base=5), False, id="a-leader-change-of-an-older-epoch"),
]


@table(("one", "takes_effect"), FENCE)
def test_fence(one: Entry, takes_effect: bool) -> None:
    view = at(5, 2)
    before, rows_before = view.header, rows(view)
    outcome = apply(view, one, decode_records(one))
    if takes_effect:
        assert outcome == Applied(before, ImageVersion(6))
        assert view.header.controller_epoch == one.controller_epoch
        assert view.header.log_end(Log.METADATA) == 10 + len(one.batches)
    else:
        assert outcome == Superseded(ImageVersion(5))
        assert (view.header, rows(view)) == (before, rows_before)


def test_of_two_decisions_on_one_version_one_applies() -> None:
    """I5. Both gave out [0, 1000); the second changes nothing, and its proposer answers no client with it."""
    view = at(5, 2)
    first = entry(allocated(1000), base=5, epoch=2, proposal=1)
    second = entry(allocated(1500), base=5, epoch=2, proposal=2)
    assert [applied(view, first), applied(view, second)] == [True, False]
    assert producer_ids.latest(view).end == 1000


def test_an_entry_of_a_deposed_leader_is_superseded() -> None:
    """The versions agree; only the epoch tells that another leader took over in between.

    Node 1 decided at version 5 in epoch 2. Node 2 becomes leader; its LeaderChange makes version 6, and node
    1's image, were it to be asked, would decide at 6 too. An entry of epoch 2 at version 6 must not count.
    """
    view = at(5, 2)
    assert applied(view, leader_change(3, leader=2))
    assert view.header.version == 6
    assert not applied(view, entry(allocated(1000), base=6, epoch=2))
    assert applied(view, entry(allocated(2000), base=6, epoch=3, proposer=2))


def test_the_same_entry_twice_applies_once() -> None:
    """After a restart the tail of the log is applied again: a version is never reused."""
    view = at(5, 2)
    one = entry(allocated(1000), base=5, epoch=2)
    assert [applied(view, one), applied(view, one), applied(view, one)] == [True, False, False]


def test_a_leader_change_names_the_leader() -> None:
    view = at(5, 2)
    applied(view, leader_change(3, leader=9))
    assert (view.header.leader_id, view.header.controller_epoch) == (9, 3)
    applied(view, entry(base=6, epoch=3, proposer=9))
    assert view.header.leader_id == 9


def test_offsets_are_counted_for_each_log() -> None:
    view = at(5, 2)
    applied(view, entry(allocated(1), allocated(2), NoOpRecord(), base=5, epoch=2))
    assert view.header.log_ends == (13, 0, 0)


def test_a_replayed_overlay_is_only_fenced() -> None:
    """The leader decided on this very overlay: its records are in it already."""
    one = entry(allocated(1000), base=5, epoch=2)
    decided = at(5, 2)
    producer_ids.replay(decided, allocated(1000))
    plain = at(5, 2)
    assert apply(decided, one, decode_records(one), replayed=True) == apply(plain, one, decode_records(one))
    assert (decided.header, rows(decided)) == (plain.header, rows(plain))


def test_every_record_has_a_replay() -> None:
    transactions = {TransactionStateRecord, TransactionForgotten}
    assert set(REPLAY) == {*METADATA_RECORDS.values(), *CONTROL_RECORDS.values(), *transactions}


def test_a_record_that_nobody_replays_is_our_bug() -> None:
    with pytest.raises(InvariantViolation, match="no replay for object"):
        replay_record(image(), object())


# -- laws --------------------------------------------------------------------------------------------------


@given(histories, st.lists(st.booleans(), min_size=30, max_size=30))
def test_replay_is_deterministic_wherever_a_restart_falls(history: list[Step], restarts: list[bool]) -> None:
    """Replayed on another node that saves and loads in between: the same image."""
    leader = image(log_end=3)
    written = live_through(leader, history)
    follower = Overlay(EmptyView())
    for record, restart in zip(written, restarts * 4, strict=False):
        replay_record(follower, record)
        if restart:
            saved, follower = follower, Overlay(EmptyView())
            saved.write_to(follower)
    assert rows(follower) == rows(leader)


@given(histories)
def test_what_decide_decides_replay_accepts(history: list[Step]) -> None:
    """A committed record always applies: nothing that a decision wrote halts a node."""
    live_through(image(), history)


@given(histories)
def test_no_id_is_handed_out_twice_in_any_history(history: list[Step]) -> None:
    """I1: the ends only grow, so the blocks between them are disjoint."""
    written = live_through(image(), history)
    ends = [r.producer_id_end for r in written if isinstance(r, AllocateProducerIdsRecord)]
    assert ends == sorted(set(ends))


@given(histories)
def test_epochs_of_registrations_are_offsets_and_never_repeat(history: list[Step]) -> None:
    written = live_through(image(), history)
    epochs = [(n, r.broker_epoch) for n, r in enumerate(written) if isinstance(r, RegisterBrokerRecord)]
    assert all(offset == epoch for offset, epoch in epochs)


def test_a_control_batch_of_a_later_version_changes_no_leader() -> None:
    """It is fenced as any other: this version knows none of its records."""
    batch = encode_batch([BatchRecord(b"\0\0\0\x63", b"")], timestamp_ms=0, control=True)
    for base, outcome in ((0, Applied), (5, Superseded)):
        later = Entry(ImageVersion(base), Term(0), NodeId(2), ProposalNumber(1), ((Log.METADATA, batch),))
        view = Overlay(EmptyView())
        assert isinstance(apply(view, later, decode_records(later)), outcome)
        assert view.header.leader_id == -1
