"""``python -m tests.mutants.unguided --folder quorum --seed 1 --count 60``: changes that none thought of.

Sample      of all changes (tests/mutants/changes.py) in a folder's files, by a seed; a larger count goes on
            with the same sample.
Tests       of a changed file: its folder's, and those of what stands above it (``ABOVE``). They end with the
            first that fails; those that reach the changed function (reached.py) come first, the shortest of
            them before the others. Which they are is in ``build/unguided/FOLDER.reached.json``, found once
            on the sound code: an old one is as good, if it gives another order.
Ended       tests that something else ends, or the clock, say nothing: the next run tries again. What takes
            CPU_S_MAX, or TEST_CPU_S_MAX in one test, however busy the machine is, hangs, and has been noticed
            (limited.py); so has what a signal ends two times.
Resumed     each other outcome is a line of ``build/unguided/FOLDER-SEED.jsonl``: the command goes on behind
            them. A change whose file is another one now is tried again; with ``--again`` what survived is.
Survivors   are holes in the tests, or changes that change nothing: a reader judges. Those that were judged
            are in ``tests/mutants/equivalent.py``.
Exit status 0 all are noticed or equivalent, 1 some survived, 2 wrong usage, 3 some were ended.
"""

import hashlib
import random
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import click
import msgspec
import pytest

from tests.modules import FOLDERS
from tests.mutants import reached
from tests.mutants.changes import Change, changes_of, line_of
from tests.mutants.equivalent import BOUNDS, EQUIVALENT
from tests.mutants.limited import Died, Ended, Hangs, Ran, run_pytest
from tests.mutants.reached import CHOOSE, FOLDER, LEFT_OUT, RECORD, Reached, function_at
from tests.mutants.runner import ROOT, copied_tree, replaced

STATE: Final = ROOT / "build" / "unguided"
CPU_S_MAX: Final = 240  # of the tests of one change, which take a minute at most: more is a hang
TEST_CPU_S_MAX: Final = 60  # of one of them, which take a few seconds
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
        "tests/quorum/test_image_watch.py",
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


class Outcome(msgspec.Struct, frozen=True):
    """``noticed_by``: a test, "hangs", "dies" or "import"; None: no test noticed."""

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
@click.option("--again", is_flag=True, help="Try once more what survived: there are new tests.")
def main(folder: str, seed: int, count: int, list_only: bool, again: bool) -> None:
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
        found = reached_in(copy, folder)
        for place in sample:
            outcome = done.get(place.key(copy))
            if outcome is None or (again and outcome.noticed_by is None and equivalent(outcome) is None):
                try:
                    outcome = tried(copy, place, found)
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


def files_of_tests(file: str, tree: Path = ROOT) -> list[str]:
    """The files of tests to run for a changed file."""
    path = Path(file)
    folder = tree / "tests" / path.parent
    while not folder.is_dir():
        folder = folder.parent
    above = [each for begin, files in ABOVE.items() if file.startswith(begin) for each in files]
    return [*(str(each.relative_to(tree)) for each in sorted(folder.rglob("test_*.py"))), *above]


def reached_in(copy: Path, folder: str) -> list[Reached]:
    """What the tests of a folder reach in it, those that take least first. Raises Hangs, Ended."""
    record = STATE / f"{folder.replace('/', '.')}.reached.json"
    if not record.exists():
        changed = (str(path.relative_to(copy)) for path in (copy / folder).rglob("*.py"))
        files = {test for file in changed for test in files_of_tests(file, copy)}
        _run(copy, sorted(files), {RECORD: str(record), FOLDER: f"{folder}/"})
    return sorted(msgspec.json.decode(record.read_bytes(), type=list[Reached]), key=lambda each: each.seconds)


def near(found: Iterable[Reached], place: Place, source: str) -> list[str]:
    """The tests that reach what is changed; where that is no function, those that reach any of the file."""
    function = function_at(source, place.file, place.change.line)

    def is_near(each: Reached) -> bool:
        if function is not None:
            return function in each.functions
        return any(name.startswith(f"{place.file} ") for name in each.functions)

    return [each.test for each in found if is_near(each)]


def tried(copy: Path, place: Place, found: Iterable[Reached]) -> Outcome:
    """Make the change in the copy, and run its tests. Raises Ended."""
    source = (copy / place.file).read_text("utf-8")
    files = files_of_tests(place.file, copy)
    first = [test for test in near(found, place, source) if _recordof(test) in files]
    began_s = time.monotonic()
    with replaced(copy / place.file, place.change.of(source)):
        noticed_by = noticed(copy, {_recordof(test) for test in first}, first, {}) if first else None
        noticed_by = noticed_by or noticed(copy, files, first, {LEFT_OUT: "1"})
    return Outcome(
        key=place.key(copy),
        file=place.file,
        line=place.change.line,
        kind=place.change.kind,
        difference=list(line_of(source, place.change)),
        noticed_by=noticed_by,
        seconds=round(time.monotonic() - began_s, 1),
    )


def _recordof(test: str) -> str:
    return test.partition("::")[0]


def noticed(copy: Path, files: Iterable[str], chosen: list[str], how: dict[str, str]) -> str | None:
    """The first test of these files that fails, "import", "hangs" or "dies"; None if none does. Raises Ended.

    chosen, how   the tests that are run, in their order; with LEFT_OUT those that are not.
    """
    with NamedTemporaryFile(suffix=".json") as ids:
        ids.write(msgspec.json.encode(chosen))
        ids.flush()
        words, environment = ["-x", *sorted(files)], {CHOOSE: ids.name, **how}
        try:
            try:
                return _meaning(_run(copy, words, environment))
            except Died:
                return _meaning(_run(copy, words, environment))
        except Hangs:
            return "hangs"
        except Died:
            return "dies"


def _run(copy: Path, words: Iterable[str], environment: dict[str, str]) -> Ran:
    return run_pytest(
        copy,
        ["-rfE", "-p", reached.__name__, "-m", "not slow", *words],
        cpu_s_max=CPU_S_MAX,
        test_cpu_s_max=TEST_CPU_S_MAX,
        environment={"HYPOTHESIS_PROFILE": "check", **environment},
    )


def _meaning(ran: Ran) -> str | None:
    """Of how pytest ended, see ``noticed``."""
    failed = _FAILED.search(ran.printed)
    if failed is not None:
        return failed[1]
    if ran.status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):  # all of these are slow
        return None
    is_broken = ran.status in (
        pytest.ExitCode.INTERRUPTED,
        pytest.ExitCode.INTERNAL_ERROR,
        pytest.ExitCode.USAGE_ERROR,
    )
    if not is_broken or "file or directory not found" in ran.errors:
        raise Ended(f"pytest ended with {ran.status}, which says nothing: {ran.errors[-200:]}")
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
    names = BOUNDS.get(outcome.file, ())
    if outcome.kind == "constant" and outcome.difference[0].startswith(
        tuple(f"- {name}: Final = " for name in names)
    ):
        return "the value of a bound"
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
