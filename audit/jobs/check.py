"""``audit check``: the checks over tables, as a verdict. Only findings and unknowns reach this process.

Partial     data that could not be read is never called clean, whichever checks are selected.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from fencepost.audit.checks.catalogue import ANSWERS, CHECKS
from fencepost.audit.engine.protocol import Engine, Row
from fencepost.audit.jobs import products
from fencepost.audit.jobs.errors import AuditRefused
from fencepost.audit.jobs.files import disbelieved, files_of
from fencepost.audit.jobs.planned import PLANNED, Planned, not_run
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.source import relations_of
from fencepost.audit.report.verdict import FINDINGS_MAX, UNKNOWN_MAX, Finding, Outcome, Unknown, Verdict

INTEGRITY: Final = "integrity"
"""The check that reports torn files, wrong checksums and records that cannot be read."""


def require_names(names: Collection[str]) -> None:
    """Raises AuditRefused for a name that is no check's."""
    for name in names:
        if name not in CHECKS:
            raise AuditRefused(f"there is no check {name}; there are {', '.join(CHECKS)}")


def run(
    engine: Engine,
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
    with shown(engine, show, "looking at what was read") as show_step:
        relations = relations_of(engine, tables_dir, now_ms, show_step)
        verdict = judge(relations, names, show_step)
        if is_kept:
            show_step("writing who owned what, and every transaction's story")
            products.write(relations, verdict, tables_dir)
    return verdict


def judge(relations: Relations, names: Collection[str], show: Show) -> Verdict:
    """The verdict of these checks, in the order of ``CHECKS``; no names: all of them."""
    wanted = [each for each in CHECKS if each in names or not names]
    files = files_of(relations)
    if INTEGRITY not in wanted:
        files = replace(files, not_read=(*files.not_read, *disbelieved(relations)))
    outcomes = _outcomes(relations, [each for each in wanted if each not in PLANNED])
    planned = Planned(relations) if relations.is_spark and not PLANNED.isdisjoint(wanted) else None
    for name in wanted:
        if name in PLANNED:
            show(f"check {name}")
            outcomes[name] = not_run(name) if planned is None else planned.outcome(name)
    return Verdict(outcomes=tuple(outcomes[name] for name in wanted), files=files)


def _outcomes(relations: Relations, names: Sequence[str]) -> dict[str, Outcome]:
    """Of the checks that relations answer, in two queries."""
    if not names:
        return {}
    findings = _listed(relations, [ANSWERS[name].findings for name in names], "position", FINDINGS_MAX)
    unknown = _listed(relations, [ANSWERS[name].unknown for name in names], "first_offset", UNKNOWN_MAX)
    outcomes = {}
    for name in names:
        found = [row for row in findings if row["check"] == name]
        undecided = [row for row in unknown if row["check"] == name]
        outcomes[name] = Outcome(
            check=name,
            findings=tuple(Finding(*(row[each] for each in Finding._fields)) for row in found),
            finding_count=found[0]["many"] if found else 0,
            unknown=tuple(Unknown(*(row[each] for each in Unknown._fields)) for row in undecided),
            unknown_count=undecided[0]["many"] if undecided else 0,
        )
    return outcomes


def _listed(relations: Relations, names: Sequence[str], place: str, most: int) -> list[Row]:
    """The first ``most`` rows of each check by file and ``place``, and in ``many`` how many it has."""
    every = " UNION ALL ".join(f"SELECT * FROM {name}" for name in names)
    return relations.rows(f"""
        SELECT * FROM (
            SELECT f.*, count(*) OVER (PARTITION BY "check") AS many,
                   row_number() OVER (PARTITION BY "check" ORDER BY path, {place}, rule, detail) AS turn
            FROM ({every}) AS f
        ) AS numbered WHERE turn <= {most} ORDER BY "check", turn
    """)
