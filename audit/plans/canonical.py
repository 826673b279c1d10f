"""One log out of its copies: what the checks look at where several directories hold the same partition.

Copy        one directory with a partition's segments. Copies agree at most offsets; where they differ, the
            bytes that most copies hold count, in a tie those of the lowest node; past the common end, the
            copies that go on count.
Opaque      a batch whose checksum is wrong, or bytes that are none: its columns are not believed.
Displaced   a batch whose offset was there before, or that alone steps out of line between two that are
            contiguous. It can be read: what it is by its producer is said before that it is displaced.
Plain       neither: what the other checks read.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

METADATA: Final = "__cluster_metadata"
TRANSACTION_STATE: Final = "__transaction_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"

_ARCHIVE: Final = "/archive/"  # fencepost's: retained whole, never compacted
_LOG: Final = ("topic", "partition")
_DELETE_HORIZON: Final = 0x40  # of the attributes: Kafka DefaultRecordBatch
_COLUMNS: Final = (
    *("node", "topic", "partition", "path", "position", "size", "base_offset", "last_offset", "leader_epoch"),
    *("crc", "fault", "attributes", "base_timestamp_ms", "max_timestamp_ms", "producer_id", "producer_epoch"),
    *("base_sequence", "control_type", "coordinator_epoch", "marker_version"),
)


def directory() -> Column:
    """Of ``path``, with its slash."""
    return F.expr("left(path, length(path) - length(substring_index(path, '/', -1)))")


def copies(files: DataFrame) -> DataFrame:
    """How many directories hold each log: topic, partition, copies."""
    segments = files.where("kind = 'segment'")
    return segments.groupBy(*_LOG).agg(F.countDistinct(directory()).alias("copies"))


def canonical(
    batches: DataFrame, files: DataFrame, topics: DataFrame, *, copied: bool, torn: bool, compacted: bool
) -> DataFrame:
    """The rows of every log but the cluster's metadata, each offset once: RECORD_BATCHES without ``reason``.

    copied    some log is in several directories; ``torn``: there are files of which the end cannot be read;
              ``compacted``: there are topics that are set to be. Without them there is less to look at.
    Further   ``opaque``, ``displaced``, ``plain`` boolean; ``base_offset`` of an opaque row is the first
              offset that may hide in it; ``explained``: an opaque or displaced row, or a torn file, stands
              before this row; ``after_cut``: of these, a torn file; ``compacted``: offsets may be missing, as
              of right.
    """
    rows = _placed(batches.where(F.col("topic") != METADATA), files if torn else None)
    rows = _chosen(rows, files) if copied else rows
    own = F.col("topic").isin(TRANSACTION_STATE, CONSUMER_OFFSETS) & ~F.col("path").contains(_ARCHIVE)
    if compacted:
        set_so = "config_key = 'cleanup.policy' AND config_value LIKE '%compact%' AND name IS NOT NULL"
        names = topics.where(set_so).selectExpr("name AS topic", "true AS configured").distinct()
        rows = rows.join(F.broadcast(names), "topic", "left")
        own |= F.coalesce("configured", F.lit(False))
    return rows.withColumns({"compacted": own, "plain": ~F.col("opaque") & ~F.col("displaced")}).drop(
        "copy", "configured"
    )


def _chosen(rows: DataFrame, files: DataFrame) -> DataFrame:
    """Of each offset the batch that most copies have; an opaque row has no say while another can be read."""
    group = (*_LOG, "base_offset", "displaced")
    variant = F.xxhash64("opaque", "crc", "size", "last_offset", "leader_epoch")
    votes = F.count(F.lit(1)).over(Window.partitionBy(*group, variant))
    order = Window.partitionBy(*group).orderBy("opaque", F.desc("votes"), "node", "copy", "path", "position")
    chosen = (
        rows.withColumn("votes", votes).withColumn("place", F.row_number().over(order)).where("place = 1")
    )
    return (
        chosen.join(F.broadcast(copies(files)), list(_LOG), "left")
        .where(~F.col("displaced") | (F.col("votes") * 2 > F.coalesce("copies", F.lit(1))))
        .drop("votes", "place", "copies")
    )


def metadata_batches(batches: DataFrame, files: DataFrame, most: int) -> DataFrame:
    """The sound batches of the cluster's metadata log, each offset once.

    By offsets, not by logs: it is one log, and may be the longest of all.
    most  how many directories hold it at most.
    Out   node, topic, partition, path, position, base_offset, last_offset.
    """
    rows = _metadata_copies(batches, files)
    if most <= 1:
        return rows.drop("variant", "copies")
    one = rows.where("copies = 1").drop("variant", "copies")
    return one.unionByName(_voted(rows).where("place = 1").drop("variant", "copies", "place"))


def rejected_metadata(batches: DataFrame, files: DataFrame) -> DataFrame:
    """Where the batches of that log are that do not count: path, position. None if one directory holds it."""
    return _voted(_metadata_copies(batches, files)).where("place > 1").select("path", "position")


def _metadata_copies(batches: DataFrame, files: DataFrame) -> DataFrame:
    rows = batches.where((F.col("topic") == METADATA) & F.col("fault").isNull())
    return rows.join(F.broadcast(copies(files)), list(_LOG), "left").select(
        *("node", "topic", "partition", "path", "position", "base_offset", "last_offset"),
        F.xxhash64("crc", "size", "last_offset", "leader_epoch").alias("variant"),
        F.coalesce("copies", F.lit(1)).alias("copies"),
    )


def _voted(rows: DataFrame) -> DataFrame:
    group = (*_LOG, "base_offset")
    votes = F.count(F.lit(1)).over(Window.partitionBy(*group, "variant"))
    order = Window.partitionBy(*group).orderBy(F.desc("votes"), "node", "path", "position")
    several = rows.where("copies > 1").withColumn("votes", votes)
    return several.withColumn("place", F.row_number().over(order)).drop("votes")


def _first_time() -> Column:
    """Of a batch's records. Where the log cleaner has been, the header has its delete horizon instead."""
    cleaned = F.coalesce(F.col("attributes").bitwiseAND(F.lit(_DELETE_HORIZON)) != 0, F.lit(False))
    return F.when(cleaned, F.col("max_timestamp_ms")).otherwise(F.col("base_timestamp_ms"))


