"""A verdict out of checks: what is counted, what is listed, what could not be read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.audit.report.verdict import Finding, Unknown, Verdict
from tests.audit.report.verdicts import finding, unknown

if TYPE_CHECKING:
    from fencepost.audit.engine.protocol import Engine


@pytest.fixture
def said(engine: "Engine", monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes these findings and unknowns what the only check says."""
    import pyarrow as pa

    from fencepost.audit.checks.catalogue import Answer
    from fencepost.audit.checks.rows import FINDINGS, UNKNOWN
    from fencepost.audit.jobs import check

    def answer(findings: list[Finding], unknowns: list[Unknown]) -> None:
        rows = [each._asdict() for each in findings]
        engine.register("said_findings", pa.Table.from_pylist(rows, schema=FINDINGS))
        rows = [each._asdict() for each in unknowns]
        engine.register("said_unknown", pa.Table.from_pylist(rows, schema=UNKNOWN))
        monkeypatch.setattr(check, "CHECKS", ("blocks",))
        monkeypatch.setattr(check, "ANSWERS", {"blocks": Answer("said_findings", "said_unknown")})

    return answer


def judged(engine: "Engine", tables: str, names: tuple[str, ...] = ()) -> Verdict:
    """The verdict over these tables."""
    from fencepost.audit.jobs import check

    return check.run(engine, tables, names=names, now_ms=None, show=print)


def test_findings_have_the_columns_of_the_checks() -> None:
    from fencepost.audit.checks.rows import FINDINGS, UNKNOWN

    assert set(Finding._fields) < set(FINDINGS.names)
    assert list(Unknown._fields) == UNKNOWN.names


def test_every_check_says_on_the_page_what_it_is_about() -> None:
    from fencepost.audit.checks.catalogue import CHECKS
    from fencepost.audit.report.page import ABOUT

    assert set(ABOUT) == set(CHECKS)


def test_what_a_check_says_is_the_verdict(engine: "Engine", fencepost_tables: str, said: Any) -> None:
    late, early = finding("blocks", position=200, transactional_id="<b>"), finding("blocks")
    said([late, early], [unknown("blocks", rule="missing", first_offset=3, end_offset=5)])
    verdict = judged(engine, fencepost_tables)
    (outcome,) = verdict.outcomes
    assert [each._replace(id=None) for each in outcome.findings] == [early, late]
    assert outcome.unknown == (unknown("blocks", rule="missing", first_offset=3, end_offset=5),)
    assert (outcome.finding_count, outcome.unknown_count, verdict.exit_status()) == (2, 1, 1)


@pytest.mark.parametrize(("count", "listed"), [(3, 3), (4, 3)], ids=["at-the-most", "one-past-it"])
def test_lists_end_at_their_most_and_counts_do_not(
    engine: "Engine",
    fencepost_tables: str,
    said: Any,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    listed: int,
) -> None:
    from fencepost.audit.jobs import check

    monkeypatch.setattr(check, "FINDINGS_MAX", 3)
    said([finding("blocks", position=each, offset=each) for each in range(count)], [])
    (outcome,) = judged(engine, fencepost_tables).outcomes
    assert (outcome.finding_count, [each.position for each in outcome.findings]) == (count, [*range(listed)])


def test_a_check_that_is_not_there_is_refused() -> None:
    from fencepost.audit.jobs.check import require_names
    from fencepost.audit.jobs.errors import AuditRefused

    require_names(["markers", "ids"])
    with pytest.raises(AuditRefused, match="no check marker; there are blocks, "):
        require_names(["ids", "marker"])


def test_tables_that_are_not_there_are_refused(engine: "Engine", tmp_path: Path) -> None:
    from fencepost.audit.tables.refused import TablesRefused

    with pytest.raises(TablesRefused):
        judged(engine, str(tmp_path))


def logs_with(folder: Path, source: Path, more: bytes) -> Path:
    """A copy of one partition of ``source``: its last segment has these bytes appended."""
    segment = next(source.rglob("payments-0/*.log"))
    log = folder / "payments-0" / segment.name
    log.parent.mkdir(parents=True)
    log.write_bytes(segment.read_bytes() + more)
    return folder


@pytest.mark.parametrize(
    ("names", "flipped", "more", "status"),
    [
        pytest.param(("integrity",), False, b"", 0, id="whole"),
        pytest.param(("blocks",), False, b"\0" * 64, 0, id="preallocated"),
        pytest.param(("blocks",), False, b"\0" * 8 + b"\0\0\1\0torn", 3, id="torn"),
        pytest.param(("blocks",), True, b"", 3, id="disbelieved-and-no-check-says-so"),
        pytest.param(("integrity",), True, b"", 1, id="disbelieved-and-a-check-says-so"),
    ],
)
def test_a_partial_read_is_never_clean(
    engine: "Engine",
    fencepost_logs: Path,
    tmp_path: Path,
    names: tuple[str, ...],
    flipped: bool,
    more: bytes,
    status: int,
) -> None:
    from fencepost.audit.jobs import ingest

    logs = logs_with(tmp_path / "logs", fencepost_logs, more)
    (segment,) = logs.rglob("*.log")
    if flipped:
        content = bytearray(segment.read_bytes())
        content[70] ^= 1  # of the first batch, past what its checksum leaves out
        segment.write_bytes(content)
    tables = str(tmp_path / "tables")
    ingest.run(engine, [str(logs)], tables, print)
    assert judged(engine, tables, names).exit_status(allow_unknown=True) == status


def test_a_file_that_has_grown_was_not_torn(engine: "Engine", fencepost_logs: Path, tmp_path: Path) -> None:
    from fencepost.audit.jobs import ingest

    logs = logs_with(tmp_path / "logs", fencepost_logs, b"\0" * 8 + b"\0\0\1\0torn")
    tables = str(tmp_path / "tables")
    assert ingest.run(engine, [str(logs)], tables, print).is_partial
    (segment,) = logs.rglob("*.log")
    with segment.open("ab") as file:
        file.write(b"more")
    assert judged(engine, tables, ("blocks",)).exit_status(allow_unknown=True) == 0
