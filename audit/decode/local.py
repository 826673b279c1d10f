"""The tables without Spark, in one process: what Spark's must equal, and enough for what fits into memory."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from fencepost.audit.decode.batches import stop_of
from fencepost.audit.decode.columns import FILES, TABLES
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.plan import READ_KINDS, LogFile, list_files
from fencepost.audit.decode.tables import decode_file
from fencepost.audit.decode.walk import Stop

_WALKED: Final = ("segment", "checkpoint")


def tables(
    roots: Sequence[str], *, crc: bool = True, deep: bool = False, files: Files = LOCAL
) -> dict[str, pa.Table]:
    """Every table of everything below ``roots``. A file that cannot be read is a row of ``files``.

    deep  the records of every topic are opened.
    """
    found: dict[str, list[Any]] = {name: [] for name in TABLES}
    listed = []
    for file in list_files(roots, files=files):
        stop = stop_of_file(file, files=files)
        if stop.stop != "unreadable":
            stop = _decode(file, stop, found, crc=crc, deep=deep, files=files)
        listed.append(file_row(file, stop))
    found["files"].append(pa.RecordBatch.from_pylist(listed, schema=FILES))
    return {name: pa.Table.from_batches(found[name], schema=TABLES[name]) for name in TABLES}


def _decode(
    file: LogFile, stop: Stop, found: dict[str, list[Any]], *, crc: bool, deep: bool, files: Files
) -> Stop:
    end = stop.valid_end if file.kind == "segment" else None
    try:
        for name, rows in decode_file(file, 0, end, crc=crc, deep=deep, files=files):
            found[name].append(rows)
    except OSError as error:
        return Stop(0, "unreadable", error.strerror or str(error))
    return stop


def stop_of_file(file: LogFile, start: int = 0, *, files: Files = LOCAL) -> Stop:
    """How far a listed file can be read, as ``stop_of``; of what is not walked, what the listing says."""
    if file.fault is not None:
        return Stop(0, "unreadable", file.fault)
    if file.kind in _WALKED:
        return stop_of(file.path, start, files=files)
    if file.kind in READ_KINDS:
        return Stop(file.size, "end")
    return Stop(0, "end", file.note)


def file_row(file: LogFile, stop: Stop) -> dict[str, object]:
    """A row of the table ``columns.FILES``."""
    return {
        "node": file.node,
        "topic": file.topic,
        "partition": file.partition,
        "path": file.path,
        "kind": file.kind,
        "base_offset": file.base_offset,
        "size": file.size,
        "valid_end": stop.valid_end,
        "stop": stop.stop,
        "reason": stop.reason,
        "last_of_partition": file.last_of_partition,
    }
