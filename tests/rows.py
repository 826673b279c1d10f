"""``make rows``: every row of the feature table with the tests that show it, run now, and their result.

A test shows a row when it is marked ``@pytest.mark.row("730.1")``; several rows may be named. A row without
a test is *open*. Exit status: 0 no marked test fails, 1 one does, 2 a test names a row that is not there.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
import pytest

TABLE: Final = Path(__file__).with_name("rows.tsv")
WORST_LAST: Final = ("passed", "skipped", "not run", "failed")


def read_rows(text: str) -> dict[str, str]:
    """Row id -> what it says. Lines are ``id TAB title``."""
    return dict(line.split("\t", 1) for line in text.splitlines())


class RowResults:
    """A pytest plugin: keeps the marked tests and how they ended."""

    def __init__(self) -> None:
        self.rows_by_test: dict[str, tuple[str, ...]] = {}
        self.outcomes: dict[str, str] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Only the marked tests run."""
        unmarked = []
        for item in items:
            rows = tuple(str(row) for mark in item.iter_markers("row") for row in mark.args)
            if rows:
                self.rows_by_test[item.nodeid] = rows
            else:
                unmarked.append(item)
        config.hook.pytest_deselected(items=unmarked)
        items[:] = [item for item in items if item.nodeid in self.rows_by_test]

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
    status = pytest.main(["-q", *(["--collect-only"] if list_only else []), *arguments], plugins=[results])
    found = results.by_row()
    click.echo("\n" + report(rows, found))
    unknown = sorted(set(found) - set(rows))
    if unknown:
        click.echo(f"not in {TABLE.name}: {', '.join(unknown)}", err=True)
        sys.exit(2)
    sys.exit(0 if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else 1)


if __name__ == "__main__":
    main()
