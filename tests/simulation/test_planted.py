"""What ``python -m tests.simulation.planted`` makes of a run: found, not found, or ended (neither)."""

import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.mutants.runner import ROOT
from tests.simulation import planted
from tests.simulation.planted import SEEDS_MAX, Played, key_of
from tests.simulation.planted_faults import PLANTED
from tests.together import table

FAULT = PLANTED[0]
SURVIVED = "survived: seed 4, number 1\nsurvived: seed 7, number 2\n"
FAILED = "seed 9, event 12, 1.5 s: Violation: I1: twice\n  a trace\nfailed: seed 9, number 3\n"

CASES = [
    ((1, SURVIVED + FAILED, ""), ("found", 9, 3, "seed 9, event 12, 1.5 s: Violation: I1: twice"), 0),
    ((0, SURVIVED + "none of 2 failed\n", ""), ("not found", 7, 2, ""), 1),
    ((None, SURVIVED, ""), ("ended", 7, 2, f"after {planted.WALL_S_MAX} s"), 3),
    ((None, "", ""), ("ended", -1, 0, f"after {planted.WALL_S_MAX} s"), 3),
    ((1, SURVIVED, "Traceback"), ("ended", 7, 2, "the command broke: Traceback"), 3),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tree, as far as it matters here."""
    file = tmp_path / "copy" / FAULT.file
    file.parent.mkdir(parents=True)
    file.write_bytes((ROOT / FAULT.file).read_bytes())
    return tmp_path / "copy"


@table(("ran", "expected", "status"), CASES)
def test_what_a_run_says_of_a_fault(
    copy: Path, ran: tuple[int | None, str, str], expected: tuple[str, int, int, str], status: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planted, "run", lambda _command, _copy: ran)
        outcome = planted.played(copy, FAULT)
    assert (outcome.outcome, outcome.seed, outcome.number, outcome.why) == expected
    assert planted.summed([outcome]) == status


def test_a_run_that_was_ended_goes_on_behind_its_last_seed(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted, "STATE", tmp_path / "faults.jsonl")
    monkeypatch.setattr(planted, "copied_tree", lambda: nullcontext(copy))
    commands: list[list[str]] = []
    answers = [(None, SURVIVED, ""), (1, "failed: seed 12, number 2\n", "")]

    def run(command: list[str], _copy: Path) -> tuple[int | None, str, str]:
        commands.append(command)
        return answers[len(commands) - 1]

    monkeypatch.setattr(planted, "run", run)
    only = ["--only", FAULT.name]
    assert CliRunner().invoke(planted.main, only).exit_code == 3
    assert CliRunner().invoke(planted.main, only).exit_code == 0
    second = commands[1]
    assert second[second.index("--from") + 1] == "8"
    assert second[second.index("--short") + 1] == str(SEEDS_MAX - 2)
    lines = (tmp_path / "faults.jsonl").read_bytes().splitlines()
    found = msgspec.json.decode(lines[-1], type=Played)
    assert (found.outcome, found.seed, found.number) == ("found", 12, 4)
    again = CliRunner().invoke(planted.main, only)
    assert (again.exit_code, len(commands)) == (0, 2), "it is not played again"


def test_a_command_that_its_limit_ends_says_what_it_had_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "WALL_S_MAX", 2)
    hangs = "import time; print('survived: seed 4, number 1', flush=True); time.sleep(600)"
    status, out, _ = planted.run([sys.executable, "-c", hangs], ROOT)
    assert status is None
    assert "seed 4" in out or out == "", "a busy machine may not have begun"


def test_every_fault_is_in_its_file_and_an_outcome_holds_for_these_storms() -> None:
    for fault in PLANTED:
        source = (ROOT / fault.file).read_text("utf-8")
        assert source.count(fault.old) == 1, fault.name
    assert len({key_of(ROOT, fault) for fault in PLANTED}) == len(PLANTED) >= 20


def test_a_fault_that_there_is_not_is_wrong_usage() -> None:
    assert CliRunner().invoke(planted.main, ["--only", "none"]).exit_code == 2
