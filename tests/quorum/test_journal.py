"""The journal: what it refuses, what it keeps through a crash, and what a start makes of it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.levels import LOG_LEVEL
from fencepost.quorum.journal import NO_OP, SLICE_MAX, Journal
from fencepost.records.invariant import InvariantViolation
from fencepost.records.levels import SEALED_IMAGES
from fencepost.records.types import LogIndex, Term
from fencepost.snapshots.reader import JOURNAL_KEY
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import BALLOT, StoreDamaged
from tests.examples import examples


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store", sync=False)
    yield opened
    opened.abandon()


def filled(store: Store, last: int, commit: int = 1) -> Journal:
    """Entries 2..last of term 1 behind the sentinel, committed up to ``commit``."""
    journal = Journal(store)
    for index in range(2, last + 1):
        journal.add(b"\0" + str(index).encode(), index, 1)
    journal.setRaftCommitIndex(commit)
    return journal


def contents(journal: Journal) -> list[tuple[bytes, int, int]]:
    return list(journal)


# -- what it refuses -----------------------------------------------------------------------------------------

REFUSED = [
    pytest.param(lambda j: j.add(b"\0", 7, 1), "a gap", id="a-gap"),
    pytest.param(lambda j: j.add(b"\0", 5, 1), "a gap", id="an-index-twice"),
    pytest.param(lambda j: j.add(b"\0", 6, 0), "a term went back", id="an-older-term"),
    pytest.param(lambda j: j.deleteEntriesFrom(2), "a committed entry cut", id="cut-at-the-commit-index"),
    pytest.param(lambda j: j.deleteEntriesFrom(0), "a committed entry cut", id="cut-of-everything"),
    pytest.param(lambda j: j.setRaftCommitIndex(2), "the commit index went back", id="commit-index-back"),
    pytest.param(lambda j: j.compact(4), "compaction past the commit index", id="compaction-too-far"),
    pytest.param(lambda j: j.deleteEntriesTo(1), "pysyncobj compacted", id="pysyncobj-compacts"),
    pytest.param(lambda j: j.clear(), "pysyncobj cleared", id="pysyncobj-clears"),
]


@pytest.mark.parametrize(("act", "claim"), REFUSED)
def test_what_must_not_happen_halts(store: Store, act: object, claim: str) -> None:
    journal = filled(store, 5, commit=3)
    with pytest.raises(InvariantViolation, match=claim):
        act(journal)  # type: ignore[operator]


def test_an_entry_that_is_only_on_disk_is_not_written_over(store: Store) -> None:
    journal = filled(store, 5)
    store.txn.put(JOURNAL_KEY.pack(9), b"of another journal", db=store.journal_db)
    with pytest.raises(InvariantViolation, match="the journal on disk ends after the entry to append"):
        journal.add(b"\0", 6, 1)


def test_a_cut_just_above_the_commit_index_is_allowed(store: Store) -> None:
    journal = filled(store, 5, commit=3)
    journal.deleteEntriesFrom(3)
    assert (journal.first_index, journal.last_index) == (1, 3)


VOTES = [
    pytest.param(5, 2, 5, 3, "two votes in one term", id="another-candidate"),
    pytest.param(5, 2, 5, None, "two votes in one term", id="a-vote-forgotten"),
    pytest.param(5, 2, 4, None, "the term went back", id="an-older-term"),
]


@pytest.mark.parametrize(("term", "vote", "next_term", "next_vote", "claim"), VOTES)
def test_a_vote_is_kept(
    store: Store, term: int, vote: int, next_term: int, next_vote: int | None, claim: str
) -> None:
    journal = Journal(store)
    journal.setCurrentTerm(term, vote)
    with pytest.raises(InvariantViolation, match=claim):
        journal.setCurrentTerm(next_term, next_vote)


def test_a_vote_may_follow_in_a_term_that_has_none_and_in_a_later_term(store: Store) -> None:
    journal = Journal(store)
    journal.setCurrentTerm(5, None)
    journal.setCurrentTerm(5, 2)
    journal.setCurrentTerm(5, 2)
    journal.setCurrentTerm(6, None)
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId()) == (6, None)


# -- what a crash leaves -------------------------------------------------------------------------------------


def reopened(store: Store) -> tuple[Store, Journal]:
    """As after a crash: what was not flushed is gone."""
    path = Path(store.env.path())
    store.abandon()
    again = Store.open(path, sync=False)
    return again, Journal(again)


def test_what_was_flushed_survives_and_what_was_not_does_not(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    journal = filled(store, 4, commit=3)
    journal.setCurrentTerm(2, 1)
    journal.save_commit_index()
    assert [journal.must_flush, journal.flush(), journal.must_flush] == [True, True, False]
    journal.add(b"\0lost", 5, 2)
    journal.setCurrentTerm(3, 2)
    store, journal = reopened(store)
    assert journal.last_index == 4
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.getRaftCommitIndex()) == (2, 1, 3)
    store.abandon()


def test_nothing_is_flushed_twice(store: Store) -> None:
    journal = filled(store, 4)
    assert journal.flush()
    assert not journal.flush()


def test_a_commit_index_alone_waits_for_a_flush_that_has_another_reason(store: Store) -> None:
    journal = filled(store, 4)
    journal.flush()
    journal.setRaftCommitIndex(4)
    assert not journal.must_flush


def test_h10_a_commit_index_beyond_the_log_is_cut_back_to_it(tmp_path: Path) -> None:
    """As leader the node would apply, and answer, what no follower ever acknowledged."""
    store = Store.open(tmp_path / "store", sync=False)
    filled(store, 5)
    store.meta_put("raft.commit", msgspec.msgpack.encode(50))
    store.flush()
    store, journal = reopened(store)
    assert (journal.getRaftCommitIndex(), journal.last_index) == (5, 5)
    store.abandon()


def test_a_commit_index_is_never_set_beyond_the_log(store: Store) -> None:
    journal = filled(store, 5)
    journal.setRaftCommitIndex(50)
    assert journal.getRaftCommitIndex() == 5


def test_a_gap_on_disk_halts_the_start(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    filled(store, 5).flush()
    store.txn.delete((3).to_bytes(8, "big"), db=store.journal_db)
    store.dirty = True
    store.flush()
    with pytest.raises(StoreDamaged, match="the journal has no entry 3, but 4"):
        reopened(store)


# -- what it gives -------------------------------------------------------------------------------------------


def test_a_new_journal_has_a_sentinel(store: Store) -> None:
    journal = Journal(store)
    assert contents(journal) == [(NO_OP, 1, 0)]
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.getRaftCommitIndex()) == (
        0,
        None,
        1,
    )


def test_entries_and_terms_are_found_by_index(store: Store) -> None:
    journal = filled(store, 5, commit=4)
    journal.compact(LogIndex(3))
    assert [journal.term_at(i) for i in (2, 3, 5, 6)] == [None, 1, 1, None]
    assert journal.entry_at(4) == (b"\x004", 4, 1)
    assert (journal.entry_at(2), journal.entry_at(6)) == (None, None)


def test_a_slice_is_bounded(store: Store) -> None:
    """pysyncobj copies the whole tail for every message (L8)."""
    journal = filled(store, SLICE_MAX + 10)
    assert len(journal[2:]) == SLICE_MAX
    assert journal[2:][0][1] == 3
    assert len(journal[-1:]) == 1


def test_a_term_that_neither_of_its_places_has_is_damage(store: Store) -> None:
    Journal(store)
    for name in ("raft.term", BALLOT):
        store.meta_put(name, b"\xc1")
    with pytest.raises(StoreDamaged, match="term and vote cannot be read"):
        Journal(store)


@pytest.mark.parametrize("gone", [("raft.vote",), ("raft.term",), ("raft.term", "raft.vote")], ids=" ".join)
@pytest.mark.parametrize("copy", [None, b"\xc1"], ids=["no-copy", "broken-copy"])
def test_a_vote_that_is_gone_with_its_copy_is_a_lost_store(
    store: Store, gone: tuple[str, ...], copy: bytes | None
) -> None:
    """What this node may have voted in that term is forgotten. With its copy it is put right."""
    store.image.put(FEATURES, LOG_LEVEL, FeatureLevel(SEALED_IMAGES))
    journal = filled(store, 3)
    journal.setCurrentTerm(1, 2)
    for name in gone:
        store.meta_delete(name)
    assert Journal(store).getVotedForNodeId() == 2
    for name in gone:
        store.meta_delete(name)
    store.meta_delete(BALLOT)
    if copy is not None:
        store.meta_put(BALLOT, copy)
    with pytest.raises(StoreDamaged, match="term or vote is gone, and so is the copy"):
        Journal(store)


def test_a_snapshot_that_an_earlier_version_restored_has_no_vote_yet(store: Store) -> None:
    Journal(store).reset(LogIndex(6), Term(3))
    for name in ("raft.term", "raft.vote", BALLOT):
        store.meta_delete(name)
    assert Journal(store).getVotedForNodeId() is None


@pytest.mark.parametrize(
    ("key", "value"), [(JOURNAL_KEY.pack(3) + b"x", bytes(9)), (JOURNAL_KEY.pack(4), b"x")]
)
def test_an_entry_of_another_shape_is_damage_also_without_a_checksum(
    store: Store, key: bytes, value: bytes
) -> None:
    filled(store, 3)
    store.txn.put(key, value, db=store.journal_db)
    with pytest.raises(StoreDamaged):
        Journal(store)


# -- compaction and snapshots --------------------------------------------------------------------------------


def test_compaction_forgets_what_lies_before(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    journal = filled(store, 9, commit=8)
    assert journal.compact(LogIndex(6)) == 5
    assert journal.compact(LogIndex(6)) == 0
    assert journal.compact(LogIndex(2)) == 0
    journal.flush()
    store, journal = reopened(store)
    assert [index for _, index, _ in journal] == [6, 7, 8, 9]
    store.abandon()


def test_what_it_forgets_is_gone_with_the_next_flush_also_where_nothing_else_is_new(store: Store) -> None:
    journal = filled(store, 9, commit=8)
    journal.flush()
    assert not journal.flush()
    journal.compact(LogIndex(6))
    assert journal.flush()


def test_its_bytes_shrink_with_what_it_forgets_and_cuts(tmp_path: Path) -> None:
    """They decide when a snapshot is due: bytes that only grow make one due for ever."""
    store = Store.open(tmp_path / "store", sync=False)
    journal = filled(store, 9, commit=6)
    journal.compact(LogIndex(4))
    journal.deleteEntriesFrom(4)
    assert [index for _, index, _ in journal] == [4, 5, 6, 7]
    assert journal.bytes == 4 * len(b"\0n")
    journal.reset(LogIndex(6), Term(1))
    journal.flush()
    store, again = reopened(store)
    assert again.bytes == journal.bytes == 2 * len(b"\0n")
    store.abandon()


def test_h8_a_kill_in_a_compaction_leaves_the_journal_of_the_last_flush(tmp_path: Path) -> None:
    """Whole: pysyncobj's own would clear it and add what is left, entry by entry."""
    store = Store.open(tmp_path / "store", sync=False)
    journal = filled(store, 9, commit=8)
    journal.flush()
    assert journal.compact(LogIndex(6)) == 5
    store, journal = reopened(store)
    assert [index for _, index, _ in journal] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    store.abandon()


