"""The tables of a folder as relations of an engine, as the last ingest of each of its writers left them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.audit.decode.columns import FILES, TABLES
from fencepost.audit.engine.protocol import Engine, Stored
from fencepost.audit.source.remote import use, used
from fencepost.audit.tables.layout import Part
from fencepost.audit.tables.parts import stored_rows
from fencepost.audit.tables.place import LocalPlace, Place, place_of
from fencepost.audit.tables.snapshot import Snapshot, required


class Fetched(NamedTuple):
    """A Parquet file in a store, to be read by a task."""

    tables: str
    part: Part
    dropped: tuple[str, ...]
    properties: Mapping[str, str]


def scan(engine: Engine, tables_dir: str) -> None:
    """Name every table: rows that a later ingest adds are not seen.

    On a disk an engine reads Parquet itself; out of a store its workers fetch the files as the ingest wrote
    them.
    Raises  TablesRefused if there are none, or of another version; OSError.
    """
    place = place_of(tables_dir)
    found = required(place)
    engine.expect(_row_count(found))
    parts = {part.name: part for ingest in found.live.values() for part in ingest.parts}
    for table, columns in TABLES.items():
        scanned = found.scanned(table)
        if table == "files":
            engine.register(table, _files(found))
        elif isinstance(place, LocalPlace):
            stored = [Stored(tuple(map(place.path, each.names)), each.dropped) for each in scanned]
            engine.scan(table, columns, stored)
        else:
            fetched = [
                Fetched(place.uri, parts[name], each.dropped, used())
                for each in scanned
                for name in each.names
            ]
            engine.load(table, columns, fetch, fetched)


def fetch(task: Fetched) -> Iterator[Any]:
    """Record batches of what counts in one file. Runs on a worker. Raises OSError."""
    use(task.properties)
    place: Place = place_of(task.tables)
    return stored_rows(place, task.part, task.dropped)


def settled_ms(tables_dir: str) -> int | None:
    """When the data logs' story was complete in the logs of the control plane (``ingest``), of every
    directory.

    Raises  TablesRefused, OSError.
    """
    return min(required(place_of(tables_dir)).roots().values(), default=None)


def log_bytes(tables_dir: str) -> int:
    """Of the log files whose rows the tables have. Raises TablesRefused, OSError."""
    return sum(int(row["size"]) for row in required(place_of(tables_dir)).present() if row["kind"] != "hole")


def _row_count(found: Snapshot) -> int:
    """Of all tables together, those that do not count included."""
    return sum(part.rows for ingest in found.live.values() for part in ingest.parts)


def _files(found: Snapshot) -> pa.Table:
    rows = [{name: row[name] for name in FILES.names} for row in found.present()]
    return pa.Table.from_pylist(rows, schema=FILES)
