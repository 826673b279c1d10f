"""What groups committed, in the order in which it took effect: Kafka's rules for ``__consumer_offsets``.

In effect   a plain commit and a tombstone at once; an offset in a transaction at the COMMIT marker of its
            producer that follows it, never at an ABORT. Of two, the record that was written later wins,
            whichever took effect first. A tombstone also drops what is pending.
Stretch     rows between which something of the log is missing or cannot be read are not compared: the missing
            may be a marker, a commit or a group. What compaction leaves out is none of these: of a partition
            it keeps the last commit, and of a group the last members.
Source      Kafka OffsetMetadataManager.replay, replayEndTransactionMarker.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import CONSUMER_OFFSETS

_LOG: Final = ("topic", "partition")
_STRETCH: Final = (*_LOG, "stretch")
_KEY: Final = (*_STRETCH, "group_id", "commit_topic", "commit_partition")


def commits(offset_commits: DataFrame, group_generations: DataFrame, classified: DataFrame) -> DataFrame:
    """OFFSET_COMMITS of the canonical log with further columns.

    In       ``classified``: ``fencepost.audit.plans.classified``.
    Further  stretch long; outcome "committed", "aborted", or null: it is pending; marker (path, position,
             offset) of its end, null outside a transaction; group_state string and group_generation int:
             of the group at this record, null where it had none; effect_offset long: where it took effect,
             null: not, or no longer; in_effect boolean; previous: of what was in effect before, the struct
             (offset, committed_offset, producer_id, group_generation, topic_id, timestamp_ms, marker), null:
             nothing.
    """
    batches = _batches(classified)
    plain = batches.where("plain").select("path", "position", "stretch")
    rows = offset_commits.join(plain, ["path", "position"])
    groups = group_generations.join(plain, ["path", "position"])
    return _with_effect(_with_group(_with_outcome(rows, batches), groups))


def _batches(classified: DataFrame) -> DataFrame:
    order = Window.partitionBy(*_LOG).orderBy("base_offset", "position")
    stranger = F.col("opaque") | F.col("displaced") | F.col("explained") | F.col("foreign") | F.col("stale")
    stranger |= F.col("hole_first").isNotNull() & ~F.col("compacted")
    return classified.where(F.col("topic") == CONSUMER_OFFSETS).withColumn(
        "stretch", F.sum(stranger.cast("long")).over(order)
    )


def _with_outcome(rows: DataFrame, batches: DataFrame) -> DataFrame:
    """The first marker after a record, of its producer, ends it."""
    marker = F.struct("path", "position", F.col("base_offset").alias("offset"), "control_type")
    markers = batches.where("marker").select(
        *_STRETCH, "producer_id", F.col("base_offset").alias("offset"), marker.alias("marker")
    )
    pending = rows.where("producer_id >= 0 AND committed_offset IS NOT NULL")
    following = Window.partitionBy(*_STRETCH, "producer_id").orderBy("offset").rowsBetween(
        1, Window.unboundedFollowing
    )  # fmt: skip
    ended = (
        pending.unionByName(markers, allowMissingColumns=True)
        .withColumn("marker", F.first("marker", ignorenulls=True).over(following))
        .where("group_id IS NOT NULL")
    )
    others = rows.where("producer_id < 0 OR committed_offset IS NULL")
    ruled = F.expr("CASE marker.control_type WHEN 1 THEN 'committed' WHEN 0 THEN 'aborted' END")
    at_once = F.lit("committed")
    return ended.withColumn("outcome", ruled).unionByName(
        others.withColumn("outcome", at_once), allowMissingColumns=True
    )


def _with_group(rows: DataFrame, groups: DataFrame) -> DataFrame:
    """The group as the last record before says: none if that is a tombstone, or there is none."""
    said = F.struct(F.col("state"), F.col("generation"))
    known = groups.select(*_STRETCH, "group_id", "offset", said.alias("known"))
    before = Window.partitionBy(*_STRETCH, "group_id").orderBy("offset")
    return (
        rows.unionByName(known, allowMissingColumns=True)
        .withColumn("group", F.last("known", ignorenulls=True).over(before))
        .where("commit_topic IS NOT NULL")
        .withColumns({"group_state": F.col("group.state"), "group_generation": F.col("group.generation")})
        .drop("known", "group")
    )


def _with_effect(rows: DataFrame) -> DataFrame:
    effect = F.when(F.col("outcome") == "committed", F.coalesce("marker.offset", "offset"))
    order = Window.partitionBy(*_KEY, "ends").orderBy("effect_offset", "offset")
    past = order.rowsBetween(Window.unboundedPreceding, -1)
    newest = F.coalesce(F.col("offset") > F.max("offset").over(past), F.lit(True))
    last_at_once = F.coalesce(F.lead("effect_offset").over(order) != F.col("effect_offset"), F.lit(True))
    is_live = F.col("ends") & newest & last_at_once
    return (
        rows.withColumn("effect_offset", effect)
        .withColumn("ends", effect.isNotNull())
        .withColumn("in_effect", is_live)
        .withColumn(
            "previous",
            F.last(F.when(F.col("in_effect"), _said()), ignorenulls=True).over(past),
        )
        .drop("ends")
    )


def _said() -> Column:
    return F.struct(
        "offset", "committed_offset", "producer_id", "group_generation", "topic_id", "timestamp_ms", "marker"
    )
