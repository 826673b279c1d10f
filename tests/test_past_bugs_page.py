"""docs/past-bugs.md: every bug of the list has a row, and what a row names is there."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutants.catalogue import MUTANTS

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "past-bugs.md"
REGRESSIONS: Final = "tests/simulation/test_past_bugs.py"
BUGS: Final = (
    "KAFKA-15552", "KAFKA-15845", "KAFKA-14694", "KAFKA-14417", "KAFKA-18660", "KAFKA-19367", "KAFKA-20090",
    "KAFKA-16229", "KAFKA-9666", "PySyncObj #84", "PySyncObj #201", "PySyncObj #202", "Redpanda #30003",
    "kfake", "the protocol's late EndTxn",
)  # fmt: skip

_COMMAND: Final = re.compile(r"`pytest (?P<file>[\w/]+\.py)::(?P<test>\w+)`")
_NAMES_A_BUG: Final = re.compile(r"test_(kafka_\d+|redpanda_\d+|kfake)_")


class Row(NamedTuple):
    """One line of the page's table."""

    bug: str
    commands: tuple[tuple[str, str], ...]  # file, test
    mutant: str | None


@cache
def rows() -> tuple[Row, ...]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    found = []
    for line in lines[1:]:
        bug, _, command, mutant = (cell.strip() for cell in line.strip("|").split("|"))
        commands = tuple((each["file"], each["test"]) for each in _COMMAND.finditer(command))
        found.append(Row(bug, commands, None if mutant == "-" else mutant.strip("`")))
    return tuple(found)


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def test_every_bug_has_one_row() -> None:
    assert sorted(row.bug for row in rows()) == sorted(BUGS)


def test_every_command_names_a_test_that_is_there() -> None:
    assert all(row.commands for row in rows())
    named = [(file, test) for row in rows() for file, test in row.commands]
    assert [(file, test) for file, test in named if test not in functions_of(file)] == []


def test_every_test_that_names_a_bug_is_on_the_page() -> None:
    named = {test for row in rows() for _, test in row.commands}
    regressions = {test for test in functions_of(REGRESSIONS) if _NAMES_A_BUG.match(test)}
    assert regressions
    assert regressions <= named


def test_every_mutant_is_seen_by_a_test_of_its_row() -> None:
    mutants = {mutant.name: mutant for mutant in MUTANTS}
    for row in rows():
        if row.mutant is not None:
            seen_by = {test.partition("[")[0] for test in mutants[row.mutant].tests}
            assert seen_by & {f"{file}::{test}" for file, test in row.commands}, row
