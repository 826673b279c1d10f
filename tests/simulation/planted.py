"""``python -m tests.simulation.planted``: faults planted into the product, each of which storms must find.

Each fault is planted into a copy of the tree. There seeds of the kinds of storm that it concerns are
played, one after the other (hunt.py, ``--first-failure``), until one fails: at most SEEDS_MAX. Prints the
seed and how many were played. What was found is a line of ``build/storms/planted.jsonl``, and not played
again while the fault's file is the same.
Exit status: 0 each was found, 1 one was not, 2 a fault's text is not in its file.
"""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import msgspec

from tests.mutants.runner import ROOT, copied_tree, replaced
from tests.simulation.planted_faults import PLANTED, Planted

STATE: Final = ROOT / "build" / "storms" / "planted.jsonl"
SEEDS_MAX: Final = 50
WALL_S_MAX: Final = 900  # of one fault: what hangs is found, too

_FOUND: Final = re.compile(r"^failed: seed (\d+), number (\d+)$", re.MULTILINE)
_WHY: Final = re.compile(r"^seed \d+, event .*$", re.MULTILINE)


class Found(msgspec.Struct, frozen=True):
    """``number``: how many seeds were played, this one included; 0: none of them failed."""

    key: str
    name: str
    seed: int
    number: int
    why: str


@click.command()
@click.option("--only", multiple=True, metavar="NAME", help="Only this fault; may be repeated.")
@click.option("--list", "list_only", is_flag=True, help="Say which there are, plant none.")
def main(only: tuple[str, ...], list_only: bool) -> None:
    """Plant one fault after the other, and play storms until one of them fails."""
    chosen = [each for each in PLANTED if not only or each.name in only]
    if list_only:
        for each in chosen:
            click.echo(f"{each.name}: {each.breaks} ({each.file}; {', '.join(each.kinds)})")
        return
    STATE.parent.mkdir(parents=True, exist_ok=True)
    known = {each.key: each for each in _known() if each.number}
    found = []
    with copied_tree() as copy, STATE.open("ab") as lines:
        for fault in chosen:
            outcome = known.get(key_of(fault)) or played(copy, fault)
            if outcome.key not in known:
                lines.write(msgspec.json.encode(outcome) + b"\n")
                lines.flush()
            click.echo(said(outcome))
            found.append(outcome)
    missed = [each.name for each in found if not each.number]
    click.echo(
        f"{len(found)} faults, {len(found) - len(missed)} found; not found: {', '.join(missed) or 'none'}"
    )
    sys.exit(1 if missed else 0)


def key_of(fault: Planted) -> str:
    """The same as long as the fault and its file are the same."""
    source = (ROOT / fault.file).read_bytes() + f"{fault.old}{fault.new}{fault.kinds}".encode()
    return f"{fault.name} {hashlib.sha256(source).hexdigest()[:16]}"


def played(copy: Path, fault: Planted) -> Found:
    """Plant it into the copy, and play."""
    source = (copy / fault.file).read_text("utf-8")
    if source.count(fault.old) != 1:
        click.echo(f"{fault.name}: its text is {source.count(fault.old)} times in {fault.file}", err=True)
        sys.exit(2)
    command = [sys.executable, "-P", "-m", "tests.simulation.hunt", "--first-failure"]
    command += ["--short", str(SEEDS_MAX), *(part for kind in fault.kinds for part in ("--kind", kind))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with replaced(copy / fault.file, source.replace(fault.old, fault.new)):
        try:
            ran = subprocess.run(
                command,
                cwd=copy,
                env=environment | {"PYTHONPATH": str(copy)},
                capture_output=True,
                text=True,
                timeout=WALL_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Found(key_of(fault), fault.name, -1, SEEDS_MAX, "a storm hangs")
    at = _FOUND.search(ran.stdout)
    if at is None:
        why = "" if ran.returncode == 0 else ran.stderr[-400:]
        return Found(key_of(fault), fault.name, -1, 0, why)
    reason = _WHY.search(ran.stdout)
    return Found(key_of(fault), fault.name, int(at[1]), int(at[2]), reason[0][:200] if reason else "")


def said(found: Found) -> str:
    """One line."""
    if not found.number:
        return f"{found.name}: NOT FOUND {found.why}"
    return f"{found.name}: seed {found.seed}, number {found.number}: {found.why}"


def _known() -> list[Found]:
    """A last line that an earlier run did not end is left out."""
    if not STATE.exists():
        return []
    whole = [line for line in STATE.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [msgspec.json.decode(line, type=Found) for line in whole]


if __name__ == "__main__":
    main()
