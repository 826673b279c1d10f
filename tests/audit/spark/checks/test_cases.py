"""Every case at once: one run of all checks over the logs of all stories, and each story's own findings."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from tests.audit.spark.checks.cases import CASES
from tests.audit.spark.checks.rows import IDS, Story, inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

_LOGS = ("__cluster_metadata", "__transaction_state", "__consumer_offsets")
_NAMES = list(CASES)


def _number(row: Any) -> int | None:
    """The story that a row of a verdict is about."""
    if row.topic in _LOGS:
        return int(row.partition)
    if row.topic is not None:
        return int(row.topic[1:])
    if getattr(row, "transactional_id", None) is not None:
        return int(row.transactional_id[1:].partition("-")[0])
    return None


@pytest.fixture(scope="module")
def verdict(spark: "SparkSession") -> dict[int | None, list[str]]:
    """Of each story, "check.rule" of its findings and, after a "?", of what is unknown."""
    return _run(spark, apart=False)


@pytest.fixture(scope="module")
def dark_verdict(spark: "SparkSession") -> dict[int | None, list[str]]:
    """The same of the stories that are distinguished."""
    return _run(spark, apart=True)


def _run(spark: "SparkSession", *, apart: bool) -> dict[int | None, list[str]]:
    from fencepost.audit.checks import run

    stories = []
    for number, (tell, _, alone) in enumerate(CASES.values()):
        if alone == apart:
            story = Story(number)
            tell(story)
            stories.append(story)
    ids = Story(len(CASES))
    ids.block((len(CASES) + 1) * IDS)
    result = run(inputs(spark, [*stories, ids]))
    extent = defaultdict(list)
    for row in result.findings.collect():
        extent[_number(row)].append(f"{row.check}.{row.rule}")
    for row in result.unknown.collect():
        extent[_number(row)].append(f"?{row.check}.{row.rule}")
    return {number: sorted(rules) for number, rules in extent.items()}


@pytest.mark.parametrize("number", range(len(_NAMES)), ids=_NAMES)
def test_one_fault_is_one_finding(
    verdict: dict[int | None, list[str]], dark_verdict: dict[int | None, list[str]], number: int
) -> None:
    _, expected, apart = CASES[_NAMES[number]]
    assert (dark_verdict if apart else verdict).get(number, []) == sorted(expected)


def test_nothing_is_found_that_is_in_no_story(verdict: dict[int | None, list[str]]) -> None:
    assert set(verdict) <= set(range(len(_NAMES)))


def test_without_the_logs_that_could_tell_it_is_unknown(spark: "SparkSession") -> None:
    from fencepost.audit.checks import run

    story = Story(0)
    story.data()
    story.marker()
    story.data()
    result = run(inputs(spark, [story]), ("blocks", "ids", "markers", "hanging"))
    assert result.findings.isEmpty()
    assert {f"{row.check}.{row.rule}" for row in result.unknown.collect()} == {
        "blocks.overlap",
        "ids.outside_blocks",
        "markers.without_transaction",
        "hanging.orphan",
    }
