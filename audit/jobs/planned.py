"""Checks that exist only as Spark's plans, until each is a text or a walk."""

from typing import Final, TypeVar

from fencepost.audit.decode.columns import TABLES
from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.report.verdict import FINDINGS_MAX, UNKNOWN_MAX, Finding, Outcome, Unknown

PLANNED: Final = frozenset({"fencing", "markers", "hanging", "sequences", "offsets"})
Entry = TypeVar("Entry", Finding, Unknown)


class Planned:
    """What Spark is asked by plans over the tables of one audit."""

    def __init__(self, relations: Relations) -> None:
        from fencepost.audit.engine.spark import SparkEngine
        from fencepost.audit.plans.inputs import Inputs

        engine: Engine = relations.engine
        if not isinstance(engine, SparkEngine):
            raise TypeError("these checks need Spark")
        spark = engine.session
        (moments,) = relations.rows("SELECT * FROM moments")
        self._inputs = Inputs.of({name: spark.table(name) for name in TABLES}, **moments)

    def outcome(self, name: str) -> Outcome:
        """What one check says."""
        from fencepost.audit.plans import CHECKS

        result = CHECKS[name](self._inputs)
        findings, unknown = result.findings.localCheckpoint(), result.unknown.localCheckpoint()
        return Outcome(
            check=name,
            findings=_listed(findings.limit(FINDINGS_MAX).collect(), Finding),
            finding_count=findings.count(),
            unknown=_listed(unknown.limit(UNKNOWN_MAX).collect(), Unknown),
            unknown_count=unknown.count(),
        )


def not_run(name: str) -> Outcome:
    """Of a check that the engine at hand cannot run."""
    said = Unknown(name, None, None, None, None, None, None, "only --engine spark has this check so far")
    return Outcome(check=name, unknown=(said,), unknown_count=1)


def _listed(rows: list[object], shape: type[Entry]) -> tuple[Entry, ...]:
    entries = [shape(*(getattr(row, name) for name in shape._fields)) for row in rows]
    return tuple(sorted(entries, key=lambda each: tuple((value is not None, value) for value in each)))
