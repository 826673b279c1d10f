"""Relations that the Spark engine keeps: few rows are a part of the plans that read them, more are not."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

ROWS_MAX = 3
ROWS = pa.table({"number": pa.array([0, 1, 2, 3], pa.int16()), "text": ["a", None, "c", "d"]})


@pytest.mark.parametrize("count", [0, ROWS_MAX, ROWS_MAX + 1], ids=["none", "at-the-most", "one-more"])
def test_a_kept_relation_has_all_its_rows(
    few: "SparkSession", monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    from fencepost.audit.engine import spark

    monkeypatch.setattr(spark, "KNOWN_ROWS_MAX", ROWS_MAX)
    engine = spark.SparkEngine(few)
    engine.register("numbers", ROWS)
    engine.define("kept", f"SELECT *, NULL AS none FROM numbers WHERE number < {count}", is_kept=True)
    rows = [{**row, "none": None} for row in ROWS.slice(0, count).to_pylist()]
    assert sorted(engine.rows("SELECT * FROM kept"), key=lambda row: row["number"]) == rows
    joined = engine.rows("SELECT n.number FROM numbers n JOIN kept k ON k.number = n.number")
    assert sorted(row["number"] for row in joined) == list(range(count))
    engine.close()
