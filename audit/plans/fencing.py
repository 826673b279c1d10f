"""Fencing: no data of an epoch that was over when it was written.

By the partition    a higher epoch of that producer stands before it.
By the coordinator  the epoch was left before the batch was written, as a marker before it or its own time
                    says; no later marker of the producer ended it. A second is allowed for clocks, and what
                    the coordinator is still ending is left out: its marker may be on its way.
One                 finding for a producer's run of an epoch on a partition.
"""

from typing import Final

from pyspark.sql import functions as F

from fencepost.audit.plans.findings import UNKNOWN, Result, findings, nothing
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "fencing"


def check(inputs: Inputs) -> Result:
    """Findings of the rule zombie."""
    said = F.when(
        F.col("stale"),
        F.format_string(
            "%d batches of epoch %d, the first at offset %d, after epoch %d was written on this partition",
            F.col("batches"), F.col("producer_epoch"), F.col("offset"), F.col("epoch_before"),
        ),
    ).otherwise(
        F.format_string(
            "%d batches of epoch %d, the first at offset %d, after the coordinator left that epoch at %d",
            F.col("batches"), F.col("producer_epoch"), F.col("offset"), F.col("left_ms"),
        )
    )  # fmt: skip
    found = findings(
        inputs.zombies,
        NAME,
        "zombie",
        subject=F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch")),
        detail=said,
    )
    return Result(found, nothing(found, UNKNOWN))
