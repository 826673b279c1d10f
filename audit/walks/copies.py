"""One log out of its copies: each offset once, what is known to be committed, where copies differ.

Committed   up to the highest high-watermark checkpoint of the copies given, or what all replicas hold if all
            are given; of __cluster_metadata what a majority of the voters holds; a log with one replica, or
            without any such checkpoint (fencepost's), counts to its end. Above that rows are unknown.
Ordinary    places at which every copy that reaches there has the same batch are judged by columns.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.audit.walks.columns import (
    COPIES_RESULT,
    COPY_RESULT,
    FLAG_AFTER_END,
    FLAG_AFTER_UNREAD,
    FLAG_BEFORE_ELECTION,
    FLAG_COMPACTED,
    FLAG_EMPTIED,
    FLAG_OPAQUE,
    FLAG_UNCOMMITTED,
)
from fencepost.audit.walks.differing import (
    DELETE_HORIZON,
    Differing,
    Row,
    epoch_file_findings,
    is_before_epochs,
)
from fencepost.audit.walks.facts import LogFacts, read_log_facts
from fencepost.audit.walks.found import Found, batch_of, widened
from fencepost.audit.walks.length import findings_of_copies, known_end
from fencepost.audit.walks.unbroken import Unbroken
from fencepost.audit.walks.walk import Batches, Walk, by_key

STATES: Final = "__transaction_state"
_COMPARED: Final = ("place", "crc", "size", "last_offset", "leader_epoch")

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.int32]


def run(batches: Batches) -> Batches:
    """COPIES_RESULT of COPY_RESULT, sorted anew."""
    for key, rows in by_key(batches, COPIES.keys):
        yield from _one(key, rows)


def _one(key: tuple[Any, ...], pieces: Batches) -> Batches:
    said: list[pa.RecordBatch] = []
    merge: _Merge | None = None
    pending: pa.RecordBatch | None = None
    for piece in pieces:
        facts_end = int(np.count_nonzero(piece.column("rank").to_numpy() == 0))
        if facts_end:
            said.append(piece.slice(0, facts_end))
        if facts_end == piece.num_rows:
            continue
        merge = merge or _Merge(key, read_log_facts(said))
        rows = piece.slice(facts_end)
        rows = rows if pending is None else pa.concat_batches([pending, rows])
        places = rows.column("place").to_numpy()
        whole = int(np.searchsorted(places, places[-1]))  # the last place may go on in the next batch
        pending = rows.slice(whole)
        if whole:
            yield from merge.rows(rows.slice(0, whole))
    merge = merge or _Merge(key, read_log_facts(said))
    if pending is not None and pending.num_rows:
        yield from merge.rows(pending)
    yield from batch_of(merge.end(), COPIES_RESULT)


class _Merge:
    """The copies of one log, place by place."""

    def __init__(self, key: tuple[Any, ...], log: LogFacts) -> None:
        self._topic, self._partition = key
        self._log = log
        self._known_end = known_end(self._topic, log)
        self._differing = Differing(self._topic, self._partition, log, self._known_end)
        self._unbroken = Unbroken(self._topic, self._partition, log, self._known_end)
        spans = [copy for copy in log.copies.values() if copy.end > copy.first]
        self._starts = np.sort(np.array([copy.first for copy in spans], np.int64))
        self._ends = np.sort(np.array([copy.end for copy in spans], np.int64))
        self._epoch_rows: list[Row] = []
        self._agreed: Row | None = None  # of the rows before: the last of a place at which all copies agree
        self._last_epoch = -1
        ends = {copy.end for copy in spans} if log.is_compacted else set()
        # Of copies that end before another, where no batch was seen yet; and where none of a producer was.
        self._ahead, self._ahead_of_producers = sorted(ends)[:-1], sorted(ends)[:-1]

    def rows(self, rows: pa.RecordBatch) -> Batches:
        """The log's batches among whole places."""
        chosen, flags = self._chosen(rows)
        kept = rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen))
        flags |= self._unbroken.look(kept, flags)
        flags |= self._elected(kept, flags)
        self._pass_ends(kept, flags)
        yield self._shaped(kept, flags)
        yield from batch_of(self._taken(), COPIES_RESULT)

    def _elected(self, rows: pa.RecordBatch, said: Flags) -> Flags:
        """What an election left out, if it was unclean or may have been, stood before its leader's batches.

        Before the first offset that is kept none is looked for. A topic that no record says was created may
        have been made again: what was written before its first batch is with the one that was deleted.
        """
        log, flags = self._log, np.zeros(rows.num_rows, np.int32)
        if (not log.unclean and log.unseen < 0) or not rows.num_rows:
            return flags
        epochs = rows.column("leader_epoch").fill_null(-1).to_numpy().astype(np.int64)
        reached = np.maximum.accumulate(np.concatenate(([self._last_epoch], epochs)))
        for at in np.flatnonzero(epochs > reached[:-1]).tolist():
            before, own, place = int(reached[at]), int(epochs[at]), rows.column("place")[at].as_py()
            unclean = log.unclean_between(before, own)
            if unclean:
                self._unbroken.cut(place, max(log.unclean[each] for each in unclean))
            elif log.is_unseen_between(before, own) if before >= 0 else place == 0 <= log.unseen:
                self._unbroken.cut(place, self._unbroken.first_ms(rows.slice(at), said[at:]))
            else:
                continue
            flags[at] |= FLAG_AFTER_UNREAD
        self._last_epoch = int(reached[-1])
        if self._topic == STATES:
            last = max(log.unseen if log.is_unseen_between(0, log.unseen) else 0, *log.unclean, 0)
            flags[epochs < last] |= FLAG_BEFORE_ELECTION
        return flags

    def _pass_ends(self, rows: pa.RecordBatch, flags: Flags) -> None:
        """Mark the first batch, and the first of a producer, behind the end of each copy of a compacted log.

        The others may have been cleaned of what followed there: the marker of a producer's last data, a
        group's generation.
        """
        if not self._ahead_of_producers:
            return
        places = rows.column("place").to_numpy()
        of_producers = np.flatnonzero(rows.column("producer_id").fill_null(-1).to_numpy() >= 0)
        self._ahead = _pass_ends(places, np.arange(rows.num_rows), self._ahead, flags)
        self._ahead_of_producers = _pass_ends(places, of_producers, self._ahead_of_producers, flags)

    def end(self) -> list[Found]:
        """What is found once all places were seen, and the row of kind "log"."""
        self._differing.close()
        where = {"topic": self._topic, "partition": self._partition}
        unclean = [ms for epoch, ms in self._log.unclean.items() if epoch > self._last_epoch]
        if unclean:
            self._unbroken.cut(None, max(unclean))
        elif self._last_epoch < 0 <= self._log.unseen or self._log.is_unseen_between(
            self._last_epoch, self._log.unseen
        ):
            self._unbroken.cut(None, self._log.unseen_ms)
        return [
            *self._taken(),
            *epoch_file_findings(where, self._epoch_rows, self._log),
            *findings_of_copies(where, self._log, self._known_end),
            *self._unbroken.end(),
        ]

    def _taken(self) -> list[Found]:
        found = [*self._differing.found, *self._unbroken.found]
        self._differing.found, self._unbroken.found = [], []
        return found

    def _chosen(self, rows: pa.RecordBatch) -> tuple[Ints, Flags]:
        """The rows that are the log's, ascending, and their flags."""
        flags = rows.column("flags").to_numpy()
        odd = (flags & ~FLAG_EMPTIED) != 0
        if len(self._log.copies) == 1:
            firsts, is_odd = np.arange(rows.num_rows), odd
            places = rows.column("place").to_numpy()
            is_odd = is_odd | _beside(places, odd)
            ends = firsts + 1
        else:
            firsts, ends, is_odd = self._groups(rows, odd)
        chosen: Ints = firsts[~is_odd].astype(np.int64)
        picked = flags[chosen].copy()
        if is_odd.any():
            more, their_flags = self._settled(rows, firsts, ends, is_odd)
            order = np.argsort(np.concatenate((chosen, more)), kind="stable")
            picked = np.concatenate((picked, their_flags))[order]
            chosen = np.concatenate((chosen, more))[order]
        else:
            self._pass_over(rows, 0, rows.num_rows)
        if not is_odd.all() and len(self._log.copies) > 1:
            last = int(firsts[~is_odd][-1])
            (self._agreed,) = _rows_of(rows, last, last + 1)
        return chosen, picked.astype(np.int32)

    def _groups(
        self, rows: pa.RecordBatch, odd: npt.NDArray[np.bool_]
    ) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
        """Where each place begins and ends, and whether its copies have to be compared one by one."""
        columns = {name: rows.column(name).fill_null(-1).to_numpy().astype(np.int64) for name in _COMPARED}
        new = np.ones(rows.num_rows, np.bool_)
        new[1:] = np.diff(columns["place"]) != 0
        firsts = np.flatnonzero(new)
        ends = np.append(firsts[1:], rows.num_rows)
        differs = odd.copy()
        for name in _COMPARED[1:]:
            differs[1:] |= (np.diff(columns[name]) != 0) & ~new[1:]
        is_odd = np.logical_or.reduceat(differs, firsts)
        if not self._log.is_compacted:
            place = columns["place"][firsts]
            started = np.searchsorted(self._starts, place, "right")
            over = np.searchsorted(self._ends, place, "right")
            is_odd |= (started - over) != ends - firsts
        return firsts, ends, is_odd

    def _settled(
        self, rows: pa.RecordBatch, firsts: Ints, ends: Ints, is_odd: npt.NDArray[np.bool_]
    ) -> tuple[Ints, Flags]:
        """The rows that are chosen at places where the copies differ, or something is wrong."""
        chosen: list[int] = []
        flags: list[int] = []
        agreed = firsts[~is_odd]
        before = 0
        for first, end in zip(*_places(rows, firsts[is_odd], ends[is_odd]), strict=True):
            at_place = _rows_of(rows, first, end)
            self._pass_over(rows, before, first)
            before = end
            self._agree(rows, int(np.searchsorted(agreed, first)), agreed, at_place[0].place)
            self._epoch_rows += [row for row in at_place if row.flags]
            for index, extra in self._differing.settle(at_place[0].place, at_place):
                chosen.append(index)
                flags.append(at_place[index - first].flags | extra)
        self._pass_over(rows, before, rows.num_rows)
        self._epoch_rows = _first_of_each(self._epoch_rows, self._log)
        return np.array(chosen, np.int64), np.array(flags, np.int32)

    def _pass_over(self, rows: pa.RecordBatch, first: int, end: int) -> None:
        """Rows of places at which all copies of a compacted log agree that have a batch there."""
        if self._log.is_compacted and self._differing.is_open and first < end:
            copies = rows.column("copy").slice(first, end - first).unique()
            self._differing.pass_over(copies.to_pylist())

    def _agree(self, rows: pa.RecordBatch, before: int, agreed: Ints, place: int) -> None:
        """Where the last place before at which all agreed has a batch that reaches beyond this one."""
        if len(self._log.copies) == 1:
            return
        row = self._agreed
        if before:
            at = int(agreed[before - 1])
            last = rows.column("last_offset")[at].as_py()
            row = _rows_of(rows, at, at + 1)[0] if last is not None and last >= place else None
        if row is not None and row.last >= place:
            self._differing.agree(row)

    def _shaped(self, rows: pa.RecordBatch, flags: Flags) -> pa.RecordBatch:
        base = rows.column("base_offset").fill_null(-1).to_numpy()
        misplaced = (flags & FLAG_OPAQUE) != 0
        base = np.where(misplaced, rows.column("place").to_numpy(), base)
        last = rows.column("last_offset").fill_null(-1).to_numpy()
        last = np.where(misplaced, base, last)
        flags = np.where(base >= self._known_end, flags | FLAG_UNCOMMITTED, flags)
        if self._log.is_compacted:
            flags = flags | FLAG_COMPACTED
        attributes = rows.column("attributes").fill_null(0).to_numpy()
        times = pc.if_else(
            pa.array((attributes & DELETE_HORIZON) != 0),
            rows.column("max_timestamp_ms"),
            rows.column("base_timestamp_ms"),
        )
        return widened(
            rows, COPIES_RESULT, kind=pa.array(["batch"]).take(pa.array(np.zeros(rows.num_rows, np.int64))),
            base_offset=base, last_offset=last, offset=base, flags=flags.astype(np.int32),
            base_timestamp_ms=times,
        )  # fmt: skip


