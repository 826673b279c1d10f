"""Log directories into tables: what is new since the last time, exactly once, killed at any moment or not.

Cut         the logs of the control plane are listed first, those of data after them. So an end that the
            coordinator wrote down has all its markers in the data that is read; and a marker older than
            ``settled_ms``, the clock just before the first listing, has its transaction in what is read of
            the coordinator. Nothing is read past the size that was listed.
New         of a segment, what lies past ``valid_end`` of the last time. A segment that is shorter than
            that, or whose bytes around its start and before that place are others, was written anew: its
            rows are dropped and it is read from its start. What changed in between, at the same size, is
            not seen.
Gone        a file that is not there any more takes its rows with it: the tables are what the directories
            hold.
Workers     write Parquet themselves and send back which files and how far they came; rows do not pass through
            the JVM. A stream per table would cost that passage, and could not make eight tables visible at
            one moment; the manifest does (``store``). A task that is tried twice writes two files, of
            which one is named.
"""

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from fencepost.audit.decode import metadata, offsets, transactions
from fencepost.audit.decode.batches import stop_of
from fencepost.audit.decode.columns import FILES, TABLES
from fencepost.audit.decode.local import file_row, stop_of_file
from fencepost.audit.decode.plan import READ_KINDS, LogFile, list_files
from fencepost.audit.decode.walk import Stop
from fencepost.audit.engine.protocol import Workers
from fencepost.audit.source.files import ANY
from fencepost.audit.source.pieces import Piece, Reached, bundles, cut, fits, piece_bytes
from fencepost.audit.tables import store
from fencepost.audit.tables.bundle import Bundle, write_bundle
from fencepost.audit.tables.store import Manifest, PartWriter, TableFile

