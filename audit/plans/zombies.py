"""Data of an epoch that was over when it was written: by its partition, or by the coordinator's log."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.plans.states import epochs_left

CLOCK_SKEW_MS_MAX: Final = 1000
_RUN: Final = ("topic", "partition", "producer_id", "producer_epoch", "stale")


def overtaken(suspects: DataFrame) -> DataFrame:
    """Data after a higher epoch of its producer on the same partition; ``left_ms`` is null."""
    data = suspects.where("stale AND control_type IS NULL")
    return data.withColumn("left_ms", F.lit(None).cast("long"))


def left_by_coordinator(open_tail: DataFrame, states: DataFrame, ending: DataFrame) -> DataFrame:
    """Data that was written after the coordinator had left its epoch, at ``left_ms``.

    In   ``ending``: topic, partition, producer_id of transactions that are still being ended, or lack their
         marker: their data is none.
    """
    written_ms = F.greatest("marker_ms_before", "max_timestamp_ms")
    left = open_tail.join(epochs_left(states), ["producer_id", "producer_epoch"])
    late = left.where(written_ms > F.col("left_ms") + CLOCK_SKEW_MS_MAX)
    return late.join(ending, ["topic", "partition", "producer_id"], "left_anti")


def runs(rows: DataFrame) -> DataFrame:
    """One row per partition, producer and epoch: its first batch, ``batches``, ``stale``, ``left_ms``."""
    place = F.struct(
        F.col("base_offset").alias("offset"), "node", "path", "position", "epoch_before", "left_ms",
        F.col("max_timestamp_ms").alias("at_ms"),
    )  # fmt: skip
    first = rows.groupBy(*_RUN).agg(F.min(place).alias("first"), F.count("base_offset").alias("batches"))
    return first.select(*_RUN, "batches", "first.*")
