"""The Raft journal: log, term, vote and commit index in the node's LMDB environment.

pysyncobj expects a list of (command, index, term) that it may cut at both ends. This one is
fail-stop: it refuses a gap, and a cut at or below the commit index, by raising InvariantViolation,
which halts the node. What it writes is durable after ``Store.flush``; the driver flushes before a
vote or an ack leaves and before the tick that counts this node's own entries (docs/design.md 4).

How pysyncobj bites here (docs/raft-hazards.md)
H1   it cuts matching, committed entries when a duplicate arrives: the firewall strips those, and a
     cut that reaches the commit index stops here.
H7   its own compaction clears the journal when a dump is newer: it is switched off, ``compact`` is ours.
H9   nothing of it is synced: everything here is, through the store.
H10  a restored commit index may pass the log's end: it is clamped when read.
L8   it copies the whole tail for every message: slices are capped at ``SLICE_MAX``.
"""

from collections.abc import Callable
from typing import Final, overload

import msgspec
from pysyncobj.journal import Journal as PysyncobjJournal

from fencepost.records.invariant import invariant
from fencepost.records.types import LogIndex, Term
from fencepost.snapshots.reader import JOURNAL_KEY, JOURNAL_TERM
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import (
    BALLOT,
    StoreDamaged,
    ballot,
    ballot_copy,
    encode_ballot,
    entry_sum,
    is_always_sealed,
)

NO_OP: Final = b"\x01"  # pysyncobj's _COMMAND_TYPE.NO_OP
REGULAR: Final = b"\x00"
SLICE_MAX: Final = 512  # entries a slice returns; callers ask again
READ_TOGETHER: Final = 1_000  # entries, of a start: a few milliseconds
COMPACTED_MAX: Final = 2_000  # entries forgotten at once: a few milliseconds

JournalEntry = tuple[bytes, LogIndex, Term]  # command, index, term: pysyncobj's order


