"""One voter's process under virtual time: a real driver on a real directory, its timers, its deaths.

In the place of node/active_controller.py: events go into the driver (node/driver.py), its obligations are
carried out on the simulated network and agenda. A flush takes time and holds up everything else. A stopped
process hears nothing until it continues, then everything at once, late. A killed one loses the open LMDB
transaction and what its archive had not written. It may die between two obligations of one event. A disk
that fails (bad_disk.py) must end it.
"""

import random
import shutil
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import lmdb
from structlog.typing import FilteringBoundLogger

from fencepost.bridge.zookeeper_port import ZookeeperPort
from fencepost.controller.authorization import Acls
from fencepost.node.driver import (
    MAINTAIN_S,
    SWEEP_S,
    TICK_S,
    Background,
    CallAfter,
    Driver,
    End,
    Halt,
    Obligation,
    Obligations,
    Send,
    Service,
    TickAfter,
)
from fencepost.node.metrics import NodeMetrics
from fencepost.node.server import ControllerServer
from fencepost.quorum.messages import Vote, decode
from fencepost.quorum.peer_clocks import PeerClocks
from fencepost.quorum.port import Decide, Reply, Task
from fencepost.quorum.replica import Replica
from fencepost.records.types import NodeId, Term
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.snapshots.store import STORE_FAILURES
from fencepost.snapshots.sums import SealBroken
from tests.simulation.agenda import Agenda
from tests.simulation.bad_disk import BadDisk
from tests.simulation.clocks import Clocks
from tests.simulation.config import CLUSTER, DISK_FREE_MIN, config_of
from tests.simulation.ledger import Ledger
from tests.simulation.lost_writes import Earlier, Names
from tests.simulation.network import Network
from tests.simulation.power_loss import Unsynced, close_files
from tests.simulation.starting import Starting, release
from tests.simulation.thread import Killed, Thread
from tests.simulation.trace_log import Log
from tests.simulation.watch import Watcher, require_no_failure, watch


