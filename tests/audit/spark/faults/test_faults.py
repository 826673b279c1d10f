"""Planted faults on Spark: what is found, and what is unknown, is what the embedded engine says, row by
row."""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.audit.faults import campaign, cluster, engine
from tests.audit.faults.campaign import Case
from tests.audit.faults.kinds import one_of_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.row("card.8")
def test_faults_of_all_kinds_at_once_are_found_on_both_engines(few: "SparkSession", tmp_path: Path) -> None:
    from fencepost.audit.engine.embedded import EmbeddedEngine
    from fencepost.audit.engine.spark import SparkEngine

    logs = cluster.unpacked(tmp_path / "logs")
    case = Case(0, "fencepost", faults=tuple(one_of_each(Random(0))))
    planted = campaign.plant(case, logs, tmp_path / "copy")
    assert planted is not None
    found, unknown = engine.audit(SparkEngine(few), tmp_path / "copy")
    assert not campaign.complaints(planted, found, unknown)
    embedded = EmbeddedEngine(str(tmp_path))
    assert (found, unknown) == engine.audit(embedded, tmp_path / "copy")
    embedded.close()
