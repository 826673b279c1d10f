"""Where copies of one log differ: which of them is right, and what the others are found to be.

Must agree  below what is known to be committed, each from its own start on; one that ends lags.
Chosen      what most copies hold; in a tie the higher leader epoch, then the lower node. A row at or above
            its copy's own high watermark, of a lower leader epoch than another's, has no say.
Tail        rows of lower leader epochs up to the end of a copy, from its own high watermark on: an old
            leader's, cut as soon as it comes back. Below it an unclean election must have cut them: then they
            are a note, and what happened there is unknown.
One run     of batches that a copy has otherwise, or lacks, goes to the end of the log's last one among them:
            where another log's batches begin and end does not divide it.
Compacted   logs are cleaned by each broker for itself: batches of one offset are compared only where both
            have as many records, and some: an empty one has the time of the records that its broker took
            last. The one with the most records counts. A run goes on until the copy has a batch as the log
            has it: offsets that compaction took do not divide it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from fencepost.audit.walks.columns import (
    FINDING,
    FLAG_AFTER_UNREAD,
    FLAG_DISPLACED,
    FLAG_EPOCH_FILE,
    FLAG_OPAQUE,
    NOTE,
    UNKNOWN,
)
from fencepost.audit.walks.facts import METADATA, CopyFacts, LogFacts
from fencepost.audit.walks.found import Found, found

DELETE_HORIZON: Final = 0x40  # of the attributes: the log cleaner has been there


class Row(NamedTuple):
    """A batch of a copy; ``at`` is its row in the Arrow batch that it came in."""

    at: int
    copy: str
    node: int
    path: str
    position: int
    place: int
    last: int
    size: int
    crc: int
    epoch: int
    records: int
    attributes: int
    flags: int
    fault: str | None
    reason: str | None

    @property
    def variant(self) -> tuple[int, int, int, int]:
        """Two batches of one variant hold the same."""
        return (self.crc, self.size, self.last, self.epoch)


class _Run:
    """Neighbouring offsets at which a copy is not what the log is."""

    def __init__(self, row: Row | None, best: Row, first: int) -> None:
        self.row = row  # None: the copy has no batch at the first of them
        self.best = best
        self.first = first
        self.last = first
        self.batches = 0
        self.is_lack = True  # the copy has none of them
        self.is_older = True  # all of lower leader epochs than the log's
        self.epoch = -1

    def add(self, row: Row | None, best: Row, place: int) -> None:
        self.last = max(self.last, best.last, place if row is None else row.last)
        self.batches += 1
        self.is_lack &= row is None
        if row is None or row.epoch >= best.epoch:
            self.is_older = False
        else:
            self.epoch = max(self.epoch, row.epoch)


class Differing:
    """Decides where the copies of one log are not all the same; ``places`` come in their order."""

    def __init__(self, topic: str, partition: int, log: LogFacts, known_end: int) -> None:
        self._where: dict[str, Any] = {"topic": topic, "partition": partition}
        self._log = log
        self._known_end = known_end
        self._is_metadata = topic == METADATA
        self._runs: dict[str, _Run] = {}
        self._copy_ends: dict[str, int] = {}  # after each copy's last row, to tell a longer batch from a lack
        self._last: Row | None = None  # of the log
        self.found: list[Found] = []

    @property
    def _end(self) -> int:
        return 0 if self._last is None else self._last.last + 1

    def agree(self, row: Row) -> None:
        """All copies that have its place have the same batch there, and some have others within it."""
        if row.last >= self._end:
            self._last = row

    @property
    def is_open(self) -> bool:
        """Whether a copy was not what the log is, where it was last compared."""
        return bool(self._runs)

    def pass_over(self, copies: Iterable[str]) -> None:
        """These copies of a compacted log have batches of it between what was compared and what will be."""
        for copy in copies:
            if copy in self._runs:
                self._close(copy)

    def settle(self, place: int, rows: list[Row]) -> Iterator[tuple[int, int]]:
        """The rows of one place that are the log's: their indexes, each with flags to set on it."""
        opaque = [row for row in rows if row.flags & FLAG_OPAQUE]
        displaced = [row for row in rows if row.flags & FLAG_DISPLACED]
        placed = [row for row in rows if not row.flags & (FLAG_OPAQUE | FLAG_DISPLACED)]
        for row in opaque:
            self.found.append(self._faulty(row))
        for row in placed:
            self._close_explained(row)
        if placed and place >= self._end:
            best = self._best(placed)
            cut = self._compare(place, placed, best)
            self._last = best
            yield best.at, FLAG_AFTER_UNREAD if cut else 0
        elif placed and self._last is not None:
            self._overlapped(place, placed, self._last)
        elif opaque and place >= self._end:
            yield opaque[0].at, 0
        yield from self._displaced(displaced, placed, place)

    def close(self) -> None:
        """Nothing follows: what differs up to here is found."""
        for copy in list(self._runs):
            self._close(copy)

    def _covering(self, place: int) -> list[str]:
        return [name for name, copy in self._log.copies.items() if copy.first <= place < copy.end]

    def _best(self, placed: list[Row]) -> Row:
        newest = max(row.epoch for row in placed)
        voiced = [row for row in placed if not self._is_tail(row, newest)] or placed
        votes: dict[Any, int] = {}
        for row in voiced:
            votes[row.variant] = votes.get(row.variant, 0) + 1
        if self._log.is_compacted:
            return max(voiced, key=lambda row: (row.records, votes[row.variant], row.epoch, -row.node))
        if voiced[0].place >= self._known_end:
            return max(voiced, key=lambda row: (row.epoch, votes[row.variant], -row.node))
        return max(voiced, key=lambda row: (votes[row.variant], row.epoch, -row.node))

    def _is_tail(self, row: Row, newest: int) -> bool:
        own = self._log.copies[row.copy].high_watermark
        return not self._is_metadata and own is not None and row.place >= own and row.epoch < newest

    def _compare(self, place: int, placed: list[Row], best: Row) -> bool:
        """Add to the runs of the copies that differ; whether an election may have cut something here."""
        is_cut = False
        for row in placed:
            if row.variant != best.variant and self._must_equal(row, best):
                self._add(row.copy, row, best, place)
                own = self._log.copies[row.copy].high_watermark
                is_cut |= row.epoch < best.epoch and own is not None and place < own
        if self._log.is_compacted:
            self.pass_over([row.copy for row in placed if row.variant == best.variant])
        if not self._log.is_compacted:
            present = {row.copy for row in placed}
            for copy in self._covering(place):
                lacks = copy not in present and self._copy_ends.get(copy, 0) <= place
                if lacks and not self._named(copy, place):
                    self._add(copy, None, best, place)
        for row in placed:
            self._copy_ends[row.copy] = row.last + 1
        return is_cut

    def _must_equal(self, row: Row, best: Row) -> bool:
        if not self._log.is_compacted:
            return True
        is_cleaned = not row.records or (row.attributes | best.attributes) & DELETE_HORIZON
        return row.records == best.records and row.last == best.last and not is_cleaned

    def _named(self, copy: str, place: int) -> bool:
        return any(first <= place < end for first, end in self._log.copies[copy].holes)

    def _overlapped(self, place: int, placed: list[Row], longer: Row) -> None:
        """Rows of copies that differ, within a longer batch of the log."""
        for row in placed:
            if not self._log.is_compacted or row.copy in self._runs:
                self._add(row.copy, row, longer, place)
            self._copy_ends[row.copy] = row.last + 1

    def _add(self, copy: str, row: Row | None, best: Row, place: int) -> None:
        if place >= self._known_end:
            return
        run = self._runs.get(copy)
        if run is not None and place > run.last + 1 and not self._log.is_compacted:
            self._close(copy)
            run = None
        if run is None:
            run = self._runs[copy] = _Run(row, best, place)
        run.add(row, best, place)

    def _close_explained(self, row: Row) -> None:
        """What a copy lacks in front of this row was in bytes that cannot be read: they are the finding."""
        run = self._runs.get(row.copy)
        if run is not None and run.is_lack and row.flags & FLAG_AFTER_UNREAD:
            del self._runs[row.copy]

    def _close(self, copy: str) -> None:
        run, facts = self._runs.pop(copy), self._log.copies[copy]
        if run.is_older and run.last + 1 >= facts.end and self._closed_tail(run, facts):
            return
        best, row = run.best, run.row
        there = f"{best.path}:{best.position} (node {best.node}), {run.batches} batches in a run"
        said = (
            f"offset {run.first} is not in {copy}; it is in {there}"
            if row is None
            else f"offset {run.first}: {row.path}:{row.position} differs from {there}"
        )
        at = row or best
        self.found.append(
            found("replicas", "diverged", said, subject=f"offsets {run.first} to {run.last}",
                  node=facts.node, path=at.path, position=at.position, offset=run.first,
                  end_offset=run.last + 1, **self._where)
        )  # fmt: skip

    def _closed_tail(self, run: _Run, facts: CopyFacts) -> bool:
        own = 0 if self._is_metadata else facts.high_watermark
        row, end = run.row, min(run.last + 1, facts.end)
        if own is None or row is None:
            return False
        place = {"node": facts.node, "path": row.path, "position": row.position, "offset": run.first,
                 "end_offset": end, **self._where}  # fmt: skip
        subject = f"offsets {run.first} to {end - 1}"
        if run.first >= own:
            said = (
                f"an old leader's {run.batches} batches that no other copy took: it cuts them when it returns"
            )
            self.found.append(found("replicas", "tail", said, kind=NOTE, subject=subject, **place))
            return True
        unclean = self._log.unclean_between(run.epoch, run.best.epoch)
        is_unseen = self._log.is_unseen_between(run.epoch, run.best.epoch)
        if not unclean and self._log.knows_elections and not is_unseen:
            return False
        why = f"leader epoch {min(unclean)} was an unclean election" if unclean else "no metadata tells why"
        said = f"{run.batches} batches that were committed by this copy's word are not in the log: {why}"
        self.found.append(found("replicas", "unclean", said, kind=NOTE, subject=subject, **place))
        said = f"what was in the {end - run.first} offsets that an unclean election cut"
        self.found.append(found("replicas", "unclean", said, kind=UNKNOWN, subject=subject, **place))
        return True

    def _displaced(self, displaced: list[Row], placed: list[Row], place: int) -> Iterator[tuple[int, int]]:
        copies = max(len(self._covering(place)), len({row.copy for row in placed}), 1)
        votes: dict[Any, list[Row]] = {}
        for row in displaced:
            if self._log.is_compacted and not self._log.copies[row.copy].is_stopped:
                continue  # its segments were cleaned while they were copied
            votes.setdefault(row.variant, []).append(row)
        for same in votes.values():
            if len({row.copy for row in same}) * 2 > copies:
                of_one = [row for row in same if row.copy == same[0].copy]
                yield from ((row.at, 0) for row in of_one)
                continue
            for row in same:
                said = f"{row.path}:{row.position} has a batch that the other copies do not have"
                self.found.append(
                    found("replicas", "diverged", said, subject=f"offset {row.place}", node=row.node,
                          path=row.path, position=row.position, offset=row.place, **self._where)
                )  # fmt: skip

    def _faulty(self, row: Row) -> Found:
        return found(
            "integrity", row.fault or "crc", row.reason or "the bytes are not those that were written",
            subject=f"{row.size} bytes", node=row.node, path=row.path, position=row.position,
            offset=row.place, **self._where,
        )  # fmt: skip


