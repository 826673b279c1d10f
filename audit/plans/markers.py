"""Markers: each transaction that ended has one marker of its outcome in each of its partitions, and no other
is there.

Counted     first, by partition, producer, epoch and outcome: only where the numbers differ are times looked
            at, to say which marker and which transaction. As many findings as the numbers differ by.
Copies      of one marker show by themselves: the same version (ours), or the same time and epoch.
Legitimate  a transaction that is still being ended may lack markers; a deleted topic's are gone with it; an
            abort that ended data of which the coordinator knows no transaction is an operator's, who ended a
            hanging one.
Unknown     partitions that were not read, or not from where the marker would be; bytes that cannot be read
            and may be a marker; transactions that the coordinator's log no longer tells of.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import CONSUMER_OFFSETS, TRANSACTION_STATE
from fencepost.audit.plans.findings import Result, findings, union, unknown, unknown_without
from fencepost.audit.plans.inputs import Inputs
from fencepost.audit.plans.pairing import KEY

NAME: Final = "markers"
_WRONG: Final = (
    *(*KEY, "node", "path", "position", "base_offset AS offset", "max_timestamp_ms AS at_ms", "ends_data"),
)
FREES_OFFSETS: Final = (
    f"topic = '{CONSUMER_OFFSETS}' AND rule = 'wrong_outcome' AND committed AND ends_data AND unknown IS NULL"
)
"""Of ``wrong_markers``, those by which offsets of an aborted transaction took effect: ``groups``' own."""

_LATE_MS: Final = 60_000  # markers follow the decision sooner: for so long may a hole in its log be its place


def check(inputs: Inputs) -> Result:
    """Rules missing, double, wrong_outcome, without_transaction."""
    due = inputs.missing_markers
    name = F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch"))
    said = {
        "double": "a second %s marker of a transaction that has one",
        "wrong_outcome": "a marker of %s, of a transaction whose outcome is the other one",
        "without_transaction": "a %s marker, and the coordinator's log has no transaction that it ends",
    }
    wrong = inputs.keep(wrong_markers(inputs))
    found = [
        findings(
            wrong.where((F.col("rule") == rule) & F.col("unknown").isNull()).where(f"NOT ({FREES_OFFSETS})"),
            NAME,
            rule,
            subject=name,
            detail=F.format_string(text, _outcome()),
        )
        for rule, text in said.items()
    ]
    missing = findings(
        due.where("unknown IS NULL").withColumn("at_ms", F.col("prepared_ms")),
        NAME,
        "missing",
        subject=name,
        detail=F.format_string(
            "no %s marker of the transaction of %s, decided at %d (offset %d of the coordinator's log)",
            _outcome(), F.col("transactional_id"), F.col("prepared_ms"), F.col("decided_offset"),
        ),
    )  # fmt: skip
    return Result(union([missing, *found]), _unknown(inputs, due, wrong))


def _outcome() -> Column:
    return F.when(F.col("committed"), F.lit("commit")).otherwise(F.lit("abort"))


def _unknown(inputs: Inputs, due: DataFrame, wrong: DataFrame) -> DataFrame:
    log = inputs.files.where((F.col("topic") == TRANSACTION_STATE) & (F.col("kind") == "segment"))
    return union(
        [
            unknown(
                rows.where("unknown IS NOT NULL")
                .groupBy("topic", "partition", "unknown")
                .agg(F.count("producer_id").alias("count")),
                NAME,
                rule,
                F.format_string(f"%d {what}: %s", F.col("count"), F.col("unknown")),
            )
            for rows, rule, what in (
                (due, "missing", "transactions"),
                (wrong, "without_transaction", "markers"),
            )
        ]
        + [unknown_without(log, NAME, "without_transaction", "there is no log of a transaction coordinator")]
    )


