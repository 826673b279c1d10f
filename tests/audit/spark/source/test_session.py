"""The session that every command gets: what is set, what is left alone."""

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("spark.master", "local[2]", id="the-master-that-was-asked-for"),
        pytest.param("spark.driver.memory", "1g", id="the-memory-that-was-asked-for"),
        pytest.param("spark.sql.session.timeZone", "UTC", id="times-are-UTC"),
        pytest.param("spark.driver.bindAddress", "127.0.0.1", id="a-local-driver-listens-on-loopback"),
        pytest.param("spark.driver.host", "127.0.0.1", id="a-local-driver-is-reached-on-loopback"),
        pytest.param("spark.ui.enabled", "false", id="no-UI"),
        pytest.param("spark.sql.shuffle.partitions", "2", id="a-setting-of-the-caller's"),
    ],
)
def test_setting(spark: SparkSession, key: str, value: str) -> None:
    assert spark.sparkContext.getConf().get(key) == value


def test_workers_run_this_interpreter(spark: SparkSession) -> None:
    import sys

    def interpreter(_: int) -> str:
        import sys

        return sys.executable

    assert spark.sparkContext.range(2).map(interpreter).distinct().collect() == [sys.executable]
