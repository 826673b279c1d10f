"""What the coordinator decided: its log's rows in order, the transactions in them, the epochs that were left.

Regressed   a row whose (producer id, epoch) its transactional id had left before: it is a finding of its own,
            and no other conclusion is drawn from it.
Known from  Kafka compacts this log: of each id the last row of the compacted part and all that follow are
            left, so an id's rows are a suffix of its story. fencepost's archive is whole.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import TRANSACTION_STATE

_ID = ("topic", "partition", "transactional_id")
PREPARED = "state IN ('PrepareCommit', 'PrepareAbort')"


def canonical_states(states: DataFrame, batches: DataFrame) -> DataFrame:
    """TRANSACTION_STATES of the canonical log, ``forgotten`` ones included.

    Further  ``regressed``; ``left_rank`` the pair that was current before a regressed row (opaque, for
             grouping).
    """
    plain = batches.where((F.col("topic") == TRANSACTION_STATE) & F.col("plain")).select("path", "position")
    rows = states.join(plain, ["path", "position"])
    of_id = Window.partitionBy(*_ID)
    first_seen = F.min(F.when(F.col("producer_id").isNotNull(), F.col("offset"))).over(
        Window.partitionBy(*_ID, "producer_id")
    )
    rank = F.when(
        F.col("producer_id").isNotNull(),
        F.struct(F.col("first_seen"), F.col("producer_epoch"), F.col("producer_id")),
    )
    before = F.max("rank").over(of_id.orderBy("offset").rowsBetween(Window.unboundedPreceding, -1))
    return (
        rows.withColumn("first_seen", first_seen)
        .withColumn("rank", rank)
        .withColumn("left_rank", before)
        .withColumn("regressed", F.coalesce(F.col("rank") < F.col("left_rank"), F.lit(False)))
        .drop("first_seen", "rank")
    )


def transactions(states: DataFrame) -> DataFrame:
    """One row per transaction that the coordinator decided to end: its PrepareCommit or PrepareAbort.

    In   ``canonical_states``.
    Out  those columns, and ``committed`` boolean; ``prepared_ms`` long; ``ended`` boolean: its id went on
         after it; ``ended_ms`` long, null if it is not ended: the time of the next row, by which every marker
         was written.
    """
    order = Window.partitionBy(*_ID).orderBy("offset")
    pair = F.struct("state", "producer_id", "producer_epoch")
    rows = (
        states.where(~F.col("regressed"))
        .withColumn("repeated", F.coalesce(F.lag(pair).over(order) == pair, F.lit(False)))
        .withColumn("next_offset", F.lead("offset").over(order))
        .withColumn("ended_ms", F.lead(F.coalesce("updated_ms", "timestamp_ms")).over(order))
    )
    return (
        rows.where(PREPARED)
        .where(~F.col("repeated"))
        .withColumn("committed", F.col("state") == "PrepareCommit")
        .withColumn("prepared_ms", F.col("updated_ms"))
        .withColumn("ended", F.col("next_offset").isNotNull())
        .drop("repeated", "next_offset", "regressed", "left_rank")
    )


def latest(states: DataFrame) -> DataFrame:
    """The last row of each transactional id that is not regressed; of a forgotten id the tombstone."""
    order = Window.partitionBy(*_ID).orderBy(F.desc("offset"))
    good = states.where(~F.col("regressed")).withColumn("place", F.row_number().over(order))
    return good.where("place = 1").drop("place", "regressed", "left_rank")


def epochs_left(states: DataFrame) -> DataFrame:
    """When the coordinator gave each pair up: producer_id, producer_epoch, left_ms; current pairs are left
    out.
    """
    pairs = (
        states.where(~F.col("regressed") & F.col("producer_id").isNotNull())
        .groupBy(*_ID, "producer_id", "producer_epoch")
        .agg(F.min("offset").alias("offset"), F.min("updated_ms").alias("began_ms"))
    )
    order = Window.partitionBy(*_ID).orderBy("offset")
    ends = pairs.withColumn("left_ms", F.lead("began_ms").over(order)).where("left_ms IS NOT NULL")
    return ends.groupBy("producer_id", "producer_epoch").agg(F.max("left_ms").alias("left_ms"))
