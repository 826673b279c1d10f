"""Fencing: no data of an epoch that was over when it was written.

By the partition    a higher epoch of that producer stands before it.
By the coordinator  the epoch was left before the batch was written, as a marker before it or its own time
                    says; no later marker of the producer ended it. A second is allowed for clocks, and what
                    the coordinator is still ending is left out: its marker may be on its way.
One                 finding for a producer's run of an epoch on a partition.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.checks.findings import UNKNOWN, Result, findings, nothing
from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.checks.states import epochs_left

NAME: Final = "fencing"
CLOCK_SKEW_MS_MAX: Final = 1000


def check(inputs: Inputs) -> Result:
    """Rule zombie."""
    said = F.when(
        F.col("stale"),
        F.format_string(
            "%d batches of epoch %d, the first at offset %d, after epoch %d was written on this partition",
            F.col("batches"), F.col("producer_epoch"), F.col("offset"), F.col("epoch_before"),
        ),
    ).otherwise(
        F.format_string(
            "%d batches of epoch %d, the first at offset %d, after the coordinator left that epoch at %d",
            F.col("batches"), F.col("producer_epoch"), F.col("offset"), F.col("left_ms"),
        )
    )  # fmt: skip
    found = findings(
        inputs.zombies,
        NAME,
        "zombie",
        subject=F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch")),
        detail=said,
    )
    return Result(found, nothing(found, UNKNOWN))


def zombies(inputs: Inputs) -> DataFrame:
    """One row per partition, producer and epoch: its first batch, ``batches``, ``stale``, ``left_ms``."""
    data = inputs.suspects.where("stale AND control_type IS NULL")
    rows = data.withColumn("left_ms", F.lit(None).cast("long"))
    if not inputs.open_tail.isEmpty():
        rows = rows.unionByName(_left_by_coordinator(inputs).select(*rows.columns))
    columns = ["topic", "partition", "producer_id", "producer_epoch", "stale"]
    place = F.struct(
        F.col("base_offset").alias("offset"), "node", "path", "position", "epoch_before", "left_ms",
        F.col("max_timestamp_ms").alias("at_ms"),
    )  # fmt: skip
    runs = rows.groupBy(*columns).agg(F.min(place).alias("first"), F.count("base_offset").alias("batches"))
    return runs.select(*columns, "batches", "first.*")


def _left_by_coordinator(inputs: Inputs) -> DataFrame:
    written_ms = F.greatest("marker_ms_before", "max_timestamp_ms")
    left = inputs.open_tail.join(epochs_left(inputs.states), ["producer_id", "producer_epoch"])
    ending = inputs.open_parts.where("state <> 'Ongoing'").drop("state")
    excused = ending.unionByName(inputs.missing_markers.select("topic", "partition", "producer_id"))
    return left.where(written_ms > F.col("left_ms") + CLOCK_SKEW_MS_MAX).join(
        excused, ["topic", "partition", "producer_id"], "left_anti"
    )
