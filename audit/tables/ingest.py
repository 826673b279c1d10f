"""Log directories into tables: what is new since the last time, exactly once, killed at any moment or not.

Cut         the logs of the control plane are listed first, those of data after them. So an end that the
            coordinator wrote down has all its markers in the data that is read; and a marker older than
            ``settled_ms``, the clock just before the first listing, has its transaction in what is read of
            the coordinator. Nothing is read past the size that was listed.
Machines    many may write into one folder, each its own directories: what one says nothing of stays as it
            was.
Workers     write Parquet themselves and send back which files and how far they came; rows do not pass through
            the driver, nor through the JVM. A task that is tried twice writes two files, of which one is
            named.
"""

import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.audit.decode.batches import stop_of
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.decode.local import stop_of_file
from fencepost.audit.decode.walk import Stop
from fencepost.audit.engine.protocol import Workers
from fencepost.audit.source.files import ANY
from fencepost.audit.source.pieces import Piece, Reached, bundles, cut, fits, piece_bytes
from fencepost.audit.source.remote import used
from fencepost.audit.source.sparing import Pace
from fencepost.audit.source.uris import local_path, name_this_machine, named
from fencepost.audit.tables.bundle import Bundle, write_bundle
from fencepost.audit.tables.layout import GONE, STORED, Part
from fencepost.audit.tables.merging import merge
from fencepost.audit.tables.parts import Made, PartWriter, stored_rows
from fencepost.audit.tables.place import Place, place_of
from fencepost.audit.tables.planning import Plan, Start, listed, mark_of, opens, planned, state_of
from fencepost.audit.tables.refused import TablesRefused
from fencepost.audit.tables.snapshot import Snapshot
from fencepost.audit.tables.writing import Reserved, commit, reserved, sweep


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one ingest did.

    ``number``      of the ingest; None: there was nothing new, and nothing was written.
    ``bytes_read``  of log files.
    ``rows``        per table, that were written.
    ``not_read``    path, position and reason of what ends torn or could not be read, this time or before.
    ``read_anew``   paths whose rows of earlier ingests count no longer, and why.
    """

    number: int | None
    settled_ms: int
    files: int
    bytes_read: int
    rows: Mapping[str, int]
    not_read: tuple[tuple[str, int, str], ...]
    read_anew: tuple[tuple[str, str], ...]


class _Job(NamedTuple):
    """Who reads, and where the rows go."""

    workers: Workers
    place: Place
    number: int
    machine: str
    pace: Pace
    deep: bool
    show: Callable[[str], None]


def ingest(
    workers: Workers,
    roots: Sequence[str],
    tables_dir: str,
    progress: Callable[[str], None] | None = None,
    *,
    machine: str = "",
    pace: Pace | None = None,
    deep: bool = False,
) -> IngestReport:
    """Bring the tables of ``tables_dir``, a path or a URI, up to what ``roots`` hold now.

    ``machine``  what paths of this machine are called by: where other machines write into the same tables.
    ``deep``     the records of every topic are opened; segments of which that was not done are read anew.
    Raises       TablesRefused; OSError if the folder cannot be written.
    """
    show = progress or (lambda _: None)
    name_this_machine(machine)
    place = place_of(tables_dir)
    everywhere = list(dict.fromkeys(_root(root, machine) for root in roots))
    with reserved(place, everywhere) as taken:
        sweep(place)
        show("listing files")
        settled_ms = time.time_ns() // 1_000_000
        plan = planned(listed(everywhere), everywhere, taken, deep=deep)
        size = sum(start.file.size - start.position for start in plan.starts)
        show(f"reading {size:,} bytes of {len(plan.starts):,} files")
        job = _Job(workers, place, taken.number, machine, pace or Pace(), deep, show)
        parts, states = _read(job, plan.starts)
        states = sorted([*plan.states, *states], key=lambda row: (row["path"], row["base_offset"] or 0))
        is_new = bool(states) or not taken.before.live
        if is_new:
            show("committing")
            parts += _files_part(place, taken.number, states)
            commit(place, taken, parts, dict.fromkeys(everywhere, settled_ms), taken.before.dead())
    if is_new:
        with contextlib.suppress(OSError, TablesRefused):  # it is committed; what is not merged now is later
            merge(place)
    return _report(taken, settled_ms, size, plan, _after(taken.before, states), parts if is_new else None)


def _root(root: str, machine: str) -> str:
    here = local_path(root)
    return (root.rstrip("/") or "/") if here is None else named(str(Path(here).absolute()), machine)


def _read(job: _Job, starts: Sequence[Start]) -> tuple[list[Part], list[dict[str, Any]]]:
    """Read every file from its start; those whose pieces do not fit once more, in one piece."""
    size = piece_bytes(sum(start.file.size - start.position for start in starts), job.workers.workers)
    pieces = [piece for start in starts for piece in cut(start.file, start.position, size, ANY)]
    made, reached = _run(job, bundles(pieces, bytes_each=size), 0)
    came = _by_path(reached)
    apart = [
        Piece(each.file, each.position, each.file.size) for each in starts if not fits(came[each.file.path])
    ]
    if apart:
        made = _without(job, made, {piece.file.path for piece in apart})
        more, again = _run(job, [[piece] for piece in apart], len(pieces))
        made += more
        came |= _by_path(again)
    return [each.part for each in made], [
        _state_reached(each, came[each.file.path], job.number, deep=job.deep) for each in starts
    ]


def _run(job: _Job, tasks: Sequence[Sequence[Piece]], first: int) -> tuple[list[Made], list[Reached]]:
    if not tasks:
        return [], []
    each_s = job.pace.bytes_per_s
    pace = job.pace._replace(bytes_per_s=each_s and each_s / min(job.workers.workers, len(tasks)))
    numbered = [
        Bundle(job.place.uri, job.number, first + task, list(pieces), used(), job.machine, pace, job.deep)
        for task, pieces in enumerate(tasks)
    ]
    written = job.workers.spread(write_bundle, numbered, lambda done: job.show(f"reading logs: task {done}"))
    for each in written:
        if each.fault is not None:
            raise OSError(f"{job.place.uri}: {each.fault}")
    made = list(itertools.chain.from_iterable(each.made for each in written))
    return made, list(itertools.chain.from_iterable(each.reached for each in written))


def _without(job: _Job, made: Sequence[Made], paths: Collection[str]) -> list[Made]:
    """The files less every row of ``paths``: those that have such rows are written anew."""
    kept = []
    for each in made:
        if not set(each.paths).isdisjoint(paths):
            with PartWriter(job.place, job.number, "again") as writer:
                for rows in stored_rows(job.place, each.part, paths):
                    writer.write(each.part.table, rows)
                kept += [one._replace(paths=tuple(set(each.paths) - set(paths))) for one in writer.close()]
            job.place.remove(each.part.name)
        else:
            kept.append(each)
    return kept


def _by_path(reached: Sequence[Reached]) -> defaultdict[str, list[Reached]]:
    """What was reached in each file, in the order of its pieces."""
    found: defaultdict[str, list[Reached]] = defaultdict(list)
    for each in sorted(reached, key=lambda each: each.start):
        found[each.path].append(each)
    return found


def _state_reached(start: Start, reached: Sequence[Reached], number: int, *, deep: bool) -> dict[str, Any]:
    """The row of a file that was read. Of one that failed, or was deleted meanwhile, no row counts: not these
    either.
    """
    file = start.file
    faults = [each.fault for each in reached if each.fault is not None]
    if faults:
        stop = Stop(0, "unreadable", faults[0]) if _is_there(file.path) else Stop(0, GONE)
        return state_of(file, stop, number + 1)
    if file.kind != "segment":
        stop = stop_of_file(file, files=ANY)
        first = number + 1 if stop.stop == "unreadable" else start.first_ingest
        return state_of(file, stop, first, mark=mark_of(file, file.size))
    end = reached[-1].end if reached else start.position
    stop = Stop(end, "end") if end >= file.size else stop_of(file.path, end, files=ANY)
    if stop.stop == "unreadable":
        return state_of(file, stop if _is_there(file.path) else Stop(0, GONE), number + 1)
    if stop.valid_end > end:
        stop = Stop(end, "end")  # it has grown since it was listed: what looked torn was being written
    is_last_sound = not reached or reached[-1].is_last_sound
    is_opened = start.is_opened and opens(file, deep=deep)
    mark = mark_of(file, end)
    return state_of(
        file, stop, start.first_ingest, mark=mark, is_last_sound=is_last_sound, is_opened=is_opened
    )


def _is_there(path: str) -> bool:
    try:
        ANY.entry(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _files_part(place: Place, number: int, states: Sequence[Mapping[str, Any]]) -> list[Part]:
    with PartWriter(place, number, "files") as writer:
        writer.write("files", pa.RecordBatch.from_pylist(list(states), schema=STORED["files"]))
        return [made.part for made in writer.close()]


def _after(before: Snapshot, states: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What is known of every file now."""
    changed = {row["path"] for row in states}
    kept = (row for row in before.present() if row["path"] not in changed)
    return [*kept, *(row for row in states if row["stop"] != GONE)]


def _report(
    taken: Reserved,
    settled_ms: int,
    bytes_read: int,
    plan: Plan,
    files: Sequence[Mapping[str, Any]],
    parts: Sequence[Part] | None,
) -> IngestReport:
    rows = dict.fromkeys(TABLES, 0)
    for part in parts or ():
        rows[part.table] += part.rows
    not_read = tuple(
        sorted(
            (row["path"], row["valid_end"], row["reason"] or row["stop"])
            for row in files
            if row["stop"] not in {"end", "preallocated"}
        )
    )
    number = None if parts is None else taken.number
    return IngestReport(
        number, settled_ms, len(files), bytes_read, rows, not_read, tuple(sorted(plan.anew.items()))
    )
