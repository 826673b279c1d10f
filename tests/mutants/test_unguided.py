"""Unguided mutation: which changes there are, which tests are run, that a run goes on where it stopped."""

import ast
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.mutants import unguided
from tests.mutants.changes import changes_of, line_of
from tests.mutants.equivalent import BOUNDS, EQUIVALENT
from tests.mutants.limited import Died, Ended, Hangs, Ran
from tests.mutants.reached import Reached, function_at
from tests.mutants.runner import ROOT
from tests.mutants.unguided import (
    Outcome,
    Place,
    equivalent,
    files_of_tests,
    known,
    near,
    reached_in,
    sample_of,
    tried,
)
from tests.together import table

CASES = [
    ("if a < b: f()", ["a <= b", "not (a < b)", "pass"]),
    ("x = a is not None and b in c", ["a is None", "or b", "b not in c"]),
    ("return_ = [n + 1 for n in many]", ["n - 1", "n + 2"]),
    ("self.count += 1", ["pass", "+= 2"]),
    ("self.x = y", ["pass"]),
    ("x: int = 5", ["= 6"]),
    ("raise Refused(a < 5)", ["pass"]),
    ("def f(x: Literal[3] = 4): pass", ["= 5"]),
    ("while (a) > (b): break", ["(a) >= (b)", "not ((a) > (b))", "pass"]),
    ('x = "ä" if é == 1 else None', ["é != 1", "not (é == 1)", "== 2"]),
    ("log.info('a', n=1)", []),
    ("self._log.warning('a', n=1)", []),
    ("catalog.info(1)", ["pass", "info(2)"]),
    ("if TYPE_CHECKING: f()", []),
    ("__slots__ = (1,)", []),
    ('"""A text."""', []),
    ("x = f'{a + 1}'", []),
    ("flag = True", ["False"]),
]


@table(("source", "expected"), CASES)
def test_the_changes_of_a_source(source: str, expected: list[str]) -> None:
    changes = changes_of(source)
    assert len(changes) == len(expected)
    for text in expected:
        assert any(text in change.of(source) for change in changes), text
    for change in changes:
        assert change.of(source) != source
        ast.parse(change.of(source))


def test_every_change_of_the_product_is_a_program() -> None:
    for path in [*(ROOT / "quorum").glob("*.py"), *(ROOT / "broker" / "log").glob("*.py")]:
        source = path.read_text("utf-8")
        for change in changes_of(source)[::7]:
            ast.parse(change.of(source))
            assert list(line_of(source, change))


def test_a_larger_sample_goes_on_with_the_same_changes() -> None:
    sample = sample_of("snapshots", 3)
    assert sample == sample_of("snapshots", 3)
    assert sample[:20] != sample_of("snapshots", 4)[:20]
    assert len(sample) > 300


def test_the_tests_of_a_file_are_its_folder_s_and_those_above() -> None:
    files = files_of_tests("quorum/journal.py")
    assert {"tests/quorum/test_journal.py", "tests/quorum/test_links.py"} < set(files)
    assert files[-1] == "tests/simulation/test_storms.py"
    for file in ("broker/log/damage.py", "controller/view.py", "snapshots/store.py", "cli/node.py"):
        assert [each for each in files_of_tests(file) if not (ROOT / each).is_file()] == []


SOURCE = """
LIMIT = 3

def first(n):
    return [each + 1 for each in range(n)]

class Second:
    size = 4

    def third(self):
        return lambda: 5
"""


@table(
    ("line", "expected"),
    [
        (2, None),
        (5, "a/b.py first.<locals>.<listcomp>"),
        (8, None),
        (11, "a/b.py Second.third.<locals>.<lambda>"),
    ],
)
def test_the_function_at_a_line(line: int, expected: str | None) -> None:
    assert function_at(SOURCE, "a/b.py", line) == expected


def test_the_tests_that_reach_a_change_are_near_it() -> None:
    found = [
        Reached("one", 0.1, ("a/b.py first", "a/b.py first.<locals>.<listcomp>")),
        Reached("two", 0.2, ("a/b.py Second.third", "a/b.py Second.third.<locals>.<lambda>")),
        Reached("three", 0.3, ("a/bc.py first",)),
    ]
    changes = {change.line: near(found, Place("a/b.py", change), SOURCE) for change in changes_of(SOURCE)}
    assert changes == {2: ["one", "two"], 5: ["one"], 8: ["one", "two"], 11: ["two"]}


@table(
    ("file", "kind", "difference", "is_named"),
    [
        ("snapshots/store.py", "constant", ["- READERS_MAX: Final = 32", "+ READERS_MAX: Final = 33"], True),
        ("snapshots/store.py", "removed", ["- READERS_MAX: Final = 32", "+ pass"], False),
        ("snapshots/store.py", "constant", ["- x = READERS_MAX + 1", "+ x = READERS_MAX + 2"], False),
        ("snapshots/image.py", "constant", ["- READERS_MAX: Final = 32", "+ READERS_MAX: Final = 33"], False),
    ],
)
def test_the_value_of_a_bound_that_is_listed_is_equivalent(
    file: str, kind: str, difference: list[str], is_named: bool
) -> None:
    found = equivalent(Outcome("", file, 1, kind, difference, None, 0.0))
    assert found == ("the value of a bound" if is_named else None)


def test_what_is_listed_as_equivalent_is_there() -> None:
    for file, names in BOUNDS.items():
        lines = (ROOT / file).read_text("utf-8").splitlines()
        for name in names:
            assert sum(line.startswith(f"{name}: Final = ") for line in lines) == 1, f"{file}: {name}"
    for file, difference in EQUIVALENT:
        lines = [line.strip() for line in (ROOT / file).read_text("utf-8").splitlines()]
        for line in difference.splitlines():
            assert not line.startswith("- ") or line[2:] in lines, f"{file}: {line}"


