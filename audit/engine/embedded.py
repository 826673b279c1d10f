"""The checks in this process, on DuckDB: no JVM, nothing to start.

Memory      what does not fit is written to ``folder``. Rows of a walk stream through it, a batch at a time.
Network     DuckDB would fetch an extension that a text needs; here it may not, and nothing needs one.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from fencepost.audit.engine.protocol import Done, Row, Stored, Task
from fencepost.audit.walks.walk import Walk

BATCH_ROWS: Final = 65_536
MEMORY: Final = "1g"
_ARRIVING: Final = "arriving_rows"


class EmbeddedEngine:
    """Implements ``fencepost.audit.engine.protocol.Engine``."""

    def __init__(self, folder: str, *, memory: str | None = None) -> None:
        self._kinds: dict[str, str] = {}  # of each name: TABLE or VIEW
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "temp_directory": folder,
                "memory_limit": duckdb_size(memory or MEMORY),
                "default_null_order": "nulls_first_on_asc_last_on_desc",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )

    @property
    def workers(self) -> int:
        """Implements ``Engine.workers``."""
        return len(os.sched_getaffinity(0))

    def spread(
        self, work: Callable[[Task], Done], tasks: Sequence[Task], show: Callable[[str], None]
    ) -> list[Done]:
        """Implements ``Engine.spread``, by threads: what is slow in decoding and writing holds no lock of
        Python's."""
        done = []
        with ThreadPoolExecutor(self.workers) as pool:
            for number, each in enumerate(pool.map(work, tasks), 1):
                done.append(each)
                show(f"{number} of {len(tasks)}")
        return done

    def progress(self) -> str:
        """Implements ``Engine.progress``."""
        return ""

    def expect(self, row_count: int) -> None:
        """Implements ``Engine.expect``: of no use here."""

    def register(self, name: str, rows: pa.Table) -> None:
        """Implements ``Engine.register``."""
        self._keep(name, rows.schema, iter(rows.to_batches()))

    def scan(self, name: str, schema: pa.Schema, stored: Sequence[Stored]) -> None:
        """Implements ``Engine.scan``."""
        if not stored:
            self.register(name, schema.empty_table())
            return
        self._make(name, "VIEW", " UNION ALL ".join(_stored_text(schema, each) for each in stored))

    def load(
        self, name: str, schema: pa.Schema, read: Callable[[Task], Iterator[Any]], tasks: Sequence[Task]
    ) -> None:
        """Implements ``Engine.load``: into a table, one task after another."""
        self._keep(name, schema, itertools.chain.from_iterable(map(read, tasks)))

    def define(self, name: str, sql: str, *, is_kept: bool) -> None:
        """Implements ``Engine.define``."""
        self._make(name, "TABLE" if is_kept else "VIEW", sql)

    def walk(self, name: str, walk: Walk, source: str, *, is_kept: bool) -> None:
        """Implements ``Engine.walk``: always kept, for its rows come out of Python once."""
        cursor = self._connection.cursor()
        try:
            reader = cursor.sql(sorted_text(walk, source)).to_arrow_reader(BATCH_ROWS)
            batches = (rows.cast(walk.source) for rows in reader)
            self._keep(name, walk.result, walk.run(batches))
        finally:
            cursor.close()

    def rows(self, sql: str) -> list[Row]:
        """Implements ``Engine.rows``."""
        found: list[Row] = self._connection.sql(sql).to_arrow_table().to_pylist()
        return found

    def write(self, sql: str, folder: str) -> None:
        """Implements ``Engine.write``."""
        Path(folder).mkdir(parents=True)
        target = _literal(str(Path(folder) / "part-0.parquet"))
        try:
            self._connection.execute(f"COPY ({sql}) TO {target} (FORMAT parquet, COMPRESSION zstd)")
        except duckdb.IOException as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        """Implements ``Engine.close``."""
        self._connection.close()

    def _make(self, name: str, kind: str, sql: str) -> None:
        before = self._kinds.get(name, kind)
        if before != kind:
            self._connection.execute(f'DROP {before} "{name}"')
        self._connection.execute(f'CREATE OR REPLACE {kind} "{name}" AS {sql}')
        self._kinds[name] = kind

    def _keep(self, name: str, schema: pa.Schema, batches: Iterator[Any]) -> None:
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        self._connection.register(_ARRIVING, reader)
        try:
            self._make(name, "TABLE", f"SELECT * FROM {_ARRIVING}")
        finally:
            self._connection.unregister(_ARRIVING)


def duckdb_size(size: str) -> str:
    """A size as Spark writes it (``2g``, ``512m``) as DuckDB does. Others are given on as they are."""
    found = re.fullmatch(r"(\d+)([kmgt])b?", size.strip().lower())
    return f"{found[1]}{found[2].upper()}iB" if found else size


def sorted_text(walk: Walk, source: str) -> str:
    """The rows of ``source`` as ``walk`` wants them."""
    columns = ", ".join(f'"{each}"' for each in walk.source.names)
    order = ", ".join(f'"{each}"' for each in (*walk.keys, *walk.order))
    return f'SELECT {columns} FROM "{source}" ORDER BY {order}'


def _stored_text(schema: pa.Schema, stored: Stored) -> str:
    columns = ", ".join(f'"{each}"' for each in schema.names)
    files = ", ".join(map(_literal, stored.files))
    text = f"SELECT {columns} FROM read_parquet([{files}], hive_partitioning = false)"
    dropped = ", ".join(map(_literal, stored.dropped))
    return f'{text} WHERE "path" NOT IN ({dropped})' if dropped else text


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
