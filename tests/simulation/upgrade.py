"""The upgrade from ZooKeeper in a storm: voters that fail, rivals that write the znode, operators in a hurry.

Goal      no order of events gives an id out twice, in either era or across them (I1); the new era begins
          right after the fenced block; and once the faults end the upgrade can be brought to its end.
Method    the cluster of simulation.py with the quorum's real migrator in each process; a model of ZooKeeper's
          conditional write with lost, late and unknown outcomes; direct writers with Kafka's own loop; two
          operators who send commands to anybody, again and again, forward and back; processes that die at the
          crash points.
Replay    pytest tests/simulation -k upgrade-seed-17
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import fencepost.bridge.migrator
from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.controller.migration_phase import Phase, current
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, NodeId
from fencepost.wire.k20021_migrate import Migrate, Migrated
from tests.simulation.agenda import Agenda
from tests.simulation.clients import Ask, Client
from tests.simulation.direct_writer import DirectWriter
from tests.simulation.ensemble import SimulatedEnsemble, SimulatedPort, ZookeeperWeather
from tests.simulation.invariants import INVARIANTS, Violation, require
from tests.simulation.ledger import Attempt, Ledger, News
from tests.simulation.process import Process
from tests.simulation.simulation import Simulation
from tests.simulation.thread import Killed
from tests.simulation.weather import Weather
from tests.zookeeper.kafka_rule import next_block_of_kafka

WRITERS: Final = (4, 2, 0, 1)  # direct writers, by seed
CLIENTS: Final = 2  # fewer entries than a voter can catch up with: the limits of snapshots are small here
OPERATORS: Final = 2
PATIENCE_S: Final = 2.0
PAUSE_S: Final = (0.01, 0.25)
FINISH_S: Final = 30.0
RANGE_BLOCKS: Final = 3  # in one range: so that several are needed


class UpgradingProcess(Process):
    """A process with a migrator, as node/server.py has one."""

    migrating = True
    ensemble: SimulatedEnsemble

    def _zookeeper(self, life: int) -> SimulatedPort:
        return SimulatedPort(self.ensemble, partial(self._tell, life), self._mimicked)

    def _tell(self, life: int, told: Callable[[Any], None], answer: Any) -> None:
        if self.driver is not None:
            self._run_in(life, self.driver.completed, told, answer)

    def _mimicked(self, block: ProducerIdBlock) -> None:
        """Another program's bridge has the block, and gives it to a broker of its own."""
        attempt = Attempt(-1, "direct", None, self._agenda.now, 0, NodeId(-1))
        self._ledger.told(attempt, block)

    def _reach(self, point: str) -> None:
        self._ledger.count(point)
        if self._rng.random() < self.ensemble.weather.crash_at_point:
            self._trace(f"{self.node_id} dies at {point}")
            self._ledger.count("crashes at points")
            raise Killed


class UpgradingClient(Client):
    """A new broker: it asks for blocks and does not know where they come from."""

    def _allocate(self, epoch: BrokerEpoch) -> tuple[str, Ask, object]:
        _, _, length = super()._allocate(epoch)
        assert isinstance(length, int)
        request = AllocateProducerIds(self.broker_id, epoch)
        return (
            "allocate",
            lambda node, reply: node.controller.migrator.allocate(request, length, reply),
            length,
        )


class Operator:
    """Sends commands to anybody, forward and back, until it is told to ``finish``."""

    def __init__(
        self,
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        processes: Mapping[NodeId, Process],
    ) -> None:
        self.phase = ""
        self._agenda = agenda
        self._rng = rng
        self._ledger = ledger
        self._processes = processes
        self._may_finish = False
        self._left = False
        self._next_command = "bridge"
        self._leader: Process | None = None
        agenda.after(rng.uniform(0.5, 1.5), self._act)

    def finish(self) -> None:
        """From now on only forward."""
        self._may_finish = True

    def leave(self) -> None:
        """It is done."""
        self._left = True

    def _act(self) -> None:
        if self._left:
            return
        command, chance = self._next_command, self._rng.random()
        if not self._may_finish:
            if chance < 0.1 or command == "finalize":
                command = "rollback"
            elif chance < 0.2:
                command = self._rng.choice(("bridge", "import", "fence", "status"))
        self._send(command or "status")

    def _send(self, command: str) -> None:
        waiting = [True]

        def answered(answer: Any, _throttle_ms: int = 0) -> None:
            if waiting[0]:
                waiting[0] = False
                refused = isinstance(answer, ApiError)
                self._ledger.count(f"{command} {'refused' if refused else 'done'}")
                if isinstance(answer, Migrated):
                    self.phase, self._next_command = answer.phase, answer.next_command
                elif isinstance(answer, InvalidRequest):
                    self._next_command = "status"  # the other operator was here
                else:
                    self._leader = None
                self._agenda.after(self._rng.uniform(*PAUSE_S), self._act)

        if self._leader is None:
            self._leader = self._rng.choice(list(self._processes.values()))
        node = self._leader
        is_up = isinstance(node, UpgradingProcess) and node.up
        self._agenda.after(PATIENCE_S if is_up else 0.0, answered, ApiError("silence"))
        if isinstance(node, UpgradingProcess) and node.up:
            node.run(node.controller.migrator.command, Migrate(command, no_block_yet=True), answered)


