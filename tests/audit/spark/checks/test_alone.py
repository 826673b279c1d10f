"""A check that is run alone finds what is its own, and is silent about what another would name."""

from typing import TYPE_CHECKING

import pytest

from tests.audit.spark.checks.cases import CASES
from tests.audit.spark.checks.group_cases import LOG
from tests.audit.spark.checks.rows import IDS, Story, inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def _found(spark: "SparkSession", check: str, cases: list[str]) -> dict[str, list[str]]:
    from fencepost.audit.checks import run

    stories = [Story(number) for number in range(len(cases) + 1)]
    for story, name in zip(stories, cases, strict=False):
        CASES[name][0](story)
    stories[-1].block((len(stories) + 1) * IDS)
    found: dict[str, list[str]] = {name: [] for name in cases}
    for row in run(inputs(spark, stories), [check]).findings.collect():
        number = row.partition if row.topic == LOG else int(row.topic[1:])
        found[cases[number]].append(row.rule)
    return found


def test_sequences(spark: "SparkSession") -> None:
    expected: dict[str, list[str]] = {
        "sequences-wrap-after-the-largest-int32": [],
        "a-gap-over-the-wrap": ["gap"],
        "a-batch-was-never-written": ["gap"],
        "a-batch-is-gone": [],
    }
    assert _found(spark, "sequences", list(expected)) == expected


def test_markers(spark: "SparkSession") -> None:
    expected = {
        "a-marker-was-never-written": ["missing"],
        "the-last-marker-of-a-log-is-gone": ["missing"],
        "a-batch-is-gone": [],
    }
    assert _found(spark, "markers", list(expected)) == expected


def test_groups(spark: "SparkSession") -> None:
    expected = {
        "an-offset-of-an-aborted-transaction-took-effect": ["aborted"],
        "an-offset-goes-back-from-one-generation-to-the-next": ["went_back"],
        "two-members-commit-one-partition-in-one-generation": ["two_owners"],
        "a-producer-presents-the-generation-before": ["stale_generation"],
        "a-static-member-is-replaced-in-its-generation": [],
        "an-administrator-resets-a-group-without-members": [],
        "offsets-begin-anew-in-a-topic-that-was-made-again": [],
        "a-missing-marker-is-no-offset-that-goes-back": [],
    }
    assert _found(spark, "groups", list(expected)) == expected
