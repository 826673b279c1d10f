"""Voters that run different versions of the software, are upgraded one by one, and a hasty operator.

Software   each voter reads log levels up to 0, 1 or 2 at first, by the seed; now and then one dies and comes
           back with the newest version. None goes back.
Operator   asks every node, again and again, to raise the level, to 1 or to 2, whichever have been upgraded so
           far.
Writers    of records of ``__consumer_offsets``, all the time: plain, of producers, and markers. They are
           refused until the level has them, then an entry holds several batches.
Invariant  the level in force is never above what a bound voter reads. So no node meets an entry above its
           level: that would end the simulation, as any other halt does. And no record of groups is applied
           below its level.
"""

from typing import Any, Final

from fencepost.controller import levels, voters
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, UnsupportedVersion
from fencepost.records.levels import GROUP_LOG, LEVEL_MAX
from fencepost.records.schema import NoOpRecord
from fencepost.records.types import Log, NodeId, ProducerId
from fencepost.wire.k20057_log_levels import AskLogLevels
from tests.controller.notes import Note, marker
from tests.simulation.clients import CONTEXT
from tests.simulation.invariants import Violation, require
from tests.simulation.ledger import Ledger, News
from tests.simulation.process import Process
from tests.simulation.simulation import Simulation
from tests.wire.answering import Answering

ASK_S: Final = (0.05, 0.4)
UPGRADE_S: Final = (0.5, 4.0)
RAISE_S: Final = 20.0  # patience, once the faults have ended and all are upgraded
WRITE_S: Final = (0.02, 0.1)
RECORDS: Final = 4  # of a writer's decision, at most
TARGET: Final = LEVEL_MAX


class LevelSimulation(Simulation):
    """See the module. ``finish`` upgrades the rest, and demands that the level can be raised."""

    def __init__(self, seed: int, *what: Any, **more: Any) -> None:
        super().__init__(seed, *what, **more)
        self._asked_from = 1
        self.refused = 0
        self.written = 0  # decisions with records of groups
        self.too_low = 0  # such decisions that were refused for the level
        self.invariants += [self._every_voter_reads_the_level, self._groups_have_their_level]
        for process in self.processes.values():
            process.log_level_max = self.rng.randint(0, TARGET)
            self.agenda.after(self.rng.uniform(*UPGRADE_S), self._upgrade, process)
        self.agenda.after(self.rng.uniform(*ASK_S), self._ask)
        self.agenda.after(self.rng.uniform(*WRITE_S), self._write)

    def __enter__(self) -> "LevelSimulation":
        return self

    def finish(self) -> None:
        """Every voter is upgraded, and the level raised."""
        for process in self.processes.values():
            if process.log_level_max < TARGET:
                process.kill()
                process.log_level_max = TARGET
                process.start()
        self._asked_from = TARGET
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
        process = self._anyone()
        process.run(self._submit, process)

    def _anyone(self) -> Process:
        return self.rng.choice(sorted(self.processes.values(), key=lambda each: each.node_id))

    def _write(self) -> None:
        self.agenda.after(self.rng.uniform(*WRITE_S), self._write)
        process = self._anyone()
        for _ in range(self.rng.randint(1, 3)):
            process.run(self._submit_records, process)

    def _submit_records(self, process: Process) -> None:
        records = tuple(self._record() for _ in range(self.rng.randint(1, RECORDS)))

        def reply(outcome: Any, _throttle_ms: int) -> None:
            self.written += not isinstance(outcome, ApiError)
            self.too_low += isinstance(outcome, UnsupportedVersion)

        process.submit(lambda _view, _now_ms: Decision(records, None), reply)

    def _record(self) -> Any:
        producer_id, epoch = self.rng.randint(0, 2), self.rng.randint(0, 1)
        name, text = self.rng.choice("abc"), self.rng.choice(["x", "y", None])
        return self.rng.choice(
            [
                NoOpRecord(),
                Note(name, text),
                Note(name, text, ProducerId(producer_id), epoch),
                marker(producer_id, epoch, committed=self.rng.random() < 0.5),
            ]
        )

    def _submit(self, process: Process) -> None:
        if process.replica is None:
            return

        def reply(outcome: Any, _throttle_ms: int) -> None:
            self.refused += isinstance(outcome, ApiError)

        process.controller.features.log_levels(
            AskLogLevels(self.rng.randint(self._asked_from, TARGET)), CONTEXT, Answering(reply)
        )

    # -- what must be true ------------------------------------------------------------------------

    def _every_voter_reads_the_level(self, _ledger: Ledger, news: News) -> None:
        for seen in news.seen:
            replica = self.processes[seen.node].replica
            if replica is not None:
                level = levels.in_force(replica.image)
                read = {node: self.processes[node].log_level_max for node in voters.bindings(replica.image)}
                require(all(level <= highest for highest in read.values()), "level", level=level, read=read)

    def _groups_have_their_level(self, _ledger: Ledger, news: News) -> None:
        for seen in news.seen:
            if seen.applied and seen.entry is not None:
                replica = self.processes[seen.node].replica
                logs = {log for log, _ in seen.entry.batches}
                if replica is not None and Log.CONSUMER_OFFSETS in logs:
                    level = levels.in_force(replica.image)
                    require(level >= GROUP_LOG, "a record of groups below its level", level=level)

    def _demand_the_level(self) -> None:
        deadline = self.agenda.now + RAISE_S
        while self._in_force() != set(self.processes) and self.agenda.now < deadline:
            self._wait()
        if self._in_force() != set(self.processes):
            raise Violation(f"the level is not raised on every node in {RAISE_S} s: {self._standing()}")

    def _in_force(self) -> set[NodeId]:
        """The nodes that are at the new level."""
        return {
            node
            for node, process in self.processes.items()
            if process.replica is not None and levels.in_force(process.replica.image) == TARGET
        }
