"""The log as its copies give it together: what is missing in it, and from where on nothing is.

Compacted   logs leave offsets out, but not within their last segment: the log cleaner never touches it.
Times       of servers: of control batches, of batches stamped at the append, and of the logs that
            coordinators and controllers write.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.audit.walks.columns import (
    FLAG_AFTER_UNREAD,
    FLAG_COUNT,
    FLAG_DISPLACED,
    FLAG_EMPTIED,
    FLAG_EPOCH_BACK,
    FLAG_HOLE,
    FLAG_OPAQUE,
    FLAG_UNCOMMITTED,
    NOTE,
    UNKNOWN,
)
from fencepost.audit.walks.facts import LogFacts
from fencepost.audit.walks.found import Found, found

_OWN_CLOCK: Final = ("__transaction_state", "__consumer_offsets", "__cluster_metadata")
_CONTROL, _STAMPED_AT_APPEND = 0x20, 0x08  # of the attributes
_CODEC, _CODEC_MAX = 0x07, 4
_NO_OFFSET: Final = 2**63 - 1

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.int32]


class Unbroken:
    """Follows the chosen batches of one log."""

    def __init__(self, topic: str, partition: int, log: LogFacts, known_end: int) -> None:
        self._where: dict[str, Any] = {"topic": topic, "partition": partition}
        self._log = log
        self._known_end = known_end
        self._first: int | None = None
        self._end = -1  # after the batches so far
        self._unbroken = 0
        self._is_opaque = False  # bytes before could not be read
        self._server_ms = -1
        self._broken_ms = -1  # the latest time of a server at the last break
        starts = [copy.start for copy in log.copies.values()]
        self._earliest_start, self._latest_start = min(starts, default=0), max(starts, default=0)
        self._is_cleaned_meanwhile = log.is_compacted and not all(
            copy.is_stopped for copy in log.copies.values()
        )
        segments = [copy.segment_last for copy in log.copies.values() if copy.segment_last is not None]
        self._active = max(segments, default=_NO_OFFSET)
        self._is_displaced = False  # the batch before
        self._displaced = 0  # offsets of those batches that stepped out of line together
        self._cuts: list[tuple[int, int | None]] = []  # where elections may have cut, and by when
        self._back_end = -1  # after the last batch whose leader epoch went back
        self.found: list[Found] = []

    def look(self, rows: pa.RecordBatch, flags: Flags) -> Flags:
        """Flags to add to the next batches of the log. Those that only one copy had are taken off."""
        count = rows.num_rows
        more = np.zeros(count, np.int32)
        if count == 0:
            return more
        base = rows.column("place").to_numpy().astype(np.int64)
        ends = rows.column("last_offset").fill_null(-1).to_numpy().astype(np.int64) + 1
        server_ms = self._times(rows, flags)
        self._date(self.first_ms(rows, flags))
        before = np.concatenate(([self._server_ms], np.maximum.accumulate(server_ms)[:-1]))
        before = np.maximum(before, self._server_ms)
        if self._first is None:
            self._first = self._end = self._unbroken = int(base[0])
            if not self._log.is_compacted and not self._log.is_untold:
                self._end = min(self._end, self._earliest_start)
        odd = (flags & (FLAG_OPAQUE | FLAG_DISPLACED)) != 0
        reached = np.maximum.accumulate(np.where(odd, -1, ends))
        due = np.maximum(np.concatenate(([self._end], reached[:-1])), self._end)
        flags &= ~np.int32(FLAG_HOLE)
        codecs = rows.column("attributes").fill_null(0).to_numpy() & _CODEC
        special = (
            (base != due) | (codecs > _CODEC_MAX) | (flags != 0) | (self._is_opaque & (np.arange(count) == 0))
        )
        for at in np.flatnonzero(special).tolist():
            more[at] = self._one(rows, flags, at, int(base[at]), int(due[at]), int(ends[at]), int(before[at]))
        self._is_displaced = bool(flags[-1] & FLAG_DISPLACED)
        self._is_opaque = bool(flags[-1] & FLAG_OPAQUE) or (self._is_opaque and bool(odd.all()))
        self._end = max(self._end, int(reached[-1]))
        self._server_ms = max(self._server_ms, int(server_ms.max()))
        return more

    def cut(self, offset: int | None, by_ms: int | None) -> None:
        """An election may have cut off what stood before the batch at ``offset``; None: at the end.

        by_ms   when it was, or later. None: the next time that a server wrote there.
        """
        offset = max(self._end, 0) if offset is None else offset
        self._cuts.append((offset, by_ms))
        self._break(offset, -1 if by_ms is None else by_ms)

    def first_ms(self, rows: pa.RecordBatch, flags: Flags) -> int | None:
        """The first time that a server wrote into rows; None: it is in none."""
        times = self._times(rows, flags)
        return next(iter(times[times >= 0].tolist()), None)

    def _date(self, by_ms: int | None) -> None:
        """Cuts that have no time yet were made by then."""
        if by_ms is None or all(each is not None for _, each in self._cuts):
            return
        self._cuts = [(offset, by_ms if each is None else each) for offset, each in self._cuts]
        self._broken_ms = max(self._broken_ms, by_ms)

    def end(self) -> list[Found]:
        """The row of kind "log", and what was before its first offset."""
        self._date(self._log.unseen_ms)
        first = self._begins()
        rows: list[Found] = []
        if first > 0 and not self._log.is_compacted:
            kind = UNKNOWN if self._log.is_tiered else NOTE
            more = ": it is in the remote storage" if self._log.is_tiered else ""
            said = f"what was before the first offset that is kept, {first}{more}"
            rows.append(found("offsets", "start", said, kind=kind, subject=f"{first} offsets", offset=0,
                              end_offset=first, **self._where))  # fmt: skip
        end = max(self._end, 0)
        nodes = [copy.node for copy in self._log.copies.values()]
        rows.append({
            "kind": "log", **self._where, "node": min(nodes, default=-1), "offset": first,
            "end_offset": min(self._known_end, end), "log_end": end, "unbroken_offset": self._unbroken,
            "at_ms": self._server_ms if self._server_ms >= 0 else None,
            "first_ms": self._broken_ms if self._broken_ms >= 0 else None,
            "cut_offsets": [offset for offset, _ in self._cuts] or None,
            "cut_times": [by_ms for _, by_ms in self._cuts] or None,
            "copies": len(self._log.copies), "compacted": self._log.is_compacted,
            "stopped": end <= self._known_end and self._is_stopped(end),
        })  # fmt: skip
        return rows

    def _begins(self) -> int:
        """The first offset that is kept: what a copy has below that of another is on its way out.

        Where nothing is kept the log begins and ends where its copies do.
        """
        copies = self._log.copies.values()
        if self._first is None:
            begins = [copy.first for copy in copies if not copy.is_beyond_itself]
            self._first = self._end = self._unbroken = max(begins, default=0)
        elif not self._log.is_compacted:
            return max(self._first, *(copy.first for copy in copies))
        return self._first

    def _is_stopped(self, end: int) -> bool:
        """Whether nothing can follow: a copy that reaches the end is stopped, and no replica is elsewhere."""
        copies = self._log.copies.values()
        is_reached = any(copy.is_stopped and copy.end >= end for copy in copies)
        return is_reached and self._log.replicas <= {copy.node for copy in copies}

    def _times(self, rows: pa.RecordBatch, flags: Flags) -> Ints:
        times: Ints = rows.column("max_timestamp_ms").fill_null(-1).to_numpy().astype(np.int64)
        is_sound = (flags & FLAG_OPAQUE) == 0
        times = np.where((rows.column("place").to_numpy() < self._known_end) & is_sound, times, -1)
        if self._where["topic"] in _OWN_CLOCK:
            return times
        attributes = rows.column("attributes").fill_null(0).to_numpy()
        return np.where((attributes & (_CONTROL | _STAMPED_AT_APPEND)) != 0, times, -1)

    def _one(
        self, rows: pa.RecordBatch, flags: Flags, at: int, base: int, due: int, end: int, before_ms: int
    ) -> int:
        flag, more = int(flags[at]), 0
        was_opaque = (bool(flags[at - 1] & FLAG_OPAQUE) if at else self._is_opaque) or bool(
            flag & FLAG_AFTER_UNREAD
        )
        was_displaced = bool(flags[at - 1] & FLAG_DISPLACED) if at else self._is_displaced
        if flag & FLAG_OPAQUE:
            self._break(base + 1, before_ms)
            return 0
        place = {
            "node": rows.column("node")[at].as_py(), "path": rows.column("path")[at].as_py(),
            "position": rows.column("position")[at].as_py(), **_producer_of(rows, at), **self._where,
        }  # fmt: skip
        if flag & FLAG_DISPLACED:
            own = rows.column("base_offset")[at].as_py()
            last = rows.column("last_offset")[at].as_py()
            said = f"the batch has offsets {own} to {last}, which are not those that are due at its place"
            self._add("offsets", "overlap", said, f"offset {own}", offset=own, **place)
            self._displaced = max(last - own + 1, 0) + (self._displaced if was_displaced else 0)
            return 0
        if base > due:
            if was_displaced and base - due <= self._displaced:  # the offsets that it should have
                self._break(base, before_ms)
                more |= FLAG_HOLE
            else:
                more |= self._gap(base, due, was_opaque, before_ms, place)
        elif was_opaque:
            flags[at] &= ~np.int32(FLAG_AFTER_UNREAD)
        if flag & FLAG_EMPTIED:
            self._break(end, before_ms)
        if flag & FLAG_COUNT:
            counted = rows.column("record_count")[at].as_py()
            said = f"the header counts {counted} records, its offsets are {base} to {end - 1}"
            end_offset = max(end, base + counted) + 1
            self._add(
                "integrity", "count", said, f"offset {base}", offset=base, end_offset=end_offset, **place
            )
        if flag & FLAG_EPOCH_BACK and base != self._back_end:
            epoch = rows.column("leader_epoch")[at].as_py()
            said = f"leader epoch {epoch} is not between those of the batches around it"
            self._add("integrity", "leader_epoch", said, f"offset {base}", offset=base, **place)
        if flag & FLAG_EPOCH_BACK:
            self._back_end = end
        codec = (rows.column("attributes")[at].as_py() or 0) & _CODEC
        if codec > _CODEC_MAX:
            said = f"the header says codec {codec}, which none is"
            self._add("integrity", "codec", said, f"offset {base}", offset=base, **place)
        return more

    def _gap(self, base: int, due: int, was_opaque: bool, before_ms: int, place: dict[str, Any]) -> int:
        self._break(base, before_ms)
        if was_opaque:
            return FLAG_HOLE | FLAG_AFTER_UNREAD
        if base >= self._known_end:
            return FLAG_HOLE | FLAG_UNCOMMITTED
        if self._log.is_compacted and (self._is_cleaned_meanwhile or due <= self._active):
            return 0
        if base <= self._latest_start:
            self._first = base  # retention had taken what is before it, in the copy that begins there
            return FLAG_HOLE
        said = f"offsets {due} to {base - 1} are missing: the batch at this position begins at {base}"
        columns = {"offset": due, "end_offset": base, **place}
        named = any(
            first <= due and base <= end for copy in self._log.copies.values() for first, end in copy.holes
        )
        if named or self._log.is_untold:
            why = "the log itself says so" if named else "nothing read says whether the topic is compacted"
            self._add(
                "offsets", "hole", f"{said}, and {why}", f"{base - due} offsets", kind=UNKNOWN, **columns
            )
        else:
            self._add("offsets", "hole", said, f"{base - due} offsets", **columns)
        return FLAG_HOLE

    def _break(self, offset: int, before_ms: int) -> None:
        if offset > self._unbroken:
            self._unbroken = offset
            self._broken_ms = max(self._broken_ms, before_ms)

    def _add(self, check: str, rule: str, detail: str, subject: str, **columns: Any) -> None:
        self.found.append(found(check, rule, detail, subject=subject, **self._where | columns))


def _producer_of(rows: pa.RecordBatch, at: int) -> dict[str, Any]:
    """Of a batch; nothing if it has none."""
    producer_id = rows.column("producer_id")[at].as_py()
    if producer_id is None or producer_id < 0:
        return {}
    return {"producer_id": producer_id, "producer_epoch": rows.column("producer_epoch")[at].as_py()}
