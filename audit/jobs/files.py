"""What was read of the files that were found, and what was not: from the table ``files``."""

from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.report.verdict import NOT_READ_MAX, Files, NotRead
from fencepost.audit.source.files import ANY

_LOGS: Final = ("segment", "checkpoint", "zookeeper-export")
_CUT: Final = ("torn", "truncated", "unreadable")


def files_of(files: DataFrame) -> Files:
    """Counts of what was read, and the files that were not read to their end."""
    sums = (
        files.where(F.col("kind").isin(*_LOGS) & (F.col("stop") != "unreadable"))
        .agg(F.count("path").alias("read"), F.sum("valid_end").alias("bytes"))
        .first()
    )
    cut = files.where(F.col("stop").isin(*_CUT))
    rows = cut.orderBy("path").limit(NOT_READ_MAX + 1).collect()
    omitted = cut.count() - NOT_READ_MAX if len(rows) > NOT_READ_MAX else 0
    not_read = tuple(
        NotRead(row["path"], row["valid_end"] or 0, _reason(row))
        for row in rows[:NOT_READ_MAX]
        if not _has_grown(row)
    )
    return Files(read=sums["read"], byte_count=sums["bytes"] or 0, not_read=not_read, omitted=omitted)


def disbelieved(inputs: Inputs) -> tuple[NotRead, ...]:
    """Bytes within files that were not believed, at most ``NOT_READ_MAX``: where no check reports them."""
    batches = inputs.record_batches.where("fault IS NOT NULL").select("path", "position", "reason")
    records = inputs.record_faults.select("path", "position", "reason")
    rows = batches.unionByName(records).limit(NOT_READ_MAX).collect()
    return tuple(sorted(NotRead(row["path"], row["position"], row["reason"] or "") for row in rows))


def _reason(row: Row) -> str:
    reason: str = row["reason"] or ""
    return f"{row['stop']}: {reason}" if reason else str(row["stop"])


def _has_grown(row: Row) -> bool:
    """Whether it was being written to when it was read: its last batch is not torn, it was not whole yet."""
    if row["stop"] != "torn" or not row["last_of_partition"]:
        return False
    try:
        return ANY.entry(row["path"]).size > int(row["size"])
    except OSError:
        return False
