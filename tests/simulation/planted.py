"""``python -m tests.simulation.planted``: faults planted into the product, each of which storms must find.

Each fault is planted into a copy of the tree. There seeds of the kinds of storm that it concerns are
played, one after the other (hunt.py, ``--first-failure``), until one fails: at most SEEDS_MAX. Prints the
seed and how many were played.
Outcome    "found", "not found" after SEEDS_MAX, or "ended": the limit of WALL_S_MAX came first, or the
           command broke, which says nothing of the fault. A storm that is slow, or hangs, finds nothing.
Resumed    each outcome is a line of ``build/storms/faults.jsonl``, which holds while the fault's file and
           the storms are the same. A fault is not played again, one that was ended behind its last seed.
Exit status: 0 each was found, 1 one was not, 2 a fault's text is not in its file, 3 one was ended.
"""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from tests.mutants.runner import ROOT, copied_tree, replaced
from tests.simulation.planted_faults import PLANTED, Planted

STATE: Final = ROOT / "build" / "storms" / "faults.jsonl"
SEEDS_MAX: Final = 50
WALL_S_MAX: Final = 1800  # of one fault: fifty storms at idle priority

_FAILED: Final = re.compile(r"^failed: seed (\d+), number (\d+)$", re.MULTILINE)
_SURVIVED: Final = re.compile(r"^survived: seed (\d+), number (\d+)$", re.MULTILINE)
_WHY: Final = re.compile(r"^seed \d+, event .*$", re.MULTILINE)


class Played(msgspec.Struct, frozen=True):
    """``number``: how many seeds were played, the last of them ``seed`` (-1: none was)."""

    key: str
    name: str
    outcome: Literal["found", "not found", "ended"]
    seed: int
    number: int
    why: str


@click.command()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([each.name for each in PLANTED]),
    metavar="NAME",
    help="Only this fault; may be repeated.",
)
@click.option("--list", "list_only", is_flag=True, help="Say which there are, plant none.")
def main(only: tuple[str, ...], list_only: bool) -> None:
    """Plant one fault after the other, and play storms until one of them fails."""
    chosen = [each for each in PLANTED if not only or each.name in only]
    if list_only:
        for each in chosen:
            click.echo(f"{each.name}: {each.breaks} ({each.file}; {', '.join(each.kinds)})")
        return
    STATE.parent.mkdir(parents=True, exist_ok=True)
    known = {each.key: each for each in _known()}
    outcomes = []
    with copied_tree() as copy, STATE.open("ab") as lines:
        for fault in chosen:
            outcome = known.get(key_of(copy, fault))
            if outcome is None or outcome.outcome == "ended":
                outcome = played(copy, fault, outcome)
                lines.write(msgspec.json.encode(outcome) + b"\n")
                lines.flush()
            click.echo(said(outcome))
            outcomes.append(outcome)
    sys.exit(summed(outcomes))


def key_of(tree: Path, fault: Planted) -> str:
    """The same as long as the fault, its file and the storms are the same."""
    hasher = hashlib.sha256((tree / fault.file).read_bytes())
    hasher.update(f"{fault.old}{fault.new}{fault.kinds}".encode())
    for path in sorted((tree / "tests" / "simulation").glob("*.py")):
        if not path.name.startswith(("planted", "test_")):
            hasher.update(path.read_bytes())
    return f"{fault.name} {hasher.hexdigest()[:16]}"


def played(copy: Path, fault: Planted, before: Played | None = None) -> Played:
    """Plant it into the copy, and play; behind what was played ``before``."""
    source = (copy / fault.file).read_text("utf-8")
    if source.count(fault.old) != 1:
        click.echo(f"{fault.name}: its text is {source.count(fault.old)} times in {fault.file}", err=True)
        sys.exit(2)
    key = key_of(copy, fault)
    done, last = (before.number, before.seed) if before is not None else (0, -1)
    command = [sys.executable, "-P", "-m", "tests.simulation.hunt", "--first-failure"]
    command += ["--short", str(SEEDS_MAX - done), "--from", str(last + 1)]
    command += [part for kind in fault.kinds for part in ("--kind", kind)]
    with replaced(copy / fault.file, source.replace(fault.old, fault.new)):
        status, out, error = run(command, copy)
    survived, failed = _SURVIVED.findall(out), _FAILED.search(out)
    if failed is not None:
        why = _WHY.search(out)
        number = done + int(failed[2])
        return Played(key, fault.name, "found", int(failed[1]), number, why[0][:200] if why else "")
    if survived:
        last, done = int(survived[-1][0]), done + int(survived[-1][1])
    if status == 0:
        return Played(key, fault.name, "not found", last, done, "")
    why_ended = f"after {WALL_S_MAX} s" if status is None else f"the command broke: {error[-400:]}"
    return Played(key, fault.name, "ended", last, done, why_ended)


def run(command: list[str], copy: Path) -> tuple[int | None, str, str]:
    """Exit status (None: the limit ended it), and what it printed until then."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment | {"PYTHONPATH": str(copy)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, error = process.communicate(timeout=WALL_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, *process.communicate()
        return process.returncode, out, error


def said(played_: Played) -> str:
    """One line."""
    outcome = "" if played_.outcome == "found" else f"{played_.outcome.upper()}, "
    return f"{played_.name}: {outcome}seed {played_.seed}, number {played_.number}: {played_.why}"


def summed(outcomes: list[Played]) -> int:
    """Print the counts; the exit status."""
    missed = [each.name for each in outcomes if each.outcome == "not found"]
    ended = [each.name for each in outcomes if each.outcome == "ended"]
    click.echo(
        f"{len(outcomes)} faults, {len(outcomes) - len(missed) - len(ended)} found; not found: "
        f"{', '.join(missed) or 'none'}; ended, which says nothing: {', '.join(ended) or 'none'}"
    )
    return 1 if missed else 3 if ended else 0


def _known() -> list[Played]:
    """A last line that an earlier run did not end is left out."""
    if not STATE.exists():
        return []
    whole = [line for line in STATE.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [msgspec.json.decode(line, type=Played) for line in whole]


if __name__ == "__main__":
    main()
