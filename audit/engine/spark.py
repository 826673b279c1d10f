"""The checks on Spark, through its public interface: SQL over temporary views, walks by ``mapInArrow``.

Spread      a walk's keys say what is one stream: rows are partitioned by them, sorted, and walked by workers.
Kept        a relation is computed when it is defined (``localCheckpoint``): what reads it is a plan of its
            own, and
            small. Without that the plans of later texts contain those of the earlier ones many times over.
            Its rows lie on disk: in memory they would take most of a heap, and be read a few times.
Known       a kept relation of few rows becomes a part of the plans that read it: Spark joins it without a
            shuffle, and what joins one without rows is no part of a plan at all.
Dialect     Spark quotes names with backticks, and calls ``unnest`` ``explode``.
"""

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fencepost.audit.engine.protocol import Done, Row, Stored, Task
from fencepost.audit.source.connect import is_connect, settings_of
from fencepost.audit.walks.walk import Walk

FEW_ROWS_MAX: Final = 300_000
"""In all tables together. Above, compiled code is faster than what it takes to compile it."""

KNOWN_ROWS_MAX: Final = 1_000
"""A kept relation of no more rows is a part of plans: Spark sends them to its tasks with each."""

_LOOK_ROWS: Final = 10_000  # in as many partitions as Spark thinks right

_FOR_FEW: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
"""A small audit would else go by in compiling plans, and in empty tasks."""

_DIFFERENCES: Final = (('"', "`"), ("unnest(", "explode("))
"""Text by text, what DuckDB reads and what Spark reads. Nothing else differs."""


def dialect(sql: str) -> str:
    """A text as Spark writes it."""
    for ours, theirs in _DIFFERENCES:
        sql = sql.replace(ours, theirs)
    return sql


