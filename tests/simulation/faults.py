"""Chaos: which fault comes next, on whom, and when it ends. Never more than the design must survive.

Any number of processes may be down, stopped or cut off at a time. But directories are lost only while
fewer than half of the voters are without their memory: a wiped voter counts as such until the committed
log binds its new directory (docs/design.md 4).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.records.types import NodeId
from fencepost.snapshots.rows import TABLES
from tests.simulation.config import DISK_FREE_MIN
from tests.simulation.files import damage_file
from tests.simulation.flips import change_memory, change_store, flip
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

CLOCK_JUMP_S = 3.0
JUMP_DAYS = 8
DAY_MS = 24 * 3_600_000


class Faults:
    """Schedules itself from the simulation's weather until ``end``."""

    def __init__(self, sim: "Simulation") -> None:
        self._sim = sim
        self._on = True
        self._blocks: list[list[tuple[NodeId, NodeId]]] = []
        for kind in (
            "cut",
            "partition",
            "crash",
            "stop",
            "wipe",
            "flip",
            "change",
            "hand_over",
            "fill",
            "jump",
            "tear",
            "lose_flush",
            "flip_file",
            "cut_pair",
            "silence",
        ):
            self._schedule(kind)
        if sim.weather.skew_ms:
            sim.agenda.after(sim.rng.expovariate(1 / CLOCK_JUMP_S), self._set_clock)

    def end(self) -> None:
        """No further fault, and those that last end now."""
        self._on = False
        for pairs in self._blocks:
            self._sim.network.unblock(pairs)
        self._blocks = []

    def _rate(self, kind: str) -> float:
        weather = self._sim.weather
        rates = {
            "cut": weather.cuts,
            "partition": weather.partitions,
            "crash": weather.crashes,
            "stop": weather.stops,
            "wipe": weather.wipes,
            "flip": weather.flips,
            "change": weather.changes,
            "hand_over": weather.hand_overs,
            "fill": weather.fills,
            "jump": weather.jumps,
            "tear": weather.tears,
            "lose_flush": weather.lost_flushes,
            "flip_file": weather.file_flips,
            "cut_pair": weather.pair_cuts,
            "silence": weather.silences,
        }
        return rates[kind]

    def _schedule(self, kind: str) -> None:
        rate = self._rate(kind)
        if rate > 0:
            self._sim.agenda.after(self._sim.rng.expovariate(rate), self._strike, kind)

    def _strike(self, kind: str) -> None:
        if self._on:
            self._schedule(kind)
            getattr(self, f"_{kind}")()

    def _victim(self) -> Process:
        """Any process; every other time the leader, for it has most to lose."""
        sim = self._sim
        leaders = [p for p in sim.processes.values() if p.replica is not None and p.replica.raft.is_leader]
        everybody = list(sim.processes.values())
        return sim.rng.choice(leaders if leaders and sim.rng.random() < 0.5 else everybody)

    # -- connections ------------------------------------------------------------------------------

    def _cut(self) -> None:
        source, target = self._sim.rng.sample(sorted(self._sim.processes), 2)
        self._sim.said(f"connection {source} -> {target} cut")
        self._sim.network.cut(source, target)

    def _partition(self) -> None:
        """Two sides; the frames of one direction or of both wait. Or two nodes that others still reach."""
        sim, rng = self._sim, self._sim.rng
        nodes = sorted(sim.processes)
        pairs: list[tuple[NodeId, NodeId]]
        if rng.random() < 0.3:
            source, target = rng.sample(nodes, 2)
            pairs = [(source, target)] if rng.random() < 0.5 else [(source, target), (target, source)]
        else:
            side = set(rng.sample(nodes, rng.randint(1, len(nodes) - 1)))
            if rng.random() < 0.5:
                side = {self._victim().node_id}
            there = [(a, b) for a in nodes for b in nodes if a in side and b not in side]
            back = [(b, a) for a, b in there]
            pairs = rng.choice((there, back, there + back, there + back))
        sim.said(f"partition {pairs}")
        self._block(pairs, rng.random() < 0.5)

    def _cut_pair(self) -> None:
        """Two nodes do not hear each other; every other one hears both."""
        sim, rng = self._sim, self._sim.rng
        source, target = rng.sample(sorted(sim.processes), 2)
        sim.said(f"{source} and {target} do not hear each other")
        sim.ledger.count("pairs cut")
        self._block([(source, target), (target, source)], rng.random() < 0.5)

    def _silence(self) -> None:
        """Frames wait, in one direction, as long as the storm lasts; the connection stays."""
        sim = self._sim
        source, target = sim.rng.sample(sorted(sim.processes), 2)
        if [(source, target)] not in self._blocks:
            sim.said(f"nothing comes from {source} to {target} any more")
            sim.ledger.count("silences")
            sim.network.block([(source, target)])
            self._blocks.append([(source, target)])

    def _block(self, pairs: list[tuple[NodeId, NodeId]], cut_at_end: bool) -> None:
        sim = self._sim
        sim.network.block(pairs)
        self._blocks.append(pairs)
        sim.agenda.after(sim.rng.uniform(*sim.weather.partition_s), self._reconnect, pairs, cut_at_end)

    def _reconnect(self, pairs: list[tuple[NodeId, NodeId]], cut: bool) -> None:
        if pairs not in self._blocks:
            return
        self._blocks.remove(pairs)
        self._sim.said(f"partition {pairs} over")
        if cut:
            for source, target in pairs:
                self._sim.network.cut(source, target)
        self._sim.network.unblock(pairs)

    def cut_off(self, node: NodeId, seconds: float) -> None:
        """No voter hears that one, nor it any of them. Clients still reach it."""
        others = [each for each in sorted(self._sim.processes) if each != node]
        pairs = [(node, each) for each in others] + [(each, node) for each in others]
        self._sim.said(f"{node} is cut off")
        self._sim.network.block(pairs)
        self._blocks.append(pairs)
        self._sim.agenda.after(seconds, self._reconnect, pairs, False)

    # -- processes --------------------------------------------------------------------------------

    def _crash(self) -> None:
        victim, rng = self._victim(), self._sim.rng
        if not victim.up:
            return
        if rng.random() < 0.3:
            victim.doomed = True  # in the middle of its next turn
            return
        victim.kill(power_loss=rng.random() < self._sim.weather.power_loss)
        self.restart_later(victim)

    def restart_later(self, process: Process) -> None:
        """A supervisor starts it again."""
        self._sim.ledger.count("kills")
        self._sim.agenda.after(self._sim.rng.uniform(*self._sim.weather.downtime_s), self._start, process)

    def _start(self, process: Process) -> None:
        if not process.up:
            self._sim.said(f"{process.node_id} started")
            process.start()

    def _stop(self) -> None:
        victim = self._victim()
        if victim.up:
            self._sim.said(f"{victim.node_id} stopped")
            victim.stop()
            stop_s = self._sim.rng.uniform(*self._sim.weather.stop_s)
            self._sim.agenda.after(stop_s, victim.go_on, victim.life)

    def _wipe(self) -> None:
        sim, victim = self._sim, self._victim()
        if not self._may_forget(victim):
            return
        victim.kill()
        victim.wipe(sim.new_uuid())
        sim.ledger.count("wipes")
        self.restart_later(victim)

    def _may_forget(self, victim: Process) -> bool:
        """Fewer than half of the voters are without their memory, this one included."""
        sim = self._sim
        bound = sim.ledger.bound
        forgetful = [
            p
            for p in sim.processes.values()
            if p.is_damaged or p.node_id in sim.ledger.changed or bound.get(p.node_id) != p.directory_id
        ]
        return bool(bound) and victim not in forgetful and len(forgetful) + 1 <= (len(sim.processes) - 1) // 2

    def _flip(self) -> None:
        def damage(victim: Process) -> str | None:
            what = flip(victim.directory, self._sim.rng)
            victim.is_flipped = what is not None
            return what

        self._damage("flips", damage)

    def _tear(self) -> None:
        """A part of what a flush wrote is not there."""
        self._damage("tears", lambda victim: victim.earlier.tear())

    def _lose_flush(self) -> None:
        """What was flushed is not there, though the disk said so."""

        def damage(victim: Process) -> str | None:
            what = victim.earlier.bring_back()
            victim.is_earlier = what is not None
            return what

        self._damage("lost flushes", damage)

    def _damage(self, name: str, damage: Callable[[Process], str | None]) -> None:
        """Kill a process, and change its store, unless too many are without their memory."""
        sim, victim = self._sim, self._victim()
        if not self._may_forget(victim):
            return
        victim.kill()
        what = damage(victim)
        if what is not None:
            victim.is_damaged = True
            sim.said(f"{victim.node_id} damaged: {what}")
            sim.ledger.count(name)
        self.restart_later(victim)

    def _flip_file(self) -> None:
        """A file beside the store is not what was written. Votes do not depend on it."""
        sim, victim = self._sim, self._victim()
        victim.kill()
        what = damage_file(victim.directory, sim.rng)
        if what is not None:
            victim.files_damaged = True
            sim.said(f"{victim.node_id}: {what}")
            sim.ledger.count("file flips")
        self.restart_later(victim)

    def _change(self) -> None:
        """Bytes of a running process's image change."""
        sim, victim = self._sim, self._victim()
        if victim.replica is None or victim.stopped or not self._may_forget(victim):
            return
        kind = sim.rng.choice(("memory", "store"))
        role = "leader" if victim.replica.raft.is_leader else "follower"
        if kind == "memory":
            at = change_memory(victim.replica, sim.rng)
            what = None if at is None else f"memory of {at}"
            if at is not None:
                row = (at[0], TABLES[at[0]].encode_key(at[1]))
                sim.ledger.changed_rows.setdefault(victim.node_id, set()).add(row)
                sim.ledger.changed_ever.add(row)
        else:
            what = change_store(victim.replica, sim.rng)
        if what is not None:
            sim.ledger.changed.add(victim.node_id)
            sim.said(f"{victim.node_id} changed, {role}: {what}")
            sim.ledger.count(f"{kind} of a {role}")

    def _hand_over(self) -> None:
        """A clean stop; started again later."""
        self._victim().end()

    def _fill(self) -> None:
        """Another program writes, or removes what it wrote."""
        victim = self._victim()
        victim.free_bytes = self._sim.rng.randint(0, 2 * DISK_FREE_MIN - 1)
        self._sim.said(f"{victim.node_id} has {victim.free_bytes} bytes left")

    def _set_clock(self) -> None:
        """A wall clock is set, by hand or by NTP."""
        sim = self._sim
        if self._on:
            sim.agenda.after(sim.rng.expovariate(1 / CLOCK_JUMP_S), self._set_clock)
            self._victim().skew_ms = sim.rng.randint(-sim.weather.skew_ms, sim.weather.skew_ms)

    def _jump(self) -> None:
        """By days, ahead or back, or to where it was; of one node, or of all together. Most start again."""
        sim = self._sim
        skew_ms = sim.rng.choice((0, JUMP_DAYS, -JUMP_DAYS)) * DAY_MS
        jumping = list(sim.processes.values()) if sim.rng.random() < 0.4 else [self._victim()]
        for process in jumping:
            process.skew_ms = skew_ms
        if sim.rng.random() < 0.7:
            for process in jumping:
                if process.up:
                    process.kill()
                    self.restart_later(process)
        sim.said(f"clocks of {[each.node_id for each in jumping]} are {skew_ms} ms ahead")
        sim.ledger.count("jumps")
