"""Transaction indexes and producer snapshots beside a log, held against the turns in it.

Index       names each aborted transaction's data: readers of committed data drop by it. An entry without its
            abort, or an abort without its entry in a copy that has others, is a finding; so is a last stable
            offset that is not that of the log. One that is too high ends a reader's search before the entries
            of what it reads: it is given aborted records. In a copy that ran the index may be older than the
            log: only between two entries; or younger.
Snapshot    says of each producer the first offset of what it had open; the rest of it is for ``snapshots``.
Left out    where the log is compacted or not kept, entries cannot be held against it.
Source      Kafka AbortedTxn, TransactionIndex, ProducerStateManager.
"""

from typing import Any, Final

from fencepost.audit.walks.align import ABORT, Row
from fencepost.audit.walks.columns import FLAG_HOLE, FLAG_OPAQUE, FLAG_UNCOMMITTED
from fencepost.audit.walks.context import Context
from fencepost.audit.walks.found import Found, found, producer_name

ABORTS_MAX: Final = 1000  # that are looked up in copies whose index does not name their producer

_UNSURE: Final = FLAG_HOLE | FLAG_OPAQUE | FLAG_UNCOMMITTED


class Indexes:
    """The entries of one partition's copies, producer by producer."""

    def __init__(self) -> None:
        self.copies: dict[str, Row] = {}  # what each holds
        self._named: dict[
            str, tuple[Row, int, int]
        ] = {}  # of each copy an entry, the first abort and the last
        self._aborts: list[tuple[Row, frozenset[str]]] = []  # and the copies that name them

    def look(self, context: Context, turns: list[Row], entries: list[Row], states: list[Row]) -> None:
        """One producer's turns, entries of indexes and of snapshots."""
        aborts = {turn["marker_offset"]: turn for turn in turns if turn["control_type"] == ABORT}
        named: dict[int, set[str]] = {}
        for entry in entries:
            self._remember(entry)
            turn = aborts.get(entry["offset"])
            if turn is not None:
                named.setdefault(entry["offset"], set()).add(entry["copy"])
            self._entry(context, entry, turn)
        for offset, turn in aborts.items():
            if turn["data_offset"] is None or turn["flags"] & _UNSURE:
                continue
            if len(self._aborts) < ABORTS_MAX:
                self._aborts.append((turn, frozenset(named.get(offset, set()))))
        self._snapshots(context, turns, states)

    def _remember(self, entry: Row) -> None:
        at = entry["offset"]
        first, low, high = self._named.get(entry["copy"], (entry, at, at))
        self._named[entry["copy"]] = (first, min(low, at), max(high, at))

    def _entry(self, context: Context, entry: Row, turn: Row | None) -> None:
        row = context.row
        if row["compacted"] or not row["offset"] <= entry["offset"] < row["end_offset"]:
            return
        data_is_kept = entry["first_offset"] >= row["offset"]
        if turn is None or (turn["data_offset"] is None and data_is_kept):
            said = "it names an abort at this offset, where the log has none of this producer"
        elif data_is_kept and entry["first_offset"] != turn["data_offset"]:
            said = (
                f"it says that the data begins at {entry['first_offset']}, it begins at {turn['data_offset']}"
            )
        elif self._is_stable_elsewhere(entry, turn, int(row["offset"]), int(row["end_offset"])):
            said = f"it says last stable offset {entry['stable_offset']}, it is {turn['stable_offset']}"
            row = _of_entry(context, "index", said, entry)
            context.found.append(row | {"end_offset": turn.get("next_open_offset")})
            return
        else:
            return
        context.found.append(_of_entry(context, "index", said, entry))

    def _is_stable_elsewhere(self, entry: Row, turn: Row, first: int, end: int) -> bool:
        """Whether the log says another one.

        Below it   what was open below the first offset that is kept is not known.
        Above it   where a transaction is open beside the marker, only its first offset is right; a copy that
                   begins above that does not know it. Where none is, a broker that appends many batches at
                   once writes the first offset of the next one; in a copy that ran the index may know one
                   that the log does not have yet.
        """
        said, meant = entry.get("stable_offset"), turn.get("stable_offset")
        if said is None or meant is None or said == meant or turn["flags"] & _UNSURE:
            return False
        if said < meant:
            return bool(first == 0 or said >= first)
        span = self.copies.get(entry["copy"])
        if meant <= turn["marker_offset"]:
            return bool(span is None or meant >= span["offset"])
        following = turn.get("next_open_offset")
        if following is None or said == following < end:
            return False
        return bool(said < end or (span is not None and span["stopped"]))

    def _snapshots(self, context: Context, turns: list[Row], states: list[Row]) -> None:
        if context.row["compacted"] or not turns or any(turn["flags"] & _UNSURE for turn in turns):
            return
        for state in states:
            at, first = state["offset"], state["first_offset"]
            if not context.row["offset"] < at <= context.row["end_offset"]:
                continue
            open_there = [
                turn["data_offset"]
                for turn in turns
                if turn["data_offset"] is not None and turn["data_offset"] < at
                and (turn["marker_offset"] is None or turn["marker_offset"] >= at)
            ]  # fmt: skip
            if open_there != ([first] if first >= 0 else []) and first >= context.row["offset"]:
                where = open_there[0] if open_there else "none"
                said = f"it says that a transaction is open from {first} on, in the log it is {where}"
            elif open_there and first < 0:
                said = f"it says that no transaction is open, in the log one is from {open_there[0]} on"
            else:
                continue
            context.found.append(_of_entry(context, "snapshot", said, state))

    def end(self, context: Context) -> list[Found]:
        """Aborts that a copy's index lacks, although it has others."""
        rows: list[Found] = []
        if context.row.get("compacted"):
            return rows
        for copy, (entry, low, high) in self._named.items():
            span = self.copies.get(copy)
            is_whole = span is not None and span["stopped"]
            first, end = (span["offset"], span["end_offset"]) if span and is_whole else (low, high + 1)
            for turn, named in self._aborts:
                if copy not in named and first <= turn["marker_offset"] < end:
                    said = f"it does not name the abort at offset {turn['marker_offset']}"
                    at: dict[str, Any] = {**entry, "position": None}
                    for name in ("producer_id", "producer_epoch", "offset", "at_ms"):
                        at[name] = turn[name]
                    rows.append(_of_entry(context, "index", said, at))
        return rows


def _of_entry(context: Context, rule: str, said: str, entry: Row) -> Found:
    name = producer_name(entry["producer_id"], entry["producer_epoch"] or 0)
    return found("integrity", rule, said, subject=name, node=entry["node"], path=entry["path"],
                 position=entry["position"], topic=context.row["topic"], partition=context.row["partition"],
                 offset=entry["offset"], producer_id=entry["producer_id"],
                 producer_epoch=entry["producer_epoch"])  # fmt: skip
