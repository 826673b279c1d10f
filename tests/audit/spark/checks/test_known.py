"""Relations that Spark keeps, where few rows are a part of the plans that read them; and what it writes."""

from pathlib import Path
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


@pytest.mark.parametrize("name", ["a b", "p%20q", "h#h", "q?q", "s*[1]", "c:d", "grün"])
def test_what_is_written_is_in_the_folder_of_that_name(
    few: "SparkSession", tmp_path: Path, name: str
) -> None:
    """Of a URI Hadoop decodes nothing: with ``%20`` for a space the rows went to another folder."""
    from fencepost.audit.engine import spark

    engine = spark.SparkEngine(few)
    engine.write("SELECT 1 AS one", str(tmp_path / name / "ones"))
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert len([*(tmp_path / name / "ones").glob("*.parquet")]) == 1
    engine.close()
