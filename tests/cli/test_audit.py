"""``fencepost audit``: what it refuses before anything is read. Beyond that: tests/audit/test_command.py."""

import sys
from pathlib import Path

import pytest

from fencepost.cli.audit import EXTRA_MISSING, SPARK_MISSING
from tests.harness.command import here

Capture = pytest.CaptureFixture[str]

REFUSED = [
    pytest.param(["ingest", "--tables", "t"], "nothing to audit", id="ingest-nothing"),
    pytest.param(["ingest", "/logs"], "--tables", id="ingest-to-nowhere"),
    pytest.param(["check"], "nothing to audit", id="check-nothing"),
    pytest.param(["report"], "nothing to audit", id="report-nothing"),
    pytest.param(["check", "--tables", "t", "--deep"], "--deep opens records where", id="check-deep-no-logs"),
    pytest.param(["watch", "--tables", "t"], "nothing to audit", id="watch-needs-a-dir"),
    pytest.param(["query", "/logs"], "--producer-id or --transactional-id", id="query-nothing"),
    pytest.param(
        ["query", "/logs", "--producer-id", 1, "--transactional-id", "a"], "name one", id="query-two-things"
    ),
    pytest.param(["query", "/logs", "--transactional-id", "a", "--at", "1"], "--at needs", id="query-at"),
    pytest.param(["query", "/logs", "--producer-id", -1], "--producer-id", id="query-no-id"),
    pytest.param(["watch", "/logs", "--interval", 0], "--interval", id="watch-without-a-pause"),
]


@pytest.mark.parametrize(("words", "reason"), REFUSED)
def test_what_cannot_be_meant_is_refused(words: list[object], reason: str, capsys: Capture) -> None:
    said = here(capsys, "audit", *words)
    assert said.status == 2
    assert reason in said.stderr


@pytest.mark.parametrize(
    ("library", "options", "advice"),
    [
        pytest.param("duckdb", ("--engine", "embedded"), EXTRA_MISSING, id="the-embedded-engine"),
        pytest.param("pyspark", ("--engine", "spark"), SPARK_MISSING, id="spark"),
    ],
)
@pytest.mark.parametrize("verb", ["ingest", "check", "report", "watch", "query"])
def test_without_the_extra_it_says_what_to_install(
    verb: str,
    library: str,
    options: tuple[str, ...],
    advice: str,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [each for each in sys.modules if each.startswith("fencepost.audit.engine.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [each for each in sys.modules if each.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    more = {"ingest": ("--tables", "t"), "query": ("--producer-id", "1")}.get(verb, ())
    said = here(capsys, "audit", verb, "/logs", *more, *options)
    assert said.status == 2
    assert advice in said.stderr


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(ValueError("a bug"), 3, id="a-bug-is-no-finding"),
        pytest.param(OSError("disk full"), 3, id="the-disk"),
    ],
)
def test_what_goes_wrong_is_never_taken_for_findings(
    fault: Exception, status: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fencepost.audit.jobs import check

    def fails(_names: object) -> None:
        raise fault

    monkeypatch.setattr(check, "require_names", fails)
    said = here(capsys, "audit", "check", "/logs")
    assert said.status == status
    assert str(fault) in said.stderr