def epoch_file_findings(where: dict[str, Any], rows: list[Row], log: LogFacts) -> list[Found]:
    """One row for each copy whose leader-epoch-checkpoint says other epochs than its batches.

    What is before its first line may be on its way out: unknown, unless the broker ended cleanly, or another
    copy shows that it is. Of the metadata log no checkpoint says where it begins.
    """
    latest_start = max(copy.start for copy in log.copies.values())
    first: dict[str, tuple[bool, Row]] = {}
    for row in rows:
        is_kept = row.last >= latest_start and not (where["topic"] == METADATA and is_before_epochs(row, log))
        if row.flags & FLAG_EPOCH_FILE and is_kept:
            is_unsure = is_before_epochs(row, log) and not log.copies[row.copy].is_clean
            if first.get(row.copy, (True, None))[0] > is_unsure or row.copy not in first:
                first[row.copy] = (is_unsure, row)
    return [
        found("integrity", "leader_epochs",
              f"the batch at offset {row.place} has leader epoch {row.epoch}, the file does not say so"
              + (f": it may be deleted, the broker did not end cleanly ({copy})" if is_unsure else ""),
              kind=UNKNOWN if is_unsure else FINDING, subject=f"offset {row.place}",
              node=row.node, path=log.copies[copy].epoch_path, position=0, offset=row.place, **where)
        for copy, (is_unsure, row) in first.items()
    ]  # fmt: skip


def is_before_epochs(row: Row, log: LogFacts) -> bool:
    """Whether it ends before its copy's leader-epoch-checkpoint begins."""
    starts = log.copies[row.copy].epoch_starts
    return len(starts) > 0 and row.last < int(starts[0])