class UpgradeSimulation(Simulation):
    """A cluster that is made for the upgrade, its ZooKeeper, and everybody around them."""

    process_type = UpgradingProcess
    client_type = UpgradingClient

    def __init__(
        self,
        seed: int,
        weather: Weather,
        zookeeper: ZookeeperWeather | None = None,
        *,
        node_count: int = 3,
    ) -> None:
        self._ranges = fencepost.bridge.migrator.RANGE_BLOCKS_MAX
        fencepost.bridge.migrator.RANGE_BLOCKS_MAX = RANGE_BLOCKS  # type: ignore[misc]
        invariants = (*INVARIANTS, self._new_eras_begin_after_fences)
        super().__init__(seed, node_count, weather, clients=CLIENTS, invariants=invariants)
        self.ensemble = SimulatedEnsemble(self.agenda, self.rng, zookeeper or ZookeeperWeather())
        for process in self.processes.values():
            assert isinstance(process, UpgradingProcess)
            process.ensemble = self.ensemble
        self.writers = [
            DirectWriter(
                broker, 2 + broker % 2, self.ensemble, self.agenda, self.rng, self.ledger, self._number
            )
            for broker in range(WRITERS[seed % len(WRITERS)])
        ]
        self.operators = [
            Operator(self.agenda, self.rng, self.ledger, self.processes) for _ in range(OPERATORS)
        ]
        self._era_floor: int | None = None  # where the first block of the new era must begin

    def heal(self) -> None:
        super().heal()
        self.ensemble.heal()

    def __enter__(self) -> "UpgradeSimulation":
        return self

    def close(self) -> None:
        fencepost.bridge.migrator.RANGE_BLOCKS_MAX = self._ranges  # type: ignore[misc]
        super().close()

    # -- what must hold ---------------------------------------------------------------------------

    def _new_eras_begin_after_fences(self, ledger: Ledger, news: News) -> None:
        """The floor of a switch, and the first block after it, are block_end + 1 of what was fenced."""
        fenced = dict(self.ensemble.model.fenced)
        for seen in news.seen:
            if ledger.entries[seen.index] is not seen:
                continue  # somebody showed it before
            for record in seen.upgrade:
                self._era_floor = None
                self.said(f"log {seen.index}: phase {Phase(record.phase).label}, floor {record.floor}")
                if record.phase == Phase.QUORUM:
                    require(record.fence_zk_version in fenced, "a switch without a fence", record=record)
                    end = next_block_of_kafka(fenced[record.fence_zk_version])[0]
                    require(
                        end == record.fence_block_end + 1, "another block was fenced", record=record, end=end
                    )
                    require(record.floor == end, "the floor is not block_end + 1", record=record, end=end)
                    self._era_floor = end
            for first, _ in seen.blocks:
                if self._era_floor is not None:
                    require(first == self._era_floor, "the new era begins elsewhere", first=first)
                self._era_floor = None

    # -- the end ----------------------------------------------------------------------------------

    def bring_to_an_end(self) -> None:
        """Without faults: forward until it is finalized; then old brokers are exhausted, new ones served."""
        self._guarded(self._bring_to_an_end)

    def _bring_to_an_end(self) -> None:
        for operator in self.operators:
            operator.finish()
        deadline = self.agenda.now + FINISH_S
        phases: set[Phase | None] = set()
        while self.agenda.now < deadline and phases != {Phase.FINALIZED}:
            self._wait()
            if self.agenda.now >= deadline - FINISH_S / 2:
                for writer in self.writers:  # fence says that others were faster: what an operator can do
                    writer.calm_down()
            phases = {self._phase(process) for process in self.processes.values()}
        if phases != {Phase.FINALIZED}:
            raise Violation(f"the upgrade did not come to its end: {phases}, {self._standing()}")
        for operator in self.operators:
            operator.leave()
        finalized_s, blocks = self.agenda.now, [writer.blocks for writer in self.writers]
        served = [client.successes for client in self.clients]
        self._run_until(self.agenda.now + 4.0)
        require([w.blocks for w in self.writers] == blocks, "a fenced writer got a block")
        require(all(w.exhausted_s > finalized_s for w in self.writers), "a fenced writer is not told")
        after = [client.successes for client in self.clients]
        require(
            all(now > was for now, was in zip(after, served, strict=True)), "nobody is served", after=after
        )

    @staticmethod
    def _phase(process: Process) -> Phase | None:
        return None if process.replica is None else current(process.replica.image).phase
