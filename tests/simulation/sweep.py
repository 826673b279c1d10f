"""``make sweep``: every header byte of a node's files, and a byte of each row, entry and field, flipped.

Cluster    three voters with transactional producers, brokers, a group, topics and settings (mixed.py), on a
           calm day: killed once, and started again from there for each case, in a process of its own.
Cases      each place (sweep_places.py), of a leader's and of a follower's directory: while the node is dead,
           and one that led starts before the others; and while it runs, to be killed and started again later.
Demanded   every invariant of the simulation; the majority serves; in the end all images are equal, and all
           goes on. The node names what differs, or nothing is left of it; what is left on its disk is named
           by whatever reads it. A byte in unused space changes nothing. A process that dies by a signal, as
           LMDB's C may of a page that changed under it, is started again.
Outcomes   by structure: "nothing", "by itself" with the events, "by command" with what an operator is left.

``make sweep ARGS='--every 10 --first 3'`` plays each tenth case, ``--only journal`` those of some structures.
Exit status: 0 all held, 1 not, 2 wrong usage.
"""

import gc
import os
import shutil
import struct
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from tests.harness.page_layout import PAGE, pages
from tests.simulation.invariants import Violation, require
from tests.simulation.mixed import WithTransactions
from tests.simulation.process import Process
from tests.simulation.simulation import HEAL_S
from tests.simulation.sweep_looks import left_in, scrubbed_in
from tests.simulation.sweep_places import EITHER, UNUSED, places
from tests.simulation.weather import CALM

WORKERS: Final = 2
TOGETHER: Final = 100  # cases of one cluster
WARM_UP_S: Final = 8.0
HEAD_START_S: Final = 0.5
LOOK_S: Final = 1.5
AROUND: Final = 8  # bytes before and behind one
ROLES: Final = ("leader", "follower")
STATES: Final = ("dead", "running")
STORE: Final = "store/data.mdb"
NOT_OF_DISKS: Final = ("markers_not_sent",)
"""Events that a calm cluster has, too."""


class Case(NamedTuple):
    """The ``number``-th place of a structure, in a node of that role, in that state."""

    structure: str
    number: int
    role: str
    state: str

    def __str__(self) -> str:
        return f"{self.structure} {self.number}, a {self.role} that is {self.state}"


class Outcome(msgspec.Struct, frozen=True):
    """``kind``: nothing, by itself or by command. ``failure``: what did not hold."""

    kind: str
    events: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    failure: str = ""

    @property
    def said(self) -> str:
        """In a line."""
        parts = [each.split()[0] for each in self.left]
        return ": ".join((self.kind, ", ".join((*self.events, *parts)))).removesuffix(": ")


class _Flipped(NamedTuple):
    """A byte of a file, and those around it, as they became: by itself it may come again by chance."""

    path: Path
    at: int
    around: bytes

    @property
    def is_of_store(self) -> bool:
        return self.path.name == Path(STORE).name

    def is_there(self) -> bool:
        """Still."""
        try:
            return _around(self.path, self.at) == self.around
        except OSError:
            return False

    def is_reached(self) -> bool:
        """And is on a page that the last commit reaches."""
        if not self.is_there():
            return False
        try:
            return self.at // PAGE in {0, 1} | pages(self.path)
        except (struct.error, ValueError, OverflowError, RecursionError):
            return True  # a page that leads nowhere

    def __str__(self) -> str:
        return f"{self.path} at {self.at}"


class Swept(WithTransactions):
    """Keeps all lines of its trace, and waits no longer than it must."""

    look_again_s = 0.1

    def __init__(self, seed: int) -> None:
        self.lines: list[str] = []
        super().__init__(seed, 3, CALM)

    def said(self, line: str) -> None:
        """See Simulation."""
        super().said(line)
        self.lines.append(line)

    def __enter__(self) -> "Swept":
        return self


