"""Tables of the logs that a cluster of ours left and that Apache Kafka left, made once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.audit.faults import cluster
from tests.audit.faults.engine import quick
from tests.audit.kafka import fixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def few(spark: "SparkSession") -> "Iterator[SparkSession]":
    """The session of all, set for few rows; at the end it has its own settings again."""
    with quick(spark) as session:
        yield session


@pytest.fixture(scope="package")
def fencepost_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean cluster's directory."""
    return cluster.unpacked(tmp_path_factory.mktemp("fencepost"))


@pytest.fixture(scope="package")
def fencepost_tables(
    few: "SparkSession", fencepost_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Of those."""
    return _tables(few, fencepost_logs, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="package")
def kafka_tables(few: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a clean Kafka's log.dirs."""
    logs = fixture.unpack(tmp_path_factory.mktemp("kafka"))
    return _tables(few, logs, tmp_path_factory.mktemp("tables"))


def _tables(spark: "SparkSession", logs: Path, folder: Path) -> str:
    from fencepost.audit.jobs import ingest

    files = ingest.run(spark, [str(logs)], str(folder), print)
    assert not files.is_partial
    return str(folder)
