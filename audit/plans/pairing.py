"""Transactions and the markers that end them: where their numbers differ, and which belong together."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_PRODUCER: Final = ("topic", "partition", "producer_id", "producer_epoch")
KEY: Final = (*_PRODUCER, "committed")
"""What is counted: markers of one outcome of a producer's epoch on a partition."""


def parts(transactions: DataFrame) -> DataFrame:
    """One row per transaction and partition in it; where its decision lies becomes ``decided_*``."""
    place = {name: f"decided_{name}" for name in ("node", "path", "position", "offset")}
    listed = transactions.withColumn("part", F.explode("partitions")).drop(
        "topic", "partition", "partitions", "fences"
    )
    return listed.withColumnsRenamed(place).select("*", "part.topic", "part.partition").drop("part")


def marker_rows(classified: DataFrame) -> DataFrame:
    """The markers of producers whose word counts, with ``committed``."""
    return classified.where("marker AND counted").withColumn("committed", F.col("control_type") == 1)


def differing(transactions: DataFrame, classified: DataFrame, settled_ms: int | None) -> DataFrame:
    """Where there are more transactions than markers, or fewer.

    Out  KEY, ``lacking`` and ``extra`` long, one of them above 0.
    """
    settled = F.lit(settled_ms).cast("long")
    in_time = settled.isNull() | (F.col("max_timestamp_ms") <= settled)
    expected = (
        parts(transactions)
        .groupBy(*KEY)
        .agg(F.count(F.when(F.col("ended"), 1)).alias("ended"), F.count("*").alias("begun"))
    )
    there = (
        marker_rows(classified)
        .where("NOT repeated")
        .groupBy(*KEY)
        .agg(F.count("*").alias("written"), F.count(F.when(in_time, 1)).alias("settled"))
    )
    both = expected.join(there, list(KEY), "full").na.fill(0, ["ended", "begun", "written", "settled"])
    return both.select(
        *KEY,
        F.greatest(F.col("ended") - F.col("written"), F.lit(0)).alias("lacking"),
        F.greatest(F.col("settled") - F.col("begun"), F.lit(0)).alias("extra"),
    ).where("lacking > 0 OR extra > 0")


def events(transactions: DataFrame, classified: DataFrame, where: DataFrame) -> DataFrame:
    """Transactions and markers of the producers whose numbers differ (``where``), in the order of time.

    Out  both kinds' columns; is_marker; ``turn``: the transaction that a marker belongs to, by time, 0: to
         none; turn_committed: its outcome; matching, opposite: markers of the turn that have its outcome, or
         the other; copy: 1 for the first marker of an outcome in its turn; lacking, extra: of this row's own
         outcome.
    """
    decided = parts(transactions).select(
        *KEY, "transactional_id", "ended", "ended_ms", "prepared_ms", "started_ms",
        "decided_node", "decided_path", "decided_position", "decided_offset",
        F.col("prepared_ms").alias("ms"), F.lit(False).alias("is_marker"),
        F.col("decided_offset").alias("place"),
    )  # fmt: skip
    written = marker_rows(classified).where("NOT repeated").select(
        *KEY, "node", "path", "position", "base_offset", "max_timestamp_ms", "marker_version", "ends_data",
        F.col("base_timestamp_ms").alias("ms"), F.lit(True).alias("is_marker"),
        F.col("base_offset").alias("place"),
    )  # fmt: skip
    producers = where.select(*_PRODUCER).distinct()
    rows = decided.unionByName(written, allowMissingColumns=True).join(
        producers, list(_PRODUCER), "left_semi"
    )
    order = Window.partitionBy(*_PRODUCER).orderBy("ms", "is_marker", "place")
    so_far = order.rowsBetween(Window.unboundedPreceding, 0)
    turn = Window.partitionBy(*_PRODUCER, "turn")
    copies = Window.partitionBy(*_PRODUCER, "turn", "is_marker", "committed").orderBy("place")
    same = F.col("committed") == F.col("turn_committed")
    return (
        rows.withColumn("turn", F.sum((~F.col("is_marker")).cast("int")).over(so_far))
        .withColumn(
            "turn_committed",
            F.last(F.when(~F.col("is_marker"), F.col("committed")), ignorenulls=True).over(so_far),
        )
        .withColumn("matching", F.count(F.when(F.col("is_marker") & same, 1)).over(turn))
        .withColumn("opposite", F.count(F.when(F.col("is_marker") & ~same, 1)).over(turn))
        .withColumn("copy", F.row_number().over(copies))
        .join(where, list(KEY), "left")
    )


def lacking(rows: DataFrame) -> DataFrame:
    """Transactions without their marker in a partition, as many as markers are lacking.

    In   ``events``.
    """
    order = Window.partitionBy(*KEY).orderBy(F.col("matching") > 0, "opposite", "place")
    return (
        rows.where("NOT is_marker AND ended AND lacking > 0")
        .withColumn("rank", F.row_number().over(order))
        .where("rank <= lacking AND opposite = 0")
        .drop("node", "path", "position", "base_offset", "max_timestamp_ms", "marker_version", "ends_data")
    )
