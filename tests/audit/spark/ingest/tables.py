"""Tables as sets of rows, to be compared."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.audit.decode.columns import TABLES
from fencepost.audit.engine.protocol import Engine
from fencepost.audit.tables.store import read_manifest

Rows = Counter[str]


def rows_of(table: Any) -> Rows:
    """The rows of an Arrow table, each as text, and how often it is there."""
    return Counter(map(repr, table.to_pylist()))


def in_memory(tables: Mapping[str, Any]) -> dict[str, Rows]:
    """Of ``fencepost.audit.decode.local.tables``."""
    return {name: rows_of(tables[name]) for name in TABLES}


def on_disk(folder: Path) -> dict[str, Rows]:
    """Of a folder that ``ingest`` wrote, without Spark."""
    found: dict[str, Rows] = {name: Counter() for name in TABLES}
    for part in read_manifest(folder).parts:
        rows = pq.ParquetFile(folder / part.table / part.name).read()
        assert rows.num_rows == part.rows
        assert part.table == "files" or set(rows.column("path").unique().to_pylist()) <= set(part.paths)
        found[part.table] += rows_of(rows)
    return found


def in_engine(engine: Engine) -> dict[str, Rows]:
    """Of the relations that ``fencepost.audit.tables.reading.scan`` names."""
    found = {}
    for name, columns in TABLES.items():
        rows = engine.rows(f"SELECT * FROM {name}")
        found[name] = rows_of(pa.Table.from_pylist(rows, schema=columns))
    return found
