"""Replicas: directories that hold the same log hold the same batches, wherever both hold any.

Same        base offset, checksum, size and leader epoch of every batch: the checksum covers the rest.
Between     the first and the last offset of each: what one has not kept, or not yet got, is no difference. A
            hole that a log itself names is none, and bytes that cannot be read are a finding of their own.
One         finding for a run of batches that differ in one directory; the others see only what most of them
            hold.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.plans.canonical import copies, directory
from fencepost.audit.plans.findings import UNKNOWN, Result, findings, nothing
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "replicas"
_LOG: Final = ("topic", "partition")
_COPY: Final = (*_LOG, "copy", "node")


def check(inputs: Inputs) -> Result:
    """Findings of the rule diverged."""
    rows = inputs.record_batches.join(
        F.broadcast(copies(inputs.files).where("copies > 1").drop("copies")), list(_LOG), "left_semi"
    ).withColumn("copy", directory())
    runs = _runs(_losers(_excused(_entries(rows), rows, inputs.files)))
    at = F.format_string("%s:%d", F.col("path"), F.col("position"))
    theirs = F.format_string(
        "%s:%d (node %d)", F.col("best.path"), F.col("best.position"), F.col("best.node")
    )
    said = F.when(
        F.col("path").isNull(),
        F.format_string("offset %d is not in %s; it is in ", F.col("base_offset"), F.col("copy")),
    ).otherwise(F.concat(F.format_string("offset %d: ", F.col("base_offset")), at, F.lit(" differs from ")))
    found = findings(
        runs.withColumns(
            {
                "offset": F.col("base_offset"),
                "path": F.coalesce("path", "best.path"),
                "position": F.coalesce("position", "best.position"),
                "detail_first": F.concat(said, theirs),
            }
        ),
        NAME,
        "diverged",
        subject=F.format_string("offsets %d to %d", F.col("base_offset"), F.col("run_last")),
        detail=F.concat("detail_first", F.format_string(", %d batches in a run", F.col("batches"))),
    )
    return Result(found, nothing(found, UNKNOWN))


def _entries(rows: DataFrame) -> DataFrame:
    """Of each offset at which some batch begins, each copy that spans it: its batch, or that it has none
    there.

    Only offsets at which not all copies have the same.
    Out  _COPY, base_offset, last_offset, variant (0: none there), path, position.
    """
    sound = rows.where("fault IS NULL")
    spans = (
        sound.groupBy(*_COPY)
        .agg(F.min("base_offset").alias("start"), F.max("last_offset").alias("last"))
        .groupBy(*_LOG)
        .agg(F.collect_list(F.struct("copy", "node", "start", "last")).alias("spans"))
    )
    variant = F.xxhash64("crc", "size", "last_offset", "leader_epoch")
    held_copies = sound.groupBy(*_COPY, "base_offset").agg(
        F.xxhash64(F.sort_array(F.collect_list(variant))).alias("variant"),
        F.max("last_offset").alias("last_offset"),
        F.min(F.struct("path", "position")).alias("at"),
    )
    there = F.collect_list(F.struct("copy", "node", "variant", "last_offset", "at"))
    offsets = (
        held_copies.groupBy(*_LOG, "base_offset")
        .agg(
            there.alias("held"),
            F.count_distinct("variant").alias("variants"),
            F.max("last_offset").alias("reach"),
        )
        .join(F.broadcast(spans), list(_LOG))
        .withColumn(
            "absent",
            F.expr(
                "filter(spans, s -> s.start <= base_offset AND base_offset <= s.last"
                " AND NOT exists(held, h -> h.copy = s.copy AND h.node = s.node))"
            ),
        )
        .where("variants > 1 OR size(absent) > 0")
    )
    members = offsets.select(*_LOG, "base_offset", F.explode("held").alias("h")).select(
        *_LOG, "h.copy", "h.node", "base_offset", "h.last_offset", "h.variant", "h.at.path", "h.at.position"
    )
    lacking = offsets.select(*_LOG, "base_offset", "reach", F.explode("absent").alias("s")).select(
        *_LOG, "s.copy", "s.node", "base_offset", F.col("reach").alias("last_offset"),
        F.lit(0).cast("long").alias("variant"),
        F.lit(None).cast("string").alias("path"), F.lit(None).cast("long").alias("position"),
    )  # fmt: skip
    return members.unionByName(lacking)


def _excused(entries: DataFrame, rows: DataFrame, files: DataFrame) -> DataFrame:
    """Without what a copy lacks because bytes there cannot be read, or because it names the hole itself."""
    hidden = _hidden(rows).unionByName(
        files.where("kind = 'hole'").select(
            *_LOG, directory().alias("copy"), F.col("base_offset").alias("first"),
            (F.col("base_offset") + F.col("size")).alias("end"),
        )
    )  # fmt: skip
    theirs = hidden.distinct().withColumnsRenamed({name: f"hidden_{name}" for name in (*_LOG, "copy")})
    within = (
        F.col("path").isNull()
        & (F.col("topic") == F.col("hidden_topic"))
        & (F.col("partition") == F.col("hidden_partition"))
        & (F.col("copy") == F.col("hidden_copy"))
        & (F.col("base_offset") >= F.col("first"))
        & (F.coalesce(F.col("base_offset") < F.col("end"), F.lit(True)))
    )
    return entries.join(F.broadcast(theirs), within, "left_anti")


def _hidden(rows: DataFrame) -> DataFrame:
    """Offsets that unreadable bytes of a copy may hold: _LOG, copy, first, end (null: all after)."""
    faulty = rows.where("fault IS NOT NULL").select(*_LOG, "copy").distinct()
    order = Window.partitionBy(*_LOG, "copy").orderBy("path", "position")
    back = Window.partitionBy(*_LOG, "copy").orderBy(F.desc("path"), F.desc("position"))
    sound = F.col("fault").isNull()
    before = F.max(F.when(sound, F.col("last_offset"))).over(order.rowsBetween(Window.unboundedPreceding, -1))
    after = F.last(F.when(sound, F.col("base_offset")), ignorenulls=True).over(
        back.rowsBetween(Window.unboundedPreceding, -1)
    )
    of_copy = rows.join(F.broadcast(faulty), [*_LOG, "copy"], "left_semi")
    spans = of_copy.withColumn("first", F.coalesce(before + 1, F.lit(0))).withColumn("end", after)
    return spans.where("fault IS NOT NULL").select(*_LOG, "copy", "first", "end")


def _losers(entries: DataFrame) -> DataFrame:
    """Entries that are not what most copies have there, with ``best``: an entry that is."""
    offset = Window.partitionBy(*_LOG, "base_offset")
    votes = F.count(F.lit(1)).over(Window.partitionBy(*_LOG, "base_offset", "variant"))
    best = F.max(
        F.struct(
            "votes", (-F.col("node")).alias("lower"), "variant", F.col("path").isNotNull().alias("there"),
            F.struct("path", "position", "node").alias("at"),
        )
    ).over(offset)  # fmt: skip
    other = F.max(F.when(F.col("path").isNotNull(), F.struct("path", "position", "node"))).over(offset)
    voted = entries.withColumn("votes", votes).withColumn("winner", best).withColumn("some", other)
    named = F.when(F.col("winner.at.path").isNotNull(), F.col("winner.at")).otherwise(F.col("some"))
    return voted.withColumn("best", named).where("variant <> winner.variant")


def _runs(losers: DataFrame) -> DataFrame:
    """One row per run: the first entry's columns, run_last, batches."""
    order = Window.partitionBy(*_COPY).orderBy("base_offset")
    begins = F.coalesce((F.col("base_offset") > F.lag("last_offset").over(order) + 1).cast("int"), F.lit(1))
    numbered = losers.withColumn("begins", begins).withColumn("run", F.sum("begins").over(order))
    first = F.min(F.struct("base_offset", "path", "position", "best")).alias("first")
    runs = numbered.groupBy(*_COPY, "run").agg(
        first, F.max("last_offset").alias("run_last"), F.count("base_offset").alias("batches")
    )
    return runs.select(*_COPY, "run_last", "batches", "first.*")
