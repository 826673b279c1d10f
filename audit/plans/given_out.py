"""Blocks of producer ids that were given out, and ids in use that are in none of them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import METADATA, rejected_metadata
from fencepost.audit.plans.extent import Extent
from fencepost.audit.plans.order import steps_for, with_max_before
from fencepost.records.types import PRODUCER_ID_MAX


def canonical_blocks(
    producer_id_blocks: DataFrame, record_batches: DataFrame, files: DataFrame, extent: Extent
) -> DataFrame:
    """Blocks that were given out: PRODUCER_ID_BLOCKS of the log and of ZooKeeper, each block once."""
    log = producer_id_blocks.where("source = 'log'")
    if extent.metadata_copies > 1:
        rejected = rejected_metadata(record_batches, files)
        log = log.join(rejected, ["path", "position"], "left_anti").select(*producer_id_blocks.columns)
    if not extent.zookeeper:
        return log
    zookeeper = producer_id_blocks.where("source = 'zookeeper' AND block_first IS NOT NULL")
    return log.unionByName(zookeeper.dropDuplicates(["block_first", "block_end", "offset"]))


def outside_blocks(
    record_batches: DataFrame, blocks: DataFrame, extent: Extent, settled_ms: int | None
) -> DataFrame:
    """Ids that lie in no block: producer_id, ``undecided`` (null: it is foreign; else why that is not known).

    An id whose every batch came after the sizes were taken is left out: its block may have come later, too.
    In   ``blocks``: ``canonical_blocks``.
    """
    settled = F.lit(settled_ms).cast("long")
    sound = F.col("fault").isNull() & (F.col("producer_id") >= 0) & (F.col("topic") != METADATA)
    used = (
        record_batches.where(sound)
        .groupBy("producer_id")
        .agg(F.min("max_timestamp_ms").alias("first_ms"))
        .where(settled.isNull() | (F.col("first_ms") <= settled))
    )
    chain_end = extent.chain_end or 0
    outside = used.select("producer_id").where(
        (F.col("producer_id") < extent.known_first) | (F.col("producer_id") >= chain_end)
    )
    if extent.explicit:
        outside = _not_explicit(outside, blocks.where("block_first IS NOT NULL"), extent)
    undecided = (
        F.when(F.lit(extent.log_start is None), F.lit("no metadata log among what was read"))
        .when(F.col("producer_id") < extent.known_first, F.lit("blocks of that time are not kept"))
        .when(
            (F.col("producer_id") >= extent.ids_end) & F.lit(not extent.whole_end),
            F.lit("the end of the metadata log cannot be read"),
        )
    )
    return outside.select("producer_id", undecided.alias("undecided"))


def _not_explicit(ids: DataFrame, blocks: DataFrame, extent: Extent) -> DataFrame:
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
        steps=max(steps_for(extent.ids_end), steps_for(PRODUCER_ID_MAX)),
    )
    return reached.where("kind = 1 AND (before IS NULL OR before <= id)").selectExpr("id AS producer_id")
