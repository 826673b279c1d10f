"""The session that every command gets: what is set, what is left alone."""

import re
from queue import Queue

import pytest
from pyspark.sql import SparkSession

import fencepost.audit.source.datasource
from fencepost.audit.jobs.choice import SPARK
from fencepost.audit.jobs.session import opened
from fencepost.audit.source.session import heap, sort_fraction
from tests.modules import FOLDERS, LOADED_TWICE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("spark.master", "local[2]", id="the-master-that-was-asked-for"),
        pytest.param("spark.driver.memory", "1g", id="the-memory-that-was-asked-for"),
        pytest.param("spark.sql.session.timeZone", "UTC", id="times-are-UTC"),
        pytest.param("spark.driver.bindAddress", "127.0.0.1", id="a-local-driver-listens-on-loopback"),
        pytest.param("spark.driver.host", "127.0.0.1", id="a-local-driver-is-reached-on-loopback"),
        pytest.param("spark.ui.enabled", "false", id="no-UI"),
        pytest.param("spark.sql.shuffle.partitions", "2", id="a-setting-of-the-caller's"),
        pytest.param("spark.sql.execution.arrow.maxRecordsPerBatch", "5000", id="the-caller's-for-ours"),
        pytest.param("spark.cleaner.periodicGC.interval", "30s", id="a-heap-that-shrinks"),
    ],
)
def test_setting(spark: SparkSession, key: str, value: str) -> None:
    assert spark.sparkContext.getConf().get(key) == value


def test_its_jvm_compiles_quickly_and_collects_with_one_thread(spark: SparkSession) -> None:
    options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
    assert options is not None
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} <= set(options.split())


@pytest.mark.parametrize(
    ("cores", "size", "fraction"),
    [
        pytest.param(1, "512m", "0.15", id="one-core"),
        pytest.param(4, "512m", "0.60", id="the-most-with-the-smallest-heap"),
        pytest.param(5, "640m", "0.47", id="one-more"),
        pytest.param(8, "1024m", "0.35", id="the-largest-heap"),
        pytest.param(13, "1024m", "0.57", id="the-most-with-memory-of-their-own"),
        pytest.param(64, "1024m", "0.60", id="many-cores"),
    ],
)
def test_a_heap_is_as_large_as_the_tasks_that_run_at_once_need(cores: int, size: str, fraction: str) -> None:
    assert heap(cores) == size
    assert sort_fraction(cores) == fraction


def test_its_start_and_its_end_are_shown_with_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM takes five seconds to start, and more on a machine that is busy."""
    said: Queue[str] = Queue()

    def shown() -> list[str]:
        return [said.get(timeout=60), said.get(timeout=60)]

    class Slow:
        def stop(self) -> None:
            ended.extend(shown())

    def start(*_: object, **__: object) -> Slow:
        began.extend(shown())
        return Slow()

    began: list[str] = []
    ended: list[str] = []
    monkeypatch.setattr("fencepost.audit.source.session.session", start)
    with opened("x", engine=SPARK, master=None, memory=None, show=said.put):
        while (more := said.get(timeout=60)) != "":  # a machine that is busy has it still starting
            assert re.fullmatch(r"starting Spark  \d+ s", more)
    assert [re.sub(r"\d+", "N", each) for each in (*began, *ended)] == [
        "starting Spark",
        "starting Spark  N s",
        "ending Spark",
        "ending Spark  N s",
    ]


def test_workers_run_this_interpreter(spark: SparkSession) -> None:
    import sys

    def interpreter(_: int) -> str:
        import sys

        return sys.executable

    assert spark.sparkContext.range(2).map(interpreter).distinct().collect() == [sys.executable]


def test_workers_are_forked_from_what_has_imported_their_modules(spark: SparkSession) -> None:
    def look(_: int) -> list[str]:
        import os
        from pathlib import Path

        return Path(f"/proc/{os.getppid()}/cmdline").read_text("utf-8").split("\0")[1:3]

    assert spark.sparkContext.range(1).map(look).collect() == [["-m", "fencepost.audit.jobs.workers"]]


def test_workers_have_this_fencepost_under_one_name(spark: SparkSession) -> None:
    """And the folders are not where a worker looks for modules."""

    def look(folders: tuple[str, ...]) -> list[object]:
        import importlib.util

        import fencepost.audit.source.datasource as imported

        names: dict[str, object] = {}
        exec(LOADED_TWICE, names)  # noqa: S102
        loaded_twice = names["loaded_twice"]
        assert callable(loaded_twice)
        found = [each for each in folders if importlib.util.find_spec(each)]
        return [imported.__file__, loaded_twice(), found]

    said = spark.sparkContext.parallelize([FOLDERS], 1).map(look).collect()
    assert said == [[fencepost.audit.source.datasource.__file__, {}, []]]