class Process(Starting):
    """See the module. ``trace`` gets one line per event."""

    controller: ControllerServer  # of this life

    def __init__(
        self,
        node_id: NodeId,
        root: Path,
        agenda: Agenda,
        clocks: Clocks,
        rng: random.Random,
        ledger: Ledger,
        *,
        voter_ids: frozenset[NodeId],
        initial_voters: Mapping[NodeId, uuid.UUID] | None,
        directory_id: uuid.UUID,
        on_active: Callable[["Process", int], None],
        on_ended: Callable[["Process"], None],
        trace: Callable[[str], None],
    ) -> None:
        self.node_id = node_id
        self.directory = root / f"node-{node_id}"
        self.directory_id = directory_id
        self.initial_voters = initial_voters
        self.driver: Driver | None = None
        self.replica: Replica | None = None  # the driver's
        self.life = 0
        self.free_bytes = 2 * DISK_FREE_MIN
        self.full = False  # it was told that its disk is full
        self.network: Network | None = None  # they need each other
        self.planted: set[str] = set()  # decisions that a test makes fail
        self.doomed = False  # dies at its next frame
        self._agenda = agenda
        self._clocks = clocks
        self._rng = rng
        self._ledger = ledger
        self._voter_ids = voter_ids
        self._on_active = on_active
        self._on_ended = on_ended
        self._trace = trace
        self._log = cast(FilteringBoundLogger, Log(node_id, trace))
        self._thread = Thread(agenda, self._event, lambda: False)
        self._flushed = False  # by the event that runs
        self.unsynced = Unsynced(self.directory, rng)
        self.disk = BadDisk(rng, self._weather)
        self.names = Names(self.directory, rng)
        self.earlier = Earlier(self.directory, rng)
        self._metrics = NodeMetrics()

    # -- life -------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """It runs, or is stopped."""
        return self.replica is not None

    @property
    def stopped(self) -> bool:
        """SIGSTOP."""
        return self._thread.stops > 0

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.up:
            return
        life = self.life = self.life + 1
        self.doomed = self.full = False
        self._thread = Thread(self._agenda, self._event, partial(self._lives, life))
        self._clocks.rate = self.clock_rate
        self.disk.begin()
        try:
            self.driver = self._with_its_store()
        except Exception as error:
            self.disk.end()
            if not self.disk.caused(error):
                raise
            release(self.directory, self.disk)
            self._trace(f"{self.node_id} does not start: {error}")
            self._ledger.count("starts that failed")
            self._on_ended(self)
            return
        self.disk.alive = False  # the calls of what follows are the simulation's
        self.replica = self.driver.replica
        self.replica.firewall.clocks = PeerClocks(len(self._voter_ids), self.clock, self.wall)
        watch(self.replica, self._ledger, self._at_flush)
        self.disk.watch(self.replica)
        self.driver.services = self._services(life)
        self._ledger.started(self.node_id, self.replica)
        self.unsynced.watch(self.replica.archiver.archives.values())
        self.disk.alive = True
        timers = ((TICK_S, self.driver.tick), (MAINTAIN_S, self._maintain), (SWEEP_S, self._sweep))
        for period_s, event in timers:
            self._agenda.after(self._rng.uniform(0.0, period_s), self._timer, life, period_s, event)
        if self.network is not None:
            self.network.started(self.node_id)

    def kill(self, *, power_loss: bool = False) -> None:
        """SIGKILL: what was not flushed is gone; with ``power_loss`` also what the archive did not sync."""
        replica, self.replica, self.driver = self.replica, None, None
        if replica is None:
            return
        self.disk.end()
        self._trace(f"{self.node_id} killed" + (" with power loss" if power_loss else ""))
        replica.store.abandon()
        for archive in replica.archiver.archives.values():
            close_files(archive)
        if power_loss:
            self.unsynced.lose()
            self.is_torn = True
            if self._rng.random() < self._weather().lost_names if self._weather().lost_names else False:
                self.names.lose()
        else:
            self.names.forget()
        if self.network is not None:
            self.network.died(self.node_id)

    def end(self) -> None:
        """SIGTERM: it hands leadership over, and ends when its driver says so."""
        if self.driver is not None:
            self._trace(f"{self.node_id} hands over")
            self.run(self.driver.hand_over)

    def _end(self) -> None:
        if self.driver is None:
            return
        self.driver.stop()
        self.driver.close()
        self.disk.end()
        self.driver = self.replica = None
        self._trace(f"{self.node_id} ended")
        if self.network is not None:
            self.network.died(self.node_id)
        self._on_ended(self)

    def wipe(self, directory_id: uuid.UUID) -> None:
        """The directory of a dead process is lost and formatted again."""
        self._trace(f"{self.node_id} wiped, now directory {directory_id}")
        shutil.rmtree(self.directory)
        self.directory_id = directory_id
        self.initial_voters = None
        for each in (self.unsynced, self.names, self.earlier):
            each.forget()

    def stop(self) -> None:
        """SIGSTOP."""
        self._thread.stops += 1

    def go_on(self, life: int) -> None:
        """SIGCONT, if it is still the same process."""
        if self.up and self.life == life and self.stopped:
            self._thread.stops -= 1
            self._thread.wake()

    # -- what happens -----------------------------------------------------------------------------

    def hear(self, event: str, peer: NodeId, *facts: object) -> None:
        """Something that links.py would tell the driver."""
        if self.driver is not None:
            self.run(getattr(self.driver, event), peer, *facts)

    def submit(self, decide: Decide[Any], reply: Reply[Any], **how: Any) -> None:
        """A decision, of a request or of a service. Call it on the process's thread: see ``run``."""
        if self.driver is not None:
            self._carry_out(self.driver.submit(decide, reply, **how))

    def run(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Make a call on the process's one thread, now or when it can, and carry out what it obliges to."""
        if self.up:
            self._thread.run(call, *arguments)

    def _run_in(self, life: int, call: Callable[..., Any], *arguments: Any) -> None:
        if self._lives(life):
            self.run(call, *arguments)

    def _lives(self, life: int) -> bool:
        return self.driver is not None and self.life == life

    def _event(self, call: Callable[..., Any], *arguments: Any) -> None:
        """One event, and its obligations, to the last; or death in the middle."""
        self._flushed = False
        self._clocks.rate = self.clock_rate
        try:
            obligations: Obligations = call(*arguments) or ()
            self.disk.require_halt(obligations)
            if self.replica is not None:
                self._ledger.looked_at(self.replica)
                require_no_failure(self.replica, self.planted, self.node_id in self._ledger.changed)
            self._carry_out(obligations, self._flush_s())
        except (Killed, OSError, RowsChanged, *STORE_FAILURES) as error:
            if not isinstance(error, Killed) and not self._is_meant(error):
                raise
            self.kill()
            self._on_ended(self)

    def _flush_s(self) -> float:
        """How long the flush of this event takes. Until then the process does nothing else."""
        flush_s: float = self._weather().one_flush_s(self._rng) if self._flushed else 0.0
        self._thread.busy_until = self._agenda.now + flush_s
        return flush_s

    def _carry_out(self, obligations: Obligations, held_s: float = 0.0) -> None:
        for each in obligations:
            self._oblige(each, held_s)

    def _oblige(self, obligation: Obligation, held_s: float) -> None:
        """Carry one out. ``held_s``: so long the event's flush takes."""
        driver = self.driver
        assert driver is not None
        if isinstance(obligation, Send):
            self._send(obligation.peer, obligation.frame, held_s)
        elif isinstance(obligation, TickAfter):
            self._after(held_s, obligation.seconds, driver.tick)
        elif isinstance(obligation, CallAfter):
            self._after(held_s, obligation.seconds, driver.resume, obligation.call)
        elif isinstance(obligation, Background):
            self._background(obligation.task)
        elif isinstance(obligation, End):
            self._agenda.after(held_s, self._run_in, self.life, self._end)
        elif isinstance(obligation, Halt):
            if not self._is_meant(obligation.error):
                raise obligation.error
            self._trace(f"{self.node_id} halts in {obligation.where}: {obligation.error}")
            self._ledger.count("halts")
            raise Killed
        else:
            wait_s = held_s + self._rng.uniform(0.0, 0.0005)
            self._agenda.after(wait_s, self._run_in, self.life, driver.turn)

    def _after(self, held_s: float, seconds: float, call: Callable[..., Any], *arguments: Any) -> None:
        """A timer by the clock of this process."""
        self._agenda.after(held_s + seconds / self.clock_rate, self._run_in, self.life, call, *arguments)

    def _timer(self, life: int, period_s: float, event: Callable[[], Obligations]) -> None:
        if not self._lives(life):
            return
        self._agenda.after(period_s / self.clock_rate, self._timer, life, period_s, event)
        if not self.stopped:  # the timers of a stopped process fire once when it continues: the next ones do
            self.run(event)

    def _maintain(self) -> Obligations:
        if self.network is not None:
            self.network.require_level(self.node_id)
        return self.driver.maintain() if self.driver is not None else ()

    def _sweep(self) -> Obligations:
        self.full = self.free_bytes < DISK_FREE_MIN
        self.wall.look()
        return self.driver.sweep(self.free_bytes) if self.driver is not None else ()

    def _weather(self) -> Any:
        assert self.network is not None
        return self.network.weather

    def _send(self, peer: NodeId, frame: bytes, held_s: float) -> None:
        assert self.network is not None
        if self.doomed or self._rng.random() < self._weather().crash_in_send:
            raise Killed
        message = decode(frame)
        if isinstance(message, Vote):
            self._ledger.voted(self.node_id, self.directory_id, Term(message.term), peer)
        self.network.send(self.node_id, peer, frame, held_s)

    def _background(self, task: Task) -> None:
        """Another thread: the work happens in one go a little later, its result is told later still."""
        life = self.life

        def execute() -> None:
            if self._lives(life):
                try:
                    with self.disk.working():
                        task.run()
                except Exception as error:
                    is_named = isinstance(error, (OSError, lmdb.Error, SealBroken))
                    if not is_named and self.node_id not in self._ledger.changed:
                        raise
                    task.fail(error)
                self._agenda.after(self._rng.uniform(0.0, 0.2), self._run_in, life, ended)

        def ended() -> Obligations:
            self.disk.work_ends()
            return self.driver.ended(task) if self.driver is not None else ()

        self._agenda.after(self._rng.uniform(0.0, 0.2), execute)

    def _services(self, life: int) -> tuple[Service, ...]:
        """What runs on the active controller, as node/active_controller.py has it."""
        assert self.replica is not None
        self.controller = ControllerServer(
            config_of(self.node_id, self._voter_ids),
            CLUSTER,
            self.replica,
            self.submit,
            self._metrics,
            Acls(),
            dict,
            call_later=lambda _seconds, _call: None,  # for Metadata alone, which no simulated client sends
            zookeeper=self._zookeeper(life),
            clock=self.clock,
            reach=self._reach,
            rng=self._rng,
            log=self._log,
        )
        return (Watcher(self._activated), self.controller)

    def _zookeeper(self, _life: int) -> ZookeeperPort | None:
        """What the migration speaks to."""
        return None

    def _reach(self, point: str) -> None:
        """A crash point of the migration."""

    def _activated(self, now_ms: int) -> None:
        term = Term(self.replica.raft.term if self.replica else 0)
        self._trace(f"{self.node_id} active in epoch {term}")
        self._ledger.activated(term, now_ms)
        self._on_active(self, now_ms)

    def _at_flush(self, is_done: bool) -> None:
        self._flushed = self._flushed or is_done
        if is_done and self.replica is not None:
            self.note_flush(self.replica.journal)
        loses = self.up and (self.keeps_earlier or self._weather().tears or self._weather().lost_flushes)
        if is_done and loses:
            self.earlier.flushed()
        if self.up and self._rng.random() < self._weather().crash_in_flush:
            raise Killed
