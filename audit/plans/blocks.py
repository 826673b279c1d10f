"""Blocks: no producer id was given out twice, and nothing is missing from the log that says so.

Chain       a record of the log says where its block ends; it begins where the one before it ended. So the
            ends grow, always: an end that was there before is the same block given out again, a lower one is
            ids that others had.
Explicit    blocks with a start of their own (ZooKeeper's): their lengths may change, and they may leave ids
            out; they do not overlap.
Bridge      while ZooKeeper still gives ids out, a record of no broker (-1) says how far brokers took them
            there, and a broker's own block is in both places: neither is an overlap.
Scale       frames are narrow and windows bucketed (``fencepost.audit.plans.order``): where a row lies is
            looked up for findings only.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import METADATA, metadata_batches
from fencepost.audit.plans.extent import Extent
from fencepost.audit.plans.findings import (
    FINDINGS,
    Result,
    findings,
    nothing,
    union,
    unknown,
    unknown_without,
)
from fencepost.audit.plans.inputs import Inputs
from fencepost.audit.plans.order import steps_for, with_max_before

NAME: Final = "blocks"
_NO_BROKER: Final = -1


def check(inputs: Inputs) -> Result:
    """Findings of the rules overlap, end_not_growing and hole."""
    extent = inputs.extent
    given = inputs.blocks
    chain, explicit = given.where("block_first IS NULL"), given.where("block_first IS NOT NULL")
    batches = metadata_batches(inputs.record_batches, inputs.files, extent.metadata_copies)
    gaps = inputs.keep(_gaps(batches, extent))
    holes = inputs.keep(_missing_offsets(inputs, batches, gaps)) if not gaps.isEmpty() else None
    found = [_hole_findings(holes)] if holes else [nothing(given, FINDINGS)]
    lower = inputs.keep(_with_previous_end(chain, extent).where("block_end <= before"))
    if not lower.isEmpty():
        found.append(_chain_findings(lower, chain))
    if extent.explicit:
        found.append(_explicit_findings(inputs.keep(_begins_early(explicit, extent)), explicit))
    if extent.zookeeper:
        found.append(_bridge_findings(_with_previous_end(chain, extent), chain, explicit))
    return Result(union(found), _unknown(inputs, holes))


def _with_previous_end(chain: DataFrame, extent: Extent) -> DataFrame:
    """Narrow, for there may be a hundred million: partition, offset, position, block_end, before."""
    return with_max_before(
        chain.select("partition", "offset", "position", "block_end"),
        group=["partition"],
        key="offset",
        order=["position"],
        value="block_end",
        steps=steps_for(extent.log_last),
    )


def _begins_early(explicit: DataFrame, extent: Extent) -> DataFrame:
    """Narrow: block_first, block_end, offset, position, before: where the ids before it end."""
    ends = with_max_before(
        explicit.select("block_first", "block_end", "offset", "position", F.expr("block_first * 0 AS whole")),
        group=["whole"],
        key="block_first",
        order=["block_end", "offset", "position"],
        value="block_end",
        steps=steps_for(extent.ids_end),
    )
    return ends.where("block_first < before").drop("whole")


def _gaps(batches: DataFrame, extent: Extent) -> DataFrame:
    """Of ``metadata_batches``: partition, base_offset (of the batch after), offset (the first missing)."""
    ordered = with_max_before(
        batches.select("partition", "base_offset", "last_offset"),
        group=["partition"],
        key="base_offset",
        order=["last_offset"],
        value="last_offset",
        steps=steps_for(extent.log_last),
    )
    return ordered.where("base_offset > before + 1").selectExpr(
        "partition", "base_offset", "before + 1 AS offset"
    )


def _missing_offsets(inputs: Inputs, batches: DataFrame, gaps: DataFrame) -> DataFrame:
    """Offsets that no batch of the metadata log has.

    Out  node, topic, partition, path, position, base_offset (of the batch after), offset, known.
         A gap in which bytes stand that cannot be read is left out: they are a finding of their own.
    """
    after = batches.drop("last_offset").join(F.broadcast(gaps), ["partition", "base_offset"])
    unread = inputs.record_batches.where((F.col("topic") == METADATA) & F.col("fault").isNotNull()).select(
        "path", (F.col("position") + F.col("size")).alias("position")
    )
    stands = after.join(F.broadcast(unread), ["path", "position"], "left_anti")
    return with_known(stands, inputs.files)


def with_known(gaps: DataFrame, files: DataFrame) -> DataFrame:
    """``gaps`` [offset, base_offset) of logs, and ``known``: the log itself names that hole."""
    named = files.where("kind = 'hole'").select(
        F.col("topic").alias("hole_topic"),
        F.col("partition").alias("hole_partition"),
        F.col("base_offset").alias("hole_first"),
        (F.col("base_offset") + F.col("size")).alias("hole_end"),
    )
    inside = (
        (F.col("topic") == F.col("hole_topic"))
        & (F.col("partition") == F.col("hole_partition"))
        & (F.col("hole_first") <= F.col("offset"))
        & (F.col("base_offset") <= F.col("hole_end"))
    )
    marked = gaps.join(F.broadcast(named.distinct()), inside, "left")
    return (
        marked.withColumn("known", F.col("hole_first").isNotNull()).select(*gaps.columns, "known").distinct()
    )


def _chain_findings(lower: DataFrame, chain: DataFrame) -> DataFrame:
    """A block whose end is not above every earlier one's; the earlier record is named."""
    there = chain.join(F.broadcast(lower), ["partition", "offset", "position", "block_end"])
    first = chain.select(
        F.col("block_end").alias("before"),
        F.col("offset").alias("earlier_offset"),
        F.col("path").alias("earlier_path"),
        F.col("position").alias("earlier_position"),
    )
    again = F.col("block_end") == F.col("before")
    earlier = (
        first.join(F.broadcast(there), "before")
        .where("earlier_offset <= offset")
        .where("NOT (earlier_offset = offset AND earlier_position >= position)")
    )
    once = earlier.groupBy(*chain.columns, "before").agg(
        F.min(F.struct("earlier_offset", "earlier_path", "earlier_position")).alias("earlier")
    )
    named = F.format_string(
        "offset %d (%s:%d)",
        F.col("earlier.earlier_offset"), F.col("earlier.earlier_path"), F.col("earlier.earlier_position"),
    )  # fmt: skip
    return union(
        findings(
            once.where(again if rule == "overlap" else ~again).withColumn("at_ms", F.col("timestamp_ms")),
            NAME,
            rule,
            subject=_block_subject(),
            detail=F.concat(
                F.format_string(
                    "the block that broker %d was given at offset %d ends at %d; ends must grow, and ",
                    F.col("broker_id"), F.col("offset"), F.col("block_end"),
                ),
                named,
                F.format_string(" ended at %d", F.col("before")),
            ),
        )
        for rule in ("overlap", "end_not_growing")
    )  # fmt: skip


