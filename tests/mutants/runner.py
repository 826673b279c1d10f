"""Breaks a copy of the tree, one mutant at a time, and runs the tests that must notice.

The copy's links are links, so its ``fencepost`` is made of its own folders. tests/mutants/imported.py sees to
it that the tests import these, the broken file among them, and nothing of the checkout.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.modules import FOLDERS
from tests.mutants import imported
from tests.mutants.limited import Hangs, run_pytest
from tests.mutants.mutant import SPARK_TESTS, Mutant

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("fencepost", *FOLDERS, "tests", "docs")
TESTS_CPU_S_MAX: Final = 180  # of the tests of a mutant; one that hangs with it has noticed it, too
SOUND_TESTS_CPU_S_MAX: Final = 1_800  # all of them, where nothing is broken
SPARK_TESTS_CPU_S_MAX: Final = (
    960  # of a session and the plans of every check, in as many threads as there are
)

_OUTCOME: Final = re.compile(r"^(PASSED|FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


class Stale(Exception):
    """The catalogue speaks of code or of a test that is not there."""


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of the product, its tests and its pages as they are in the checkout, committed or not."""
    with TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory).resolve()
        for folder in COPIED:
            shutil.copytree(
                ROOT / folder,
                copy / folder,
                symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
            )
        shutil.copy(ROOT / "pyproject.toml", copy)
        yield copy


@contextmanager
def broken(copy: Path, mutant: Mutant) -> Iterator[None]:
    """The copy with the mutant in it. Raises Stale."""
    sound = (copy / mutant.file).read_text("utf-8")
    found = sound.count(mutant.old)
    if found != 1:
        raise Stale(f"{mutant.name}: its text is {found} times in {mutant.file}, expected once")
    with replaced(copy / mutant.file, sound.replace(mutant.old, mutant.new)):
        yield


@contextmanager
def replaced(path: Path, source: str) -> Iterator[None]:
    """A file of the copy with another text."""
    sound = path.read_text("utf-8")
    try:
        _write(path, source)
        yield
    finally:
        _write(path, sound)


def _write(path: Path, source: str) -> None:
    """Nothing that was compiled of the file before is left: the rest of the copy is compiled once."""
    path.write_text(source, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def run_tests(copy: Path, tests: Iterable[str], mutant: Mutant | None = None) -> dict[str, bool]:
    """Test id -> whether it passed, with the mutant that is in the copy.

    A parametrized test that is named without a case is all of its cases: it fails if one of them does.
    Raises Stale for a test that pytest does not know, and if the tests do not import what is broken; Ended.
    """
    wanted = list(dict.fromkeys(tests))
    cpu_s_max = SPARK_TESTS_CPU_S_MAX if any(map(_needs_spark, wanted)) else TESTS_CPU_S_MAX
    if mutant is None:
        cpu_s_max = max(cpu_s_max, SOUND_TESTS_CPU_S_MAX)
    words = ["-rA", "-p", imported.__name__, *wanted]
    environment = {imported.VARIABLE: mutant.file if mutant else ""}
    try:
        ran = run_pytest(copy, words, cpu_s_max=cpu_s_max, environment=environment)
    except Hangs:
        return dict.fromkeys(wanted, False)
    if ran.status not in (0, 1):
        raise Stale(f"pytest ended with {ran.status}:\n{ran.printed[-2000:]}{ran.errors[-2000:]}")
    outcomes = outcomes_of(ran.printed)
    missing = [test for test in wanted if test not in outcomes]
    if missing:
        raise Stale(f"no outcome of {', '.join(missing)}:\n{ran.printed[-2000:]}")
    return {test: outcomes[test] for test in wanted}


def outcomes_of(summary: str) -> dict[str, bool]:
    """Test id -> whether it passed, of what ``pytest -rA`` prints; without a case: whether all cases did."""
    outcomes: dict[str, bool] = {}
    for outcome, test in _OUTCOME.findall(summary):
        passed = outcome == "PASSED"
        outcomes[test] = passed and outcomes.get(test, True)
        name = test.partition("[")[0]
        outcomes[name] = passed and outcomes.get(name, True)
    return outcomes


def apart(tests: Iterable[str]) -> list[list[str]]:
    """The tests without Spark and those with it, so that they are run and timed by themselves."""
    wanted = sorted(dict.fromkeys(tests), key=_needs_spark)
    return [list(group) for _, group in groupby(wanted, key=_needs_spark)]


def _needs_spark(test: str) -> bool:
    return test.startswith(SPARK_TESTS)
