"""Epochs: a (producer id, epoch) that was left never comes back.

reused      in the coordinator's log, for one transactional id: an older producer id, or a lower epoch, after
            a newer.
regressed   in a partition: a marker of a lower epoch than one that was written before. Data: see ``fencing``.
One         finding for rows in a run below the same pair.
"""

from typing import Final

from pyspark.sql import functions as F

from fencepost.audit.plans.findings import UNKNOWN, Result, findings, nothing, union
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "epochs"


def check(inputs: Inputs) -> Result:
    """Findings of the rules reused and regressed."""
    markers = inputs.suspects.where("stale AND control_type IN (0, 1)").withColumns(
        {"offset": F.col("base_offset"), "at_ms": F.col("max_timestamp_ms")}
    )
    place = F.struct(
        *("offset", "node", "path", "position", "producer_id", "producer_epoch"),
        F.col("updated_ms").alias("at_ms"),
    )
    reused = (
        inputs.states.where("regressed")
        .groupBy("topic", "partition", "transactional_id", "left_rank")
        .agg(F.min(place).alias("first"), F.count("offset").alias("rows"))
        .select("topic", "partition", "transactional_id", "left_rank", "rows", "first.*")
    )
    found = (
        findings(
            reused,
            NAME,
            "reused",
            subject=F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch")),
            detail=F.format_string(
                "%s is at producer %d epoch %d again, after producer %d epoch %d, in %d records",
                F.col("transactional_id"), F.col("producer_id"), F.col("producer_epoch"),
                F.col("left_rank.producer_id"), F.col("left_rank.producer_epoch"), F.col("rows"),
            ),
        ),
        findings(
            markers,
            NAME,
            "regressed",
            subject=F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch")),
            detail=F.format_string(
                "a marker of epoch %d, after epoch %d was written on this partition",
                F.col("producer_epoch"), F.col("epoch_before"),
            ),
        ),
    )  # fmt: skip
    return Result(union(found), nothing(markers, UNKNOWN))