class Sweep:
    """A cluster that was killed, and its directories as they were then."""

    def __init__(self, seed: int) -> None:
        self.sim = sim = Swept(seed)
        sim.run(WARM_UP_S)
        self.leader = next(each for each in sim.processes.values() if _leads(each))
        self.follower = next(each for each in sim.processes.values() if not _leads(each))
        for process in sim.processes.values():
            process.kill()
        self.cases = self._cases()
        self._kept = sim.root.with_name(f"{sim.root.name}.kept")
        shutil.copytree(sim.root, self._kept)

    def close(self) -> None:
        """Remove its files."""
        shutil.rmtree(self._kept, ignore_errors=True)
        self.sim.close()

    def _cases(self) -> list[Case]:
        """All of them, in a fixed order."""
        found = {role: places(each.directory) for role, each in zip(ROLES, self._victims(), strict=True)}
        cases = [
            Case(structure, number, role, state)
            for role, by_structure in found.items()
            for structure, each in by_structure.items()
            for number in range(len(each))
            for state in STATES
        ]
        return sorted(cases)

    def play(self, case: Case) -> Outcome:
        """In a process of its own; once more if that dies by a signal, as a node would."""
        outcome, signal = self._in_a_child(case, dies=False)
        if outcome is None and case.state == "running":
            outcome, again = self._in_a_child(case, dies=True)
            if outcome is not None:
                return msgspec.structs.replace(outcome, events=(f"died by signal {signal}", *outcome.events))
            signal = again
        return outcome or Outcome("nothing", failure=f"died by signal {signal}")

    def _in_a_child(self, case: Case, *, dies: bool) -> tuple[Outcome | None, int]:
        shutil.rmtree(self.sim.root)
        shutil.copytree(self._kept, self.sim.root)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                gc.disable()  # it lives for seconds
                os.close(reads)
                try:
                    outcome = self._played(case, dies)
                except Violation as error:
                    outcome = Outcome("nothing", failure=str(error))
                except Exception:  # noqa: BLE001 - of any kind: it is the case's outcome
                    outcome = Outcome("nothing", failure=traceback.format_exc())
                with os.fdopen(writes, "wb") as stream:
                    stream.write(msgspec.json.encode(outcome))
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as stream:
            raw = stream.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return None, os.WTERMSIG(status)
        return msgspec.json.decode(raw, type=Outcome), 0

    def _victims(self) -> tuple[Process, Process]:
        return self.leader, self.follower

    def _played(self, case: Case, dies: bool) -> Outcome:
        sim = self.sim
        if case.state == "dead":
            victim, others = self._dead(case)
            flipped, mark = _flip(victim, case), len(sim.lines)
            for process in others if case.role == "follower" else [victim]:
                process.start()
            sim.run(HEAD_START_S)
            _start_all(sim)
            sim.run(LOOK_S)
        else:
            _start_all(sim)
            victim = self._running(case)
            sim.ledger.changed.add(victim.node_id)
            flipped, mark = _flip(victim, case), len(sim.lines)
            if dies:
                victim.kill()
            sim.run(LOOK_S)
            self._demand_service()
            victim.kill()
            sim.ledger.changed.add(victim.node_id)  # an image that was restored leaves the old pages
            sim.run(HEAD_START_S)
        is_there = flipped.is_of_store and (case.state == "dead" or flipped.is_reached())
        sim.heal()
        sim.demand_all()
        scrubbed = list(scrubbed_in(victim.directory))
        for process in sim.processes.values():
            process.kill()
        is_there = is_there or (not flipped.is_of_store and flipped.is_there())
        said = tuple(dict.fromkeys((*_events(sim.lines[mark:], victim), *scrubbed)))
        return _judged(case, flipped, is_there, said, tuple(left_in(victim.directory)))

    def _dead(self, case: Case) -> tuple[Process, list[Process]]:
        victim = self.leader if case.role == "leader" else self.follower
        return victim, [each for each in self.sim.processes.values() if each is not victim]

    def _running(self, case: Case) -> Process:
        """Of that role, once all is settled and it has the structure: a table's branch pages come and go."""
        sim = self.sim
        deadline = sim.agenda.now + HEAL_S
        while True:
            found = (each for each in sim.processes.values() if _leads(each) is (case.role == "leader"))
            if sim._settled() and case.structure in places((victim := next(found)).directory):
                return victim
            require(sim.agenda.now < deadline, "the cluster does not settle, or has no such structure")
            sim.run(sim.look_again_s)

    def _demand_service(self) -> None:
        sim = self.sim
        before = [client.successes for client in sim.clients]
        deadline = sim.agenda.now + HEAL_S
        while any(each.successes <= was for each, was in zip(sim.clients, before, strict=True)):
            if sim.agenda.now >= deadline:
                raise Violation(f"the majority does not serve: {sim._standing()}")
            sim.run(sim.look_again_s)


