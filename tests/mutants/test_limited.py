"""Runs of pytest that do not come to an end: which of them say something of the code, and which nothing."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.mutants import __main__ as command
from tests.mutants import limited, runner
from tests.mutants.catalogue import MUTANTS
from tests.mutants.limited import Ended, Hangs, run_pytest
from tests.mutants.mutant import Mutant
from tests.mutants.runner import run_tests

TEST = "tests/mutants/test_limited.py::test_a"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param("while True: pass", pytest.raises(Hangs, match="5 s of CPU time"), id="computes"),
        pytest.param(
            "while True: [each for each in range(9)]",
            pytest.raises(Hangs, match="a test has computed for 3 s"),
            id="computes-in-one-test",
        ),
        pytest.param(
            "busy(1)\n\n@pytest.mark.parametrize('n', range(3))\ndef test_b(n): busy(1)",
            nullcontext(),
            id="each-computes-a-little",
        ),
        pytest.param("time.sleep(600)", pytest.raises(Hangs, match="waited for 3 s"), id="waits"),
        pytest.param(
            "time.sleep(2)\n\n@pytest.mark.parametrize('n', range(3))\ndef test_b(n): time.sleep(2)",
            nullcontext(),
            id="each-waits-a-little",
        ),
        pytest.param(
            "subprocess.run([sys.executable, '-c', 'while True: pass'], start_new_session=True)",
            pytest.raises(Ended, match="ended after 20 s"),
            id="waits-for-what-computes",
        ),
        pytest.param("os.kill(os.getpid(), 9)", pytest.raises(Ended, match="ended with -9"), id="dies"),
    ],
)
def test_what_does_not_end(
    test: str, expected: AbstractContextManager[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, seconds in (("WAITED_S_MAX", 3), ("POLLED_S", 0.1)):
        monkeypatch.setattr(limited, limit, seconds)
    if test.startswith("subprocess"):  # the others end by themselves, however busy the machine is
        monkeypatch.setattr(limited, "WALL_S_MAX", 20)
    (tmp_path / "test_a.py").write_text(
        "import os, pytest, subprocess, sys, time\n"
        "def busy(seconds):\n    end = time.process_time() + seconds\n"
        "    while time.process_time() < end: pass\n"
        f"def test_a():\n    {test}\n"
    )
    cpu_s_max, test_cpu_s_max = (5, 600) if test == "while True: pass" else (600, 3)
    words = ["-o", "faulthandler_timeout=0", "test_a.py"]
    with expected:
        run_pytest(tmp_path, words, cpu_s_max=cpu_s_max, test_cpu_s_max=test_cpu_s_max)


def test_a_mutant_with_which_tests_hang_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise Hangs

    monkeypatch.setattr(runner, "run_pytest", run)
    assert run_tests(tmp_path, [TEST]) == {TEST: False}


def test_a_mutant_whose_tests_are_ended_is_neither_red_nor_green(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_copy: Path, tests: tuple[str, ...], mutant: Mutant | None = None) -> dict[str, bool]:
        if mutant is MUTANTS[0]:
            raise Ended("ended, which says nothing")
        return dict.fromkeys(tests, mutant is None)

    monkeypatch.setattr(command, "run_tests", run)
    monkeypatch.setattr(command, "copied_tree", lambda: nullcontext(Path()))
    monkeypatch.setattr(command, "broken", lambda *_: nullcontext())
    monkeypatch.setattr(command, "MUTANTS", MUTANTS[:2])
    ran = CliRunner().invoke(command.main)
    assert ran.exit_code == 3, ran.output
    assert f"{MUTANTS[0].name}: ended, which says nothing" in ran.output
    assert f"{MUTANTS[1].name}, {MUTANTS[1].tests[0]}, red" in ran.output
