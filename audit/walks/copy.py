"""One directory's copy of a log, in the order of its bytes: which batches stand where they should.

Start       what is below the copy's own log start is no longer part of it: those rows are left out.
Opaque      a batch with a wrong checksum, or bytes that are none; its place is the first offset that may be
            in it.
Displaced   a batch whose offsets were there before, or that alone steps out of line between two that are
            contiguous. Its place is where it lies.
Verdicts    are flags of the rows: what a copy has wrong is a finding only once the other copies were heard
            (``copies``).
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.audit.walks.columns import (
    COPY_RESULT,
    COPY_SOURCE,
    FLAG_AFTER_CUT,
    FLAG_AFTER_UNREAD,
    FLAG_COUNT,
    FLAG_DISPLACED,
    FLAG_EMPTIED,
    FLAG_EPOCH_BACK,
    FLAG_EPOCH_FILE,
    FLAG_HOLE,
    FLAG_OPAQUE,
)
from fencepost.audit.walks.facts import CopyFacts, read_facts
from fencepost.audit.walks.walk import Batches, Walk, by_key

_AHEAD: Final = 2  # rows that are looked at after the one that is judged
_NONE: Final = -1  # no offset

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class _Rows(NamedTuple):
    """Some rows of a copy as arrays; what is null is -1."""

    base: Ints
    last: Ints
    epoch: Ints
    records: Ints
    crc: Ints
    opaque: Bools
    new_file: Bools  # it lies in another file than the row before


class _State:
    """What is known after the rows so far."""

    def __init__(self, facts: CopyFacts) -> None:
        self.facts = facts
        self.first = _NONE
        self.end = _NONE  # after the last row that stands in its place
        self.epoch = _NONE  # of that row
        self.read_end = 0  # of the rows so far, those before the log start included
        self.is_unread = False  # the row before could not be read
        self.path: str | None = None


def run(batches: Batches) -> Batches:
    """COPY_RESULT of COPY_SOURCE."""
    for key, rows in by_key(batches, COPY.keys):
        yield from _one(key, rows)


def _one(key: tuple[Any, ...], pieces: Batches) -> Batches:
    said: list[pa.RecordBatch] = []
    state: _State | None = None
    pending: pa.RecordBatch | None = None
    for piece in pieces:
        facts_end = int(np.count_nonzero(piece.column("rank").to_numpy() == 0))
        if facts_end:
            said.append(piece.slice(0, facts_end))
            yield _with(piece.slice(0, facts_end), place=-1, flags=0, due=None)
        if facts_end == piece.num_rows:
            continue
        state = state or _State(read_facts(said))
        rows = piece.slice(facts_end)
        rows = rows if pending is None else pa.concat_batches([pending, rows])
        rows = _from_start(rows, state)
        judged = max(rows.num_rows - _AHEAD, 0)
        pending = rows.slice(judged)
        if judged:
            yield _judged(state, rows, judged)
    state = state or _State(read_facts(said))
    if pending is not None and pending.num_rows:
        yield _judged(state, pending, pending.num_rows)
    yield _span(key, state)


def _from_start(rows: pa.RecordBatch, state: _State) -> pa.RecordBatch:
    """Without what lies before the log start; unreadable bytes right before it may be part of it."""
    start = state.facts.log_start
    if state.end != _NONE or not start:
        return rows
    last = rows.column("last_offset").fill_null(_NONE).to_numpy()
    opaque = rows.column("fault").is_valid().to_numpy(zero_copy_only=False)
    kept = np.flatnonzero(~opaque & (last >= start))
    state.read_end = max(state.read_end, int(np.where(opaque, _NONE, last).max(initial=_NONE)) + 1)
    if len(kept) == 0:
        return rows.slice(rows.num_rows)
    first = int(kept[0])
    while first and opaque[first - 1] and int(rows.column("base_offset")[int(kept[0])].as_py()) > start:
        first -= 1
    return rows.slice(first)


def _judged(state: _State, rows: pa.RecordBatch, judged: int) -> pa.RecordBatch:
    """The first ``judged`` rows with their verdicts; what follows them is only looked at."""
    arrays = _arrays(rows, state)
    plain = _ordinary(state, arrays, judged)
    if plain is not None:
        place, flags, due = arrays.base[:judged], plain, np.full(judged, _NONE)
        if state.first == _NONE:
            state.first = int(place[0])
        state.end, state.epoch = int(arrays.last[judged - 1]) + 1, int(arrays.epoch[judged - 1])
    else:
        place, flags, due = _one_by_one(state, rows, arrays, judged)
    state.path = rows.column("path")[judged - 1].as_py()
    return _with(rows.slice(0, judged), place=place, flags=flags, due=due)


def _arrays(rows: pa.RecordBatch, state: _State) -> _Rows:
    def ints(name: str) -> Ints:
        column: Ints = rows.column(name).fill_null(_NONE).to_numpy(zero_copy_only=False).astype(np.int64)
        return column

    path = rows.column("path")
    new_file = np.ones(rows.num_rows, np.bool_)
    new_file[0] = state.path is not None and path[0].as_py() != state.path
    if rows.num_rows > 1:
        new_file[1:] = pc.not_equal(path.slice(1), path.slice(0, rows.num_rows - 1)).to_numpy(
            zero_copy_only=False
        )
    opaque = rows.column("fault").is_valid().to_numpy(zero_copy_only=False)
    return _Rows(
        ints("base_offset"), ints("last_offset"), ints("leader_epoch"), ints("record_count"), ints("crc"),
        opaque, new_file,
    )  # fmt: skip


def _ordinary(state: _State, rows: _Rows, judged: int) -> npt.NDArray[np.int32] | None:
    """Flags of rows among which nothing is out of the ordinary; None: they are looked at one by one."""
    facts = state.facts
    if rows.opaque.any() or facts.torn or state.is_unread:
        return None
    ends = np.concatenate(([state.end], rows.last[:-1] + 1))
    if state.end == _NONE:
        ends[0] = rows.base[0]
    follows = rows.base >= ends if facts.is_compacted else rows.base == ends
    epochs = np.concatenate(([state.epoch], rows.epoch))
    lengths = rows.last - rows.base + 1
    counted = rows.records <= lengths if facts.is_compacted else rows.records == lengths
    sound = follows.all() and (np.diff(epochs) >= 0).all() and counted.all() and (lengths > 0).all()
    if not sound or _epoch_differs(facts, rows)[:judged].any():
        return None
    return np.where(rows.records[:judged] < lengths[:judged], FLAG_EMPTIED, 0).astype(np.int32)


def _epoch_differs(facts: CopyFacts, rows: _Rows) -> Bools:
    """Which batches have another leader epoch than the file says.

    It may lack the newest, unless its broker ended cleanly. Its first line is where the log began when it was
    written.
    """
    base, epoch = rows.base, rows.epoch
    if len(facts.epoch_starts) == 0:
        return np.zeros(len(base), np.bool_)
    line = np.searchsorted(facts.epoch_starts, base, "right") - 1
    meant = facts.epochs[np.maximum(line, 0)]
    is_newer = (line == len(facts.epochs) - 1) & (epoch > meant) & (not facts.is_clean)
    is_before = (line < 0) & (rows.last < facts.epoch_starts[0])
    differs: Bools = (epoch >= 0) & (line >= 0) & (epoch != meant) & ~is_newer
    differs |= (epoch >= 0) & is_before
    return differs


def _one_by_one(
    state: _State, batch: pa.RecordBatch, rows: _Rows, judged: int
) -> tuple[Ints, npt.NDArray[np.int32], Ints]:
    place, flags = np.zeros(judged, np.int64), np.zeros(judged, np.int32)
    due = np.full(judged, _NONE, np.int64)
    differs = _epoch_differs(state.facts, rows)
    paths = batch.column("path")
    for at in range(judged):
        flag = 0
        if state.is_unread:
            flag |= FLAG_AFTER_UNREAD
        if rows.new_file[at] and (paths[at - 1].as_py() if at else state.path) in state.facts.torn:
            flag |= FLAG_AFTER_UNREAD | FLAG_AFTER_CUT
        due[at] = state.end
        base, last = int(rows.base[at]), int(rows.last[at])
        if rows.opaque[at]:
            place[at] = max(state.end, 0) if state.end != _NONE else max(base, 0)
            flags[at], state.is_unread = flag | FLAG_OPAQUE, True
            continue
        steps_out, is_outside = _outside(state, rows, at)
        state.is_unread = steps_out
        if is_outside or (state.end != _NONE and base < state.end) or last < base:
            place[at], flags[at] = (state.end if state.end != _NONE else base), flag | FLAG_DISPLACED
            continue
        flag |= _flags_in_place(state, rows, at, bool(differs[at]))
        place[at], flags[at] = base, flag
        if state.first == _NONE:
            state.first = base
        state.end = last + 1
    return place, flags, due


def _outside(state: _State, rows: _Rows, at: int) -> tuple[bool, bool]:
    """Whether it alone steps out of line, and hides offsets; whether the log goes on without it."""
    end, ahead = state.end, at + 1
    if end == _NONE or ahead >= len(rows.base) or rows.opaque[ahead]:
        return False, False
    base, last, following = int(rows.base[at]), int(rows.last[at]), int(rows.base[ahead])
    steps_out = base != end and following == end + last - base + 1
    if following != end:
        return steps_out, steps_out
    if base != end:
        return False, True
    if rows.crc[ahead] == rows.crc[at]:
        return False, False  # of two equal batches the second is the copy
    goes_on = at + _AHEAD < len(rows.base) and not rows.opaque[at + _AHEAD]
    after, length = last + 1, int(rows.last[ahead]) - following + 1
    beyond = int(rows.base[at + _AHEAD]) if goes_on else _NONE
    follows_this = beyond in (after, after + length) and beyond != following + length
    return False, not follows_this


def _flags_in_place(state: _State, rows: _Rows, at: int, differs: bool) -> int:
    base, epoch = int(rows.base[at]), int(rows.epoch[at])
    length, count = int(rows.last[at]) - base + 1, int(rows.records[at])
    flag = 0
    if state.end != _NONE and base > state.end and not state.facts.is_compacted:
        flag |= FLAG_HOLE
    if count != length:
        flag |= FLAG_EMPTIED if state.facts.is_compacted and count < length else FLAG_COUNT
    ahead = int(rows.epoch[at + 1]) if at + 1 < len(rows.epoch) and not rows.opaque[at + 1] else epoch
    if epoch < state.epoch or state.epoch <= ahead < epoch:
        flag |= FLAG_EPOCH_BACK
    else:
        state.epoch = epoch
        flag |= FLAG_EPOCH_FILE if differs else 0
    return flag


def _with(rows: pa.RecordBatch, *, place: Any, flags: Any, due: Any) -> pa.RecordBatch:
    """COPY_RESULT of COPY_SOURCE rows."""
    count = rows.num_rows
    if isinstance(place, int):
        place, flags = np.full(count, place, np.int64), np.full(count, flags, np.int32)
    dues = pa.nulls(count, pa.int64()) if due is None else pa.array(due, pa.int64(), mask=due == _NONE)
    columns = [rows.column(name) for name in COPY_SOURCE.names]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array(place, pa.int64()), pa.array(flags, pa.int32()), dues], schema=COPY_RESULT
    )


def _span(key: tuple[Any, ...], state: _State) -> pa.RecordBatch:
    """The fact "span": the first and the end offset of what stands in its place; "read": the end of all."""
    facts = state.facts
    start = state.first if state.first != _NONE else facts.start
    row = {
        "topic": key[0], "partition": key[1], "copy": key[2], "rank": 0, "path": "", "position": 0,
        "node": facts.node, "item": "span", "first": start,
        "second": state.end if state.end != _NONE else start, "place": -1, "flags": 0,
    }  # fmt: skip
    read = {**row, "item": "read", "first": max(state.read_end, state.end), "second": None}
    return pa.RecordBatch.from_pylist([row, read], schema=COPY_RESULT)


COPY: Final = Walk("copy", ("topic", "partition", "copy"), ("rank", "path", "position"),
                   COPY_SOURCE, COPY_RESULT, run)  # fmt: skip
