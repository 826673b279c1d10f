"""No plan of a check brings a table to one core, or to the driver."""

from typing import TYPE_CHECKING

import pytest

from tests.audit.spark.checks.group_cases import group
from tests.audit.spark.checks.rows import IDS, Story, inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from fencepost.audit.checks.inputs import Inputs

pytestmark = pytest.mark.slow


def _faulty(spark: "SparkSession") -> "Inputs":
    """Logs with enough wrong in them that no check can stop early."""
    story = Story(0)
    story.block(IDS)
    story.block(IDS)
    explicit = story.block(2 * IDS)
    explicit["block_first"] = IDS
    explicit["source"] = "zookeeper"
    story.transaction()
    story.transaction(epoch=1, marked=())
    story.marker(producer=3)
    story.data(epoch=1)
    story.data(producer=10**9)
    copier = group(story, "a")
    copier.transaction(10, producer=4)
    copier.members("b")
    copier.transaction(4, producer=5, member="b")
    story.copy_log("__cluster_metadata", 0, 2)
    story.copy_log("t0", 0, 2)[0]["crc"] = 7
    return inputs(spark, [story])


def _physical(frame: "DataFrame") -> str:
    return str(frame._jdf.queryExecution().sparkPlan().toString())


def test_no_window_is_without_a_partition(spark: "SparkSession") -> None:
    from fencepost.audit.checks import run

    given = _faulty(spark)
    result = run(given)
    frames = [*given.plans, result.findings, result.unknown]
    assert len(given.plans) > 10
    for frame in frames:
        for line in _physical(frame).splitlines():
            if line.lstrip(" :+-*()0123456789").startswith("Window ["):
                # Window [functions], [partition], [order]: the second list is what spreads it over cores.
                assert _second_list(line), line


def test_only_findings_reach_the_driver(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    from fencepost.audit.checks import run

    collected: list[int] = []
    collect = DataFrame.collect

    def counted(frame: DataFrame) -> list[object]:
        rows: list[object] = collect(frame)
        collected.append(len(rows))
        return rows

    monkeypatch.setattr(DataFrame, "collect", counted)
    run(_faulty(spark))
    assert collected
    assert max(collected) <= 1, "a row of bounds is all that a check may look at itself"


def _second_list(line: str) -> str:
    lists = []
    depth = begin = 0
    for at, character in enumerate(line):
        if character == "[":
            depth += 1
            begin = at + 1 if depth == 1 else begin
        elif character == "]":
            depth -= 1
            if depth == 0:
                lists.append(line[begin:at])
    is_order = len(lists) == 2 and (" ASC" in lists[1] or " DESC" in lists[1])
    return "" if len(lists) < 2 or is_order else lists[1]


@pytest.mark.parametrize(
    ("line", "partition"),
    [
        pytest.param("Window [max(a#1) AS b#2], [c#3, d#4], [e#5 ASC]", "c#3, d#4", id="partitioned"),
        pytest.param("Window [count(1) AS b#2], [c#3, d#4]", "c#3, d#4", id="partitioned-in-no-order"),
        pytest.param("Window [max(a#1) AS b#2], [e#5 ASC]", "", id="not-partitioned"),
    ],
)
def test_the_partition_of_a_window_is_read_from_its_plan(line: str, partition: str) -> None:
    assert _second_list(line) == partition
