"""Law: the greatest value so far is the same however keys are bucketed, and it is no later row's."""

from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from fencepost.audit.checks import ordered

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine

NAMES = ("log", "key", "position", "value")
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


@pytest.mark.parametrize("bucket", [4, 64, 4096], ids="buckets-of-{}".format)
def test_the_greatest_value_so_far(engine: "Engine", monkeypatch: pytest.MonkeyPatch, bucket: int) -> None:
    monkeypatch.setattr(ordered, "BUCKET", bucket)
    rows = _rows(Random(bucket))
    engine.register("given_rows", pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows]))
    text = ordered.with_max_before("given_rows", group="log", key="key", order="position", value="value")
    found = engine.rows(f"SELECT log, key, position, value, before FROM ({text}) AS ordered")
    assert {tuple(row.values()) for row in found} == _expected(rows)
