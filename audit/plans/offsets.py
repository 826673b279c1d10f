"""Offsets: each batch of a log begins where the one before it ended.

Exempt      compacted logs may leave offsets out, as of right. The metadata log's holes are the check of
            blocks.
Marker      a hole where a marker is due is that marker's finding.
Displaced   what else is wrong with a batch that is not where it should be is its finding.
Unknown     what is before the first offset that is kept, holes that the log itself names, and holes where
            nothing tells which topics are compacted.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.audit.plans.blocks import with_known
from fencepost.audit.plans.canonical import TRANSACTION_STATE
from fencepost.audit.plans.findings import Result, findings, union, unknown
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "offsets"
_PLACE: Final = ("node", "topic", "partition", "path", "position", "base_offset", "offset")


def check(inputs: Inputs) -> Result:
    """Findings of the rules hole and overlap."""
    missing = holes(inputs)
    gone = missing.where("NOT known AND NOT untold").join(
        inputs.missing_markers.where("hole_first IS NOT NULL").select(
            "topic", "partition", F.col("hole_first").alias("offset")
        ),
        ["topic", "partition", "offset"],
        "left_anti",
    )
    found = (
        findings(
            gone,
            NAME,
            "hole",
            subject=F.format_string("%d offsets", F.col("base_offset") - F.col("offset")),
            detail=F.format_string(
                "offsets %d to %d are missing: the batch at this position begins at %d, expected %d",
                F.col("offset"), F.col("base_offset") - 1, F.col("base_offset"), F.col("offset"),
            ),
        ),
        findings(
            inputs.suspects.where("displaced AND NOT (foreign OR stale OR repeated)").withColumn(
                "offset", F.col("base_offset")
            ),
            NAME,
            "overlap",
            subject=F.format_string("offset %d", F.col("base_offset")),
            detail=F.format_string(
                "the batch has offsets %d to %d, which are not those that are due at its place in the log",
                F.col("base_offset"), F.col("last_offset"),
            ),
        ),
    )  # fmt: skip
    return Result(union(found), _unknown(inputs, missing))


def holes(inputs: Inputs) -> DataFrame:
    """Offsets that no batch has and nothing explains.

    Out  node, topic, partition, path, position, base_offset (of the batch after), offset (the first missing),
         known; untold: no metadata log says whether the topic is compacted.
    """
    gaps = inputs.suspects.where("hole_first IS NOT NULL AND NOT explained AND NOT compacted")
    rows = with_known(gaps.withColumn("offset", F.col("hole_first")).select(*_PLACE), inputs.files)
    untold = F.lit(inputs.extent.log_start is None) & (F.col("topic") != TRANSACTION_STATE)
    return rows.withColumn("untold", untold)


def _unknown(inputs: Inputs, missing: DataFrame) -> DataFrame:
    named = unknown(
        missing.where("known").withColumnsRenamed({"offset": "first_offset", "base_offset": "end_offset"}),
        NAME,
        "hole",
        F.lit("the log itself says that it does not have these offsets"),
    )
    may_be = unknown(
        missing.where("untold AND NOT known").withColumnsRenamed(
            {"offset": "first_offset", "base_offset": "end_offset"}
        ),
        NAME,
        "hole",
        F.lit("no metadata log among what was read says whether the topic is compacted"),
    )
    start = inputs.logs.where("NOT log_compacted").withColumn("end_offset", F.col("first_offset"))
    trimmed = unknown(
        start.where("end_offset > 0").withColumn("first_offset", F.lit(0)),
        NAME,
        "hole",
        F.lit("what was before the first offset that is kept"),
    )
    return union([named, may_be, trimmed])
