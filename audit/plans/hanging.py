"""Hanging: transactions that hold up their partitions' readers.

open_past_timeout   the coordinator has it open for longer than its own timeout: it ought to have been
                    aborted.
``orphan``          a partition has transactional data of a producer after its last marker, and the
                    coordinator knows of no transaction that would ever end it (KIP-890's hanging
                    transaction).
Left out            data that is another check's finding, or whose marker is.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import TRANSACTION_STATE
from fencepost.audit.plans.classified import MARKER_BYTES_MAX
from fencepost.audit.plans.findings import Result, findings, union, unknown, unknown_without
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "hanging"
_OPEN: Final = ("topic", "partition", "producer_id")


def check(inputs: Inputs) -> Result:
    """Findings of the rules ``open_past_timeout`` and ``orphan``."""
    now_ms = inputs.coordinator.latest_ms if inputs.now_ms is None else inputs.now_ms
    late = open_past_timeout(inputs.latest, now_ms)
    found = [
        findings(
            late.withColumn("at_ms", F.col("started_ms")),
            NAME,
            "open_past_timeout",
            subject=F.col("transactional_id"),
            detail=F.format_string(
                "the transaction has been open for %d ms, its timeout is %d ms, and it is not aborted",
                F.col("open_ms"), F.col("timeout_ms"),
            ),
        )
    ]  # fmt: skip
    log = inputs.files.where((F.col("topic") == TRANSACTION_STATE) & (F.col("kind") == "segment"))
    unclear = [unknown_without(log, NAME, "orphan", "there is no log of a transaction coordinator")]
    if not inputs.open_tail.isEmpty():
        left = inputs.keep(unended(inputs))
        found.append(_unended_findings(left))
        unclear.append(_unended_unknown(left))
    return Result(union(found), union(unclear))


def _unended_findings(left: DataFrame) -> DataFrame:
    return findings(
        left.where("unknown IS NULL"),
        NAME,
        "orphan",
        subject=F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch")),
        detail=F.format_string(
            "transactional data from offset %d on, in %d batches, has no marker, and the coordinator has no "
            "transaction that would end it",
            F.col("offset"), F.col("batches"),
        ),
    )  # fmt: skip


def _unended_unknown(left: DataFrame) -> DataFrame:
    undecided = (
        left.where("unknown IS NOT NULL")
        .groupBy("topic", "partition", "unknown")
        .agg(F.count("producer_id").alias("count"), F.min("offset").alias("first_offset"))
    )
    said = F.format_string("open data of %d producers: %s", F.col("count"), F.col("unknown"))
    return unknown(undecided, NAME, "orphan", said)


def open_past_timeout(latest: DataFrame, now_ms: int) -> DataFrame:
    """Rows of ids whose transaction is still open past its own timeout, and ``open_ms`` long.

    In   the latest row of each id.
    """
    rows = latest.where("state = 'Ongoing'").withColumn("open_ms", F.lit(now_ms) - F.col("started_ms"))
    return rows.where("open_ms > timeout_ms")


def unended(inputs: Inputs) -> DataFrame:
    """One row per partition and producer with data that no marker will end: the first batch, batches,
    ``unknown``.
    """
    place = F.struct(
        F.col("base_offset").alias("offset"), "node", "path", "position", "producer_epoch",
        F.col("max_timestamp_ms").alias("at_ms"),
    )  # fmt: skip
    first = inputs.open_tail.groupBy(*_OPEN).agg(
        F.min(place).alias("first"), F.count("base_offset").alias("batches")
    )
    rows = first.select(*_OPEN, "batches", "first.*")
    busy = inputs.open_parts.drop("state").unionByName(inputs.missing_markers.select(*_OPEN))
    others = inputs.zombies.select(*_OPEN)
    left = rows.join(busy.unionByName(others).distinct(), list(_OPEN), "left_anti")
    return _with_unknown(left, inputs)


def _with_unknown(rows: DataFrame, inputs: Inputs) -> DataFrame:
    """A producer of which the coordinator's log does not tell, where that log is not whole; a marker that may
    hide.
    """
    log = inputs.coordinator
    extent = (
        inputs.states.where("producer_id IS NOT NULL")
        .select("producer_id", F.lit(True).alias("told"))
        .distinct()
    )
    may_be = (F.col("fault") == "unreadable") | (F.col("size") <= MARKER_BYTES_MAX)
    hidden = (
        inputs.suspects.where(F.col("opaque") & may_be)
        .groupBy("topic", "partition")
        .agg(F.max("base_offset").alias("hidden_offset"))
    )
    return (
        rows.join(extent, "producer_id", "left")
        .join(F.broadcast(hidden), ["topic", "partition"], "left")
        .withColumn(
            "unknown",
            F.when(F.lit(not log.present), F.lit("there is no log of a transaction coordinator"))
            .when(
                F.col("told").isNull() & F.lit(not log.whole),
                F.lit("the coordinator's log no longer tells of them"),
            )
            .when(
                F.col("hidden_offset") > F.col("offset"), F.lit("bytes that cannot be read may be the marker")
            ),
        )
    )
