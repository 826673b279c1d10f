"""What differs between PySpark's versions, and between a classic session and Spark Connect: nowhere else.

4.1     a stream's reader has ``latestOffset()`` without a start and a limit, and no trigger of its own for
what is there
        now; 4.2 and later have ``pyspark.sql.streaming.datasource``. There a stream reads all that is there
        at once.
Connect has no ``sparkContext``: its settings are those of the session.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS: Final = True
except ImportError:  # PySpark 4.1
    HAS_LIMITS = False  # type: ignore[misc]
    if not TYPE_CHECKING:

        class ReadLimit:
            """How much a batch of a stream may read."""

        class ReadAllAvailable(ReadLimit):
            """All there is."""

        class ReadMaxBytes(ReadLimit):
            """About so many bytes."""

            def __init__(self, max_bytes: int) -> None:
                self.max_bytes = max_bytes

        class SupportsTriggerAvailableNow:
            """Nothing, here."""


__all__ = [
    "HAS_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "SupportsTriggerAvailableNow",
    "is_connect",
    "settings_of",
]


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def settings_of(spark: SparkSession) -> Mapping[str, str]:
    """Every setting of a session, Hadoop's too."""
    found: Any = spark.conf.getAll if is_connect(spark) else spark.sparkContext.getConf().getAll()
    return dict(found)
