"""An ingest on Spark's workers is one in this process; a driver that is killed changes nothing."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from signal import SIGKILL

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fencepost.audit.decode import local
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.engine.spark import SparkEngine
from fencepost.audit.tables.ingest import ingest
from fencepost.audit.tables.reading import scan
from tests.audit.bench_ingest import write_segments
from tests.audit.decode.corpus import laid
from tests.audit.faults import cluster
from tests.audit.tables.rows import Rows, in_memory, kept, meant, rows_of
from tests.audit.tables.test_deep import noise
from tests.audit.tables.views import counted_plainly, example, lived_in

pytestmark = pytest.mark.slow


def scanned(engine: SparkEngine, tables: str) -> dict[str, Rows]:
    scan(engine, tables)
    found = {}
    for name, columns in TABLES.items():
        rows = engine.rows(f"SELECT * FROM {name}")
        found[name] = rows_of(pa.Table.from_pylist(rows, schema=columns))
    return found


@pytest.mark.row("card.8")
def test_an_ingest_is_what_the_decoder_says_and_so_is_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """The next one opens the records of every topic (``--deep``): workers do what the decoder does here."""
    root, tables = cluster.unpacked(tmp_path / "logs"), str(tmp_path / "tables")
    workers = SparkEngine(spark)
    ingest(workers, [str(root)], tables)
    assert scanned(workers, tables) == in_memory(local.tables([str(root)]))
    largest = max(root.rglob("*.log"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
    noisy = largest.parent.parent / "noisy-0"
    noisy.mkdir()
    (noisy / f"{0:020}.log").write_bytes(laid([noise()]).content)
    assert ingest(workers, [str(root)], tables, deep=True).read_anew
    opened = in_memory(local.tables([str(root)], deep=True))
    assert scanned(workers, tables) == opened
    assert [row for row in opened["record_faults"] if "noisy-0" in row]


def test_each_task_has_a_partition_of_its_own(spark: SparkSession) -> None:
    workers = SparkEngine(spark)
    assert workers.workers == 2
    assert workers.spread(str.upper, list("abcdefg"), print) == list("ABCDEFG")
    assert workers.spread(str.upper, [], print) == []


def test_killed_while_workers_write(spark: SparkSession, tmp_path: Path) -> None:
    logs, tables = tmp_path / "logs", tmp_path / "tables"
    write_segments(logs, 70_000_000)
    command = [sys.executable, "-m", "tests.audit.spark.ingest.killed", str(logs), str(tables), "2"]
    assert subprocess.run(command, check=False).returncode == -SIGKILL
    report = ingest(SparkEngine(spark), [str(logs)], str(tables))
    assert report.rows["record_batches"] == local.tables([str(logs)])["record_batches"].num_rows
    rows = scanned(SparkEngine(spark), str(tables))["record_batches"]
    assert rows.total() == len(rows) == report.rows["record_batches"]
    ingest(
        SparkEngine(spark), [str(logs)], str(tables)
    )  # workers may have outlived their driver, and written
    assert kept(tables) == meant(tables)


def test_plain_spark_sql_counts_what_counts(spark: SparkSession, tmp_path: Path) -> None:
    tables, session = lived_in(tmp_path), spark.newSession()
    for statement in example("Spark SQL", tables).split(";"):
        if statement.strip():
            session.sql(statement)
    counted = session.sql("SELECT path, position FROM record_batches").collect()
    found = {row.path for row in session.sql("SELECT path FROM files WHERE stop <> 'gone'").collect()}
    assert (Counter((row.path, row.position) for row in counted), found) == counted_plainly(tables)
