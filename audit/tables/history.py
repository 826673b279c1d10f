"""Every transaction of every transactional id, from its beginning to its end: a lasting product of the
coordinator's
log."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.checks.inputs import Inputs

_ID = ("topic", "partition", "transactional_id")


def transaction_history(inputs: Inputs) -> DataFrame:
    """One row per transaction, those that are open included; what Kafka's compaction dropped is not there.

    Out  transactional_id string; producer_id long; first_epoch, last_epoch int: at its beginning (null: not
         kept) and with its markers; began_ms, decided_ms, ended_ms long: opened, decided, every marker
         written (null: not yet); outcome string "commit", "abort", null: open; partitions array of (topic,
         partition); timed_out boolean; fenced boolean: it was aborted over its producer's head; fence_cause,
         fenced_by string: by what and whom, where the log says so (fencepost's); node, path, position,
         offset: of the last record about it.
    """
    order = Window.partitionBy(*_ID).orderBy("offset")
    opened = F.when(F.col("state") == "Ongoing", F.struct("producer_id", "producer_epoch"))
    rows = (
        inputs.states.where("NOT regressed")
        .withColumn("opened", F.lag(opened).over(order))
        .withColumn("next_ms", F.lead(F.coalesce("updated_ms", "timestamp_ms")).over(order))
        .withColumn("next_state", F.lead("state").over(order))
    )
    prepared = F.col("state").isin("PrepareCommit", "PrepareAbort")
    is_open = (F.col("state") == "Ongoing") & F.col("next_state").isNull() & F.col("next_ms").isNull()
    fence = F.element_at("fences", F.lit(-1))
    new_fence = F.when(
        (F.size("fences") > 0) & (F.col("state") == "PrepareAbort"),
        F.when(F.try_element_at("fences", F.lit(-1)).getField("at_ms") == F.col("updated_ms"), fence),
    )
    raised = (F.col("producer_epoch") > F.col("opened.producer_epoch")) & (
        F.coalesce("client_transaction_version", F.lit(0)) < 2
    )
    own = F.col("opened.producer_id") == F.col("producer_id")
    return (
        rows.where(prepared | is_open)
        .withColumn("fence", new_fence)
        .select(
            "transactional_id",
            "producer_id",
            F.when(is_open, F.col("producer_epoch"))
            .otherwise(F.when(own, F.col("opened.producer_epoch")))
            .cast("int")
            .alias("first_epoch"),
            F.col("producer_epoch").cast("int").alias("last_epoch"),
            F.when(F.col("started_ms") >= 0, F.col("started_ms")).alias("began_ms"),
            F.when(prepared, F.col("updated_ms")).alias("decided_ms"),
            F.when(prepared, F.col("next_ms")).alias("ended_ms"),
            F.expr(
                "CASE state WHEN 'PrepareCommit' THEN 'commit' WHEN 'PrepareAbort' THEN 'abort' END"
            ).alias("outcome"),
            "partitions",
            F.coalesce("timed_out", F.lit(False)).alias("timed_out"),
            F.coalesce((F.col("state") == "PrepareAbort") & raised, F.lit(False)).alias("fenced"),
            F.col("fence.cause").alias("fence_cause"),
            F.col("fence.by").alias("fenced_by"),
            *("node", "path", "position", "offset"),
        )
    )
