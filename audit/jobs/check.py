"""``audit check``: the checks over tables, as a verdict. Only findings and unknowns reach this process.

One by one  each check is a query of its own: all together are a plan over which Spark thinks for minutes.
            What several of them need ``Inputs`` keeps.
Partial     data that could not be read is never called clean, whichever checks are selected.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from fencepost.audit import checks as registry
from fencepost.audit.checks.findings import Result
from fencepost.audit.checks.inputs import Inputs
from fencepost.audit.jobs import products
from fencepost.audit.jobs.errors import AuditRefused
from fencepost.audit.jobs.files import disbelieved, files_of
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.source import inputs_of
from fencepost.audit.report.verdict import FINDINGS_MAX, UNKNOWN_MAX, Finding, Outcome, Unknown, Verdict

INTEGRITY: Final = "integrity"
"""The check that reports torn files, wrong checksums and records that cannot be read."""

_FINDING: Final = "finding"
_UNKNOWN: Final = "unknown"
_MAX: Final = {_FINDING: FINDINGS_MAX, _UNKNOWN: UNKNOWN_MAX}

Entry = TypeVar("Entry", Finding, Unknown)


class _Listed(NamedTuple):
    rows: list[Row]
    counts: dict[str, int]


def require_names(names: Collection[str]) -> None:
    """Raises AuditRefused for a name that is no check's."""
    for name in names:
        if name not in registry.CHECKS:
            raise AuditRefused(f"there is no check {name}; there are {', '.join(registry.CHECKS)}")


def run(
    spark: SparkSession,
    tables_dir: str,
    *,
    names: Collection[str],
    now_ms: int | None,
    show: Show,
    is_kept: bool = False,
) -> Verdict:
    """The verdict over the tables in ``tables_dir``. No names: every check. Raises TablesRefused.

    is_kept  the products are written beside the tables, too. Raises OSError.
    """
    inputs = inputs_of(spark, tables_dir, now_ms)
    verdict = judge(spark, inputs, names, show)
    if is_kept:
        with shown(spark, show, "writing who owned what, and every transaction's story"):
            products.write(spark, inputs, verdict, tables_dir)
    return verdict


def judge(spark: SparkSession, inputs: Inputs, names: Collection[str], show: Show) -> Verdict:
    """The verdict of these checks, in the order of the registry; no names: all of them."""
    wanted = [each for each in registry.CHECKS if each in names or not names]
    outcomes = []
    with shown(spark, show, "looking at what was read") as show_step:
        files = files_of(inputs.files)
        if INTEGRITY not in wanted:
            files = replace(files, not_read=(*files.not_read, *disbelieved(inputs)))
        for number, name in enumerate(wanted, 1):
            show_step(f"check {number} of {len(wanted)}: {name}")
            outcomes.append(_outcome(name, registry.CHECKS[name](inputs)))
    return Verdict(outcomes=tuple(outcomes), files=files)


def _outcome(name: str, result: Result) -> Outcome:
    entry = result.findings.withColumn("kind", F.lit(_FINDING)).unionByName(
        result.unknown.withColumn("kind", F.lit(_UNKNOWN)), allowMissingColumns=True
    )
    kept = entry.persist(StorageLevel.MEMORY_AND_DISK)  # counted, then read: not worked out twice
    try:
        listed = _listed(kept)
    finally:
        kept.unpersist()
    return Outcome(
        check=name,
        findings=_as(listed.rows, _FINDING, Finding),
        finding_count=listed.counts.get(_FINDING, 0),
        unknown=_as(listed.rows, _UNKNOWN, Unknown),
        unknown_count=listed.counts.get(_UNKNOWN, 0),
    )


def _listed(entry: DataFrame) -> _Listed:
    """At most ``*_MAX`` rows of each kind, and how many there are."""
    counted = entry.groupBy("kind").agg(F.count(F.lit(1)).alias("rows")).collect()
    counts = {row["kind"]: row["rows"] for row in counted}
    if any(count > _MAX[kind] for kind, count in counts.items()):
        order = Window.partitionBy("kind").orderBy("path", "position", "detail")
        most = F.when(F.col("kind") == _FINDING, FINDINGS_MAX).otherwise(UNKNOWN_MAX)
        entry = entry.withColumn("place", F.row_number().over(order)).where(F.col("place") <= most)
    return _Listed(entry.collect() if counts else [], counts)


def _as(rows: Sequence[Row], kind: str, shape: type[Entry]) -> tuple[Entry, ...]:
    """In an order that is the same each time: by file and position."""
    entry = [shape(*(row[name] for name in shape._fields)) for row in rows if row["kind"] == kind]
    return tuple(sorted(entry, key=_order))


def _order(entry: Finding | Unknown) -> tuple[Any, ...]:
    where = entry.position if isinstance(entry, Finding) else entry.first_offset
    return tuple((value is not None, value) for value in (entry.path, where, entry.rule, entry.detail))
