"""The blocks of producer ids that were given out, each with its beginning."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit.checks.blocks import canonical_blocks
from audit.checks.inputs import Inputs
from audit.checks.order import steps_for, with_max_before


def given_out(inputs: Inputs) -> DataFrame:
    """Each block once: PRODUCER_ID_BLOCKS and ``first`` long.

    first  where the block begins: as it says itself, or where the one before it ends; null of the first
           block of a log whose beginning was not kept.
    """
    blocks = canonical_blocks(inputs)
    chain = blocks.where("block_first IS NULL")
    narrow = chain.select("partition", "offset", "position", "block_end")
    steps = steps_for(inputs.told.log_last)
    ends = with_max_before(
        narrow, group=["partition"], key="offset", order=["position"], value="block_end", steps=steps
    )
    log_begins_with = F.lit(0 if inputs.told.log_start == 0 else None)
    first = ends.select(
        "partition", "offset", "position", F.coalesce("before", log_begins_with).cast("long").alias("first")
    )
    told = blocks.where("block_first IS NOT NULL").withColumn("first", F.col("block_first"))
    return chain.join(first, ["partition", "offset", "position"]).unionByName(told)