def _pass_ends(places: Ints, candidates: Ints, ends: list[int], flags: Flags) -> list[int]:
    """Mark the first candidate at or behind each end. Returns the ends that have none among these rows."""
    firsts = np.searchsorted(places[candidates], ends)
    passed = firsts < len(candidates)
    flags[candidates[firsts[passed]]] |= FLAG_AFTER_END
    return ends[int(passed.sum()) :]


def _beside(places: Ints, odd: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Rows at the place of one that is odd: one copy may have several."""
    if not odd.any():
        return odd
    return np.isin(places, places[odd])


def _places(rows: pa.RecordBatch, firsts: Ints, ends: Ints) -> tuple[list[int], list[int]]:
    """The same stretches, those of one place made one."""
    places = rows.column("place").to_numpy()[firsts]
    new = np.ones(len(firsts), np.bool_)
    new[1:] = np.diff(places) != 0
    starts = np.flatnonzero(new)
    lasts = np.append(starts[1:], len(firsts)) - 1
    return firsts[starts].tolist(), ends[lasts].tolist()


def _rows_of(rows: pa.RecordBatch, first: int, end: int) -> list[Row]:
    found = rows.slice(first, end - first)
    names = ("copy", "node", "path", "position", "place", "last_offset", "size", "crc", "leader_epoch",
             "record_count", "attributes", "flags")  # fmt: skip
    columns = [pc.fill_null(found.column(name), -1) if name not in ("copy", "path") else found.column(name)
               for name in names]  # fmt: skip
    texts = [found.column("fault"), found.column("reason")]
    values = zip(*(column.to_pylist() for column in (*columns, *texts)), strict=True)
    return [Row(first + number, *each) for number, each in enumerate(values)]


def _first_of_each(rows: list[Row], log: LogFacts) -> list[Row]:
    first: dict[tuple[str, int, bool], Row] = {}
    for row in rows:
        first.setdefault((row.copy, row.flags, is_before_epochs(row, log)), row)
    return list(first.values())


COPIES: Final = Walk("copies", ("topic", "partition"), ("rank", "place", "copy", "path", "position"),
                     COPY_RESULT, COPIES_RESULT, run)  # fmt: skip
