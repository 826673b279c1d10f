"""Integrity: every byte of every log is a record batch, its checksum is right, its records can be read.

Opaque      a batch with a fault tells no other check anything: what may hide in it is unknown to all of them.
Copies      each directory's bytes are its own: a batch that is broken in two copies is two findings. A record
            that cannot be read in a sound batch was written so: it is one, wherever the batch lies.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fencepost.audit.plans.findings import Result, findings, union, unknown
from fencepost.audit.plans.inputs import Inputs

NAME: Final = "integrity"


def check(inputs: Inputs) -> Result:
    """Rules crc, unreadable, record, torn."""
    faults = inputs.record_batches.where("fault IS NOT NULL")
    batches = [
        findings(
            faults.where(F.col("fault") == rule).withColumnsRenamed(
                {"base_offset": "offset", "max_timestamp_ms": "at_ms"}
            ).select("node", "topic", "partition", "path", "position", "offset", "size", "reason"),
            NAME,
            rule,
            subject=F.format_string("%d bytes", F.col("size")),
            detail=F.coalesce("reason", F.lit("the bytes are not those that were written")),
        )
        for rule in ("crc", "unreadable")
    ]  # fmt: skip
    return Result(union([*batches, _records(inputs), _torn(inputs)]), _unknown(inputs))


def _records(inputs: Inputs) -> DataFrame:
    copies = Window.partitionBy("topic", "partition", "offset", "fault").orderBy("node", "path", "position")
    once = inputs.record_faults.withColumn("place", F.row_number().over(copies)).where("place = 1")
    return findings(once, NAME, "record", subject=F.col("fault"), detail=F.col("reason"))


def _torn(inputs: Inputs) -> DataFrame:
    """In a segment that is not the last: there it is a write in progress, or a crash's."""
    torn = inputs.files.where("kind = 'segment' AND stop = 'torn' AND NOT last_of_partition")
    return findings(
        torn.withColumn("position", F.col("valid_end")),
        NAME,
        "torn",
        subject=F.format_string("%d bytes", F.col("size") - F.col("valid_end")),
        detail=F.format_string(
            "the segment ends inside a batch that begins at %d, and a later segment goes on",
            F.col("valid_end"),
        ),
    )


def _unknown(inputs: Inputs) -> DataFrame:
    opaque = inputs.suspects.where("opaque").select(
        "topic",
        "partition",
        "path",
        F.col("base_offset").alias("first_offset"),
        F.lit(None).cast("long").alias("end_offset"),
        "position",
        "size",
    )
    hidden = F.format_string(
        "%d bytes at position %d cannot be read: what they hold, no check knows",
        F.col("size"),
        F.col("position"),
    )
    return unknown(opaque, NAME, "crc", hidden)
