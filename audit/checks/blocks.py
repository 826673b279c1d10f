"""Blocks: no producer id was given out twice, and nothing is missing from the log that says so.

Chain       a record of the log says where its block ends; it begins where the one before it ended. So the
            ends grow, always: an end that was there before is the same block given out again, a lower one is
            ids that others had.
Explicit    blocks with a start of their own (ZooKeeper's): their lengths may change, and they may leave ids
            out; they do not overlap.
Bridge      while ZooKeeper still gives ids out, a record of no broker (-1) says how far brokers took them
            there, and a broker's own block is in both places: neither is an overlap.
Scale       frames are narrow and windows bucketed (``audit.checks.order``): where a row lies is looked up for
            findings only.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.checks.canonical import METADATA, copies, metadata_batches, rejected_metadata
from audit.checks.findings import Result, findings, union, unknown
from audit.checks.inputs import Inputs
from audit.checks.order import with_max_before

NAME: Final = "blocks"
_NO_BROKER: Final = -1


def check(inputs: Inputs) -> Result:
    """Rules overlap, end_not_growing, hole."""
    given = canonical_blocks(inputs)
    chain, explicit = given.where("block_first IS NULL"), given.where("block_first IS NOT NULL")
    batches = metadata_batches(inputs.record_batches, inputs.files)
    holes = missing_offsets(inputs, batches)
    found = [_hole_findings(holes)]
    lower = inputs.keep(_not_growing(chain))
    if not lower.isEmpty():
        found.append(_chain_findings(lower, chain))
    early = inputs.keep(_begins_early(explicit))
    if not early.isEmpty():
        found.append(_explicit_findings(early, explicit))
    if not explicit.where("source = 'zookeeper'").isEmpty():
        found.append(_bridge_findings(chain, explicit))
    return Result(union(found), _unknown(inputs, batches, holes))


def canonical_blocks(inputs: Inputs) -> DataFrame:
    """What was given out: PRODUCER_ID_BLOCKS of the log and of ZooKeeper, each block once."""
    held = F.broadcast(copies(inputs.files).where(F.col("topic") == METADATA).select("partition", "copies"))
    rows = inputs.producer_id_blocks
    log = rows.where("source = 'log'").join(held, "partition", "left")
    columns = rows.columns
    one = log.where("copies IS NULL OR copies = 1").select(columns)
    rejected = rejected_metadata(inputs.record_batches, inputs.files)
    several = log.where("copies > 1").select(columns).join(rejected, ["path", "position"], "left_anti")
    zookeeper = rows.where("source = 'zookeeper' AND block_first IS NOT NULL")
    once = zookeeper.dropDuplicates(["block_first", "block_end", "offset"])
    return union((one, several.select(columns), once))


def _with_previous_end(chain: DataFrame) -> DataFrame:
    """Narrow, for there may be a hundred million: partition, offset, position, block_end, before."""
    narrow = chain.select("partition", "offset", "position", "block_end")
    return with_max_before(narrow, group=["partition"], key="offset", order=["position"], value="block_end")


def _not_growing(chain: DataFrame) -> DataFrame:
    return _with_previous_end(chain).where("block_end <= before")


def _begins_early(explicit: DataFrame) -> DataFrame:
    """Narrow: block_first, block_end, offset, position, before: where the ids before it end."""
    narrow = explicit.select("block_first", "block_end", "offset", "position")
    ends = with_max_before(
        narrow.withColumn("whole", F.col("block_first") * 0),
        group=["whole"], key="block_first", order=["block_end", "offset", "position"], value="block_end",
    )  # fmt: skip
    return ends.where("block_first < before").drop("whole")


def missing_offsets(inputs: Inputs, batches: DataFrame) -> DataFrame:
    """Offsets that no batch of the metadata log has.

    In   ``metadata_batches``.
    Out  node, topic, partition, path, position, base_offset (of the batch after), offset (the first missing),
         known. A gap in which bytes stand that cannot be read is left out: they are a finding of their own.
    """
    narrow = batches.select("partition", "base_offset", "last_offset")
    ordered = with_max_before(
        narrow, group=["partition"], key="base_offset", order=["last_offset"], value="last_offset"
    )
    gaps = ordered.where("base_offset > before + 1").select(
        "partition", "base_offset", (F.col("before") + 1).alias("offset")
    )
    after = batches.drop("last_offset").join(F.broadcast(gaps), ["partition", "base_offset"])
    unread = inputs.record_batches.where((F.col("topic") == METADATA) & F.col("fault").isNotNull()).select(
        "path", (F.col("position") + F.col("size")).alias("position")
    )
    stands = after.join(unread, ["path", "position"], "left_anti")
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
        there.join(first, "before", "left")
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
        there.join(first, "before")
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


def _bridge_findings(chain: DataFrame, explicit: DataFrame) -> DataFrame:
    """ZooKeeper's block against the chain: it is one of its blocks, or beside them. Few of them, by their
    nature.
    """
    zookeeper = explicit.where("source = 'zookeeper'").select(
        *(
            F.col(name).alias(f"zk_{name}")
            for name in ("block_first", "block_end", "broker_id", "path", "position")
        )
    )
    within = (F.col("before") < F.col("zk_block_end")) & (F.col("zk_block_first") < F.col("block_end"))
    same = (F.col("before") == F.col("zk_block_first")) & (F.col("block_end") == F.col("zk_block_end"))
    grown = _with_previous_end(chain).where("before < block_end")
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


def _unknown(inputs: Inputs, batches: DataFrame, holes: DataFrame) -> DataFrame:
    """Holes that the log names, records that cannot be read, and what is before the log's first offset."""
    named = unknown(
        holes.where("known")
        .select("topic", "partition", "path", "offset", "base_offset")
        .withColumnsRenamed({"offset": "first_offset", "base_offset": "end_offset"}),
        NAME,
        "hole",
        F.lit("the log itself says that it does not have these offsets"),
    )
    start = batches.groupBy("topic", "partition").agg(F.min("base_offset").alias("end_offset"))
    before = unknown(
        start.where("end_offset > 0").withColumn("first_offset", F.lit(0)),
        NAME,
        "overlap",
        F.lit("blocks given out before the first offset that is kept"),
    )
    return named.unionByName(before)
