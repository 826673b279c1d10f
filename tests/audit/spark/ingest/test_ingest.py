"""The tables are what a plain run of the decoder says, in one go, bit by bit, or after the files were changed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from audit.decode import local
from audit.source import pieces
from audit.tables import store
from audit.tables.ingest import ingest
from audit.tables.reading import read, settled_ms
from audit.tables.refused import TablesRefused
from tests.audit.faults import cluster
from tests.audit.kafka import fixture
from tests.audit.spark.ingest.tables import in_memory, in_spark, on_disk

pytestmark = pytest.mark.slow

LOGS = [pytest.param(cluster.unpacked, id="fencepost"), pytest.param(fixture.unpack, id="Kafka")]


def agree(tables: Path, root: Path) -> None:
    """The reason of a file that was read anew is what only an ingest can know."""
    found, expected = on_disk(tables), in_memory(local.tables([str(root)]))
    for name in expected:
        assert found[name] == expected[name], name


@pytest.mark.row("card.8")
@pytest.mark.parametrize("unpacked", LOGS)
def test_one_ingest_is_what_the_decoder_says(spark: SparkSession, tmp_path: Path, unpacked: object) -> None:
    assert callable(unpacked)
    root = unpacked(tmp_path / "logs")
    report = ingest(spark, [str(root)], str(tmp_path / "tables"))
    expected = in_memory(local.tables([str(root)]))
    assert in_spark(read(spark, str(tmp_path / "tables"))) == expected
    assert {name: expected[name].total() for name in expected} == report.rows
    assert report.commit == 1
    assert settled_ms(str(tmp_path / "tables")) == report.settled_ms
