"""What a check answers: findings, and what the logs that are left cannot decide.

Passed      no finding and nothing unknown. Unknown is neither: it is printed, and it is no fault.
One fault   gives one finding, by the check that knows it best: see the precedence in
            ``fencepost.audit.plans``.
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
    given = {"check": f"'{check}'", "rule": f"'{rule}'", "severity": f"'{severity}'"}
    return _shaped(rows.withColumns({"subject": subject, "detail": detail}), FINDINGS, given)


def unknown(rows: DataFrame, check: str, rule: str, detail: Column) -> DataFrame:
    """``rows`` as UNKNOWN: columns of those names are taken, the others are null."""
    return _shaped(rows.withColumn("detail", detail), UNKNOWN, {"check": f"'{check}'", "rule": f"'{rule}'"})


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


def _shaped(rows: DataFrame, shape: StructType, given: dict[str, str]) -> DataFrame:
    there = set(rows.columns)
    return rows.selectExpr(
        *(
            f"CAST({given.get(field.name, field.name if field.name in there else 'NULL')}"
            f" AS {field.dataType.simpleString()}) AS {field.name}"
            for field in shape
        )
    )


def unknown_without(rows: DataFrame, check: str, rule: str, detail: str) -> DataFrame:
    """One row of UNKNOWN if there are no ``rows``, else none."""
    none = rows.select(F.lit(1).alias("one")).limit(1).agg(F.count("one").alias("count")).where("count = 0")
    return unknown(none, check, rule, F.lit(detail))