def _block_subject() -> Column:
    return F.format_string("block ending at %d", F.col("block_end"))


def _explicit_findings(early: DataFrame, explicit: DataFrame) -> DataFrame:
    """A block that begins before an earlier one, in the order of ids, ends; the earlier one is named."""
    there = explicit.join(F.broadcast(early), ["block_first", "block_end", "offset", "position"])
    first = explicit.select(
        F.col("block_end").alias("before"),
        F.format_string("offset %d (%s:%d)", "offset", "path", "position").alias("earlier"),
        F.col("block_first").alias("earlier_first"),
        F.struct("block_first", "block_end", "offset", "position").alias("earlier_key"),
    )
    key = F.struct("block_first", "block_end", "offset", "position")
    named = (
        first.join(F.broadcast(there), "before")
        .where(F.col("earlier_key") < key)
        .groupBy(*explicit.columns, "before")
        .agg(F.min(F.struct("earlier_first", "earlier")).alias("other"))
    )
    return findings(
        named.withColumn("at_ms", F.col("timestamp_ms")),
        NAME,
        "overlap",
        subject=_block_subject(),
        detail=F.format_string(
            "ids [%d, %d) were given to broker %d at offset %d; [%d, %d) had been given out at %s",
            F.col("block_first"), F.col("block_end"), F.col("broker_id"), F.col("offset"),
            F.col("other.earlier_first"), F.col("before"), F.col("other.earlier"),
        ),
    )  # fmt: skip


def _bridge_findings(ends: DataFrame, chain: DataFrame, explicit: DataFrame) -> DataFrame:
    """ZooKeeper's block against the chain: it is one of its blocks, or beside them. They are few."""
    zookeeper = explicit.where("source = 'zookeeper'").select(
        *(
            F.col(name).alias(f"zk_{name}")
            for name in ("block_first", "block_end", "broker_id", "path", "position")
        )
    )
    within = (F.col("before") < F.col("zk_block_end")) & (F.col("zk_block_first") < F.col("block_end"))
    same = (F.col("before") == F.col("zk_block_first")) & (F.col("block_end") == F.col("zk_block_end"))
    grown = ends.where("before < block_end")
    clash = grown.join(F.broadcast(zookeeper), within & ~same)
    there = chain.join(F.broadcast(clash), ["partition", "offset", "position", "block_end"])
    return findings(
        there.where(F.col("broker_id") != _NO_BROKER).withColumn("at_ms", F.col("timestamp_ms")),
        NAME,
        "overlap",
        subject=_block_subject(),
        detail=F.format_string(
            "ids [%d, %d) were given to broker %d at offset %d; ZooKeeper gave [%d, %d) to broker %d (%s)",
            F.col("before"), F.col("block_end"), F.col("broker_id"), F.col("offset"),
            F.col("zk_block_first"), F.col("zk_block_end"), F.col("zk_broker_id"), F.col("zk_path"),
        ),
    )  # fmt: skip


def _hole_findings(holes: DataFrame) -> DataFrame:
    return findings(
        holes.where("NOT known"),
        NAME,
        "hole",
        subject=F.lit("metadata log"),
        detail=F.format_string(
            "offsets %d to %d of the metadata log are missing: a record of a block may have been among them",
            F.col("offset"), F.col("base_offset") - 1,
        ),
    )  # fmt: skip


def _unknown(inputs: Inputs, holes: DataFrame | None) -> DataFrame:
    """Holes that the log names, and what is before the first offset that is kept."""
    first = inputs.extent.log_start
    before = inputs.files.where((F.col("topic") == METADATA) & (F.col("kind") == "segment"))
    none = (
        before.select("topic", "partition")
        .distinct()
        .withColumns({"first_offset": F.lit(0), "end_offset": F.lit(first)})
    )
    rows = [unknown_without(before, NAME, "overlap", "there is no metadata log")]
    if first:
        rows.append(unknown(none, NAME, "overlap", F.lit("blocks before the first offset that is kept")))
    if holes:
        named = holes.where("known").selectExpr(
            "topic", "partition", "path", "offset AS first_offset", "base_offset AS end_offset"
        )
        said = F.lit("the log itself says that it does not have these offsets")
        rows.append(unknown(named, NAME, "hole", said))
    return union(rows)
