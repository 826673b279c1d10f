"""Ids: every producer id in the logs was given out, in a block.

Known       from where the metadata log, a snapshot or ZooKeeper begins to tell: ids below may have been given
            out before, and ids above while bytes of that log cannot be read.
One         finding for an id, wherever it wrote: what it did is nobody else's finding.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.checks.blocks import canonical_blocks
from fencepost.audit.checks.canonical import METADATA
from fencepost.audit.checks.findings import Result, findings, unknown, unknown_without
from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.checks.order import steps_for, with_max_before
from fencepost.audit.checks.told import Told
from fencepost.records.types import PRODUCER_ID_MAX

NAME: Final = "ids"
_RULE: Final = "outside_blocks"


def check(inputs: Inputs) -> Result:
    """Rule outside_blocks."""
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
            F.col("producer_id"), F.lit(inputs.told.ids_end), F.col("batches"),
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


def producer_ids(inputs: Inputs) -> DataFrame:
    """Ids that lie in no block: producer_id, ``undecided`` (null: it is foreign; else why that is not known).

    An id whose every batch came after the sizes were taken is left out: its block may have come later, too.
    """
    told = inputs.told
    settled = F.lit(inputs.settled_ms).cast("long")
    sound = F.col("fault").isNull() & (F.col("producer_id") >= 0) & (F.col("topic") != METADATA)
    used = (
        inputs.record_batches.where(sound)
        .groupBy("producer_id")
        .agg(F.min("max_timestamp_ms").alias("first_ms"))
        .where(settled.isNull() | (F.col("first_ms") <= settled))
    )
    chain_end = told.chain_end or 0
    outside = used.select("producer_id").where(
        (F.col("producer_id") < told.known_first) | (F.col("producer_id") >= chain_end)
    )
    if told.explicit:
        outside = _not_explicit(outside, canonical_blocks(inputs).where("block_first IS NOT NULL"), told)
    undecided = (
        F.when(F.lit(told.log_start is None), F.lit("no metadata log among what was read"))
        .when(F.col("producer_id") < told.known_first, F.lit("blocks of that time are not kept"))
        .when(
            (F.col("producer_id") >= told.ids_end) & F.lit(not told.whole_end),
            F.lit("the end of the metadata log cannot be read"),
        )
    )
    return outside.select("producer_id", undecided.alias("undecided"))


def _not_explicit(ids: DataFrame, blocks: DataFrame, told: Told) -> DataFrame:
    """Of ``ids`` those that are in none of ``blocks`` that say where they begin."""
    events = blocks.selectExpr("block_first AS id", "0 AS kind", "block_end AS end").unionByName(
        ids.selectExpr("producer_id AS id", "1 AS kind", "-1L AS end")
    )
    reached = with_max_before(
        events.withColumn("whole", F.col("id") * 0),
        group=["whole"],
        key="id",
        order=["kind"],
        value="end",
        steps=max(steps_for(told.ids_end), steps_for(PRODUCER_ID_MAX)),
    )
    return reached.where("kind = 1 AND (before IS NULL OR before <= id)").selectExpr("id AS producer_id")
