"""The tool behind ``make rows``: a table of claims is worth what its own test is worth."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rows import TABLE, RowResults, read_rows, report, worst
from tests.together import table

ROWS = {"1.1": "it works", "1.2": "it works twice", "1.3": "nobody has tried"}


def test_the_table_has_every_row_of_the_features_once() -> None:
    text = TABLE.read_text("utf-8")
    rows = read_rows(text)
    assert len(rows) == len(text.splitlines()) == 70
    assert {"730.1", "730.13", "card.9", "939.11", "447.8", "beyond.13"} <= set(rows)
    assert all(title and len(title) <= 100 for title in rows.values())


def test_a_row_is_as_bad_as_its_worst_test_and_open_without_one() -> None:
    lines = report(
        ROWS, {"1.1": {"t::a": "passed", "t::b": "failed"}, "1.2": {"t::a": "passed"}}
    ).splitlines()
    assert [line.split()[:2] for line in lines if line[0] != " "][:3] == [
        ["1.1", "failed"],
        ["1.2", "passed"],
        ["1.3", "open"],
    ]
    assert lines[-1] == "1 failed, 1 open, 1 passed"
    assert any("t::b: failed" in line for line in lines)


@table(
    ("outcomes", "expected"),
    [
        pytest.param(["passed", "skipped"], "skipped", id="a-skip-is-no-pass"),
        pytest.param(["skipped", "failed", "passed"], "failed", id="a-failure-counts"),
        pytest.param(["passed", "not run"], "not run", id="not-run-is-no-pass"),
    ],
)
def test_the_worst_outcome_counts(outcomes: list[str], expected: str) -> None:
    assert worst(outcomes) == expected


def test_cases_of_one_function_count_as_one_test() -> None:
    results = RowResults()
    results.rows_by_test = {"t::a[x]": ("1.1",), "t::a[y]": ("1.1",)}
    results.outcomes = {"t::a[x]": "passed", "t::a[y]": "failed"}
    assert results.by_row() == {"1.1": {"t::a": "failed"}}


def test_a_test_that_ends_its_process_has_failed_and_the_others_go_on(tmp_path: Path) -> None:
    """As one does that hangs: faulthandler_exit_on_timeout."""
    marked = "import os, pytest\n\n@pytest.mark.row('730.{0}')\ndef test_it():\n    {1}\n"
    (tmp_path / "test_ends.py").write_text(marked.format(1, "os._exit(1)"))
    (tmp_path / "test_passes.py").write_text(marked.format(2, "pass"))
    (tmp_path / "test_no_row.py").write_text("def test_it():\n    raise AssertionError\n")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.rows", "--", "-n", "2", str(tmp_path)],
        cwd=TABLE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = dict(line.split()[:2] for line in ran.stdout.splitlines() if line.startswith("730."))
    assert (verdicts["730.1"], verdicts["730.2"], verdicts["730.3"]) == ("failed", "passed", "open")
    assert ran.returncode == 1