def _judged(
    case: Case, flipped: _Flipped, is_there: bool, said: tuple[str, ...], left: tuple[str, ...]
) -> Outcome:
    if UNUSED in case.structure:
        require(not said and not left, "unused space is named", where=str(flipped), said=said, left=left)
    elif not case.structure.startswith(EITHER):
        is_silent = not said and (left or is_there)
        require(not is_silent, "a changed byte is not named", where=str(flipped), left=left)
    return Outcome("by command" if left else "by itself" if said else "nothing", said, left)


def _leads(process: Process) -> bool:
    return process.replica is not None and process.replica.raft.is_leader


def _start_all(sim: Swept) -> None:
    for process in sim.processes.values():
        process.start()


def _flip(victim: Process, case: Case) -> _Flipped:
    found = places(victim.directory)[case.structure]
    place = found[case.number % len(found)]
    path = victim.directory / place.file
    mode = path.stat().st_mode
    path.chmod(0o600)
    with open(path, "r+b") as stream:
        stream.seek(place.at)
        byte = stream.read(1)[0] ^ 1 << place.bit
        stream.seek(place.at)
        stream.write(bytes((byte,)))
    path.chmod(mode)
    if place.file == STORE:
        victim.is_damaged = victim.is_flipped = case.state == "dead"
    else:
        victim.files_damaged = True
    return _Flipped(path, place.at, _around(path, place.at))


def _around(path: Path, at: int) -> bytes:
    return path.read_bytes()[max(0, at - AROUND) : at + AROUND]


def _events(lines: list[str], victim: Process) -> Iterator[str]:
    """What the node said of itself."""
    for line in lines:
        words = [*line.split(), "", ""]
        if words[0] != str(victim.node_id):
            continue
        if words[1] in ("warning:", "error:"):
            if words[2] not in NOT_OF_DISKS:
                yield words[2]
        elif words[1] in ("loses", "halts"):
            yield " ".join(words[1:3])


def _play(seed: int, cases: list[Case]) -> list[tuple[Case, Outcome]]:
    sweep = Sweep(seed)
    try:
        return [(case, sweep.play(case)) for case in cases]
    finally:
        sweep.close()


@click.command()
@click.option("--seed", default=1, show_default=True, help="Of the cluster.")
@click.option("--only", default="", help="Structures whose name has this in it.")
@click.option("--first", default=0, show_default=True, help="The first case.")
@click.option("--every", default=1, show_default=True, help="Each so-manieth case.")
def main(seed: int, only: str, first: int, every: int) -> None:
    """Flip every header byte, and a byte of each row, entry and field, in each role, dead and running."""
    began = time.monotonic()
    sweep = Sweep(seed)
    sweep.close()
    wanted = [case for case in sweep.cases if only in case.structure][first::every]
    together = [wanted[at : at + TOGETHER] for at in range(0, len(wanted), TOGETHER)]
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    failed, done = 0, 0
    with ProcessPoolExecutor(WORKERS) as pool:
        for played in pool.map(partial(_play, seed), together):
            for case, outcome in played:
                if outcome.failure:
                    failed += 1
                    click.echo(f"FAILED {case}: {outcome.failure}", err=True)
                else:
                    outcomes[case.structure][outcome.said] += 1
            done += len(played)
            click.echo(f"{done} of {len(wanted)} cases, {failed} failed", err=True)
    for structure, counts in sorted(outcomes.items()):
        click.echo(f"{structure}: {counts.total()}")
        for said, count in counts.most_common():
            click.echo(f"  {count:5} {said}")
    click.echo(f"{len(wanted)} cases, {failed} failed, {time.monotonic() - began:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
