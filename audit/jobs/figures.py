"""What a report shows besides the verdict, summed up by Spark: bins and first rows reach this process."""

from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.report.figures import (
    BINS_MAX,
    ROWS_MAX,
    SERIES_MAX,
    Bins,
    Chart,
    Durations,
    Fence,
    Figures,
    Histogram,
    IdSpace,
    OpenTransaction,
    Series,
)
from fencepost.audit.report.scale import STEPS_MS
from fencepost.audit.tables.history import transaction_history
from fencepost.audit.tables.ownership import producer_id_ownership

CLASS_ENDS_MS: Final = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))
"""Exclusive upper bounds of the classes of durations, up to half a day; the last class has none."""

CAUSES_MAX: Final = 20  # kinds of fences that are counted apart
ACCURACY: Final = 10_000  # of percentiles: one in so many rows
PARTITIONS_MAX: Final = 10  # of one open transaction, named
_OTHERS: Final = -2  # a broker's id is never that; -1 is ZooKeeper's


def figures(inputs: Inputs) -> Figures:
    """All of them. What ``inputs`` keeps is used, not worked out again."""
    given = allocations(inputs).persist()
    try:
        space, allocation = _ids(given)
    finally:
        given.unpersist()
    open_now = inputs.latest.where("state IN ('Ongoing', 'PrepareCommit', 'PrepareAbort')")
    fences = _fences(inputs)
    return Figures(
        ids=space,
        allocation=allocation,
        durations=_durations(inputs),
        open_over_time=_open_over_time(inputs, open_now),
        open_now=tuple(_open_row(row) for row in open_now.orderBy("started_ms").limit(ROWS_MAX).collect()),
        fences=tuple(
            Fence(*row)
            for row in fences.orderBy(F.desc("at_ms"), "transactional_id").limit(ROWS_MAX).collect()
        ),
        fence_causes=tuple(
            (row["cause"], row["count"])
            for row in fences.groupBy("cause")
            .count()
            .orderBy(F.desc("count"), "cause")
            .limit(CAUSES_MAX)
            .collect()
        ),
    )


def span(inputs: Inputs) -> tuple[int | None, int | None]:
    """The first and the last time in the logs' batches, ms; None where there is none."""
    stamped = inputs.record_batches.where("fault IS NULL AND base_timestamp_ms >= 0")
    row = stamped.agg(F.min("base_timestamp_ms"), F.max("max_timestamp_ms")).first()
    return row[0], row[1]


def allocations(inputs: Inputs) -> DataFrame:
    """One row per block that was given out; one whose beginning was not kept counts no ids.

    Out  broker_id int, at_ms long (may be null), ids long, block_end long.
    """
    ids = F.greatest(F.col("block_end") - F.coalesce("block_first", "block_end"), F.lit(0))
    return producer_id_ownership(inputs).select(
        "broker_id", F.col("from_ms").alias("at_ms"), ids.alias("ids"), "block_end"
    )