@pytest.mark.slow
def test_what_reaches_a_change_is_run_first_and_the_others_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a tree of its own, with one function and three tests."""
    monkeypatch.setattr(unguided, "STATE", tmp_path)
    for folder in ("a", "tests/a", "tests/mutants"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "mutants" / "reached.py", tmp_path / "tests" / "mutants")
    (tmp_path / "a" / "b.py").write_text(SOURCE)
    (tmp_path / "tests" / "a" / "test_b.py").write_text(
        "import os\nfrom a.b import LIMIT, first\n\n"
        "def test_other():\n    assert LIMIT == 3\n    assert 'RAN' not in os.environ\n\n"
        "def test_slower():\n    assert sum(first(200_000)) > 3\n\n"
        "def test_reaches():\n    os.environ['RAN'] = ''\n    assert first(2) == [1, 2]\n"
    )
    found = reached_in(tmp_path, "a")
    assert [each.test.rpartition("::")[2] for each in found if each.functions] == [
        "test_reaches",
        "test_slower",
    ]
    by_line = {change.line: Place("a/b.py", change) for change in changes_of(SOURCE)}
    assert tried(tmp_path, by_line[5], found).noticed_by == "tests/a/test_b.py::test_reaches"
    assert tried(tmp_path, by_line[2], found).noticed_by == "tests/a/test_b.py::test_other"
    assert tried(tmp_path, by_line[11], found).noticed_by is None
    (tmp_path / "tests" / "a" / "test_b.py").write_text(
        "def test_new():\n    from a.b import Second\n    assert Second().third()() == 5\n"
    )
    assert tried(tmp_path, by_line[11], found).noticed_by == "tests/a/test_b.py::test_new"


def test_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unguided, "STATE", tmp_path)
    asked: list[list[str]] = []
    answers = ["tests/a.py::test_a", None, "hangs", None, Ended("ended"), "import"]

    def noticed(_copy: Path, files: list[str], *_: object) -> str | None:
        asked.append(files)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Ended):
            raise answer
        return answer

    monkeypatch.setattr(unguided, "files_of_tests", lambda file, _tree: [file])
    monkeypatch.setattr(unguided, "reached_in", lambda _copy, _folder: [])
    monkeypatch.setattr(unguided, "noticed", noticed)
    shutil.copytree(ROOT / "snapshots", tmp_path / "copy" / "snapshots")
    monkeypatch.setattr(unguided, "copied_tree", lambda: nullcontext(tmp_path / "copy"))
    words = ["--folder", "snapshots", "--seed", "7", "--count"]
    first = CliRunner().invoke(unguided.main, [*words, "1"])
    assert first.exit_code == 0, first.output
    second = CliRunner().invoke(unguided.main, [*words, "3"])
    assert second.exit_code == 1
    assert len(asked) == 3
    assert "3 changes, 0 equivalent, 1 survived: 67 % of the rest noticed; 0 were ended" in second.output
    state = tmp_path / "snapshots-7.jsonl"
    state.write_bytes(state.read_bytes()[:-5])  # killed while it wrote
    assert len(known(state)) == 2
    third = CliRunner().invoke(unguided.main, [*words, "3"])
    assert len(asked) == 4
    assert "2 survived" in third.output
    fourth = CliRunner().invoke(unguided.main, [*words, "4"])
    assert "3 changes" in fourth.output
    assert fourth.output.strip().endswith("; 1 were ended"), "it says nothing"
    fifth = CliRunner().invoke(unguided.main, [*words, "4"])
    assert len(asked) == 6, "what was ended is tried again"
    assert "4 changes, 0 equivalent, 2 survived: 50 % of the rest noticed; 0 were ended" in fifth.output
    answers += ["tests/a.py::test_new", None]
    sixth = CliRunner().invoke(unguided.main, [*words, "4", "--again"])
    assert len(asked) == 8
    assert "4 changes, 0 equivalent, 1 survived: 75 % of the rest noticed; 0 were ended" in sixth.output
    assert "1 survived" in CliRunner().invoke(unguided.main, [*words, "4"]).output
    assert len(asked) == 8


@table(
    ("status", "printed", "errors", "expected"),
    [
        (0, "3 passed", "", None),
        (5, "4 deselected", "", None),
        (1, "FAILED tests/a.py::test_a - Oops", "", "tests/a.py::test_a"),
        (2, "ERROR tests/a.py", "", "tests/a.py"),
        (4, "", "ImportError while loading conftest 'tests/conftest.py'.", "import"),
        (1, "", "", Ended),
        (4, "", "ERROR: file or directory not found: tests/a.py", Ended),
    ],
)
def test_what_the_end_of_the_tests_means(
    status: int, printed: str, errors: str, expected: str | type[Ended] | None
) -> None:
    with pytest.raises(Ended) if expected is Ended else nullcontext():
        assert unguided._meaning(Ran(status, printed, errors)) == expected


@table(
    ("ends", "expected"),
    [
        ([Died, Died], "dies"),
        ([Died, Ran(0, "", "")], None),
        ([Died, Hangs], "hangs"),
        ([Died, Ended], Ended),
        ([Ended, Ran(0, "", "")], Ended),
        ([Hangs], "hangs"),
    ],
)
def test_what_a_signal_ends_is_tried_once_more(
    ends: list[type[Exception] | Ran], expected: str | type[Ended] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = iter(ends)

    def run(*_: object) -> Ran:
        end = next(coming)
        if isinstance(end, Ran):
            return end
        raise end

    monkeypatch.setattr(unguided, "_run", run)
    with pytest.raises(Ended) if expected is Ended else nullcontext():
        assert unguided.noticed(ROOT, [], [], {}) == expected
