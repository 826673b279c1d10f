"""Tables as sets of rows, to be compared."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.audit.decode.columns import TABLES
from fencepost.audit.tables.layout import document_name
from fencepost.audit.tables.parts import stored_rows
from fencepost.audit.tables.place import Place, place_of
from fencepost.audit.tables.snapshot import Snapshot, required

Rows = Counter[str]


def rows_of(table: Any) -> Rows:
    """The rows of an Arrow table, each as text, and how often it is there."""
    return Counter(map(repr, table.to_pylist()))


def in_memory(tables: Mapping[str, Any]) -> dict[str, Rows]:
    """Of ``fencepost.audit.decode.local.tables``."""
    return {name: rows_of(tables[name]) for name in TABLES}


def on_disk(folder: Path | str) -> dict[str, Rows]:
    """What counts of a folder that ``ingest`` wrote, without an engine."""
    place = place_of(str(folder))
    return counted(place, required(place))


def counted(place: Place, found: Snapshot) -> dict[str, Rows]:
    rows: dict[str, Rows] = {name: Counter() for name in TABLES}
    parts = {part.name: part for ingest in found.live.values() for part in ingest.parts}
    for name in TABLES:
        for scanned in found.scanned(name) if name != "files" else ():
            for part in scanned.names:
                batches = list(stored_rows(place, parts[part], scanned.dropped))
                rows[name] += rows_of(pa.Table.from_batches(batches, schema=TABLES[name]))
    files = [{key: row[key] for key in TABLES["files"].names} for row in found.present()]
    rows["files"] = rows_of(pa.Table.from_pylist(files, schema=TABLES["files"]))
    return rows


def kept(folder: Path) -> set[str]:
    """Every Parquet file and document below a folder of tables, and whatever else is there."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def meant(folder: Path) -> set[str]:
    """The files that some document names, and the documents."""
    documents = required(place_of(str(folder))).documents
    return {part.name for each in documents.values() for part in each.parts} | set(
        map(document_name, documents)
    )
