"""What a check leaves beside its tables."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.audit.report.verdicts import finding, found, verdict

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine


@pytest.mark.row("card.8")
def test_products_are_written_whole_and_the_newest_two_are_kept(
    engine: "Engine", fencepost_tables: str, tmp_path: Path
) -> None:
    from fencepost.audit.jobs import products
    from fencepost.audit.jobs.source import relations_of

    tables = tmp_path / "tables"
    shutil.copytree(fencepost_tables, tables)
    relations = relations_of(engine, str(tables), None, print)
    said = verdict(found(finding(transactional_id="<b>")))
    made = [products.write(relations, said, str(tables)) for _ in range(3)]
    assert sorted(each.name for each in (tables / products.FOLDER).iterdir()) == [*made[1:]]
    read = {
        each.name: pq.read_table(each).to_pylist() for each in (tables / products.FOLDER / made[-1]).iterdir()
    }
    assert [row["transactional_id"] for row in read["findings"]] == ["<b>"]
    owned = sorted((row["block_first"], row["block_end"]) for row in read["producer_id_ownership"])
    assert owned == [(first, first + 3) for first in range(0, owned[-1][1], 3)]
    assert sum(row["outcome"] is None for row in read["transaction_history"]) == 1
