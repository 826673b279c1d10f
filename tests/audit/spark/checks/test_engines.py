"""Every relation has the same rows on both engines: texts are read alike, walks are fed alike."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.audit.jobs.source import RELATIONS
from tests.audit.checks.cases import CASES
from tests.audit.checks.rows import IDS, Row, Story, relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fencepost.audit.engine.protocol import Engine

pytestmark = pytest.mark.slow

ORDINALS = {"turn"}
"""Columns that number rows that are alike in what is ordered."""


def test_every_relation_has_the_same_rows(few: "SparkSession", tmp_path: Path) -> None:
    from fencepost.audit.engine.embedded import EmbeddedEngine
    from fencepost.audit.engine.spark import SparkEngine

    stories = [Story(number) for number in range(len(CASES))]
    for story, (tell, _, _) in zip(stories, CASES.values(), strict=True):
        tell(story)
    stories[-1].block((len(stories) + 1) * IDS)
    embedded = EmbeddedEngine(str(tmp_path))
    here, there = (_rows(each, stories) for each in (embedded, SparkEngine(few)))
    assert {name for name in RELATIONS if here[name] != there[name]} == set()
    assert sum(1 for name in RELATIONS if here[name]) > len(RELATIONS) * 3 // 4, "most have rows"
    embedded.close()


def _rows(engine: "Engine", stories: list[Story]) -> dict[str, Counter[str]]:
    made = relations(engine, stories)
    return {name: Counter(map(_text, made.rows(f"SELECT * FROM {name}"))) for name in RELATIONS}


def _text(row: Row) -> str:
    return repr({name: _plain(value) for name, value in sorted(row.items()) if name not in ORDINALS})


def _plain(value: Any) -> Any:
    """A number as a number: DuckDB sums whole numbers to decimals."""
    return int(value) if type(value).__name__ == "Decimal" else value
