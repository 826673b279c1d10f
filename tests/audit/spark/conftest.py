"""One Spark session for every test of this folder: two cores, one gigabyte, started by the product itself."""

from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.audit.faults.engine import quick
from tests.audit.short_lived import short_lived

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if find_spec("pyspark") is None:
    collect_ignore_glob = [
        "*"
    ]  # without the extra 'audit' these tests are not there; `make test` installs it

_LEFT_OPEN = "ignore:unclosed <socket.socket:ResourceWarning"
"""PySpark 4.1 leaves the sockets of its results to the garbage collector (``_load_from_socket`` says so)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every warning is an error in these tests, but not that one where PySpark itself is its cause."""
    if find_spec("pyspark") and version("pyspark").startswith("4.1."):
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.filterwarnings(_LEFT_OPEN))


_SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
}


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """local[2], UTC, loopback, no UI. Whatever a test caches or sets, it undoes."""
    from fencepost.audit.source.session import session

    with short_lived():
        running = session("fencepost tests", master="local[2]", memory="1g", settings=_SMALL)
        yield running
        running.stop()


@pytest.fixture(scope="session")
def few(spark: "SparkSession") -> "Iterator[SparkSession]":
    """The session of all, set for few rows; at the end it has its own settings again."""
    with quick(spark) as session:
        yield session
