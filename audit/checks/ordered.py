"""The greatest value so far, as SQL, in an order that no machine has to hold at once.

Buckets     rows are windowed by the high bits of their key; what a bucket takes over from those before it is
            the greatest value of each, one row per bucket.
"""

from typing import Final

BUCKET: Final = 4_194_304
"""So many offsets, or 4,194 blocks of 1000 producer ids, are one window; 2^44 offsets are 4 M buckets."""


def with_max_before(source: str, *, group: str, key: str, order: str, value: str) -> str:
    """The rows of a relation and ``before``: the greatest ``value`` of earlier rows of the group; NULL for
    the first.

    group   a column. ``key``: a column of whole numbers >= 0; the group's order begins with it.
    order   columns, by commas: what follows the key, and makes the order total.
    """
    past = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return f"""
    WITH bucketed AS (
        SELECT r.*, r.{key} - r.{key} % {BUCKET} AS bucket FROM {source} r
    ), tops AS (
        SELECT {group} AS top_group, bucket AS top_bucket, max({value}) AS top FROM bucketed GROUP BY
        {group}, bucket
    ), carried AS (
        SELECT top_group, top_bucket, max(top) OVER (PARTITION BY top_group ORDER BY top_bucket {past}) AS
        taken_over
        FROM tops
    )
    SELECT b.*, greatest(
        max(b.{value}) OVER (PARTITION BY b.{group}, b.bucket ORDER BY b.{key}, {order} {past}), c.taken_over
    ) AS before
    FROM bucketed b JOIN carried c ON b.{group} = c.top_group AND b.bucket = c.top_bucket
    """
