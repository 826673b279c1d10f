"""Who owned which producer ids, from when to when: a lasting product of the metadata log."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.checks.order import steps_for, with_max_before

_PLACE = ("node", "topic", "partition", "path", "position", "offset")


def producer_id_ownership(inputs: Inputs) -> DataFrame:
    """One row per block that was given out.

    Out  broker_id int (-1: brokers took these ids from ZooKeeper themselves), broker_epoch long,
         incarnation_id, endpoints string (null: its registration is not kept); block_first long (null: the
         block before it is not kept), block_end long, exclusive; from_ms long: given out; to_ms long: the
         broker registered again or was unregistered, and what was left of the block was wasted; null: it may
         be in use; source string; node, topic, partition, path, position, offset: of the record.
    """
    blocks = inputs.blocks
    chain = blocks.where("block_first IS NULL")
    ends = with_max_before(
        chain.select("partition", "offset", "position", "block_end"),
        group=["partition"],
        key="offset",
        order=["position"],
        value="block_end",
        steps=steps_for(inputs.extent.log_last),
    )
    start = F.lit(0 if inputs.extent.log_start == 0 else None).cast("long")
    first = ends.select("partition", "offset", "position", F.coalesce("before", start).alias("first"))
    begun = chain.join(first, ["partition", "offset", "position"]).withColumn("block_first", F.col("first"))
    extent = blocks.where("block_first IS NOT NULL").unionByName(begun.drop("first"))
    owned = extent.join(registrations(inputs.brokers), ["broker_id", "broker_epoch"], "left")
    return owned.selectExpr(
        "broker_id", "broker_epoch", "incarnation_id", "endpoints", "block_first", "block_end",
        "timestamp_ms AS from_ms", "gone_ms AS to_ms", "source", *_PLACE,
    )  # fmt: skip


def registrations(brokers: DataFrame) -> DataFrame:
    """One row per registration: broker_id, broker_epoch, incarnation_id, endpoints, gone_ms (null: it is the
    last).

    In   BROKERS, of any number of copies of the log.
    """
    of_broker = Window.partitionBy("partition", "broker_id").orderBy("offset")
    lives = brokers.where("event IN ('registered', 'unregistered')").dropDuplicates(
        ["partition", "offset", "broker_id", "event"]
    )
    ended = lives.withColumn("gone_ms", F.lead("timestamp_ms").over(of_broker)).where("event = 'registered'")
    return ended.groupBy("broker_id", "broker_epoch").agg(
        F.first("incarnation_id").alias("incarnation_id"),
        F.first("endpoints").alias("endpoints"),
        F.max("gone_ms").alias("gone_ms"),
    )