def wrong_markers(inputs: Inputs) -> DataFrame:
    """Markers that should not be there.

    Out  topic, partition, producer_id, producer_epoch, committed, node, path, position, offset, at_ms;
         ends_data; ``rule``; ``unknown``: why that cannot be said, or null.
    """
    copies = (
        inputs.suspects.where("repeated")
        .withColumn("committed", F.col("control_type") == 1)
        .selectExpr(*_WRONG, "'double' AS rule", "'' AS unknown")
    )
    copies = copies.withColumn("unknown", F.lit(None).cast("string"))
    if inputs.marker_events is None:
        return copies
    return copies.unionByName(_extra(inputs, inputs.marker_events))


def _extra(inputs: Inputs, rows: DataFrame) -> DataFrame:
    """As many markers as there are too many, those first that fit the transactions' times worst."""
    settled = F.lit(inputs.settled_ms).cast("long")
    astray = F.col("turn_committed").isNull() | (F.col("committed") != F.col("turn_committed"))
    likely = F.when(astray, 0).when(F.col("copy") > 1, 1).otherwise(2)
    order = Window.partitionBy(*KEY).orderBy("likely", F.desc("place"))
    extra = (
        rows.where("is_marker AND extra > 0")
        .where(settled.isNull() | (F.col("max_timestamp_ms") <= settled))
        .withColumn("likely", likely)
        .withColumn("rank", F.row_number().over(order))
        .where("rank <= extra")
    )
    by_operator = ~F.col("committed") & F.col("marker_version").isNull() & F.col("ends_data")
    rule = (
        F.when(F.col("turn_committed").isNull(), "without_transaction")
        .when(F.col("committed") == F.col("turn_committed"), "double")
        .when(F.col("matching") == 0, "wrong_outcome")
        .otherwise("without_transaction")
    )
    ruled = extra.withColumn("rule", rule).where(~(by_operator & (F.col("rule") != "wrong_outcome")))
    return _with_unknown(ruled, inputs).selectExpr(*_WRONG, "rule", "unknown")


def _with_unknown(rows: DataFrame, inputs: Inputs) -> DataFrame:
    """``unknown``: why the coordinator's log would not tell of the marker's transaction; null if it would."""
    log = inputs.coordinator
    known = (
        inputs.states.where("producer_id IS NOT NULL")
        .groupBy("producer_id")
        .agg(F.min("updated_ms").alias("known_ms"), F.min("partition").alias("known_partition"))
    )
    since = F.coalesce(F.col("ms") >= F.col("known_ms"), F.lit(False))
    late = F.lit(not log.compacted) & (F.col("ms") > log.first_ms + _LATE_MS)
    extent = F.lit(log.whole) | since | late
    rows = rows.join(known, "producer_id", "left")
    there = F.col("known_partition").isNull() | (F.col("known_partition") == F.col("dark_partition"))
    when = F.col("ms").between(F.col("dark_ms"), F.col("light_ms"))
    hidden = (
        rows.join(F.broadcast(_dark(inputs)), there & when, "left_semi")
        .select("path", "position", F.lit(True).alias("hidden"))
        .distinct()
    )
    unknown_why = (
        F.when(F.lit(not log.present), F.lit("there is no log of a transaction coordinator"))
        .when(F.col("hidden"), F.lit("the coordinator's log of that time cannot be read"))
        .when(~extent, F.lit("the coordinator's log of that time is not kept"))
    )
    return rows.join(hidden, ["path", "position"], "left").withColumn("unknown", unknown_why)


def _dark(inputs: Inputs) -> DataFrame:
    """Times of which the coordinator's log does not tell: something in it is missing or unreadable."""
    faults = inputs.record_faults.selectExpr("path", "position", "true AS unreadable").distinct()
    return (
        inputs.classified.where(F.col("topic") == TRANSACTION_STATE)
        .join(F.broadcast(faults), ["path", "position"], "left")
        .where("opaque OR explained OR (hole_first IS NOT NULL AND NOT compacted) OR unreadable")
        .select(
            F.col("partition").alias("dark_partition"),
            F.coalesce("log_ms_before", F.lit(-1)).alias("dark_ms"),
            (F.greatest("max_timestamp_ms", "log_ms_before", F.lit(0)) + _LATE_MS).alias("light_ms"),
        )
    )
