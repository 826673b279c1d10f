"""Markers that are not where they are due: whether they must be there, where they would be, or why that is
unknown.

Window      of time: a marker is written after its transaction was decided and before the coordinator went on.
            A place in a log stands between the markers around it, whose times brokers wrote.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from fencepost.audit.plans.classified import MARKER_BYTES_MAX

SKEW_MS_MAX: Final = 1000  # between the coordinator's clock and a broker's
NONE_DUE: Final = (
    "topic string, partition int, producer_id long, producer_epoch int, committed boolean, node int,"
    " path string, position long, offset long, transactional_id string, prepared_ms long,"
    " decided_offset long, hole_first long, unknown string"
)
"""The columns that are used of markers that are due, for when none are."""

_PART: Final = ("topic", "partition")
_DUE: Final = (*_PART, "producer_id", "producer_epoch", "decided_offset", "transactional_id")


def due_markers(
    lacking: DataFrame,
    *,
    classified: DataFrame,
    suspects: DataFrame,
    logs: DataFrame,
    files: DataFrame,
    topics: DataFrame,
    topics_known: bool,
) -> DataFrame:
    """What is lacking, deleted topics and what another finding explains left out.

    topics_known  the metadata log is kept from its beginning: it names each topic that was made again.
    In   ``lacking``: one row per partition of a transaction that ended: _DUE, committed, prepared_ms,
         ended_ms, started_ms, decided_node, decided_path, decided_position.
    Out  those, and node, path, position, offset: where the hole is, else the producer's data, else the
         decision; hole_first long, null if there is none; ``unknown``: why it cannot be decided, null if it
         can.
    """
    rows = _with_place(_explained(_kept(lacking, topics), suspects), classified, suspects)
    known = rows.join(_logs(files, logs), list(_PART), "left").withColumn("unknown", _unknown())
    hidden = _overlapping(known, _opaque(suspects), "left_semi").select(*_DUE).distinct()
    marked = known.join(hidden.withColumn("hidden", F.lit(True)), list(_DUE), "left")
    unread = F.when(F.col("hidden"), F.lit("bytes that cannot be read may be the marker"))
    untold = F.lit(not topics_known) & F.col("offset").isNull()
    another = F.when(untold, F.lit("it wrote nothing that is here, and nothing tells of topics made again"))
    return marked.withColumn("unknown", F.coalesce("unknown", unread, another)).drop("hidden")


def _kept(lacking: DataFrame, topics: DataFrame) -> DataFrame:
    """Without transactions on a topic that was deleted while they were open, or later."""
    names = (
        topics.where("event = 'created' AND name IS NOT NULL")
        .select("topic_id", F.col("name").alias("created_name"))
        .distinct()
    )
    gone = (
        topics.where("event = 'deleted'")
        .select("topic_id", "name", "timestamp_ms")
        .join(names, "topic_id", "left")
    )
    deleted = gone.groupBy(F.coalesce("name", "created_name").alias("topic")).agg(
        F.max("timestamp_ms").alias("deleted_ms")
    )
    began_ms = F.least("prepared_ms", F.when(F.col("started_ms") >= 0, F.col("started_ms")))
    marked = lacking.join(F.broadcast(deleted.where("topic IS NOT NULL")), "topic", "left")
    return marked.where(F.col("deleted_ms").isNull() | (F.col("deleted_ms") < began_ms)).drop("deleted_ms")


def _explained(rows: DataFrame, suspects: DataFrame) -> DataFrame:
    """Without those whose marker is a finding of its own: foreign, of a lower epoch, displaced."""
    strange = (
        suspects.where("control_type IN (0, 1) AND NOT opaque AND (foreign OR stale OR displaced)")
        .select(
            *_PART,
            F.col("producer_id").alias("strange_id"),
            F.col("foreign").alias("strange_foreign"),
            (F.col("control_type") == 1).alias("strange_committed"),
            F.col("base_timestamp_ms").alias("strange_ms"),
        )
        .withColumnsRenamed({name: f"strange_{name}" for name in _PART})
    )
    here = (F.col("topic") == F.col("strange_topic")) & (F.col("partition") == F.col("strange_partition"))
    same = (F.col("producer_id") == F.col("strange_id")) | F.col("strange_foreign")
    when = F.col("strange_ms").between(F.col("prepared_ms") - SKEW_MS_MAX, F.col("ended_ms") + SKEW_MS_MAX)
    return rows.join(
        strange, here & same & when & (F.col("committed") == F.col("strange_committed")), "left_anti"
    )


def _with_place(rows: DataFrame, classified: DataFrame, suspects: DataFrame) -> DataFrame:
    """Where the marker would be: in a hole of one offset, else after the producer's data."""
    data = classified.where("counted AND transactional AND control_type IS NULL").select(
        *_PART, "producer_id", F.struct("base_offset", "node", "path", "position").alias("at"),
        F.greatest("marker_ms_before", "base_timestamp_ms").alias("since_ms"),
    )  # fmt: skip
    began_ms = F.when(F.col("started_ms") >= 0, F.col("started_ms")) - SKEW_MS_MAX
    own = F.coalesce(F.col("since_ms") >= began_ms, F.lit(True))
    last = (
        rows.select(*_DUE, "started_ms", "prepared_ms")
        .join(data, [*_PART, "producer_id"])
        .where(F.col("since_ms") <= F.col("prepared_ms"))  # the next transaction's is stamped after it
        .groupBy(*_DUE)
        .agg(F.max("at").alias("data"), F.min(F.when(own, F.col("at"))).alias("first_data"))
    )
    placed = rows.join(last, list(_DUE), "left")
    one = suspects.where("hole_first = base_offset - 1 AND NOT explained AND NOT compacted").select(
        *_PART, "marker_ms_before",
        F.expr("CASE WHEN marker THEN max_timestamp_ms ELSE marker_ms_after END").alias("marker_ms_after"),
        F.struct(F.col("hole_first").alias("base_offset"), "node", "path", "position").alias("hole"),
    )  # fmt: skip
    candidates = _overlapping(placed, one, "inner").where(
        F.col("first_data").isNull() | (F.col("first_data.base_offset") < F.col("hole.base_offset"))
    )
    holes = candidates.groupBy(*_DUE).agg(F.min("hole").alias("hole"))
    decided = F.struct(
        F.lit(None).cast("long").alias("base_offset"),
        *(F.col(f"decided_{name}").alias(name) for name in ("node", "path", "position")),
    )
    return (
        placed.join(holes, list(_DUE), "left")
        .withColumn("hole_first", F.col("hole.base_offset"))
        .withColumn("at", F.coalesce("hole", "data", decided))
        .select(
            *rows.columns,
            "hole_first",
            "at.node",
            "at.path",
            "at.position",
            F.col("at.base_offset").alias("offset"),
        )
    )