def bins_of(first_ms: int, last_ms: int) -> Bins:
    """At most ``BINS_MAX`` bins of a round width, the first of which begins at a round time."""
    for width in STEPS_MS:
        begin = first_ms // width * width
        if (last_ms - begin) // width < BINS_MAX:
            break
    else:
        width = -(-(last_ms - first_ms + 1) // BINS_MAX)
        begin = first_ms
    return Bins(begin, width, (last_ms - begin) // width + 1)


def _ids(given: DataFrame) -> tuple[IdSpace | None, Chart | None]:
    sums = given.agg(
        F.max("block_end").alias("end"),
        F.count("block_end").alias("blocks"),
        F.sum("ids").alias("ids"),
        F.countDistinct(F.when(F.col("broker_id") >= 0, F.col("broker_id"))).alias("brokers"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
    ).first()
    if not sums["blocks"]:
        return None, None
    chart = None
    if sums["first_ms"] is not None and sums["last_ms"] > sums["first_ms"]:
        chart = _allocation(given, bins_of(sums["first_ms"], sums["last_ms"]))
    fastest = 0.0
    if chart is not None:
        totals = [sum(values) for values in zip(*(each.values for each in chart.series), strict=True)]
        fastest = max(totals) / (chart.bins.width_ms / 1000)
    space = IdSpace(
        end=sums["end"],
        block_count=sums["blocks"],
        given_out=sums["ids"],
        broker_count=sums["brokers"],
        first_ms=sums["first_ms"],
        last_ms=sums["last_ms"],
        fastest=fastest,
    )
    return space, chart


def _allocation(given: DataFrame, bins: Bins) -> Chart:
    """Ids per broker and bin; those with the most have a series of their own."""
    by_broker = given.groupBy("broker_id").agg(F.sum("ids").alias("ids"))
    most = [
        row["broker_id"] for row in by_broker.orderBy(F.desc("ids"), "broker_id").limit(SERIES_MAX).collect()
    ]
    broker = F.when(F.col("broker_id").isin(most), F.col("broker_id")).otherwise(_OTHERS)
    rows = (
        given.where("at_ms IS NOT NULL")
        .groupBy(broker.alias("broker"), _bin(F.col("at_ms"), bins).alias("bin"))
        .agg(F.sum("ids").alias("ids"))
        .collect()
    )
    counted = {(row["broker"], row["bin"]): row["ids"] for row in rows}
    names = {each: "ZooKeeper" if each == -1 else f"broker {each}" for each in sorted(most)} | {
        _OTHERS: "others"
    }
    series = [
        Series(name, tuple(counted.get((broker, index), 0) for index in range(bins.bin_count)))
        for broker, name in names.items()
    ]
    return Chart(bins, tuple(each for each in series if any(each.values)) or (series[0],))


def _durations(inputs: Inputs) -> Durations | None:
    """Of transactions whose beginning and end are both known."""
    took = inputs.transactions.where("ended AND started_ms >= 0").select(
        "committed", F.greatest(F.col("ended_ms") - F.col("started_ms"), F.lit(0)).alias("took_ms")
    )
    duration_class = F.lit(0)
    for end in CLASS_ENDS_MS:
        duration_class += (F.col("took_ms") >= end).cast("int")
    sums = took.agg(
        F.count(F.when(F.col("committed"), 1)).alias("committed"),
        F.count(F.when(~F.col("committed"), 1)).alias("aborted"),
        F.percentile_approx("took_ms", [0.5, 0.9, 0.99], ACCURACY).alias("percentiles"),
        F.max("took_ms").alias("longest"),
    ).first()
    if sums["longest"] is None:
        return None
    counts = took.groupBy("committed", duration_class.alias("class")).count().collect()
    p50, p90, p99 = sums["percentiles"]
    return Durations(
        committed=sums["committed"],
        aborted=sums["aborted"],
        p50=p50,
        p90=p90,
        p99=p99,
        longest=sums["longest"],
        histogram=histogram({(row["committed"], row["class"]): row["count"] for row in counts}),
    )


def histogram(counts: dict[tuple[bool, int], int]) -> Histogram:
    """Of counts by (committed, class): from the first class that has any to the last."""
    there = [index for _, index in counts]
    first, last = min(there), max(there)
    # The last bar's bound is not kept to where nothing ends it: the class beyond the last bound.
    ends = (*CLASS_ENDS_MS, 10 * CLASS_ENDS_MS[-1])[first : last + 1]
    return Histogram(
        ends,
        tuple(
            Series(name, tuple(counts.get((committed, index), 0) for index in range(first, last + 1)))
            for committed, name in ((True, "committed"), (False, "aborted"))
        ),
    )


def _open_over_time(inputs: Inputs, open_now: DataFrame) -> Chart | None:
    """The most that were open at once in each bin: running sums within bins, which add up here."""
    ended = inputs.transactions.where("ended AND started_ms >= 0").select("started_ms", "ended_ms")
    still = open_now.where("started_ms >= 0").select("started_ms", F.lit(None).cast("long").alias("ended_ms"))
    each = ended.unionByName(still)
    changes = each.select(F.col("started_ms").alias("at_ms"), F.lit(1).alias("change")).unionByName(
        each.where("ended_ms IS NOT NULL").select(
            F.greatest("ended_ms", "started_ms").alias("at_ms"), F.lit(-1).alias("change")
        )
    )
    edges = changes.agg(F.min("at_ms").alias("first_ms"), F.max("at_ms").alias("last_ms")).first()
    if edges["first_ms"] is None:
        return None
    bins = bins_of(edges["first_ms"], edges["last_ms"])
    in_order = Window.partitionBy("bin").orderBy("at_ms", F.desc("change"))
    running = F.sum("change").over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    rows = (
        changes.withColumn("bin", _bin(F.col("at_ms"), bins))
        .withColumn("running", running)
        .groupBy("bin")
        .agg(F.max("running").alias("peak"), F.sum("change").alias("change"))
        .collect()
    )
    return Chart(
        bins, (Series("open", peaks({row["bin"]: (row["peak"], row["change"]) for row in rows}, bins)),)
    )


def peaks(changes: dict[int, tuple[int, int]], bins: Bins) -> tuple[int, ...]:
    """Of each bin's (highest running sum, sum): the most at once in each bin, what it began with included."""
    level = 0
    found = []
    for index in range(bins.bin_count):
        peak, change = changes.get(index, (0, 0))
        found.append(level + max(peak, 0))
        level += change
    return tuple(found)


def _open_row(row: Any) -> OpenTransaction:
    partitions = [f"{each['topic']}-{each['partition']}" for each in row["partitions"] or ()]
    shown = ", ".join(partitions[:PARTITIONS_MAX])
    more = len(partitions) - PARTITIONS_MAX
    return OpenTransaction(
        row["transactional_id"],
        row["producer_id"],
        row["producer_epoch"],
        row["state"],
        row["started_ms"],
        row["timeout_ms"],
        f"{shown} and {more} more" if more > 0 else shown,
    )


def _fences(inputs: Inputs) -> DataFrame:
    """Each fence once, though every later record of its id repeats it: the columns of ``Fence``.

    Kafka's log keeps no account of fences: there they are transactions that were aborted at a higher epoch.
    """
    rows = inputs.states.where("NOT regressed").select("transactional_id", F.explode("fences").alias("fence"))
    extent = rows.select(
        "fence.at_ms",
        "transactional_id",
        "fence.producer_id",
        "fence.producer_epoch",
        "fence.cause",
        F.coalesce("fence.by", F.lit("")).alias("by"),
    ).distinct()
    untold = transaction_history(inputs).where("fenced AND fence_cause IS NULL")
    shown = untold.select(
        F.col("decided_ms").alias("at_ms"),
        "transactional_id",
        "producer_id",
        F.coalesce("first_epoch", "last_epoch").alias("producer_epoch"),
        F.lit("its transaction was aborted").alias("cause"),
        F.lit("").alias("by"),
    )
    return extent.unionByName(
        shown.join(extent.select("transactional_id").distinct(), "transactional_id", "left_anti")
    )


def _bin(at_ms: Column, bins: Bins) -> Column:
    return F.floor((at_ms - bins.first_ms) / bins.width_ms).cast("int")