def test_a_snapshot_keeps_the_suffix_that_it_agrees_with(store: Store) -> None:
    journal = filled(store, 9, commit=3)
    journal.reset(LogIndex(6), Term(1))
    assert [index for _, index, _ in journal] == [6, 7, 8, 9]
    assert journal.getRaftCommitIndex() == 6


def test_a_snapshot_drops_a_suffix_that_it_disagrees_with(store: Store) -> None:
    journal = filled(store, 9, commit=3)
    journal.reset(LogIndex(6), Term(2))
    assert contents(journal) == [(NO_OP, 6, 2)]
    assert journal.getRaftCommitIndex() == 6


def test_a_snapshot_beyond_the_log_replaces_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    journal = filled(store, 4, commit=3)
    journal.reset(LogIndex(40), Term(3))
    journal.add(b"\0next", 41, 3)
    journal.flush()
    store, journal = reopened(store)
    assert contents(journal) == [(NO_OP, 40, 3), (b"\0next", 41, 3)]
    store.abandon()


def test_a_snapshot_does_not_take_back_a_commit_index(store: Store) -> None:
    journal = filled(store, 9, commit=8)
    journal.reset(LogIndex(6), Term(1))
    assert journal.getRaftCommitIndex() == 8


# -- the law -------------------------------------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4)),
        st.tuples(st.just("cut"), st.integers(1, 5)),
        st.tuples(st.just("commit"), st.integers(0, 4)),
        st.tuples(st.just("compact"), st.integers(0, 4)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=examples(60))
