"""What a check leaves beside its tables."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.audit.report.verdicts import finding, found, verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.row("card.8")
def test_products_are_written_whole_and_the_newest_two_are_kept(
    few: "SparkSession", fencepost_tables: str, tmp_path: Path
) -> None:
    from fencepost.audit.jobs import products
    from fencepost.audit.jobs.source import inputs_of

    tables = tmp_path / "tables"
    shutil.copytree(fencepost_tables, tables)
    inputs = inputs_of(few, str(tables))
    said = verdict(found(finding(transactional_id="<b>")))
    made = [products.write(few, inputs, said, str(tables)) for _ in range(3)]
    assert sorted(each.name for each in (tables / products.FOLDER).iterdir()) == [
        each.name for each in made[1:]
    ]
    read = {
        name: few.read.parquet(str(made[-1] / name)).collect()
        for name in ("findings", "producer_id_ownership")
    }
    assert [row["transactional_id"] for row in read["findings"]] == ["<b>"]
    owned = sorted((row["block_first"], row["block_end"]) for row in read["producer_id_ownership"])
    assert owned == [(first, first + 3) for first in range(0, owned[-1][1], 3)]
    history = few.read.parquet(str(made[-1] / "transaction_history"))
    assert history.where("outcome IS NULL").count() == 1
