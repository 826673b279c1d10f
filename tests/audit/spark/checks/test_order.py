"""Law: the greatest value so far is the same however keys are bucketed, and it is no later row's."""

from random import Random
from typing import TYPE_CHECKING

import pytest

from fencepost.audit.checks import order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SCHEMA = "log string, key long, position long, value long"
KEYS_MAX = 200


def _rows(random: Random, count: int = 120) -> list[tuple[str, int, int, int]]:
    """Values that fall as often as they rise, keys that repeat and leave whole buckets out."""
    return [
        (
            random.choice("ab"),
            random.choice((3, random.randrange(KEYS_MAX))),
            position,
            random.randrange(1000),
        )
        for position in range(count)
    ]


def _expected(rows: list[tuple[str, int, int, int]]) -> set[tuple[str, int, int, int, int | None]]:
    greatest: dict[str, int] = {}
    found = set()
    for log, key, position, value in sorted(rows):
        found.add((log, key, position, value, greatest.get(log)))
        greatest[log] = max(value, greatest.get(log, value))
    return found


@pytest.mark.parametrize("steps", [0, 1, 3], ids="{}-steps".format)
def test_the_greatest_value_so_far(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(order, "BUCKET_BITS", 2)
    rows = _rows(Random(steps))
    found = order.with_max_before(
        spark.createDataFrame(rows, SCHEMA),
        group=["log"],
        key="key",
        order=["position"],
        value="value",
        steps=steps,
    ).select("log", "key", "position", "value", "before")
    assert {tuple(row) for row in found.collect()} == _expected(rows)


@pytest.mark.parametrize(
    ("key_max", "steps"),
    [(0, 0), (2**22 - 1, 0), (2**22, 1), (2**44 - 1, 1), (2**44, 2), (2**63 - 1, 2)],
)
def test_a_window_holds_no_more_than_a_bucket(key_max: int, steps: int) -> None:
    assert order.steps_for(key_max) == steps
