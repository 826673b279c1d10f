"""Voters that run different versions of the software, are upgraded one by one, and a hasty operator.

Software   each voter reads log levels up to 0 or 1 at first, by the seed; now and then one dies and comes
           back with the newer version. None goes back.
Operator   asks every node, again and again, to raise the level to 1, whichever have been upgraded so far.
Invariant  the level in force is never above what a bound voter reads. So no node meets an entry above its
           level: that would end the simulation, as any other halt does.
"""

from typing import Any, Final

from fencepost.controller import levels, voters
from fencepost.controller.errors import ApiError
from fencepost.records.types import NodeId
from fencepost.wire.k20057_log_levels import AskLogLevels
from tests.simulation.clients import CONTEXT
from tests.simulation.invariants import Violation, require
from tests.simulation.ledger import Ledger, News
from tests.simulation.process import Process
from tests.simulation.simulation import Simulation
from tests.wire.answering import Answering

ASK_S: Final = (0.05, 0.4)
UPGRADE_S: Final = (0.5, 4.0)
RAISE_S: Final = 20.0  # patience, once the faults have ended and all are upgraded
TARGET: Final = 1


class LevelSimulation(Simulation):
    """See the module. ``finish`` upgrades the rest, and demands that the level can be raised."""

    def __init__(self, seed: int, *what: Any, **more: Any) -> None:
        super().__init__(seed, *what, **more)
        self.refused = 0
        self.invariants.append(self._every_voter_reads_the_level)
        for process in self.processes.values():
            process.log_level_max = self.rng.randint(0, TARGET)
            self.agenda.after(self.rng.uniform(*UPGRADE_S), self._upgrade, process)
        self.agenda.after(self.rng.uniform(*ASK_S), self._ask)

    def __enter__(self) -> "LevelSimulation":
        return self

    def finish(self) -> None:
        """Every voter is upgraded, and the level raised."""
        for process in self.processes.values():
            if process.log_level_max < TARGET:
                process.kill()
                process.log_level_max = TARGET
                process.start()
        self._guarded(self._demand_the_level)

    # -- what happens -----------------------------------------------------------------------------

    def _upgrade(self, process: Process) -> None:
        if process.log_level_max == TARGET:
            return
        self.said(f"{process.node_id} upgraded")
        process.kill()
        process.log_level_max = TARGET
        self.agenda.after(self.rng.uniform(0.1, 0.5), process.start)

    def _ask(self) -> None:
        self.agenda.after(self.rng.uniform(*ASK_S), self._ask)
        process = self.rng.choice(sorted(self.processes.values(), key=lambda each: each.node_id))
        process.run(self._submit, process)

    def _submit(self, process: Process) -> None:
        if process.replica is None:
            return

        def reply(outcome: Any, _throttle_ms: int) -> None:
            self.refused += isinstance(outcome, ApiError)

        process.controller.log_levels(AskLogLevels(TARGET), CONTEXT, Answering(reply))

    # -- what must be true ------------------------------------------------------------------------

    def _every_voter_reads_the_level(self, _ledger: Ledger, news: News) -> None:
        for seen in news.seen:
            replica = self.processes[seen.node].replica
            if replica is not None:
                level = levels.in_force(replica.image)
                read = {node: self.processes[node].log_level_max for node in voters.bindings(replica.image)}
                require(all(level <= highest for highest in read.values()), "level", level=level, read=read)

    def _demand_the_level(self) -> None:
        deadline = self.agenda.now + RAISE_S
        while self._in_force() != set(self.processes) and self.agenda.now < deadline:
            self._run_until(self.agenda.now + 0.5)
        if self._in_force() != set(self.processes):
            raise Violation(f"the level is not raised on every node in {RAISE_S} s: {self._standing()}")

    def _in_force(self) -> set[NodeId]:
        """The nodes that are at the new level."""
        return {
            node
            for node, process in self.processes.items()
            if process.replica is not None and levels.in_force(process.replica.image) == TARGET
        }
