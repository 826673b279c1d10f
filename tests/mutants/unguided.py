"""``python -m tests.mutants.unguided --folder quorum --seed 1 --count 60``: changes that none thought of.

Sample      of all changes (tests/mutants/changes.py) in a folder's files, by a seed; a larger count goes on
            with the same sample.
Tests       of a changed file: those named after it, those that speak of its module, then the rest of the
            folder's, and what stands above it (``ABOVE``). They end with the first that fails.
Ended       tests that take WALL_S_MAX, or that something else ends, say nothing: the next run tries again.
            What takes CPU_S_MAX, however busy the machine is, hangs, and has been noticed.
Resumed     each other outcome is a line of ``build/unguided/FOLDER-SEED.jsonl``: the command goes on behind
            them. A change whose file is another one now is tried again.
Survivors   are holes in the tests, or changes that change nothing: a reader judges. Those that were judged
            are in ``tests/mutants/equivalent.py``.
Exit status 0 all are noticed or equivalent, 1 some survived, 2 wrong usage, 3 some were ended.
"""

import hashlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec
import pytest

from tests.modules import FOLDERS
from tests.mutants.changes import Change, changes_of, line_of
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.runner import ROOT, copied_tree, replaced

STATE: Final = ROOT / "build" / "unguided"
CPU_S_MAX: Final = 600  # of the tests of one change, which take a minute or two: more is a hang
WALL_S_MAX: Final = 3600
ABOVE: Final = {
    "broker/log": ("tests/broker/test_partition_transactions.py", "tests/broker/test_fetch.py"),
    "controller": ("tests/quorum/test_proposer.py", "tests/simulation/test_transaction_storms.py"),
    "quorum": (
        "tests/coordinator/test_quarantine.py",
        "tests/node/test_driver.py",
        "tests/simulation/test_storms.py",
    ),
    "snapshots": (
        "tests/quorum/test_snapshots.py",
        "tests/quorum/test_integrity.py",
        "tests/quorum/test_journal.py",
    ),
}
"""By the beginning of a file's path: fast tests of other folders that run it, too."""

_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Place(msgspec.Struct, frozen=True):
    """A change of a file below the root."""

    file: str
    change: Change

    def key(self, tree: Path) -> str:
        """The same as long as the file is the same."""
        source = (tree / self.file).read_bytes()
        return f"{self.file} {self.change.begin} {self.change.kind} {hashlib.sha256(source).hexdigest()[:12]}"


class Ended(Exception):
    """The tests did not come to an end, which says nothing of the change."""


class Outcome(msgspec.Struct, frozen=True):
    """``noticed_by``: a test, "hangs" or "import"; None: no test noticed."""

    key: str
    file: str
    line: int
    kind: str
    difference: list[str]
    noticed_by: str | None
    seconds: float


@click.command()
@click.option("--folder", required=True, help="Such as quorum, or broker/log.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--count", type=click.IntRange(1), default=60, show_default=True, help="Changes, those done included."
)
@click.option("--list", "list_only", is_flag=True, help="Show the sample, run nothing.")
def main(folder: str, seed: int, count: int, list_only: bool) -> None:
    """Change a copy of the tree in one place after the other, and run the tests of the changed file."""
    if folder.partition("/")[0] not in FOLDERS or not (ROOT / folder).is_dir():
        raise click.UsageError(f"expected one of {', '.join(FOLDERS)}, or a folder in it, got {folder!r}")
    if list_only:
        for place in sample_of(folder, seed)[:count]:
            click.echo(f"{place.file}:{place.change.line}: {place.change.kind}")
        return
    state = STATE / f"{folder.replace('/', '.')}-{seed}.jsonl"
    state.parent.mkdir(parents=True, exist_ok=True)
    done = known(state)
    outcomes = []
    with copied_tree() as copy, state.open("ab") as lines:
        sample = sample_of(folder, seed, copy)[:count]
        for place in sample:
            outcome = done.get(place.key(copy))
            if outcome is None:
                try:
                    outcome = tried(copy, place)
                except Ended as ended:
                    click.echo(f"{place.file}:{place.change.line}: {place.change.kind}: {ended}")
                    continue
                lines.write(msgspec.json.encode(outcome) + b"\n")
                lines.flush()
                click.echo(said(outcome))
            outcomes.append(outcome)
    sys.exit(summed(outcomes, len(sample)))


def sample_of(folder: str, seed: int, tree: Path = ROOT) -> list[Place]:
    """Every change of a folder's files, in an order that the seed gives."""
    files = sorted(path for path in (tree / folder).rglob("*.py") if path.stat().st_size)
    places = [
        Place(str(path.relative_to(tree)), change)
        for path in files
        for change in changes_of(path.read_text("utf-8"))
    ]
    random.Random(seed).shuffle(places)
    return places