@given(steps)
def test_the_journal_is_what_was_flushed_last(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """A list of entries is the model; a crash brings it back to the last flush, never in between."""
    store = Store.open(tmp_path_factory.mktemp("journal") / "store", sync=False)
    journal = Journal(store)
    journal.flush()
    model = durable = contents(journal)
    commit = durable_commit = 1
    for step, amount in steps:
        last = model[-1][1]
        if step == "add":
            for index in range(last + 1, last + 1 + amount):
                journal.add(b"\0" * amount, index, amount + model[-1][2])
                model = [*model, (b"\0" * amount, index, amount + model[-1][2])]
        elif step == "cut" and last - amount >= commit and last - amount >= model[0][1]:
            journal.deleteEntriesFrom(len(model) - amount)
            model = model[:-amount]
        elif step == "commit":
            commit = min(commit + amount, last)
            journal.setRaftCommitIndex(commit)
        elif step == "compact":
            to = max(model[0][1], commit - amount)
            journal.compact(LogIndex(to))
            model = [entry for entry in model if entry[1] >= to]
        elif step == "flush":
            journal.save_commit_index()
            if journal.flush():
                durable, durable_commit = model, commit
        elif step == "crash":
            store, journal = reopened(store)
            model, commit = durable, durable_commit
        assert contents(journal) == model
        assert journal.bytes == sum(len(command) for command, _, _ in model)
        assert journal.getRaftCommitIndex() == commit
    store.abandon()
