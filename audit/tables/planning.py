"""What an ingest has to read, file by file: held against what the tables say already.

New     of a segment, what lies past ``valid_end`` of the last time. A segment that is shorter than that, or
        whose bytes around its start and before that place are others, was written anew: its rows count no
        longer, and it is read from its start. What changed in between, at the same size, is not seen.
Gone    a file below the directories that is not there any more takes its rows with it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from fencepost.audit.decode import metadata, offsets, transactions
from fencepost.audit.decode.local import file_row
from fencepost.audit.decode.plan import NO_NODE, READ_KINDS, LogFile, list_files
from fencepost.audit.decode.walk import Stop
from fencepost.audit.source.files import ANY
from fencepost.audit.tables.layout import GONE
from fencepost.audit.tables.refused import TablesRefused
from fencepost.audit.tables.snapshot import FileState
from fencepost.audit.tables.writing import Reserved, is_below

CONTROL_PLANE: Final = frozenset({metadata.TOPIC, transactions.TOPIC, offsets.TOPIC})
_MARK_BYTES: Final = 4096
_SMALL_BYTES: Final = (
    16 * 1024 * 1024
)  # of a file that is no segment: written over, and held against all of it


class Start(NamedTuple):
    """A file to read, from where, and the first ingest whose rows of it count.

    ``is_opened``  the records of all that lies before ``position`` were opened.
    """

    file: LogFile
    position: int
    first_ingest: int
    is_opened: bool = True


@dataclass(slots=True)
class Plan:
    """What is to be done.

    ``starts``  files to read.
    ``states``  rows of the stored table ``files`` that are others than before without any reading.
    ``anew``    paths whose rows of earlier ingests count no longer, and why.
    """

    starts: list[Start] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    anew: dict[str, str] = field(default_factory=dict)


def listed(roots: Sequence[str]) -> list[LogFile]:
    """Every file below the roots, the logs of the control plane listed before those of data."""
    first = [file for file in list_files(roots, files=ANY) if file.topic in CONTROL_PLANE]
    return [*first, *(file for file in list_files(roots, files=ANY) if file.topic not in CONTROL_PLANE)]


def planned(files: Sequence[LogFile], roots: Sequence[str], taken: Reserved, *, deep: bool = False) -> Plan:
    """What to do with each listed file. Raises TablesRefused: another machine's files have the same paths.

    ``deep``  the records of every segment are to be opened: where that was not done, it is read anew.
    """
    known = {
        path: rows
        for path, rows in taken.before.files.items()
        if rows[0]["stop"] != GONE and any(is_below(path, root) for root in roots)
    }
    plan = Plan()
    by_path: defaultdict[str, list[LogFile]] = defaultdict(list)
    for file in files:
        by_path[file.path].append(file)
    for path, found in by_path.items():
        before = known.pop(path, [])
        if len(found) > 1 or found[0].kind not in READ_KINDS or found[0].fault is not None:
            _unread(plan, found, before, taken.number)
        else:
            _one(plan, found[0], before[0] if before else None, taken.number, deep=deep)
    for path, rows in known.items():
        plan.states.append(_next({**rows[0], "stop": GONE, "reason": None}, taken.number))
        if rows[0]["kind"] in READ_KINDS:
            plan.anew[path] = "it is not there any more"
    return plan


def state_of(
    file: LogFile,
    stop: Stop,
    first_ingest: int,
    *,
    mark: str = "",
    is_last_sound: bool = True,
    is_opened: bool = False,
) -> dict[str, Any]:
    """A row of the stored table ``files``."""
    return {
        **file_row(file, stop),
        "first_ingest": first_ingest,
        "is_last_sound": is_last_sound,
        "is_opened": is_opened,
        "mark": mark,
    }


def opens(file: LogFile, *, deep: bool) -> bool:
    """Whether a reading opens the records of a file: those of the control plane's logs always."""
    return file.kind == "segment" and (deep or file.topic in CONTROL_PLANE)


def mark_of(file: LogFile, end: int) -> str:
    """What tells the first ``end`` bytes of a file from others: a checksum of their first and last."""
    try:
        opened = ANY.open(file.path)
        try:
            span = min(end, _MARK_BYTES if file.kind == "segment" else _SMALL_BYTES)
            head = opened.read(0, span)
            tail = opened.read(end - span, span)
        finally:
            opened.close()
    except OSError as error:
        return f"unreadable: {error}"
    return f"{crc32c(head.tobytes()):08x}{crc32c(tail.tobytes()):08x}"


def _unread(plan: Plan, found: Sequence[LogFile], before: Sequence[FileState], number: int) -> None:
    """Of what is listed and not read: a hole, a directory, a file that cannot be looked at."""
    had_rows = bool(before) and before[0]["kind"] in READ_KINDS and before[0]["stop"] != "unreadable"
    first = number if had_rows or not before else before[0]["first_ingest"]
    rows = [
        state_of(
            file,
            Stop(0, "unreadable", file.fault) if file.fault is not None else Stop(0, "end", file.note),
            first,
        )
        for file in found
    ]
    if had_rows:
        plan.anew[found[0].path] = "it cannot be read any more"
    if rows != [_stored(row) for row in before]:
        plan.states += rows


def _one(plan: Plan, file: LogFile, row: FileState | None, number: int, *, deep: bool) -> None:
    if row is None or row["stop"] == "unreadable" or row["kind"] != file.kind:
        plan.starts.append(Start(file, 0, number))
        return
    if NO_NODE not in {row["node"], file.node} and row["node"] != file.node:
        raise TablesRefused(
            f"{file.path} was read as a file of node {row['node']}, and is one of node {file.node} here:"
            " where machines have the same paths, each needs a name of its own (--host NAME)"
        )
    changed = _changed(file, row)
    if changed is None and deep and file.kind == "segment" and row["valid_end"] and not row["is_opened"]:
        changed = "its records were not opened before"
    if changed is not None:
        plan.anew[file.path] = changed
        plan.starts.append(Start(file, 0, number))
    elif file.kind != "segment" or (row["stop"] == "end" and row["valid_end"] == file.size):
        state = {**_stored(row), **_listing(file)}
        if state != _stored(row):
            plan.states.append(state)
    else:
        plan.starts.append(Start(file, row["valid_end"], row["first_ingest"], bool(row["is_opened"])))


def _changed(file: LogFile, row: FileState) -> str | None:
    """Why what was read of a file does not count any more; None: it does."""
    end = row["valid_end"]
    if file.kind != "segment":
        same = (row["size"], row["mark"]) == (file.size, mark_of(file, file.size))
        return None if same else "it was written anew"
    if file.size < end:
        return f"truncated: {file.size} bytes, {end} were read before"
    if mark_of(file, end) != row["mark"]:
        return "it was written anew"
    if not row["is_last_sound"] and file.size != row["size"]:
        return "it has grown behind a fault"  # where the fault ends may look otherwise now
    return None


def _listing(file: LogFile) -> dict[str, Any]:
    """What a row says that may change though the file does not."""
    row = file_row(file, Stop(0, "end"))
    return {name: row[name] for name in ("node", "topic", "partition", "size", "last_of_partition")}


def _next(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {**_stored(row), "first_ingest": number}


def _stored(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "ingest"}