def _overlapping(rows: DataFrame, places: DataFrame, how: str) -> DataFrame:
    """``rows`` and ``places`` of the same partition, between whose markers the transaction's window lies."""
    theirs = places.withColumnsRenamed({name: f"their_{name}" for name in _PART})
    here = (F.col("topic") == F.col("their_topic")) & (F.col("partition") == F.col("their_partition"))
    early = F.coalesce(F.col("marker_ms_before") <= F.col("ended_ms") + SKEW_MS_MAX, F.lit(True))
    late = F.coalesce(F.col("marker_ms_after") >= F.col("prepared_ms") - SKEW_MS_MAX, F.lit(True))
    return rows.join(theirs, here & early & late, how)


def _opaque(suspects: DataFrame) -> DataFrame:
    may_be = F.col("opaque") & ((F.col("fault") == "unreadable") | (F.col("size") <= MARKER_BYTES_MAX))
    here_ms = F.when(F.col("after_cut") & F.col("marker"), F.col("max_timestamp_ms"))
    return suspects.where(may_be | F.col("after_cut")).select(
        *_PART, "marker_ms_before", F.coalesce(here_ms, "marker_ms_after").alias("marker_ms_after")
    )


def _logs(files: DataFrame, logs: DataFrame) -> DataFrame:
    """One row per log that was read: log_start, cut, log_compacted, first_marker_ms, last_marker_ms."""
    segments = (
        files.where("kind = 'segment'")
        .groupBy(*_PART)
        .agg(
            F.min("base_offset").alias("named_start"),
            F.max(F.col("stop").isin("torn", "truncated", "unreadable")).alias("cut"),
        )
    )
    start = F.greatest("named_start", "first_offset")
    return (
        segments.join(logs, list(_PART), "left")
        .withColumn("log_start", start)
        .drop("named_start", "first_offset")
    )


def _unknown() -> Column:
    before_start = F.coalesce(F.col("prepared_ms") <= F.col("first_marker_ms"), F.lit(True))
    at_the_end = F.coalesce(F.col("ended_ms") >= F.col("last_marker_ms"), F.lit(True))
    return (
        F.when(F.col("log_start").isNull(), F.lit("the partition's log is not among what was read"))
        .when(F.col("log_compacted"), F.lit("a compacted log may leave markers out"))
        .when((F.col("log_start") > 0) & before_start, F.lit("that part of the log is not kept"))
        .when(F.col("cut") & at_the_end, F.lit("the end of the log cannot be read"))
    )
