"""Unguided mutation: which changes there are, which tests are run, that a run goes on where it stopped."""

import ast
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.mutants import unguided
from tests.mutants.changes import changes_of, line_of
from tests.mutants.runner import ROOT
from tests.mutants.unguided import Ended, files_of_tests, known, sample_of
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


def test_the_tests_of_a_file_begin_with_those_that_are_named_after_it() -> None:
    near, others = files_of_tests("quorum/journal.py")
    assert near[0] == "tests/quorum/test_journal.py"
    assert "tests/quorum/test_firewall.py" in near, "it imports the module"
    assert "tests/quorum/test_links.py" in others
    assert others[-1] == "tests/simulation/test_storms.py"
    assert not set(near) & set(others)
    assert "tests/broker/log/test_damage.py" in files_of_tests("broker/log/damage.py")[0]
    for file in ("broker/log/damage.py", "controller/view.py", "snapshots/store.py", "cli/node.py"):
        near, others = files_of_tests(file)
        assert [each for each in (*near, *others) if not (ROOT / each).is_file()] == []


def test_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unguided, "STATE", tmp_path)
    asked: list[list[str]] = []
    answers = ["tests/a.py::test_a", None, "hangs", None, Ended("ended"), "import"]

    def noticed(_copy: Path, tests: list[str]) -> str | None:
        asked.append(tests)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Ended):
            raise answer
        return answer

    monkeypatch.setattr(unguided, "files_of_tests", lambda file, _tree: ([], [file]))

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


@table(
    ("status", "printed", "errors", "expected"),
    [
        (0, "3 passed", "", None),
        (5, "4 deselected", "", None),
        (1, "FAILED tests/a.py::test_a - Oops", "", "tests/a.py::test_a"),
        (2, "ERROR tests/a.py", "", "tests/a.py"),
        (4, "", "ImportError while loading conftest 'tests/conftest.py'.", "import"),
        (-24, "", "", "hangs"),
        (-9, "", "", Ended),
        (1, "", "Timeout (1:00:00)!", Ended),
        (4, "", "ERROR: file or directory not found: tests/a.py", Ended),
    ],
)
def test_what_the_end_of_the_tests_means(
    status: int, printed: str, errors: str, expected: str | type[Ended] | None
) -> None:
    with pytest.raises(Ended) if expected is Ended else nullcontext():
        assert unguided._meaning(status, printed, errors) == expected


def test_what_takes_all_its_cpu_time_hangs_and_what_waits_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_loop.py").write_text("def test_a():\n    while True: pass\n")
    (tmp_path / "test_wait.py").write_text("import time\ndef test_a(): time.sleep(600)\n")
    monkeypatch.setattr(unguided, "CPU_S_MAX", 2)
    assert unguided.noticed(tmp_path, ["test_loop.py"]) == "hangs"
    monkeypatch.setattr(unguided, "WALL_S_MAX", 1)
    with pytest.raises(Ended):
        unguided.noticed(tmp_path, ["test_wait.py"])
