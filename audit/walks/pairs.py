"""Every marker paired with the data that it ends, and with what the coordinator decided.

Ordinary    a producer whose turns are its outcomes one by one: judged by columns. The others go to ``judge``.
Memory      one producer's transactions on one partition.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.audit.walks.align import OPEN
from fencepost.audit.walks.columns import FLAG_COMPACTED, PAIRS_RESULT, PAIRS_SOURCE
from fencepost.audit.walks.context import NOT_READ, ORDER, Context, unknown_rows
from fencepost.audit.walks.found import batch_of
from fencepost.audit.walks.indexes import Indexes
from fencepost.audit.walks.judge import Judge
from fencepost.audit.walks.walk import Batches, Walk, by_key

_LOG, _PRODUCER, _OUTCOME, _TURN, _INDEX, _SNAPSHOT = range(6)
_NO_VERSION: Final = -1

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def run(batches: Batches) -> Batches:
    """PAIRS_RESULT of PAIRS_SOURCE."""
    for key, pieces in by_key(batches, PAIRS.keys):
        yield from batch_of(_one(key, pieces), PAIRS_RESULT)


def _one(key: tuple[Any, ...], pieces: Batches) -> list[dict[str, Any]]:
    context: Context | None = None
    indexes = Indexes()
    pending: pa.RecordBatch | None = None
    for piece in pieces:
        rows = piece if pending is None else pa.concat_batches([pending, piece])
        if context is None:
            first = rows.slice(0, 1).to_pylist()[0]
            context = Context(first if first["rank"] == _LOG else _unknown_log(key))
            rows = rows.slice(1 if first["rank"] == _LOG else 0)
        if rows.num_rows == 0:
            pending = rows
            continue
        ids = rows.column("producer_id").to_numpy()
        whole = int(np.searchsorted(ids, ids[-1]))  # the last producer may go on in the next batch
        if whole:
            _judge(context, indexes, rows.slice(0, whole))
        pending = rows.slice(whole)
    if context is None:
        return []
    if pending is not None and pending.num_rows:
        _judge(context, indexes, pending)
    for row, partition, completed in context.late:
        if context.decided.get(partition, -1) > completed:
            context.found.append(row)
        else:
            context.undecided("missing", ORDER, row["offset"])
    for row in context.found:
        if row["cause"] is not None and context.is_covered(row):
            row["cause"] = None
    context.found += indexes.end(context)
    return [*context.found, *unknown_rows(context)]


def _unknown_log(key: tuple[Any, ...]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PAIRS_SOURCE.names)
    return row | {"topic": key[0], "partition": key[1]}


def _judge(context: Context, indexes: Indexes, rows: pa.RecordBatch) -> None:
    ids = rows.column("producer_id").to_numpy()
    edges = np.flatnonzero(np.diff(ids)) + 1
    firsts = np.concatenate(([0], edges))
    ends = np.append(edges, len(ids))
    odd = _odd(context, rows, firsts)
    if context.row["deleted_ms"] is not None or context.row["end_offset"] is None:
        odd[:] = True
    odd |= ids[firsts] < 0
    for first, end in zip(firsts[odd].tolist(), ends[odd].tolist(), strict=True):
        found_there: list[list[dict[str, Any]]] = [[] for _ in range(_SNAPSHOT + 1)]
        for row in rows.slice(first, end - first).to_pylist():
            found_there[row["rank"]].append(row)
        if ids[first] < 0:
            indexes.copies = {row["copy"]: row for rows in found_there for row in rows}
            continue
        found_there[_OUTCOME] = [each for each in found_there[_OUTCOME] if not _is_gone(context, each)]
        if context.row["end_offset"] is None:
            for _ in found_there[_OUTCOME]:
                context.undecided("missing", NOT_READ, None)
            continue
        Judge(
            context, found_there[_PRODUCER], found_there[_OUTCOME], found_there[_TURN], found_there[_INDEX]
        ).look()
        indexes.look(context, found_there[_TURN], found_there[_INDEX], found_there[_SNAPSHOT])


def _is_gone(context: Context, outcome: dict[str, Any]) -> bool:
    """Whether the topic was deleted after the transaction began, and its marker with it."""
    deleted_ms = context.row["deleted_ms"]
    times = [outcome[name] for name in ("started_ms", "prepared_ms") if (outcome[name] or -1) >= 0]
    return deleted_ms is not None and bool(times) and min(times) <= deleted_ms


def _odd(context: Context, rows: pa.RecordBatch, firsts: Ints) -> Bools:
    """Which producers are not paired one by one. The latest decision of those that are is kept."""
    rank = rows.column("rank").to_numpy()
    group = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(rank))))
    counts = [np.bincount(group[rank == each], minlength=len(firsts)) for each in range(_SNAPSHOT + 1)]
    odd: Bools = (counts[_PRODUCER] != 1) | (counts[_OUTCOME] != counts[_TURN])
    odd |= (counts[_INDEX] > 0) | (counts[_SNAPSHOT] > 0)
    paired = ~odd[group]
    outcomes, turns = np.flatnonzero(paired & (rank == _OUTCOME)), np.flatnonzero(paired & (rank == _TURN))

    def ints(name: str, at: Ints) -> Ints:
        taken: Ints = (
            rows.column(name).fill_null(_NO_VERSION).to_numpy(zero_copy_only=False)[at].astype(np.int64)
        )
        return taken

    kinds = ints("control_type", turns)
    kinds = np.where(kinds < 0, OPEN, kinds)
    differs = ints("outcome", outcomes) != kinds
    differs |= ints("producer_epoch", outcomes) != ints("producer_epoch", turns)
    differs |= (ints("flags", turns) & ~FLAG_COMPACTED) != 0
    differs |= (ints("plain_offset", turns) >= 0) | (ints("late_offset", turns) >= 0)
    differs |= (ints("batches", turns) == 0) & (kinds == 1)
    led, last = ints("coordinator_epoch", turns), ints("last_coordinator_epoch", outcomes)
    differs |= (kinds != OPEN) & (led < ints("first_coordinator_epoch", outcomes))
    differs |= (kinds != OPEN) & (last >= 0) & (led > last)
    versions, of = ints("marker_version", turns), group[turns]
    if len(turns) > 1:
        follows = (of[1:] == of[:-1]) & (versions[1:] >= 0) & (versions[:-1] >= 0)
        differs[1:] |= follows & (versions[1:] <= versions[:-1])
        differs[1:] |= (
            (of[1:] == of[:-1]) & ((versions[1:] >= 0) != (versions[:-1] >= 0)) & (kinds[1:] != OPEN)
        )
    np.logical_or.at(odd, of[differs], True)
    sound = ~odd[of] & (kinds != OPEN)
    partitions, decided = ints("coordinator_partition", outcomes)[sound], ints("offset", outcomes)[sound]
    completed = ints("completed_offset", outcomes)[sound] >= 0
    for partition in np.unique(partitions).tolist():
        latest = int(decided[partitions == partition].max())
        context.decided[partition] = max(context.decided.get(partition, -1), latest)
        ended = (partitions == partition) & completed
        if ended.any():
            context.saw_through(partition, int(ints("marker_offset", turns)[sound][ended].max()))
    return odd


PAIRS: Final = Walk("pairs", ("topic", "partition"), ("producer_id", "rank", "producer_epoch", "offset"),
                    PAIRS_SOURCE, PAIRS_RESULT, run)  # fmt: skip
