"""Storms of every fault that disks, clocks and networks have, in every cluster that there is.

Weather    each fault by itself (weather.ALONE), all of them at once, or one node of three that is bad as long
           as it lives: its disk fails, and its store and its files are damaged again and again.
Clusters   brokers, topics and settings; five voters with transactions and a group; an upgrade from ZooKeeper
           with transactions. The limits of the product are random in each of them.
Demanded   safety always; of a bad node's peers that they serve; after the faults that everything goes on.
"""

import random
from dataclasses import replace
from typing import Any, Final

from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from tests.simulation.coordinator import Coordinator, Told
from tests.simulation.files import damage_file, lose_snapshots
from tests.simulation.flips import flip
from tests.simulation.groups import GroupVoter, Readers
from tests.simulation.invariants import Violation
from tests.simulation.setting_operators import OF_A_TOPIC, OF_ALL_BROKERS, SettingOperator
from tests.simulation.simulation import HEAL_S, Simulation
from tests.simulation.topic_operators import TopicOperator
from tests.simulation.transactions import Quiet, TransactionSimulation
from tests.simulation.upgrade import UpgradeSimulation, UpgradingClient, UpgradingProcess
from tests.simulation.weather import ALONE, MIXED, Weather, scaled

STORM_S: Final = 10.0
OPERATORS: Final = 2
OF_THE_HIGHEST_LEVEL: Final = 0.8  # below it, settings of brokers are refused
BAD_CALLS: Final = 0.0005
DAMAGE_S: Final = (0.3, 2.5)
AROUND_A_BAD_NODE: Final = Weather(cuts=0.2, hand_overs=0.2, slow=0.02, drop=0.005, drift=0.05)
KINDS: Final = (*ALONE, "mixed", "bad node", "mixed")
CLUSTERS: Final = ("topics", "transactions", "upgrade")
_OF_GROUPS: Final = (JoinGroup, SyncGroup, HeartbeatGroup, LeaveGroup)


class WithTopics(Simulation):
    """Topics are made and deleted; settings of one, and of all brokers, change."""

    all_limits = True

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.operators_of_topics = [
            TopicOperator(f"topic-{number}", self.agenda, self.rng, self.ledger, self.processes)
            for number in range(OPERATORS)
        ]
        self.operators_of_settings: list[SettingOperator] = []
        if kind_of(self.seed) != "changed rows":  # written again before it is found: the less, see flips.py
            self._make_operators_of_settings()

    def _make_operators_of_settings(self) -> None:
        if random.Random(f"level {self.seed}").random() < OF_THE_HIGHEST_LEVEL:
            for process in self.processes.values():
                process.log_level_formatted = LEVEL_MAX
        self.operators_of_settings += (
            SettingOperator(each, self.agenda, self.rng, self.ledger, self.processes)
            for each in (OF_ALL_BROKERS, OF_A_TOPIC)
        )

    def __enter__(self) -> "WithTopics":
        return self

    def demand_all(self) -> None:
        """The faults are over: everything goes on."""
        self.restart_changed()
        self.demand_progress()
        self._guarded(self._demand_looks)

    def _demand_looks(self) -> None:
        before = [each.looks for each in self.operators_of_settings]
        deadline = self.agenda.now + HEAL_S
        while any(each.looks == was for each, was in zip(self.operators_of_settings, before, strict=True)):
            if self.agenda.now >= deadline:
                raise Violation(f"settings cannot be read: {self._standing()}")
            self._wait()