def _placed(batches: DataFrame, files: DataFrame | None) -> DataFrame:
    """Each copy by itself, in the order of its bytes: which rows stand where they should."""
    log = Window.partitionBy(*_LOG, "copy").orderBy("path", "position")
    past = log.rowsBetween(Window.unboundedPreceding, -1)
    base, last = F.col("base_offset"), F.col("last_offset")
    sound = ~F.col("opaque")
    due = F.last(F.when(sound, last), ignorenulls=True).over(past) + 1
    next_base = F.lead(F.when(sound, base)).over(log)
    steps_out = sound & (base != F.col("due")) & (F.col("next_base") == F.col("due") + last - base + 1)
    other = F.lead("crc").over(log) != F.col("crc")  # of two equal batches the second is the copy
    begins_there = F.when(base == F.col("due"), other).otherwise(F.lag("base_offset").over(log) != base)
    # The log goes on as if it were not there.
    squeezed = sound & (F.col("next_base") == F.col("due")) & begins_there
    rows = (
        batches.select(*_COLUMNS)
        .repartition(*_LOG)
        .withColumn("base_timestamp_ms", _first_time())
        .withColumns({"copy": F.xxhash64(directory()), "opaque": F.col("fault").isNotNull()})
        .withColumns({"due": due, "next_base": next_base})
        .withColumn("alone", F.coalesce(steps_out, F.lit(False)))
        .withColumn("squeezed", F.coalesce(squeezed, F.lit(False)))
        .withColumn("outside", F.col("alone") | F.col("squeezed"))
        .withColumn("plain_end", F.max(F.when(sound & ~F.col("outside"), last)).over(past) + 1)
        .withColumn(
            "displaced", sound & (F.col("outside") | F.coalesce(base < F.col("plain_end"), F.lit(False)))
        )
        .withColumn("unread", F.col("opaque") | F.col("alone"))
        .withColumn("cut", F.lit(False))
    )
    if files is not None:
        torn = files.where("kind = 'segment' AND stop IN ('torn', 'truncated', 'unreadable')")
        names = torn.selectExpr("path", "true AS torn").distinct()
        rows = rows.join(F.broadcast(names), "path", "left").drop("cut")
        rows = rows.withColumn("cut", F.coalesce("torn", F.lit(False))).drop("torn")
        rows = rows.withColumn("unread", F.col("unread") | F.col("cut"))
    hidden = F.when(F.col("opaque"), F.coalesce("plain_end", base, F.lit(0))).otherwise(base)
    return (
        rows.withColumn("explained", F.coalesce(F.lag("unread").over(log), F.lit(False)))
        .withColumn(
            "after_cut",
            F.coalesce(F.lag("cut").over(log) & (F.lag("path").over(log) != F.col("path")), F.lit(False)),
        )
        .withColumn("base_offset", hidden)
        .drop("due", "next_base", "alone", "squeezed", "outside", "plain_end", "cut", "unread")
    )
