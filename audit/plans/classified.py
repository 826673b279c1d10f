"""The batches of data partitions in their order, with what each is found to be: one pass for many checks.

Counted     plain, of a producer whose id was given out, and not of an epoch that the partition had seen the
            end of: only such a batch says anything about later ones.
Breaks      a hole, or a batch that is not counted: sequences on both sides of one are not compared.
Sequences   are of producers: the offsets of a group are written by its coordinator, each batch from 0 on.
Clocks      markers are stamped by brokers, data by clients: what is known of the time at an offset are the
            markers before and after it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import CONSUMER_OFFSETS

_LOG: Final = ("topic", "partition")
_SEQUENCES: Final = 2**31  # 0 follows 2^31 - 1
_HALF: Final = 2**30
MARKER_BYTES_MAX: Final = 256
"""A marker is one record of a dozen bytes; ours has a header more. What is larger is none."""

OPEN_TAIL: Final = (
    "counted AND transactional AND control_type IS NULL"
    " AND (last_marker_offset IS NULL OR base_offset > last_marker_offset)"
)
SUSPECT: Final = (
    "opaque OR displaced OR explained OR foreign OR stale OR repeated OR sequence_fault IS NOT NULL"
    f" OR (hole_first IS NOT NULL AND NOT compacted) OR ({OPEN_TAIL})"
)
"""What a finding may come of; of a sound log only the data of transactions that are open."""

_IS_TRANSACTIONAL: Final = 0x10
_ABORT_OR_COMMIT: Final = (0, 1)


def classified(canonical: DataFrame, foreign: DataFrame | None) -> DataFrame:
    """Rows of ``canonical`` with further columns.

    In       ``foreign``: the producer ids (producer_id) that were never given out; None: there are none.
    Further  foreign, transactional, marker, stale, counted boolean; hole_first long, null: none before this
             row; marker_ms_before, marker_ms_after long; last_marker_offset long (the producer's, of the
             whole partition); epoch_before int; repeated boolean (a marker that is there already); ends_data
             boolean (a marker that comes after transactional data of its producer); log_ms_before long (the
             latest time of a batch before this one); sequence_fault "gap", "duplicate" or null;
             expected_sequence int; previous_offset long.
    """
    rows = canonical.withColumn("foreign", F.lit(False))
    if foreign is not None:
        marked = F.broadcast(foreign.withColumn("foreign", F.lit(True)))
        rows = canonical.join(marked, "producer_id", "left")
    return _with_sequences(_with_breaks(_with_epochs(_with_kinds(rows))))


def logs(rows: DataFrame) -> DataFrame:
    """One row per log of ``classified``.

    Out  topic, partition, first_offset, log_compacted, dark (something in it cannot be read, or is missing),
         first_ms (the earliest time of a batch), first_marker_ms, last_marker_ms.
    """
    marker_ms = F.when(F.col("marker"), F.col("max_timestamp_ms"))
    hole = F.col("hole_first").isNotNull() & ~F.col("compacted")
    return rows.groupBy(*_LOG).agg(
        F.min("base_offset").alias("first_offset"),
        F.max("compacted").alias("log_compacted"),
        F.max(F.col("opaque") | F.col("explained") | hole).alias("dark"),
        F.min(F.when(F.col("plain"), F.col("base_timestamp_ms"))).alias("first_ms"),
        F.min(marker_ms).alias("first_marker_ms"),
        F.max(marker_ms).alias("last_marker_ms"),
    )


def _with_kinds(rows: DataFrame) -> DataFrame:
    return (
        rows.withColumn("foreign", F.coalesce("foreign", F.lit(False)) & ~F.col("opaque"))
        .withColumn(
            "transactional",
            F.coalesce(F.col("attributes").bitwiseAND(F.lit(_IS_TRANSACTIONAL)) != 0, F.lit(False)),
        )
        .withColumn(
            "marker", F.col("plain") & F.coalesce(F.col("control_type").isin(*_ABORT_OR_COMMIT), F.lit(False))
        )
    )


def _with_epochs(rows: DataFrame) -> DataFrame:
    """Per producer: was a higher epoch written before; where is its last marker; is this marker a copy."""
    producer = Window.partitionBy(*_LOG, "producer_id")
    order = producer.orderBy("base_offset", "position")
    past = order.rowsBetween(Window.unboundedPreceding, -1)
    legible = ~F.col("opaque") & ~F.col("foreign") & (F.col("producer_id") >= 0)
    ours = F.col("plain") & legible
    ends = legible & F.coalesce(F.col("control_type").isin(*_ABORT_OR_COMMIT), F.lit(False))
    version = F.when(ends, F.col("marker_version"))
    counted_version = F.when(F.col("marker"), F.col("marker_version"))
    last_marker = F.struct("producer_epoch", "base_timestamp_ms", "coordinator_epoch", "control_type")
    same = F.last(F.when(F.col("marker"), last_marker), ignorenulls=True).over(past) == last_marker
    repeated = F.when(version.isNotNull(), version <= F.max(counted_version).over(past)).otherwise(same)
    open_data = F.col("counted") & F.col("control_type").isNull() & F.col("transactional")
    last_data = F.max(F.when(open_data, F.col("base_offset"))).over(past)
    last_end = F.max(F.when(F.col("marker") & F.col("counted"), F.col("base_offset"))).over(past)
    return (
        rows.withColumn("epoch_before", F.max(F.when(ours, F.col("producer_epoch"))).over(past))
        .withColumn(
            "stale", F.coalesce(legible & (F.col("producer_epoch") < F.col("epoch_before")), F.lit(False))
        )
        .withColumn("counted", ours & ~F.col("stale"))
        .withColumn("repeated", ends & ~F.col("stale") & F.coalesce(repeated, F.lit(False)))
        .withColumn(
            "last_marker_offset",
            F.max(F.when(F.col("marker") & F.col("counted"), F.col("base_offset"))).over(producer),
        )
        .withColumn(
            "ends_data",
            F.col("marker") & (F.coalesce(last_data, F.lit(-1)) > F.coalesce(last_end, F.lit(-1))),
        )
    )


def _with_breaks(rows: DataFrame) -> DataFrame:
    """Per log: what is missing before a row, how many breaks there were, which markers are around it."""
    order = Window.partitionBy(*_LOG).orderBy("base_offset", "position")
    past = order.rowsBetween(Window.unboundedPreceding, -1)
    due = F.max(F.when(F.col("plain"), F.col("last_offset"))).over(past) + 1
    marker_ms = F.when(F.col("marker") & F.col("counted"), F.col("max_timestamp_ms"))
    back = Window.partitionBy(*_LOG).orderBy(F.desc("base_offset"), F.desc("position"))
    stranger = F.col("opaque") | F.col("displaced") | F.col("foreign") | F.col("stale")
    return (
        rows.withColumn("hole_first", F.when(F.col("plain") & (F.col("base_offset") > due), due))
        .withColumn("log_ms_before", F.max(F.when(F.col("plain"), F.col("max_timestamp_ms"))).over(past))
        .withColumn("marker_ms_before", F.max(marker_ms).over(past))
        .withColumn(
            "marker_ms_after",
            F.last(marker_ms, ignorenulls=True).over(back.rowsBetween(Window.unboundedPreceding, -1)),
        )
        .withColumn("break", (stranger | F.col("hole_first").isNotNull() | F.col("explained")).cast("long"))
        .withColumn("breaks", F.sum("break").over(order.rowsBetween(Window.unboundedPreceding, 0)))
        .drop("break")
    )


def _with_sequences(rows: DataFrame) -> DataFrame:
    """Per producer and epoch: does each batch follow those before it.

    A batch is in sequence if it follows the last one, or the furthest, or what the last one should have been:
    one wrong batch is one fault, and those after it are measured by those before it.
    """
    data = F.col("counted") & F.col("control_type").isNull() & (F.col("base_sequence") >= 0)
    data &= F.col("topic") != CONSUMER_OFFSETS
    keyed = rows.withColumn("in_sequence", data & ~F.col("compacted"))
    spec = Window.partitionBy(*_LOG, "producer_id", "producer_epoch", "in_sequence")
    order = spec.orderBy("base_offset", "position")
    past = order.rowsBetween(Window.unboundedPreceding, -1)
    length = F.col("last_offset") - F.col("base_offset") + 1
    start = F.col("base_sequence").cast("long")
    step = _signed(start - F.lag(start).over(order))
    return (
        keyed.withColumn(
            "unwrapped",
            F.coalesce(F.sum(step).over(order.rowsBetween(Window.unboundedPreceding, 0)), F.lit(0)),
        )
        .withColumn("length", length)
        .withColumn("own_end", F.col("unwrapped") + length)
        .withColumn("last_end", F.lag("own_end").over(order))
        .withColumn("furthest_end", F.max("own_end").over(past))
        .withColumn("meant_end", F.lag(F.col("last_end") + F.col("length")).over(order))
        .withColumn("previous_offset", F.lag("last_offset").over(order))
        .withColumn("unbroken", F.lag("breaks").over(order) == F.col("breaks"))
        .withColumn("first_of_epoch", F.row_number().over(order) == 1)
        .transform(_with_verdict)
        .drop(
            "in_sequence",
            "unwrapped",
            "length",
            "own_end",
            "last_end",
            "furthest_end",
            "meant_end",
            "unbroken",
        )
        .drop("first_of_epoch", "breaks_of_producer")
    )


def _with_verdict(rows: DataFrame) -> DataFrame:
    start = F.col("unwrapped")
    producer = Window.partitionBy(*_LOG, "producer_id").orderBy("base_offset", "position")
    breaks_of_producer = F.lag("breaks").over(producer)
    follows = (start == F.col("last_end")) | (start == F.col("furthest_end"))
    follows |= F.coalesce(start == F.col("meant_end"), F.lit(False))
    new_epoch = F.col("first_of_epoch") & (F.col("epoch_before") < F.col("producer_epoch"))
    late_start = new_epoch & (F.col("base_sequence") != 0) & (F.col("breaks_of_producer") == F.col("breaks"))
    out_of_step = ~F.col("first_of_epoch") & F.col("unbroken") & ~follows
    expected = F.when(F.col("first_of_epoch"), F.lit(0)).otherwise(
        F.pmod(F.col("base_sequence") - start + F.col("furthest_end"), F.lit(_SEQUENCES))
    )
    fault = (
        F.when(F.col("in_sequence") & late_start, F.lit("gap"))
        .when(F.col("in_sequence") & out_of_step & (start > F.col("furthest_end")), F.lit("gap"))
        .when(F.col("in_sequence") & out_of_step, F.lit("duplicate"))
    )
    return (
        rows.withColumn("breaks_of_producer", breaks_of_producer)
        .withColumn("sequence_fault", fault)
        .withColumn("expected_sequence", F.when(fault.isNotNull(), expected))
    )


def _signed(step: Column) -> Column:
    """A difference of two sequences, the short way round: [-2^30, 2^30)."""
    return F.pmod(step + _HALF, F.lit(_SEQUENCES)) - _HALF
