"""Ids: every producer id in the logs was given out by somebody, in a block.

Known       from where the metadata log, a snapshot or ZooKeeper begins to tell: ids below may have been given
            out before, and ids above while bytes of that log cannot be read.
One         finding for an id, wherever it wrote: what it did is nobody else's finding.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit.checks.blocks import canonical_blocks
from audit.checks.canonical import METADATA
from audit.checks.findings import Result, findings, unknown, unknown_without
from audit.checks.inputs import Inputs
from audit.checks.order import with_max_before

NAME: Final = "ids"
_RULE: Final = "outside_blocks"


def check(inputs: Inputs) -> Result:
    """Rule outside_blocks."""
    rows = inputs.suspects.where("foreign")
    first = F.struct(
        "topic", "partition", "base_offset", "path", "position", "node", "producer_epoch", "max_timestamp_ms"
    )
    each = (
        rows.groupBy("producer_id")
        .agg(F.min(first).alias("first"), F.count("producer_id").alias("batches"))
        .crossJoin(F.broadcast(known_range(inputs)))
    )
    found = findings(
        each.select(
            "producer_id", "batches", "known_first", "known_end", "first.*"
        ).withColumnsRenamed({"base_offset": "offset", "max_timestamp_ms": "at_ms"}),
        NAME,
        _RULE,
        subject=F.format_string("producer id %d", F.col("producer_id")),
        detail=F.format_string(
            "producer id %d is in no block: blocks up to %d were given out; it wrote %d batches",
            F.col("producer_id"), F.col("known_end"), F.col("batches"),
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


def known_range(inputs: Inputs) -> DataFrame:
    """One row: known_first, known_end (ids the blocks tell of; null: none), whole_end (is the log's end
    read).
    """
    metadata = inputs.record_batches.where(F.col("topic") == METADATA)
    log = metadata.agg(
        F.min(F.when(F.col("fault").isNull(), F.col("base_offset"))).alias("log_start"),
        F.max(F.when(F.col("fault").isNotNull(), F.col("base_offset"))).alias("fault_offset"),
        F.max(F.when(F.col("fault").isNotNull() & F.col("base_offset").isNull(), F.lit(1))).alias(
            "fault_anywhere"
        ),
    )
    log_block = F.col("source") == "log"
    blocks = inputs.producer_id_blocks.agg(
        F.min(F.coalesce("block_first", "block_end")).alias("first_told"),
        F.max("block_end").alias("known_end"),
        F.max(F.when(log_block, F.col("offset"))).alias("last_offset"),
    )
    start = F.when(F.col("log_start") == 0, F.lit(0)).otherwise(F.col("first_told"))
    unread = (F.col("fault_anywhere") == 1) | (F.col("fault_offset") > F.coalesce("last_offset", F.lit(-1)))
    return log.crossJoin(blocks).select(
        F.col("log_start").isNotNull().alias("has_log"),
        F.coalesce(start, F.lit(2**63 - 1)).alias("known_first"),
        F.coalesce("known_end", F.lit(0)).alias("known_end"),
        (~F.coalesce(unread, F.lit(False))).alias("whole_end"),
    )


def producer_ids(inputs: Inputs) -> DataFrame:
    """Ids that lie in no block: producer_id, ``undecided`` (null: it is foreign; else why that is not known).

    An id whose every batch came after the sizes were taken is left out: its block may have come later, too.
    """
    settled = F.lit(inputs.settled_ms).cast("long")
    sound = F.col("fault").isNull() & (F.col("producer_id") >= 0) & (F.col("topic") != METADATA)
    used = (
        inputs.record_batches.where(sound)
        .groupBy("producer_id")
        .agg(F.min("max_timestamp_ms").alias("first_ms"))
        .where(settled.isNull() | (F.col("first_ms") <= settled))
    )
    blocks = canonical_blocks(inputs)
    explicit = blocks.where("block_first IS NOT NULL").select(
        F.col("block_first").alias("id"), F.lit(0).alias("kind"), F.col("block_end").alias("end")
    )
    told = known_range(inputs).select(
        F.col("known_first").alias("id"), F.lit(0).alias("kind"), F.col("known_end").alias("end")
    )
    ends = (
        blocks.where("block_first IS NULL")
        .select("block_end")
        .unionByName(inputs.producer_id_blocks.where("source = 'snapshot'").select("block_end"))
    )
    chain = ends.agg(F.max("block_end").alias("end")).where("end IS NOT NULL")
    events = (
        explicit.unionByName(told.select("id", "kind").crossJoin(chain))
        .unionByName(
            used.select(F.col("producer_id").alias("id"), F.lit(1).alias("kind"), F.lit(-1).alias("end"))
        )
        .withColumn("whole", F.col("id") * 0)
    )
    reached = with_max_before(events, group=["whole"], key="id", order=["kind"], value="end")
    outside = reached.where("kind = 1 AND (before IS NULL OR before <= id)").select(
        F.col("id").alias("producer_id")
    )
    undecided = (
        F.when(~F.col("has_log"), F.lit("no metadata log among what was read"))
        .when(F.col("producer_id") < F.col("known_first"), F.lit("blocks of that time are not kept"))
        .when(
            (F.col("producer_id") >= F.col("known_end")) & ~F.col("whole_end"),
            F.lit("the end of the metadata log cannot be read"),
        )
    )
    return outside.crossJoin(F.broadcast(known_range(inputs))).select(
        "producer_id", undecided.alias("undecided")
    )
