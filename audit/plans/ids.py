"""Ids: every producer id in the logs was given out, in a block.

Known       from where the metadata log, a snapshot or ZooKeeper begins to tell: ids below may have been given
            out before, and ids above while bytes of that log cannot be read.
One         finding for an id, wherever it wrote: no other check reports what it did.
"""

from typing import Final

from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import METADATA
from fencepost.audit.plans.findings import Result, findings, unknown, unknown_without
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "ids"
_RULE: Final = "outside_blocks"


def check(inputs: Inputs) -> Result:
    """Findings of the rule outside_blocks."""
    rows = inputs.suspects.where("foreign")
    first = F.struct(
        "topic", "partition", "base_offset", "path", "position", "node", "producer_epoch", "max_timestamp_ms"
    )
    each = rows.groupBy("producer_id").agg(
        F.min(first).alias("first"), F.count("producer_id").alias("batches")
    )
    found = findings(
        each.select(
            "producer_id", "batches", "first.*"
        ).withColumnsRenamed({"base_offset": "offset", "max_timestamp_ms": "at_ms"}),
        NAME,
        _RULE,
        subject=F.format_string("producer id %d", F.col("producer_id")),
        detail=F.format_string(
            "producer id %d is in no block: blocks up to %d were given out; it wrote %d batches",
            F.col("producer_id"), F.lit(inputs.extent.ids_end), F.col("batches"),
        ),
    )  # fmt: skip
    metadata = inputs.files.where((F.col("topic") == METADATA) & F.col("kind").isin("segment", "checkpoint"))
    undecided = (
        inputs.ids.where("undecided IS NOT NULL")
        .groupBy("undecided")
        .agg(
            F.count("producer_id").alias("count"),
            F.min("producer_id").alias("low"),
            F.max("producer_id").alias("high"),
        )
    )
    unclear = unknown(
        undecided,
        NAME,
        _RULE,
        F.format_string(
            "%d producer ids from %d to %d: %s",
            F.col("count"),
            F.col("low"),
            F.col("high"),
            F.col("undecided"),
        ),
    )
    none = unknown_without(
        metadata, NAME, _RULE, "there is no metadata log that says which blocks were given out"
    )
    return Result(found, unclear.unionByName(none))
