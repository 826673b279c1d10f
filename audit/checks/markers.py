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

from audit.checks.canonical import TRANSACTION_STATE
from audit.checks.due import due_markers
from audit.checks.findings import Result, findings, union, unknown, unknown_without
from audit.checks.inputs import Inputs

NAME: Final = "markers"
_PRODUCER: Final = ("topic", "partition", "producer_id", "producer_epoch")
_KEY: Final = (*_PRODUCER, "committed")
_TOLD_MS: Final = 60_000
"""Markers follow the decision by less: so long after a hole in the coordinator's log a transaction may be in
it.
"""


def check(inputs: Inputs) -> Result:
    """Rules missing, double, wrong_outcome, without_transaction."""
    due = inputs.missing_markers
    wrong = wrong_markers(inputs)
    name = F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch"))
    said = {
        "double": "a second %s marker of a transaction that has one",
        "wrong_outcome": "a marker of %s, of a transaction whose outcome is the other one",
        "without_transaction": "a %s marker, and the coordinator's log has no transaction that it ends",
    }
    found = [
        findings(
            wrong.where(F.col("rule") == rule),
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
    return Result(union([missing, *found]), _unknown(inputs, due))


def _outcome() -> Column:
    return F.when(F.col("committed"), F.lit("commit")).otherwise(F.lit("abort"))


def _unknown(inputs: Inputs, due: DataFrame) -> DataFrame:
    undecided = (
        due.where("unknown IS NOT NULL")
        .groupBy("topic", "partition", "unknown")
        .agg(F.count("producer_id").alias("count"))
    )
    log = inputs.files.where((F.col("topic") == TRANSACTION_STATE) & (F.col("kind") == "segment"))
    return unknown(
        undecided, NAME, "missing", F.format_string("%d transactions: %s", F.col("count"), F.col("unknown"))
    ).unionByName(
        unknown_without(log, NAME, "without_transaction", "there is no log of a transaction coordinator")
    )


def parts(transactions: DataFrame) -> DataFrame:
    """One row per transaction and partition in it; where its decision lies becomes ``decided_*``."""
    place = {name: f"decided_{name}" for name in ("node", "path", "position", "offset")}
    listed = transactions.withColumn("part", F.explode("partitions")).drop(
        "topic", "partition", "partitions", "fences"
    )
    return listed.withColumnsRenamed(place).select("*", "part.topic", "part.partition").drop("part")


def marker_rows(judged: DataFrame) -> DataFrame:
    """The markers of producers whose word counts, with ``committed``."""
    return judged.where("marker AND counted").withColumn("committed", F.col("control_type") == 1)


def differing(inputs: Inputs) -> DataFrame:
    """Where numbers differ: _KEY, ``lacking`` and ``extra`` long, one of them above 0."""
    settled = F.lit(inputs.settled_ms).cast("long")
    in_time = settled.isNull() | (F.col("max_timestamp_ms") <= settled)
    expected = (
        parts(inputs.transactions)
        .groupBy(*_KEY)
        .agg(F.count(F.when(F.col("ended"), 1)).alias("ended"), F.count("*").alias("begun"))
    )
    there = (
        marker_rows(inputs.judged)
        .where("NOT repeated")
        .groupBy(*_KEY)
        .agg(F.count("*").alias("written"), F.count(F.when(in_time, 1)).alias("settled"))
    )
    both = expected.join(there, list(_KEY), "full").na.fill(0, ["ended", "begun", "written", "settled"])
    return both.select(
        *_KEY,
        F.greatest(F.col("ended") - F.col("written"), F.lit(0)).alias("lacking"),
        F.greatest(F.col("settled") - F.col("begun"), F.lit(0)).alias("extra"),
    ).where("lacking > 0 OR extra > 0")


def events(inputs: Inputs, where: DataFrame) -> DataFrame:
    """Transactions and markers of the producers whose numbers differ (``where``), in the order of time.

    Out  both kinds' columns; is_marker; ``turn``: the transaction that a marker belongs to, by time, 0: to
         none; turn_committed: its outcome; matching, opposite: markers of the turn that have its outcome, or
         the other; copy: 1 for the first marker of an outcome in its turn; lacking, extra: of this row's own
         outcome.
    """
    decided = parts(inputs.transactions).select(
        *_KEY, "transactional_id", "ended", "ended_ms", "prepared_ms", "started_ms",
        "decided_node", "decided_path", "decided_position", "decided_offset",
        F.col("prepared_ms").alias("ms"), F.lit(False).alias("is_marker"),
        F.col("decided_offset").alias("place"),
    )  # fmt: skip
    written = marker_rows(inputs.judged).where("NOT repeated").select(
        *_KEY, "node", "path", "position", "base_offset", "max_timestamp_ms", "marker_version", "ends_data",
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
        .join(where, list(_KEY), "left")
    )


def wrong_markers(inputs: Inputs) -> DataFrame:
    """Markers that should not be there: FINDINGS' place columns, ``committed``, ``rule``."""
    settled = F.lit(inputs.settled_ms).cast("long")
    astray = F.col("turn_committed").isNull() | (F.col("committed") != F.col("turn_committed"))
    likely = F.when(astray, 0).when(F.col("copy") > 1, 1).otherwise(2)
    order = Window.partitionBy(*_KEY).orderBy("likely", F.desc("place"))
    extra = (
        inputs.marker_events.where("is_marker AND extra > 0")
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
    columns = ("topic", "partition", "producer_id", "producer_epoch", "committed", "node", "path", "position")
    judged = extra.withColumn("rule", rule).where(~(by_operator & (F.col("rule") != "wrong_outcome")))
    told = _told(judged, inputs)
    copies = marker_rows(inputs.suspects).where("repeated").withColumn("rule", F.lit("double"))
    return union(
        rows.select(
            *columns, F.col("base_offset").alias("offset"), F.col("max_timestamp_ms").alias("at_ms"), "rule"
        )
        for rows in (told, copies)
    )


def _told(rows: DataFrame, inputs: Inputs) -> DataFrame:
    """Those of which the coordinator's log, as far as it is kept, would tell."""
    log = inputs.suspects.where(F.col("topic") == TRANSACTION_STATE)
    known = (
        inputs.states.where("producer_id IS NOT NULL")
        .groupBy("producer_id")
        .agg(F.min("updated_ms").alias("known_ms"))
    )
    span = inputs.logs.where(F.col("topic") == TRANSACTION_STATE).agg(
        F.max("first_offset").alias("log_start"),
        F.max("log_compacted").alias("log_compacted"),
        F.max("first_ms").alias("log_ms"),
    )
    faults = inputs.record_faults.select("path", "position", F.lit(True).alias("unreadable"))
    dark = (
        log.join(F.broadcast(faults.distinct()), ["path", "position"], "left")
        .where("opaque OR explained OR (hole_first IS NOT NULL AND NOT compacted) OR unreadable")
        .select(
            F.coalesce("log_ms_before", F.lit(-1)).alias("dark_ms"),
            (F.coalesce("max_timestamp_ms", "log_ms_before", F.lit(0)) + _TOLD_MS).alias("light_ms"),
        )
    )
    since = F.coalesce(F.col("ms") >= F.col("known_ms"), F.lit(False))
    whole = (F.col("log_start") == 0) & ~F.col("log_compacted")
    kept = whole | since | (~F.col("log_compacted") & (F.col("ms") > F.col("log_ms") + _TOLD_MS))
    told = rows.join(known, "producer_id", "left").crossJoin(F.broadcast(span)).where(kept)
    hidden = (F.col("ms") >= F.col("dark_ms")) & (F.col("ms") <= F.col("light_ms"))
    return told.join(F.broadcast(dark), hidden, "left_anti")


def missing_markers(inputs: Inputs) -> DataFrame:
    """Transactions without their marker in a partition: ``audit.checks.due``."""
    order = Window.partitionBy(*_KEY).orderBy(F.col("matching") > 0, "opposite", "place")
    lacking = (
        inputs.marker_events.where("NOT is_marker AND ended AND lacking > 0")
        .withColumn("rank", F.row_number().over(order))
        .where("rank <= lacking AND opposite = 0")
        .drop("node", "path", "position", "base_offset", "max_timestamp_ms", "marker_version", "ends_data")
    )
    return due_markers(inputs, lacking)