CONTROL_PLANE: Final = frozenset({metadata.TOPIC, transactions.TOPIC, offsets.TOPIC})
_MARK_BYTES: Final = 4096
_MARK, _IS_LAST_SOUND = "mark", "is_last_sound"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one ingest did.

    ``bytes_read``  of log files, this time.
    ``rows``        per table, in all.
    ``not_read``    path, position and reason of what ends torn or could not be read, this time or before.
    ``read_anew``   paths whose rows were dropped, and why.
    """

    commit: int
    settled_ms: int
    files: int
    bytes_read: int
    rows: Mapping[str, int]
    not_read: tuple[tuple[str, int, str], ...]
    read_anew: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Plan:
    """What is to be done with each listed file."""

    starts: list[tuple[LogFile, int]] = field(default_factory=list)  # to be read, from where
    kept: list[dict[str, Any]] = field(default_factory=list)  # rows of files that nothing was added to
    anew: dict[str, str] = field(default_factory=dict)  # paths whose rows no longer count, and why


class _Outcome(NamedTuple):
    """What reading came to: new parts, a row for each file that was read, paths that must have no rows."""

    parts: list[TableFile]
    rows: list[dict[str, Any]]
    failed: list[str]


def ingest(
    workers: Workers,
    roots: Sequence[str],
    tables_dir: str,
    progress: Callable[[str], None] | None = None,
) -> IngestReport:
    """Bring the tables of ``tables_dir`` up to what ``roots``, and the roots of earlier times, hold now.

    Raises  TablesRefused; OSError if the folder cannot be written.
    """
    show = progress or (lambda _: None)
    folder = Path(tables_dir).absolute()
    with store.writing(folder) as before:
        store.sweep(folder, before)
        everywhere = tuple(dict.fromkeys((*before.roots, *map(_absolute, roots))))
        show("listing files")
        settled_ms = time.time_ns() // 1_000_000
        plan = _planned(_listed(everywhere), before)
        size = sum(file.size - start for file, start in plan.starts)
        show(f"reading {size:,} bytes of {len(plan.starts):,} files")
        commit = before.commit + 1
        outcome = _read(workers, plan.starts, folder, commit, show)
        show("writing the manifest")
        old = [part for part in before.parts if part.table != "files"]
        dropped = {*plan.anew, *outcome.failed}
        parts = [*store.without(folder, old, dropped, commit), *outcome.parts]
        rows = sorted([*plan.kept, *outcome.rows], key=lambda row: (row["path"], row["base_offset"] or 0))
        parts += _files_part(folder, commit, rows)
        manifest = store.commit(
            folder,
            replace(
                before,
                commit=commit,
                settled_ms=settled_ms,
                roots=everywhere,
                files=tuple(rows),
                parts=tuple(parts),
            ),
            time.time(),
        )
    return _report(manifest, settled_ms, size, plan)


def _absolute(root: str) -> str:
    return root.rstrip("/") or "/" if "://" in root else str(Path(root).absolute())


def _listed(roots: Sequence[str]) -> list[LogFile]:
    first = [file for file in list_files(roots, files=ANY) if file.topic in CONTROL_PLANE]
    return [*first, *(file for file in list_files(roots, files=ANY) if file.topic not in CONTROL_PLANE)]


def _planned(listed: Sequence[LogFile], before: Manifest) -> _Plan:
    known = {row["path"]: row for row in before.files if row["kind"] in READ_KINDS}
    plan = _Plan()
    for file in listed:
        row = known.pop(file.path, None) if file.kind in READ_KINDS else None
        if file.kind not in READ_KINDS or file.fault is not None:
            stop = Stop(0, "unreadable", file.fault) if file.fault is not None else Stop(0, "end", file.note)
            plan.kept.append(_state(file, stop))
            if row is not None:
                plan.anew[file.path] = "it cannot be read any more"
            continue
        if row is None or row["stop"] == "unreadable":
            plan.starts.append((file, 0))
            continue
        changed = _changed(file, row)
        if changed is not None:
            plan.anew[file.path] = changed
            plan.starts.append((file, 0))
        elif file.kind != "segment" or (row["stop"] == "end" and row["valid_end"] == file.size):
            plan.kept.append({**row, **_listing(file)})
        else:
            plan.starts.append((file, row["valid_end"]))
    plan.anew |= dict.fromkeys(known, "it is not there any more")
    return plan


def _changed(file: LogFile, row: Mapping[str, Any]) -> str | None:
    """Why what was read of a file does not count any more; None: it does."""
    end = row["valid_end"]
    if file.kind != "segment":
        same = (row["size"], row[_MARK]) == (file.size, _mark(file, file.size))
        return None if same else "it was written anew"
    if file.size < end:
        return f"truncated: {file.size} bytes, {end} were read before"
    if _mark(file, end) != row[_MARK]:
        return "it was written anew"
    if not row[_IS_LAST_SOUND] and file.size != row["size"]:
        return "it has grown behind a fault"  # where the fault ends may look otherwise now
    return None


def _read(
    workers: Workers,
    starts: Sequence[tuple[LogFile, int]],
    folder: Path,
    commit: int,
    show: Callable[[str], None],
) -> _Outcome:
    """Read every file from its start; those whose pieces do not fit once more, in one piece."""
    size = piece_bytes(sum(file.size - start for file, start in starts), workers.workers)
    pieces = [piece for file, start in starts for piece in cut(file, start, size, ANY)]
    parts, reached = _run(workers, bundles(pieces, bytes_each=size), folder, commit, show)
    came = _by_path(reached)
    apart = [Piece(file, start, file.size) for file, start in starts if not fits(came[file.path])]
    if apart:
        paths = {piece.file.path for piece in apart}
        parts = store.without(folder, parts, paths, commit)
        more, again = _run(workers, [[piece] for piece in apart], folder, commit, show)
        parts += more
        came |= _by_path(again)
    rows, failed = [], []
    for file, start in starts:
        row = _state_reached(file, start, came[file.path])
        if row is None or row["stop"] == "unreadable":
            failed.append(file.path)
        if row is not None:
            rows.append(row)
    return _Outcome(store.without(folder, parts, failed, commit), rows, failed)


def _run(
    workers: Workers,
    tasks: Sequence[Sequence[Piece]],
    folder: Path,
    commit: int,
    show: Callable[[str], None],
) -> tuple[list[TableFile], list[Reached]]:
    numbered = [Bundle(str(folder), commit, number, list(task)) for number, task in enumerate(tasks)]
    written = workers.spread(write_bundle, numbered, lambda done: show(f"reading logs: task {done}"))
    for each in written:
        if each.fault is not None:
            raise OSError(f"{folder}: {each.fault}")
    parts = list(itertools.chain.from_iterable(each.parts for each in written))
    return parts, list(itertools.chain.from_iterable(each.reached for each in written))


def _by_path(reached: Sequence[Reached]) -> defaultdict[str, list[Reached]]:
    """What was reached in each file, in the order of its pieces."""
    found: defaultdict[str, list[Reached]] = defaultdict(list)
    for each in sorted(reached, key=lambda each: each.start):
        found[each.path].append(each)
    return found


def _state_reached(file: LogFile, start: int, reached: Sequence[Reached]) -> dict[str, Any] | None:
    """The row of a file that was read; None if it has been deleted since it was listed."""
    faults = [each.fault for each in reached if each.fault is not None]
    if faults:
        return _state(file, Stop(0, "unreadable", faults[0])) if _is_there(file.path) else None
    if file.kind != "segment":
        return _state(file, stop_of_file(file, files=ANY), mark=_mark(file, file.size))
    end = reached[-1].end if reached else start
    stop = Stop(end, "end") if end >= file.size else stop_of(file.path, end, files=ANY)
    if stop.stop == "unreadable" and not _is_there(file.path):
        return None
    if stop.valid_end > end:
        stop = Stop(end, "end")  # it has grown since it was listed: what looked torn was being written
    return _state(file, stop, mark=_mark(file, end), is_last_sound=not reached or reached[-1].is_last_sound)


def _state(file: LogFile, stop: Stop, *, mark: str = "", is_last_sound: bool = True) -> dict[str, Any]:
    return {**file_row(file, stop), _MARK: mark, _IS_LAST_SOUND: is_last_sound}


def _listing(file: LogFile) -> dict[str, Any]:
    """What a row says that may change though the file does not."""
    row = file_row(file, Stop(0, "end"))
    return {name: row[name] for name in ("node", "topic", "partition", "size", "last_of_partition")}


def _mark(file: LogFile, end: int) -> str:
    """What tells the first ``end`` bytes of a file from others: a checksum of their first and last."""
    try:
        opened = ANY.open(file.path)
        try:
            head = opened.read(0, min(end, _MARK_BYTES))
            tail = opened.read(max(0, end - _MARK_BYTES), min(end, _MARK_BYTES))
        finally:
            opened.close()
    except OSError as error:
        return f"unreadable: {error}"
    return f"{crc32c(head.tobytes()):08x}{crc32c(tail.tobytes()):08x}"


def _is_there(path: str) -> bool:
    try:
        ANY.entry(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _files_part(folder: Path, commit: int, rows: Sequence[Mapping[str, Any]]) -> list[TableFile]:
    import pyarrow as pa

    with PartWriter(folder, commit, 0) as writer:
        writer.write("files", pa.RecordBatch.from_pylist(list(rows), schema=FILES), "")
        return writer.close()


def _report(manifest: Manifest, settled_ms: int, bytes_read: int, plan: _Plan) -> IngestReport:
    rows = dict.fromkeys(TABLES, 0)
    for part in manifest.parts:
        rows[part.table] += part.rows
    not_read = tuple(
        (row["path"], row["valid_end"], row["reason"] or row["stop"])
        for row in manifest.files
        if row["stop"] not in {"end", "preallocated"}
    )
    anew = tuple(sorted(plan.anew.items()))
    return IngestReport(manifest.commit, settled_ms, len(manifest.files), bytes_read, rows, not_read, anew)
