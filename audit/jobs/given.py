"""The blocks of producer ids that were given out, each with its beginning."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit.checks.blocks import canonical_blocks
from audit.checks.ids import known_range
from audit.checks.inputs import Inputs
from audit.checks.order import with_max_before


def given_out(inputs: Inputs) -> DataFrame:
    """Each block once: PRODUCER_ID_BLOCKS and ``first`` long.

    first  where the block begins: as it says itself, or where the one before it ends; null of the first
           block of a log whose beginning was not kept.
    """
    blocks = canonical_blocks(inputs)
    chain = blocks.where("block_first IS NULL")
    narrow = chain.select("partition", "offset", "position", "block_end")
    ends = with_max_before(narrow, group=["partition"], key="offset", order=["position"], value="block_end")
    begun = F.coalesce("before", F.when(F.col("known_first") == 0, F.lit(0)))
    first = ends.crossJoin(F.broadcast(known_range(inputs).select("known_first"))).select(
        "partition", "offset", "position", begun.cast("long").alias("first")
    )
    told = blocks.where("block_first IS NOT NULL").withColumn("first", F.col("block_first"))
    return chain.join(first, ["partition", "offset", "position"]).unionByName(told)
