"""``make rows``: every row of the feature table with the tests that show it, run now, and their result.

A test shows a row when it is marked ``@pytest.mark.row("730.1")``; several rows may be named. A row without
a test is *open*. Tests run some files at a time, as `make test` runs them: one that hangs ends its worker and
counts as failed, and the others go on. Exit status: 0 no marked test fails, 1 one does, 2 a test names a row
that is not there.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final

import click
import pytest

TABLE: Final = Path(__file__).with_name("rows.tsv")
WORST_LAST: Final = ("passed", "skipped", "not run", "failed")
MARKED: Final = ("-q", "-m", "row")
FILES_AT_A_TIME: Final = ("-n", "6", "--dist", "loadfile", "--no-loadscope-reorder")


def read_rows(text: str) -> dict[str, str]:
    """Row id -> what it says. Lines are ``id TAB title``."""
    return dict(line.split("\t", 1) for line in text.splitlines())


class RowResults:
    """A pytest plugin: keeps the marked tests and how they ended."""

    def __init__(self) -> None:
        self.rows_by_test: dict[str, tuple[str, ...]] = {}
        self.outcomes: dict[str, str] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Which rows a test shows; tests without a row are kept out later, by ``MARKED``."""
        rows = tuple(str(row) for mark in item.iter_markers("row") for row in mark.args)
        if rows:
            self.rows_by_test[item.nodeid] = rows

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test is as bad as its worst phase."""
        before = self.outcomes.get(report.nodeid, "passed")
        self.outcomes[report.nodeid] = worst([before, report.outcome])

    def by_row(self) -> dict[str, dict[str, str]]:
        """Row id -> test function -> outcome; parametrized cases of one function count as one."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for test, rows in self.rows_by_test.items():
            function = test.partition("[")[0]
            for row in rows:
                outcomes = [found[row].get(function, "passed"), self.outcomes.get(test, "not run")]
                found[row][function] = worst(outcomes)
        return found


def worst(outcomes: Iterable[str]) -> str:
    """The one of these outcomes that matters."""
    return max(outcomes, key=WORST_LAST.index)


def report(rows: dict[str, str], results: dict[str, dict[str, str]]) -> str:
    """The table as text, one line per row and one, indented, per test."""
    lines = []
    counts: dict[str, int] = defaultdict(int)
    for row, title in rows.items():
        tests = results.get(row, {})
        verdict = worst(tests.values()) if tests else "open"
        counts[verdict] += 1
        lines.append(f"{row:<7} {verdict:<8} {title}")
        lines.extend(f"{'':<16}   {test}: {outcome}" for test, outcome in sorted(tests.items()))
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return "\n".join(lines)


@click.command()
@click.option("--list", "list_only", is_flag=True, help="Name the tests, run none.")
@click.argument("arguments", nargs=-1)
def main(list_only: bool, arguments: tuple[str, ...]) -> None:
    """Run the tests that are marked with a row and print the feature table. ARGUMENTS go to pytest."""
    rows = read_rows(TABLE.read_text("utf-8"))
    results = RowResults()
    # Workers collect for themselves, so this process does before.
    with redirect_stdout(StringIO()) as said:
        status = pytest.main([*MARKED, "--collect-only", *arguments], plugins=[results])
    if status != pytest.ExitCode.OK:
        click.echo(said.getvalue())
    elif not list_only:
        status = pytest.main([*MARKED, *FILES_AT_A_TIME, *arguments], plugins=[results])
    found = results.by_row()
    click.echo("\n" + report(rows, found))
    unknown = sorted(set(found) - set(rows))
    if unknown:
        click.echo(f"not in {TABLE.name}: {', '.join(unknown)}", err=True)
        sys.exit(2)
    sys.exit(0 if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else 1)


if __name__ == "__main__":
    main()
