"""What a check answers: findings, and what the logs that are left cannot decide.

Passed      no finding and nothing unknown. Unknown is neither: it is printed, and it is no fault.
One fault   gives one finding, by the check that knows it best: see the precedence in ``audit.checks``.
Null        a column that does not apply.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

ERROR: Final = "error"
WARNING: Final = "warning"  # a state to look into, not a broken log: a transaction open past its timeout

FINDINGS: Final = StructType(
    [
        StructField("check", StringType()),
        StructField("rule", StringType()),
        StructField("severity", StringType()),
        StructField("node", IntegerType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("path", StringType()),
        StructField("position", LongType()),
        StructField("offset", LongType()),
        StructField("producer_id", LongType()),
        StructField("producer_epoch", IntegerType()),
        StructField("transactional_id", StringType()),
        StructField("at_ms", LongType()),
        StructField("subject", StringType()),  # what it is about, short
        StructField("detail", StringType()),  # one sentence: expected, came
    ]
)

UNKNOWN: Final = StructType(
    [
        StructField("check", StringType()),
        StructField("rule", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("path", StringType()),
        StructField("first_offset", LongType()),
        StructField("end_offset", LongType()),  # exclusive; null: up to the end of the log
        StructField("detail", StringType()),  # what could not be decided, and why
    ]
)


@dataclass(frozen=True)
class Result:
    """Of one check, or of several together."""

    findings: DataFrame  # FINDINGS
    unknown: DataFrame  # UNKNOWN


def findings(
    rows: DataFrame, check: str, rule: str, *, severity: str = ERROR, subject: Column, detail: Column
) -> DataFrame:
    """``rows`` as FINDINGS: columns of those names are taken, the others are null."""
    given = {"check": F.lit(check), "rule": F.lit(rule), "severity": F.lit(severity)}
    return _shaped(rows, FINDINGS, given | {"subject": subject, "detail": detail})


def unknown(rows: DataFrame, check: str, rule: str, detail: Column) -> DataFrame:
    """``rows`` as UNKNOWN: columns of those names are taken, the others are null."""
    return _shaped(rows, UNKNOWN, {"check": F.lit(check), "rule": F.lit(rule), "detail": detail})


def nothing(rows: DataFrame, columns: StructType) -> DataFrame:
    """No rows of ``columns``, in the session of ``rows``."""
    return rows.sparkSession.createDataFrame([], columns)


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """All their rows; at least one frame."""
    return reduce(DataFrame.unionByName, frames)


def together(results: Iterable[Result]) -> Result:
    """The findings of all, and what is unknown to any; at least one result."""
    found = list(results)
    return Result(union(each.findings for each in found), union(each.unknown for each in found))


def _shaped(rows: DataFrame, shape: StructType, given: dict[str, Column]) -> DataFrame:
    there = set(rows.columns)
    return rows.select(
        *(
            given.get(field.name, F.col(field.name) if field.name in there else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in shape
        )
    )
