"""Sequences: of each producer and epoch, a partition has every batch once and in order.

Wrap        0 follows 2^31 - 1. A new epoch begins at 0; a producer's first batch that is kept, anywhere.
Left out    batches on both sides of a hole, of bytes that cannot be read, or of a batch that is another
            check's finding; compacted logs; batches without sequence (-1); offsets of groups.
"""

from typing import Final

from pyspark.sql import functions as F

from fencepost.audit.plans.findings import UNKNOWN, Result, findings, nothing, union
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "sequences"


def check(inputs: Inputs) -> Result:
    """Findings of the rules gap and duplicate."""
    rows = inputs.suspects.where("sequence_fault IS NOT NULL").withColumns(
        {"offset": F.col("base_offset"), "at_ms": F.col("max_timestamp_ms")}
    )
    said = {"gap": "batches between them are missing", "duplicate": "it is there already"}
    found = [
        findings(
            rows.where(F.col("sequence_fault") == rule),
            NAME,
            rule,
            subject=F.format_string("producer %d epoch %d", F.col("producer_id"), F.col("producer_epoch")),
            detail=F.format_string(
                "sequence %d, expected %d: " + meaning,
                F.col("base_sequence"), F.col("expected_sequence"),
            ),
        )
        for rule, meaning in said.items()
    ]  # fmt: skip
    return Result(union(found), nothing(rows, UNKNOWN))
