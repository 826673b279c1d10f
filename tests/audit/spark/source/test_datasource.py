"""Logs as a data source: a batch is what the decoder says, a stream every row once, whenever asked."""

import json
import os
import shutil
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fencepost.audit.decode import local
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.source.connect import HAS_LIMITS
from fencepost.audit.source.datasource import NAME, register
from tests.audit.faults import cluster
from tests.audit.tables.rows import Rows, in_memory, rows_of

pytestmark = pytest.mark.slow

CUT = ("record_batches", "transaction_states")
"""Large enough to be read in pieces."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cluster.unpacked(tmp_path_factory.mktemp("logs"))


@pytest.fixture(autouse=True)
def _known(spark: SparkSession) -> None:
    register(spark)


def rows(frame: DataFrame, table: str) -> Rows:
    found = [row.asDict(recursive=True) for row in frame.collect()]
    return rows_of(pa.Table.from_pylist(found, schema=TABLES[table]))


@pytest.mark.parametrize("table", CUT)
def test_a_batch_is_what_the_decoder_says(spark: SparkSession, root: Path, table: str) -> None:
    options = {"root.0": str(root), "table": table, "pieceBytes": "16000"}
    frame = spark.read.format(NAME).options(**options).load()
    assert rows(frame, table) == in_memory(local.tables([str(root)]))[table]


def test_every_table_is_what_the_decoder_says(spark: SparkSession, root: Path) -> None:
    """In one query, as JSON: their columns differ."""
    frames = []
    for table in TABLES.keys() - {"files", *CUT}:
        frame = spark.read.format(NAME).options(**{"root.0": str(root), "table": table}).load()
        row = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
        frames.append(frame.select(F.lit(table).alias("name"), row.alias("row")))
    found: dict[str, list[Any]] = {name: [] for name in TABLES}
    for row in reduce(DataFrame.union, frames).collect():
        found[row.name].append(json.loads(row.row))
    expected = in_memory(local.tables([str(root)]))
    for name in TABLES.keys() - {"files", *CUT}:
        assert rows_of(pa.Table.from_pylist(found[name], schema=TABLES[name])) == expected[name], name


def test_a_segment_is_read_by_many_tasks(spark: SparkSession, root: Path) -> None:
    largest = max(root.rglob("*.log"), key=lambda path: path.stat().st_size)
    options = {"root.0": str(largest), "pieceBytes": str(largest.stat().st_size // 10)}
    assert spark.read.format(NAME).options(**options).load().rdd.getNumPartitions() > 5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({}, "root.0 is missing", id="no-directory"),
        pytest.param({"root.0": "/", "table": "files"}, "expected one of", id="a-table-that-is-no-log's"),
    ],
)
def test_options_that_are_refused(spark: SparkSession, options: dict[str, str], reason: str) -> None:
    with pytest.raises(PySparkException, match=reason):
        spark.read.format(NAME).options(**options).load().count()


def test_a_directory_that_cannot_be_read_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    options = {"root.0": str(tmp_path / "nowhere")}
    with pytest.raises(PySparkException, match="nowhere"):
        spark.read.format(NAME).options(**options).load().count()


class Stream:
    """A stream into Parquet that is started and stopped as often as one likes."""

    def __init__(self, spark: SparkSession, root: Path, folder: Path, **options: str) -> None:
        self._spark = spark
        self._options = {"root.0": str(root), "table": "record_batches", **options}
        self._sink, self._checkpoint = str(folder / "sink"), str(folder / "checkpoint")

    def catch_up(self) -> int:
        """The number of batches that it took."""
        query: Any = (
            self._spark.readStream.format(NAME)
            .options(**self._options)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(self._sink)
        )
        query.awaitTermination()
        return sum(progress.numInputRows > 0 for progress in query.recentProgress)

    def rows(self) -> Rows:
        return rows(self._spark.read.parquet(self._sink), "record_batches")


def test_a_stream_gives_each_batch_once(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    growing = Path(shutil.copytree(root, tmp_path / "growing"))
    whole = {path: path.read_bytes() for path in growing.rglob("*.log")}
    stream = Stream(spark, growing, tmp_path, maxBytesPerTrigger="100000")
    batches = 0
    for share in (0.3, 0.8, 1.0):
        for path, content in whole.items():
            path.write_bytes(content[: int(len(content) * share)])
        batches += stream.catch_up()
        assert stream.rows() == in_memory(local.tables([str(growing)]))["record_batches"]
    assert batches > 3 if HAS_LIMITS else batches == 3
    assert stream.catch_up() == 0


def test_a_log_that_was_cut_ends_a_stream_unless_it_may_be(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    cut = Path(shutil.copytree(root, tmp_path / "cut"))
    stream = Stream(spark, cut, tmp_path)
    stream.catch_up()
    before = stream.rows()
    largest = max(cut.rglob("*.log"), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)
    if not HAS_LIMITS:  # a stream's reader is not given where it was: nothing is noticed, and nothing is read
        stream.catch_up()
        assert stream.rows() == before
        return
    with pytest.raises(PySparkException, match="LogTruncated"):
        stream.catch_up()
    assert Stream(spark, cut, tmp_path, failOnTruncation="false").catch_up() == 0
    assert stream.rows() == before
