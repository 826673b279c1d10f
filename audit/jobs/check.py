"""``audit check``: the checks over tables, as a verdict. Only findings and unknowns reach this process.

Partial     data that could not be read is never called clean, whichever checks are selected.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from fencepost.audit.checks.catalogue import ANSWERS, CHECKS
from fencepost.audit.checks.rows import ERROR
from fencepost.audit.engine.protocol import Engine, Row
from fencepost.audit.jobs import products
from fencepost.audit.jobs.errors import AuditRefused
from fencepost.audit.jobs.files import disbelieved, files_of
from fencepost.audit.jobs.relations import Relations
from fencepost.audit.jobs.session import Show, shown
from fencepost.audit.jobs.source import relations_of
from fencepost.audit.report.verdict import (
    FINDINGS_MAX,
    UNKNOWN_MAX,
    Finding,
    Note,
    Outcome,
    Unknown,
    Verdict,
)
from fencepost.audit.walks.causes import grouped
from fencepost.audit.walks.found import found

_COORDINATOR_COPIES: Final = (
    "SELECT * FROM log_copies_judged WHERE kind = 'copy' AND topic = '__transaction_state'"
)

_NOTES: Final = """
    SELECT "check", rule, many, path, position, detail FROM (
        SELECT f."check", f.rule, f.path, f.position, f.detail,
               count(*) OVER (PARTITION BY f."check", f.rule) AS many,
               row_number() OVER (
                   PARTITION BY f."check", f.rule
                   ORDER BY f.topic, f.partition, f."offset", f.path, f.position
               ) AS turn
        FROM named_rows f ANTI JOIN left_out l ON l.id = f.id WHERE f.kind = 'note' AND f.rule <> 'start'
    ) AS numbered WHERE turn = 1 ORDER BY "check", rule
"""
"""One row for each check and rule. That old records were deleted by right is true of most logs: left out."""

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
    is_stopped: bool = False,
) -> Verdict:
    """The verdict over the tables in ``tables_dir``. No names: every check. Raises TablesRefused.

    is_kept  the products are written beside the tables, too. Raises OSError.
    """
    with shown(engine, show, "looking at what was read") as show_step:
        relations = relations_of(engine, tables_dir, now_ms, show_step, is_stopped=is_stopped)
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
    outcomes = _outcomes(relations, wanted)
    notes = tuple(Note(**row) for row in relations.rows(_NOTES) if row["check"] in wanted)
    return Verdict(outcomes=tuple(outcomes[name] for name in wanted), files=files, notes=notes)


def _outcomes(relations: Relations, names: Sequence[str]) -> dict[str, Outcome]:
    """Of the checks that relations answer: all are asked, for one's finding may be the cause of another's."""
    answers = ANSWERS.values()
    findings = _listed(relations, [each.findings for each in answers], "position", FINDINGS_MAX)
    unknown = _listed(relations, [each.unknown for each in answers], "first_offset", UNKNOWN_MAX)
    counts = {row["check"]: row["many"] for row in findings}
    explained = grouped(map(_with_id, findings), relations.rows(_COORDINATOR_COPIES))
    _name_transactions(relations, explained)
    outcomes = {}
    for name in names:
        mine = sorted((row for row in explained if row["check"] == name), key=_order)
        undecided = [row for row in unknown if row["check"] == name]
        outcomes[name] = Outcome(
            check=name,
            findings=tuple(map(_finding, mine)),
            finding_count=max(counts.get(name, 0), len(mine)) - sum(row["cause"] is not None for row in mine),
            unknown=tuple(Unknown(*(row[each] for each in Unknown._fields)) for row in undecided),
            unknown_count=undecided[0]["many"] if undecided else 0,
        )
    return outcomes


def _name_transactions(relations: Relations, findings: Sequence[Row]) -> None:
    """A finding of a producer says of which transactional id it is, where a coordinator's log tells."""
    unnamed = [row for row in findings if row["transactional_id"] is None and row["producer_id"] is not None]
    ids = sorted({row["producer_id"] for row in unnamed})
    if not ids:
        return
    named = relations.rows(f"""
        SELECT producer_id, min(transactional_id) AS transactional_id FROM producers
        WHERE producer_id IN ({", ".join(map(str, ids))}) AND transactional_id IS NOT NULL
        GROUP BY producer_id HAVING count(DISTINCT transactional_id) = 1
    """)
    of = {row["producer_id"]: row["transactional_id"] for row in named}
    for row in unnamed:
        row["transactional_id"] = of.get(row["producer_id"])


def _finding(row: Row) -> Finding:
    """Of a row of ``causes``: one that it made itself has not every column."""
    values: dict[str, Any] = {name: row.get(name) for name in Finding._fields}
    return Finding(**values | {"severity": row.get("severity") or ERROR})


def _order(row: Row) -> tuple[tuple[bool, object], ...]:
    """By file and position."""
    return tuple(
        (row.get(name) is not None, row.get(name)) for name in ("path", "position", "rule", "detail", "id")
    )


def _with_id(row: Row) -> Row:
    """A finding that is no walk's has its ``id`` made as theirs."""
    return row if row["id"] is not None else {**row, "id": found(**{**row, "cause": None})["id"]}


def _listed(relations: Relations, names: Sequence[str], place: str, most: int) -> list[Row]:
    """The first ``most`` rows of each check by file and ``place``, and in ``many`` how many it has."""
    every = " UNION ALL ".join(f"SELECT * FROM {name}" for name in names)
    return relations.rows(f"""
        SELECT * FROM (
            SELECT f.*, count(*) OVER (PARTITION BY "check") AS many,
                   row_number() OVER (PARTITION BY "check"
                                      ORDER BY path, topic, "partition", {place}, rule, detail) AS turn
            FROM ({every}) AS f
        ) AS numbered WHERE turn <= {most} ORDER BY "check", turn
    """)