class BadNode(WithTopics):
    """One node is bad, the whole time."""

    watches_calls = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 3, AROUND_A_BAD_NODE)
        self.bad = self.processes[NodeId(1 + seed // len(KINDS) % 3)]
        self.is_bad = True
        for (
            process
        ) in self.processes.values():  # two values at a time: below, an image without a seal is taken
            process.log_level_formatted = LEVEL_MAX
        self.bad.disk.share = BAD_CALLS
        self.bad.keeps_earlier = True
        self.agenda.after(self.rng.uniform(*DAMAGE_S), self._damage)

    def _damage(self) -> None:
        if not self.is_bad:
            return
        self.agenda.after(self.rng.uniform(*DAMAGE_S), self._damage)
        bad = self.bad
        bad.kill(power_loss=self.rng.random() < 0.3)
        kind = self.rng.choice(("flip", "tear", "lost flush", "file", "file", "image and snapshots"))
        if kind == "file":
            what = damage_file(bad.directory, self.rng)
            bad.files_damaged = bad.files_damaged or what is not None
        elif kind == "flip":
            what = flip(bad.directory, self.rng)
        elif kind == "image and snapshots":  # nothing is left to make the image of
            lose_snapshots(bad.directory)
            bad.files_damaged = True
            what = flip(bad.directory, self.rng, (b"image",))
        else:
            what = bad.earlier.tear() if kind == "tear" else bad.earlier.bring_back()
        if what is not None:
            bad.is_damaged = bad.is_damaged or kind != "file"
            self.said(f"{bad.node_id}, the bad one: {what}")
            self.ledger.count(f"bad node: {kind}")
        self.faults.restart_later(bad)

    def demand_all(self) -> None:
        """Its peers serve beside it; then it is a good one, and comes back."""
        self._guarded(self._demand_service)
        self.is_bad = False
        self.bad.disk.share = None
        self.heal()
        super().demand_all()

    def _demand_service(self) -> None:
        before = [client.successes for client in self.clients]
        deadline = self.agenda.now + HEAL_S
        while any(client.successes <= was + 5 for client, was in zip(self.clients, before, strict=True)):
            if self.agenda.now >= deadline:
                raise Violation(f"the peers of a bad node do not serve: {self._standing()}")
            self._wait()


class MixedVoter(Coordinator, GroupVoter):
    """A voter that coordinates transactions and groups."""

    def ask(self, request: Any, told: Told) -> None:
        """See Coordinator."""
        Coordinator.ask(self, request, told)

    def _serve(self, life: int, request: Any, told: Told) -> None:
        serve = GroupVoter._serve if isinstance(request, _OF_GROUPS) else Coordinator._serve
        serve(self, life, request, told)


class WithTransactions(TransactionSimulation, Readers, WithTopics):
    """Five voters with transactional producers, brokers, a group, and topics."""

    process_type = MixedVoter

    def __init__(self, seed: int, node_count: int, weather: Weather, **named: Any) -> None:
        super().__init__(seed, node_count, weather, **named)
        for process in self.processes.values():
            process.log_level_formatted = LEVEL_MAX
        self.world.keep_late_adds = False  # a known hole of V1: see producers.py
        self.make_readers()

    def __enter__(self) -> "WithTransactions":
        return self

    def demand_all(self) -> None:
        """See WithTopics."""
        self.demand_commits()
        self.demand_stability()
        super().demand_all()


class UpgradingVoter(UpgradingProcess, MixedVoter):
    """A voter of a cluster that upgrades, and coordinates transactions and groups."""


class UpgradingQuiet(Quiet, UpgradingClient):
    """A new broker that mostly heartbeats, and does not know where its blocks come from."""


class UpgradeWithTransactions(UpgradeSimulation, WithTransactions):
    """A cluster that upgrades from ZooKeeper while transactions run."""

    process_type = UpgradingVoter
    client_type = UpgradingQuiet

    def __enter__(self) -> "UpgradeWithTransactions":
        return self

    def demand_all(self) -> None:
        """See WithTopics."""
        self.bring_to_an_end()
        super().demand_all()


def name_of(seed: int) -> str:
    """What a seed means."""
    return f"{kind_of(seed)}, {_cluster_of(seed)}"


def kind_of(seed: int) -> str:
    """Which faults."""
    return KINDS[seed % len(KINDS)]


def _cluster_of(seed: int) -> str:
    kind = kind_of(seed)
    cluster = CLUSTERS[seed // len(KINDS) % len(CLUSTERS)]
    # What a leader answers from a row that changed a moment ago is outside of what is promised.
    return "topics" if kind in ("bad node", "changed rows") else cluster


def simulation_of(seed: int) -> WithTopics:
    """The simulation, not run yet."""
    kind, cluster = kind_of(seed), _cluster_of(seed)
    if kind == "bad node":
        return BadNode(seed)
    weather = scaled(MIXED if kind == "mixed" else ALONE[kind], random.Random(f"mixed {seed}"))
    if cluster == "topics":
        return WithTopics(seed, 5 if seed // len(KINDS) % 4 == 3 else 3, weather)
    weather = replace(weather, changes=0.0)
    if cluster == "transactions":
        return WithTransactions(seed, 5, weather)
    return UpgradeWithTransactions(seed, weather)


def weather_the_mixed(seed: int, storm_s: float = STORM_S) -> WithTopics:
    """Run a seed: safety under faults, then liveness without. Raises simulation.Failed."""
    with simulation_of(seed) as sim:
        sim.run(storm_s)
        sim.heal()
        sim.demand_all()
        for process in sim.processes.values():
            sim.ledger.count("calls that failed", process.disk.failed_calls)
            sim.ledger.count("names lost", process.names.lost)
            sim.ledger.count("lost flushes without a trace", process.earlier.untraced)
    return sim