class Journal(PysyncobjJournal):  # type: ignore[misc]
    """Entries ``first_index`` .. ``last_index``; the first is a sentinel that only gives its term."""

    def __init__(self, store: Store, progress: Callable[[int], None] = lambda _entries: None) -> None:
        """``progress`` gets how many entries are read, every READ_TOGETHER of them."""
        self._store = store
        self._entries: list[JournalEntry] = []
        self.last_index = LogIndex(0)
        """Index of the last entry. An attribute: the Raft core reads it some twenty times for each entry."""
        self._load(progress)
        self._term, self._voted_for = self._ballot()
        commit_index = self._meta("raft.commit")
        saved = min(1 if commit_index is None else commit_index, self.last_index)
        self._commit_index: int = max(saved, self.first_index)  # the sentinel is in the image
        self._commit_written = self._commit_index
        self.must_flush = False  # log, term or vote moved since the last flush

    def _meta(self, name: str) -> int | None:
        raw = self._store.meta_get(name)
        return None if raw is None else msgspec.msgpack.decode(raw, type=int | None)

    def _ballot(self) -> tuple[int, int | None]:
        """Term and vote, as they were stored: they are there twice (snapshots/sums.py)."""
        kept = self._store.meta_get(BALLOT)
        try:
            term, vote = self._meta("raft.term") or 0, self._meta("raft.vote")
        except msgspec.DecodeError:
            term, vote = -1, None
        found = ballot(kept, term, vote)
        if found[0] < 0:
            raise StoreDamaged("term and vote cannot be read")
        copy = ballot_copy(kept)
        if copy is None:
            self._require_ballot()
        if kept is None or copy != (term, vote):
            self._put_ballot(*found)
        if kept is not None and copy is None:
            self._store.mended.append(BALLOT)
        elif kept is not None and copy != (term, vote):
            by_earlier = found == (term, vote) and not is_always_sealed(self._store.image)
            self._store.mended += () if by_earlier else ("raft.term, raft.vote",)
        return found

    def _require_ballot(self) -> None:
        """Term and vote, of which no copy is left, are there: what they were is forgotten else.

        Every version writes both together; earlier ones none where a snapshot was restored. Raises
        StoreDamaged.
        """
        there = [name for name in ("raft.term", "raft.vote") if self._store.meta_get(name) is not None]
        were_written = self._entries[-1][2] > 0 and is_always_sealed(self._store.image)
        if len(there) == 1 or (not there and were_written):
            raise StoreDamaged("term or vote is gone, and so is the copy of them")

    def _put_ballot(self, term: int, vote: int | None) -> None:
        self._store.meta_put("raft.term", msgspec.msgpack.encode(term))
        self._store.meta_put("raft.vote", msgspec.msgpack.encode(vote))
        self._store.meta_put(BALLOT, encode_ballot(term, vote))

    def _load(self, progress: Callable[[int], None]) -> None:
        """Raises StoreDamaged."""
        txn, sums = self._store.txn, self._store.sums_db
        if not self._store.sums_hold:
            txn.drop(sums, delete=False)
        bytes_kept, unknown = 0, []
        for raw_key, raw_value in txn.cursor(db=self._store.journal_db):
            key, value = bytes(raw_key), bytes(raw_value)
            summed, known = entry_sum(key, value), txn.get(key, db=sums)
            if len(key) != JOURNAL_KEY.size or len(value) < JOURNAL_TERM.size or known not in (None, summed):
                raise StoreDamaged(f"the checksum of the journal's entry {key.hex()} is wrong")
            if known is None:
                unknown.append((key, summed))
            (term,), (index,) = JOURNAL_TERM.unpack_from(value), JOURNAL_KEY.unpack(key)
            command = value[JOURNAL_TERM.size :]
            if self._entries and index != self._entries[-1][1] + 1:
                raise StoreDamaged(f"the journal has no entry {self._entries[-1][1] + 1}, but {index}")
            self._entries.append((command, index, term))
            bytes_kept += len(command)
            if len(self._entries) % READ_TOGETHER == 0:
                progress(len(self._entries))
        summed_entries = len(self._entries) - len(unknown)
        first_unknown = JOURNAL_KEY.pack(self._entries[summed_entries][1]) if unknown else b""
        if txn.stat(sums)["entries"] != summed_entries or (unknown and unknown[0][0] != first_unknown):
            last = self._entries[-1][1] if self._entries else 0
            raise StoreDamaged(f"the journal ends with entry {last}, and its checksums are of others, too")
        for key, summed in unknown:  # an earlier version appended them
            txn.put(key, summed, db=sums)
        self._store.dirty = self._store.dirty or bool(unknown)
        self.bytes = bytes_kept
        if not self._entries:
            self.reset(LogIndex(1), Term(0))
        self.last_index = self._entries[-1][1]

    # -- what Raft reads ------------------------------------------------------------------------

    @property
    def first_index(self) -> LogIndex:
        """Index of the sentinel: everything at or below it is in the image."""
        return self._entries[0][1]

    def term_at(self, index: int) -> Term | None:
        """The term of an entry that is in the journal, else None."""
        position = index - self._entries[0][1]
        if not 0 <= position < len(self._entries):
            return None
        return self._entries[position][2]

    def entry_at(self, index: int) -> JournalEntry | None:
        """The entry at ``index``, or None if it is not in the journal."""
        position = index - self._entries[0][1]
        return self._entries[position] if 0 <= position < len(self._entries) else None

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> JournalEntry: ...

    @overload
    def __getitem__(self, at: "slice[int | None, int | None]") -> list[JournalEntry]: ...

    def __getitem__(self, at: "int | slice[int | None, int | None]") -> JournalEntry | list[JournalEntry]:
        if not isinstance(at, slice):
            return self._entries[at]
        start, stop, _ = at.indices(len(self._entries))
        return self._entries[start : min(stop, start + SLICE_MAX)]

    # -- what Raft writes -----------------------------------------------------------------------

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append one entry. Halts on a gap or a term that goes back."""
        _, last_index, last_term = self._entries[-1]
        if idx != last_index + 1:
            invariant(False, "a gap in the journal", last=last_index, added=idx)
        if term < last_term:
            invariant(False, "a term went back in the journal", last=last_term, added=term)
        self._entries.append((command, LogIndex(idx), Term(term)))
        self.last_index = LogIndex(idx)
        self.bytes += len(command)
        self._put(command, idx, term)

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803 - pysyncobj's name
        """Cut the tail at list position ``entryFrom``. Halts if a committed entry would go."""
        index = self._entries[0][1] + entryFrom
        invariant(index > self._commit_index, "a committed entry cut", cut=index, commit=self._commit_index)
        for command, cut_index, _ in self._entries[entryFrom:]:
            self._delete(cut_index)
            self.bytes -= len(command)
        del self._entries[entryFrom:]
        self.last_index = self._entries[-1][1]
        self._store.dirty = self.must_flush = True

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """pysyncobj's own compaction: switched off, so a call is our bug."""
        invariant(False, "pysyncobj compacted the journal", position=entryTo)

    def clear(self) -> None:
        """pysyncobj's dump loading: switched off, so a call is our bug."""
        invariant(False, "pysyncobj cleared the journal")

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Remember the commit index. It goes to disk with the image (``save_commit_index``)."""
        if raftCommitIndex < self._commit_index:
            invariant(False, "the commit index went back", was=self._commit_index, now=raftCommitIndex)
        self._commit_index = min(raftCommitIndex, self._entries[-1][1])

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        """The commit index, never past the log's end."""
        return int(self._commit_index)

    def setCurrentTerm(self, term: int, votedForNodeId: int | None) -> None:  # noqa: N802, N803
        """Remember term and vote; durable before any message that reflects them leaves."""
        invariant(term >= self._term, "the term went back", was=self._term, now=term)
        if term == self._term and self._voted_for is not None:
            invariant(votedForNodeId == self._voted_for, "two votes in one term", term=term)
        if (term, votedForNodeId) == (self._term, self._voted_for):
            return
        self._term, self._voted_for = term, votedForNodeId
        self._put_ballot(term, votedForNodeId)
        self.must_flush = True

    def getCurrentTerm(self) -> int:  # noqa: N802
        """The term that is stored in the journal."""
        return int(self._term)

    def getVotedForNodeId(self) -> int | None:  # noqa: N802
        """Whom this node voted for in the current term."""
        return self._voted_for

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Do nothing: the driver flushes."""

    def _destroy(self) -> None:
        """Nothing: the store is closed by its owner."""

    def flush(self) -> bool:
        """Make log, term and vote durable. Returns False if nothing was new."""
        self.must_flush = False
        return self._store.commit()

    def save_commit_index(self) -> None:
        """Put the commit index into the open transaction: a restart then applies without asking around."""
        if self._commit_index != self._commit_written:
            self._store.meta_put("raft.commit", msgspec.msgpack.encode(self._commit_index))
            self._commit_written = self._commit_index

    # -- ours -----------------------------------------------------------------------------------

    def compact(self, to_index: LogIndex) -> int:
        """Forget entries below ``to_index``, which becomes the sentinel. Returns how many went.

        At most ``COMPACTED_MAX`` a call, so that the loop is not held up: call until it returns 0.
        The caller made sure that image and archive hold them; here only: never past the commit index.
        """
        invariant(to_index <= self._commit_index, "compaction past the commit index", to=to_index)
        count = min(to_index - self._entries[0][1], COMPACTED_MAX)
        if count <= 0:
            return 0
        for command, index, _ in self._entries[:count]:
            self._delete(index)
            self.bytes -= len(command)
        del self._entries[:count]
        self._store.dirty = True
        return count

    def reset(self, index: LogIndex, term: Term) -> None:
        """Start at a snapshot's (index, term); keep the suffix if that entry is already here."""
        if self.term_at(index) == term if self._entries else False:
            self._commit_index = max(self._commit_index, index)
            while self.compact(index):
                pass
            return
        first = self.first_index if self._entries else index
        invariant(index >= first, "a snapshot older than the journal", snapshot=index, first=first)
        for _, old_index, _ in self._entries:
            self._delete(old_index)
        self._entries = [(NO_OP, index, term)]
        self.last_index = index
        self.bytes = len(NO_OP)
        self._put(NO_OP, index, term)
        self._commit_index = index

    def _delete(self, index: int) -> None:
        key = JOURNAL_KEY.pack(index)
        self._store.txn.delete(key, db=self._store.journal_db)
        self._store.txn.delete(key, db=self._store.sums_db)

    def _put(self, command: bytes, index: int, term: int) -> None:
        # Appending is what a journal does: LMDB then fills its pages instead of splitting them.
        key, value = JOURNAL_KEY.pack(index), JOURNAL_TERM.pack(term) + command
        put = self._store.txn.put(key, value, append=True, db=self._store.journal_db)
        if not put:
            invariant(False, "the journal on disk ends after the entry to append", index=index)
        self._store.txn.put(key, entry_sum(key, value), append=True, db=self._store.sums_db)
        self._store.dirty = self.must_flush = True