class SparkEngine:
    """Implements ``fencepost.audit.engine.protocol.Engine`` in a session that its starter stops."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark
        self._names: set[str] = set()
        self._workers: int | None = None

    @property
    def workers(self) -> int:
        """Implements ``Engine.workers``."""
        if self._workers is None:
            if is_connect(self.session):
                numbers = self.session.range(_LOOK_ROWS).select(F.spark_partition_id().alias("number"))
                self._workers = max(1, numbers.distinct().count())
            else:
                self._workers = int(self.session.sparkContext.defaultParallelism)
        return self._workers

    def spread(
        self, work: Callable[[Task], Done], tasks: Sequence[Task], show: Callable[[str], None]
    ) -> list[Done]:
        """Implements ``Engine.spread``: a task of Spark's for each."""
        if not tasks:
            return []
        rows = self._dealt(tasks).mapInArrow(partial(_worked, work), "number long, pickled binary").collect()
        return [pickle.loads(row.pickled) for row in sorted(rows, key=lambda row: int(row.number))]  # noqa: S301

    def progress(self) -> str:
        """Implements ``Engine.progress``: tasks of the stages that run; Spark Connect does not say."""
        if is_connect(self.session):
            return ""
        tracker = self.session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        total = sum(each.numTasks for each in stages if each is not None)
        done = sum(each.numCompletedTasks for each in stages if each is not None)
        return f"{done} of {total} tasks" if total else ""

    def expect(self, row_count: int) -> None:
        """Implements ``Engine.expect``; what the session's starter has set is left as it is."""
        chosen = settings_of(self.session)
        for name, value in _FOR_FEW.items():
            if name not in chosen:
                if row_count <= FEW_ROWS_MAX:
                    self.session.conf.set(name, value)
                else:
                    self.session.conf.unset(name)

    def register(self, name: str, rows: pa.Table) -> None:
        """Implements ``Engine.register``."""
        self._view(name, self._known(rows, from_arrow_schema(rows.schema)))

    def scan(self, name: str, schema: pa.Schema, stored: Sequence[Stored]) -> None:
        """Implements ``Engine.scan``."""
        empty = self._empty(schema)
        frames = []
        for each in stored:
            frame = self.session.read.schema(empty.schema).parquet(*map(spark_path, each.files))
            frames.append(frame.where(~F.col("path").isin(*each.dropped)) if each.dropped else frame)
        self._view(name, reduce(lambda some, more: some.union(more), frames) if frames else empty)

    def load(
        self, name: str, schema: pa.Schema, read: Callable[[Task], Iterator[Any]], tasks: Sequence[Task]
    ) -> None:
        """Implements ``Engine.load``: a task of Spark's for each."""
        empty = self._empty(schema)
        loaded = self._dealt(tasks).mapInArrow(partial(_loaded, read), empty.schema) if tasks else empty
        self._view(name, loaded)

    def define(self, name: str, sql: str, *, is_kept: bool) -> None:
        """Implements ``Engine.define``."""
        frame = self.session.sql(dialect(sql))
        self._view(name, self._kept(frame) if is_kept else frame)

    def walk(self, name: str, walk: Walk, source: str, *, is_kept: bool) -> None:
        """Implements ``Engine.walk``."""
        result = from_arrow_schema(walk.result)
        walked = (
            self.session.table(source)
            .select(*walk.source.names)
            .repartition(*walk.keys)
            .sortWithinPartitions(*walk.keys, *walk.order)
            .mapInArrow(partial(_walked, walk), result)
        )
        self._view(name, self._kept(walked) if is_kept else walked)

    def rows(self, sql: str) -> list[Row]:
        """Implements ``Engine.rows``."""
        return [row.asDict(recursive=True) for row in self.session.sql(dialect(sql)).collect()]

    def write(self, sql: str, folder: str) -> None:
        """Implements ``Engine.write``."""
        self.session.sql(dialect(sql)).write.parquet(f"file:{folder}")

    def close(self) -> None:
        """Implements ``Engine.close``."""
        for name in self._names:
            self.session.catalog.dropTempView(name)
        self._names.clear()

    def _empty(self, schema: pa.Schema) -> DataFrame:
        return self._known(schema.empty_table(), from_arrow_schema(schema))

    def _known(self, rows: pa.Table, schema: StructType) -> DataFrame:
        """Rows that are a part of every plan that reads them."""
        if rows.num_rows:
            return self.session.createDataFrame(rows, schema)
        return self.session.createDataFrame([], schema).limit(0)  # without it Spark runs a job to see that

    def _kept(self, frame: DataFrame) -> DataFrame:
        """The rows of ``frame``, computed now."""
        computed = frame.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
        few = computed.limit(KNOWN_ROWS_MAX + 1).toArrow()
        return computed if few.num_rows > KNOWN_ROWS_MAX else self._known(few, computed.schema)

    def _dealt(self, tasks: Sequence[Any]) -> DataFrame:
        """A row for each task, in a partition of its own: out of one partition rows are dealt out in turn."""
        listed = {"number": range(len(tasks)), "pickled": pa.array(map(pickle.dumps, tasks), pa.binary())}
        return self.session.createDataFrame(pa.table(listed)).coalesce(1).repartition(len(tasks))

    def _view(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        self._names.add(name)


def _walked(walk: Walk, batches: Iterator[Any]) -> Iterator[Any]:
    """Runs on a worker."""
    return walk.run(rows.cast(walk.source) for rows in batches)


def _worked(work: Callable[[Task], Done], batches: Iterator[Any]) -> Iterator[Any]:
    """Runs on a worker. What is unpickled the driver has pickled, and Spark has carried."""
    for rows in batches:
        done = [pickle.dumps(work(pickle.loads(each.as_py()))) for each in rows.column("pickled")]  # noqa: S301
        yield pa.record_batch({"number": rows.column("number"), "pickled": pa.array(done, pa.binary())})


def _loaded(read: Callable[[Task], Iterator[Any]], batches: Iterator[Any]) -> Iterator[Any]:
    """Runs on a worker, as ``_worked``."""
    for rows in batches:
        for each in rows.column("pickled"):
            yield from read(pickle.loads(each.as_py()))  # noqa: S301


def spark_path(path: str) -> str:
    """A local file's path as Spark takes it: a URI of Hadoop's, in which what would be a pattern is none."""
    return "file:" + re.sub(r"([\\\[\]{}*?])", r"\\\1", path)
