"""The greatest value so far, in an order that no machine has to hold at once.

Buckets     rows are windowed by the high bits of their key; what a bucket takes over from those before it is
            the greatest value of each, one row per bucket, which are bucketed again. The last step has at
            most 2^(63 - 2 * BUCKET_BITS) rows for one group, whatever the keys are.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

BUCKET_BITS: Final = 22
"""4 M offsets, or 4,194 blocks of 1000 producer ids, are one window."""


def steps_for(key_max: int) -> int:
    """How many times keys up to ``key_max`` are bucketed: 0 if one window can hold them all."""
    return (max(key_max, 1).bit_length() - 1) // BUCKET_BITS


def with_max_before(
    rows: DataFrame, *, group: Sequence[str], key: str, order: Sequence[str], value: str, steps: int
) -> DataFrame:
    """``rows`` and ``before``: the greatest ``value`` of earlier rows of the group; null for the first.

    key     long, >= 0; the group's order begins with it. ``order``: what follows it, and makes it total.
    value   long.
    steps   see ``steps_for``.
    """
    spec = (*group, "bucket") if steps else tuple(group)
    bucketed = rows.withColumn("bucket", F.shiftright(key, BUCKET_BITS)) if steps else rows
    within = Window.partitionBy(*spec).orderBy(key, *order).rowsBetween(Window.unboundedPreceding, -1)
    if not steps:
        return bucketed.withColumn("before", F.max(value).over(within))
    tops = bucketed.groupBy(*spec).agg(F.max(value).alias("top")).withColumnRenamed("bucket", "lower_bucket")
    carried = with_max_before(
        tops, group=group, key="lower_bucket", order=(), value="top", steps=steps - 1
    ).select(*group, F.col("lower_bucket").alias("bucket"), F.col("before").alias("carried"))
    return (
        bucketed.withColumn("within", F.max(value).over(within))
        .join(carried, list(spec))
        .withColumn("before", F.greatest("within", "carried"))
        .drop("bucket", "within", "carried")
    )