def known(state: Path) -> dict[str, Outcome]:
    """What an earlier run found. A last line that it did not end is cut off."""
    if not state.exists():
        return {}
    whole = [line for line in state.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    state.write_bytes(b"".join(whole))
    return {each.key: each for each in (msgspec.json.decode(line, type=Outcome) for line in whole)}


def files_of_tests(file: str, tree: Path = ROOT) -> tuple[list[str], list[str]]:
    """The files of tests to run for a changed file: those that are likely to notice, and then the others."""
    path = Path(file)
    folder = tree / "tests" / path.parent
    while not folder.is_dir():
        folder = folder.parent
    module = "fencepost." + ".".join(path.with_suffix("").parts)
    tests = [str(each.relative_to(tree)) for each in sorted(folder.rglob("test_*.py"))]
    above = [each for begin, files in ABOVE.items() if file.startswith(begin) for each in files]

    def far(test: str) -> tuple[int, str]:
        if Path(test).stem.startswith(f"test_{path.stem}"):
            return 0, test
        text = (tree / test).read_text("utf-8")
        return (1 if re.search(rf"\b{re.escape(module)}\b", text) else 2), test

    near = [test for test in sorted(tests, key=far) if far(test)[0] < 2]
    return near, [*sorted(set(tests) - set(near)), *above]


def tried(copy: Path, place: Place) -> Outcome:
    """Make the change in the copy, and run its tests. Raises Ended."""
    source = (copy / place.file).read_text("utf-8")
    began_s = time.monotonic()
    with replaced(copy / place.file, place.change.of(source)):
        near, others = files_of_tests(place.file, copy)
        noticed_by = (noticed(copy, near) if near else None) or noticed(copy, others)
    return Outcome(
        key=place.key(copy),
        file=place.file,
        line=place.change.line,
        kind=place.change.kind,
        difference=list(line_of(source, place.change)),
        noticed_by=noticed_by,
        seconds=round(time.monotonic() - began_s, 1),
    )


def noticed(copy: Path, tests: list[str]) -> str | None:
    """The first test that fails, "import" or "hangs"; None if none does. Raises Ended."""
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-rfE", "-p", "no:cacheprovider", "-n", "0"]
    command += ["-o", f"faulthandler_timeout={WALL_S_MAX}"]  # of one test: of a busy machine, too
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))
    }
    environment |= {"PYTHONPATH": str(copy), "HYPOTHESIS_PROFILE": "check"}
    limits = (CPU_S_MAX, CPU_S_MAX + 60)
    try:
        ran = subprocess.run(
            [*command, "-m", "not slow", *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WALL_S_MAX,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limits),
        )
    except subprocess.TimeoutExpired as expired:
        raise Ended(f"ended after {WALL_S_MAX} s, which says nothing") from expired
    return _meaning(ran.returncode, ran.stdout, ran.stderr)


def _meaning(status: int, printed: str, errors: str) -> str | None:
    """Of how pytest ended, see ``noticed``."""
    failed = _FAILED.search(printed)
    if failed is not None:
        return failed[1]
    if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):  # all of these files are slow
        return None
    if status == -signal.SIGXCPU:
        return "hangs"
    is_broken = status in (
        pytest.ExitCode.INTERRUPTED,
        pytest.ExitCode.INTERNAL_ERROR,
        pytest.ExitCode.USAGE_ERROR,
    )
    if not is_broken or "file or directory not found" in errors:
        raise Ended(f"pytest ended with {status}, which says nothing: {errors[-200:]}")
    return "import"


def said(outcome: Outcome) -> str:
    """One line, and the change below it if it survived."""
    place = f"{outcome.file}:{outcome.line}: {outcome.kind}"
    if outcome.noticed_by is not None:
        return f"{place}: noticed by {outcome.noticed_by} after {outcome.seconds} s"
    reason = equivalent(outcome)
    verdict = "SURVIVED" if reason is None else f"equivalent: {reason}"
    return "\n".join((f"{place}: {verdict}", *(f"    {line}" for line in outcome.difference)))


def equivalent(outcome: Outcome) -> str | None:
    """Why a change that survived changes nothing that anyone could notice; None: no one has judged so."""
    return EQUIVALENT.get((outcome.file, "\n".join(outcome.difference)))


def summed(outcomes: list[Outcome], wanted: int) -> int:
    """Print the survivors and the counts; the exit status."""
    survived = [each for each in outcomes if each.noticed_by is None and equivalent(each) is None]
    same = sum(each.noticed_by is None for each in outcomes) - len(survived)
    click.echo("\n".join(_summary(survived)))
    rest = len(outcomes) - same
    share = 100 * (rest - len(survived)) / rest if rest else 100.0
    counts = f"{len(outcomes)} changes, {same} equivalent, {len(survived)} survived"
    click.echo(f"{counts}: {share:.0f} % of the rest noticed; {wanted - len(outcomes)} were ended")
    return 1 if survived else 3 if len(outcomes) < wanted else 0


def _summary(survived: list[Outcome]) -> Iterator[str]:
    if survived:
        yield "survivors:"
    for each in survived:
        yield said(each)


if __name__ == "__main__":
    main()
