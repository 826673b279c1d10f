"""Cases of the checks by hand, on Spark: what is found is what they say, and every relation has the rows that
the embedded engine has: texts are read alike, walks are fed alike."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.audit.jobs.source import RELATIONS
from tests.audit.checks.cases import CASES
from tests.audit.checks.judged import NAMES, expected_of, rules_of, stories
from tests.audit.checks.rows import Row, relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fencepost.audit.jobs.relations import Relations

pytestmark = pytest.mark.slow

ORDINALS = {"turn"}
"""Columns that number rows that are alike in what is ordered."""


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_findings_and_every_relation_are_the_same(
    few: "SparkSession", tmp_path: Path, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apart, most of what is kept has more rows than are a part of plans."""
    from fencepost.audit.engine import spark
    from fencepost.audit.engine.embedded import EmbeddedEngine

    monkeypatch.setattr(spark, "KNOWN_ROWS_MAX", 1 if apart else spark.KNOWN_ROWS_MAX)
    told = stories(apart=apart)
    there = relations(spark.SparkEngine(few), told)
    found = rules_of(there)
    mine = [number for number, name in enumerate(NAMES) if CASES[name][2] == apart]
    assert {NAMES[each]: found.get(each, []) for each in mine} == {
        NAMES[each]: expected_of(each) for each in mine
    }
    embedded = EmbeddedEngine(str(tmp_path))
    here_rows, there_rows = (_rows(each) for each in (relations(embedded, told), there))
    embedded.close()
    assert {name for name in RELATIONS if here_rows[name] != there_rows[name]} == set()
    assert apart or sum(1 for name in RELATIONS if here_rows[name]) > len(RELATIONS) * 3 // 4, (
        "most have rows"
    )


def _rows(made: "Relations") -> dict[str, Counter[str]]:
    return {name: Counter(map(_text, made.rows(f"SELECT * FROM {name}"))) for name in RELATIONS}


def _text(row: Row) -> str:
    return repr({name: _plain(value) for name, value in sorted(row.items()) if name not in ORDINALS})


def _plain(value: Any) -> Any:
    """A number as a number: DuckDB sums whole numbers to decimals."""
    return int(value) if type(value).__name__ == "Decimal" else value
