"""The driver of a voter: events in, obligations out. It has no socket, timer or thread.

The process (node/active_controller.py) and the simulation (tests/simulation/process.py) run this file. They
call one method for each event, and carry out what it returns, in its order and to the last, before they call
the next one.

The order is the safety argument
  event        changes memory and the store's open transaction. What it says of this node's disk (acks, votes,
               a candidate's request) is parked; entries are not parked, they say nothing of it.
  turn, first  flushes, synchronously: everything that any earlier event appended or voted is on disk.
  turn, then   releases acks and votes, ticks the Raft core, applies, replies, proposes (quorum/replica.py).
               Every tick of the Raft core is in here, so none comes between an append and its flush.
  obligations  leave after the event has returned: acks and votes that are on disk, and entries that may
               not be yet. A ``Turn`` is the last, so that entries reach the sockets before the flush that the
               turn begins with: the followers flush at the same time as this node.
An event that raises is our bug or a disk that fails. It gives ``Halt`` alone: the frames that it had made
are dropped with it, and no event does anything any more. A restart recovers from what is on disk.

Obligations are a list of small structs, not calls of a port, so that a test compares lists. A frame costs
some 0.1 microseconds more so; a Raft entry costs its leader four of them, and half a millisecond.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias
from uuid import UUID

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from fencepost.controller.birth import decide_birth
from fencepost.controller.decision import Decision
from fencepost.controller.errors import StorageFull
from fencepost.controller.view import View
from fencepost.quorum.linger import LINGER_S
from fencepost.quorum.messages import Message
from fencepost.quorum.port import Decide, R, Reply, Task, Ts, Work, name_of
from fencepost.quorum.raft_log import FOLLOWER
from fencepost.quorum.replica import Replica
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.quorum.succession import FULL
from fencepost.records.types import NodeId
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.snapshots.store import HALTING
from fencepost.wire.dispatch import Closing
from fencepost.wire.stalls import Stalls

TICK_S: Final = 0.01
MAINTAIN_S: Final = 0.05
SWEEP_S: Final = 0.5  # sessions, disk space
HAND_OVER_S: Final = 1.0  # at most, of a clean stop
SERVICE_LOG_S: Final = 30.0  # between two lines on the same step of a service that fails


class Send(Struct, frozen=True):
    """Send a frame to a voter, or lose it if there is no connection."""

    peer: NodeId
    frame: bytes


class TickAfter(Struct, frozen=True):
    """Call ``tick`` in so many seconds, besides the periodic ones."""

    seconds: float


class CallAfter(Struct, frozen=True):
    """Call ``resume`` with ``call`` in so many seconds; 0: as soon as what has arrived is in."""

    seconds: float
    call: Callable[[], None]


class Background(Struct, frozen=True):
    """Run ``task`` on another thread, or let it fail; then call ``ended`` with it."""

    task: Task


class Halt(Struct, frozen=True):
    """End the process now, without another word to anyone."""

    where: str
    error: BaseException


class End(Struct, frozen=True):
    """The clean stop that ``hand_over`` began may end now: call ``stop``, then ``close``."""


class Turn(Struct, frozen=True):
    """Call ``turn`` soon: after what was sent is with the sockets, and what has arrived is received."""


Obligation: TypeAlias = Send | TickAfter | CallAfter | Background | Halt | End | Turn
Obligations: TypeAlias = Sequence[Obligation]

NOTHING: Final[Obligations] = ()
TURN: Final = Turn()


class Service(Protocol):
    """What runs on the active controller, on top of the log."""

    def activated(self, now_ms: int) -> None:
        """This node decides from now on."""

    def deposed(self) -> None:
        """This node does not decide any more."""

    def maintain(self, now_ms: int) -> None:
        """Every ``MAINTAIN_S`` while this node decides."""

    def sweep(self, now_ms: int) -> None:
        """Every ``SWEEP_S`` while this node decides."""


class Driver:
    """One voter. ``services`` are set before the first event. All calls come from one thread."""

    def __init__(
        self,
        config: ReplicaConfig,
        *,
        disk_free_bytes_min: int,
        migrating: bool,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        rng: random.Random,
        stalls: Stalls | None = None,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self._log = log or structlog.get_logger()
        self._stalls = stalls or Stalls(clock=clock, cpu_clock=clock)
        self._clock = clock
        self._disk_free_bytes_min = disk_free_bytes_min
        self._migrating = migrating
        self._out: list[Obligation] = []
        self._running = False  # inside an event: it returns what the calls that it leads to oblige to
        self._turn_wanted = False
        self._turn_given = False  # a ``Turn`` is out, ``turn`` not called yet
        self._logged_s: dict[str, float] = {}  # step of a service -> when its failure was logged
        self.disk_full = False
        self.stopped = False
        self.handed_over = False
        self._leaves_at_s: float | None = None  # a clean stop is under way, and ends then at the latest
        self._left = False  # its ``End`` is out
        self.services: tuple[Service, ...] = ()
        self.replica = Replica(
            config,
            send=self._send,
            clock=clock,
            wall_ms=wall_ms,
            background=self._in_background,
            rng=rng,
            on_active=self._activated,
            on_deposed=self._deposed,
            log=self._log,
        )
        self.replica.store.around_flush = self._stalls.flush

    # -- requests -----------------------------------------------------------------------------------

    def submit(
        self, decide: Decide[R], reply: Reply[R], *, deferrable: bool = False, closing: Closing | None = None
    ) -> Obligations:
        """Decide as active controller, reply when it is applied; see Proposer. Full disk: StorageFull."""
        proposer = self.replica.proposer
        if self.disk_full or self.stopped:
            if self.stopped:
                return NOTHING
            if proposer.active:
                least = self._disk_free_bytes_min
                reply(StorageFull(f"less than {least} bytes are free (disk.free.min.bytes)"), 0)
                return NOTHING
        if proposer.submit(decide, reply, deferrable=deferrable, closing=closing):
            self._turn_wanted = True
            if not self._running and not self._turn_given:
                return self._take()
        return NOTHING

    # -- peers --------------------------------------------------------------------------------------

    def received(self, peer: NodeId, message: Message) -> Obligations:
        """A peer's frame. Its turn comes at once, for the peer waits for an acknowledgement."""
        return self._event("received", self._received, peer, message)

    def met(
        self, peer: NodeId, directory: UUID, bound: Mapping[NodeId, UUID], log_level_max: int
    ) -> Obligations:
        """A peer authenticated; see Replica.met."""
        return self._event(
            "met", self._then_turn, partial(self.replica.met, peer, directory, bound, log_level_max)
        )

    def connected(self, peer: NodeId, *, may_elect: bool = False) -> Obligations:
        """Frames can be sent to ``peer``; see Replica.connected."""
        return self._event("connected", self._then_turn, self.replica.connected, peer, may_elect)

    def disconnected(self, peer: NodeId) -> Obligations:
        """Frames can no longer be sent to ``peer``."""
        return self._event("disconnected", self._then_turn, self.replica.disconnected, peer)

    def lost(self, peer: NodeId) -> Obligations:
        """The connection on which ``peer`` sends has closed."""
        return self._event("lost", self._then_turn, self.replica.lost, peer)

    # -- time ---------------------------------------------------------------------------------------

    def turn(self) -> Obligations:
        """Take the turn that a ``Turn`` obligation has scheduled."""
        self._turn_given = False
        return self._event("turn", self._take_turn)

    def tick(self) -> Obligations:
        """Every ``TICK_S``, and when a ``TickAfter`` is due."""
        if self.stopped or self._leaves_at_s is not None:
            return self._event("tick", self._tick)
        if self._turn_given:
            return []
        self._turn_wanted = True  # all that it asks for, a hundred times a second
        return self._take()

    def maintain(self) -> Obligations:
        """The maintenance tick, every ``MAINTAIN_S``."""
        return self._event("maintain", self._maintain)

    def sweep(self, free_bytes: int) -> Obligations:
        """Every ``SWEEP_S``, with the space that is left on the disk."""
        return self._event("sweep", self._sweep, free_bytes)

    # -- what services wait for ---------------------------------------------------------------------

    def call_later(self, seconds: float, call: Callable[[], None]) -> Obligations:
        """A service sets a timer."""
        self._out.append(CallAfter(seconds, call))
        return NOTHING if self._running else self._take()

    def background(self, work: Callable[[], R], done: Callable[[R | BaseException], None]) -> Obligations:
        """A service wants work done on another thread."""

        def step(outcome: R | BaseException) -> None:
            self._step(done, outcome)

        self._in_background(work, step)
        return NOTHING if self._running else self._take()

    def resume(self, call: Callable[[*Ts], None], *outcome: *Ts) -> Obligations:
        """A service's timer is due, or another node answered it. Its failure stops nothing else."""
        return self._event(name_of(call), self._step, call, *outcome)

    def completed(self, done: Callable[[*Ts], None], *outcome: *Ts) -> Obligations:
        """ZooKeeper answered."""
        return self._event(name_of(done), self._then_turn, done, *outcome)

    def ended(self, task: Task) -> Obligations:
        """What a ``Background`` asks for is done, or failed."""
        return self._event(task.name, self._then_turn, task.end)

    # -- the end ------------------------------------------------------------------------------------

    def hand_over(self) -> Obligations:
        """A clean stop begins: decide no more, and request a voter to campaign; each tick repeats it.

        ``End`` follows, once this node leads no more, or no voter took over within ``HAND_OVER_S``.
        """
        return self._event("hand_over", self._leave)

    def stop(self) -> None:
        """From now on no event does anything: no frame and no reply leaves."""
        self.stopped = True
        self._out.clear()

    def close(self) -> None:
        """Flush and close everything on disk."""
        self.replica.close()

    # -- one event ----------------------------------------------------------------------------------

    def _event(self, where: str, call: Callable[[*Ts], None], *facts: *Ts) -> Obligations:
        if self.stopped:
            return NOTHING
        self._running = True
        begun = self._stalls.begin()
        try:
            call(*facts)
        except BaseException as error:  # noqa: BLE001 - halts
            self.stop()
            return [Halt(where, error)]
        self._running = False
        self._stalls.end(where, begun)
        if self._out or self._turn_wanted or self._leaves_at_s is not None:
            return self._take()
        return []

    def _take(self) -> Obligations:
        out, self._out = self._out, []
        if self._leaves_at_s is not None and self._may_end(self._leaves_at_s):
            self._left = True
            out.append(End())
        if self._turn_wanted and not self._turn_given:
            self._turn_given = True
            out.append(TURN)
        return out

    def _take_turn(self) -> None:
        self._turn_wanted = False
        if self.replica.turn():
            self._turn_wanted = True
        elif self.replica.proposer.lingering:
            self._out.append(TickAfter(LINGER_S))

    def _tick(self) -> None:
        self._turn_wanted = True
        if self._leaves_at_s is not None:
            self._hand_over()

    def _then_turn(self, call: Callable[[*Ts], None], *facts: *Ts) -> None:
        call(*facts)
        self._turn_wanted = True

    def _received(self, peer: NodeId, message: Message) -> None:
        if self.replica.received(peer, message) and not self._turn_given:
            self._take_turn()

    def _leave(self) -> None:
        self._leaves_at_s = self._clock() + HAND_OVER_S
        self._hand_over()

    def _may_end(self, leaves_at_s: float) -> bool:
        leads = self.replica.raft.role != FOLLOWER and bool(self.replica.peers)
        return not self._left and (not leads or self._clock() >= leaves_at_s)

    def _hand_over(self) -> None:
        self.handed_over = self.handed_over or self.replica.hand_over()
        self._turn_wanted = True

    # -- timers -------------------------------------------------------------------------------------

    def _maintain(self) -> None:
        self.replica.maintenance_tick()
        self._timers(service.maintain for service in self.services)

    def _sweep(self, free_bytes: int) -> None:
        full = free_bytes < self._disk_free_bytes_min
        if full != self.disk_full:
            self.disk_full = full
            event = "disk_full" if full else "disk_has_room"
            self._log.error(event, free_bytes=free_bytes, needed_bytes=self._disk_free_bytes_min)
        if full:
            self.replica.succession.give_way(FULL)
        self._timers(service.sweep for service in self.services)

    def _timers(self, calls: Iterable[Callable[[int], None]]) -> None:
        proposer = self.replica.proposer
        for call in calls:
            if proposer.active:
                self._step(call, proposer.now_ms())

    def _step(self, call: Callable[[*Ts], None], *facts: *Ts) -> None:
        """A service looks and decides, as for a request, and nothing is proposed yet: see quorum/draft.py."""
        try:
            call(*facts)
        except HALTING:
            raise
        except RowsChanged:
            return  # the image is bad, and says so: see quorum/image_watch.py
        except Exception as error:  # noqa: BLE001 - around one decision of a service
            name, now_s = name_of(call), self._clock()
            if now_s - self._logged_s.get(name, -SERVICE_LOG_S) >= SERVICE_LOG_S:
                self._logged_s[name] = now_s
                self._log.error("service_failed", step=name, error=repr(error), exc_info=error)
            self.replica.proposer.violations[name] += 1
            self.replica.proposer.violated = True

    # -- what the replica calls ---------------------------------------------------------------------

    def _send(self, peer: NodeId, frame: bytes) -> None:
        self._out.append(Send(peer, frame))

    def _in_background(self, work: Callable[[], R], done: Callable[[R | BaseException], None]) -> None:
        self._out.append(Background(Work(work, done)))

    def _activated(self, now_ms: int) -> None:
        self._log.info("controller_activated", epoch=self.replica.raft.term)
        self.replica.proposer.submit(self._bootstrap, lambda _outcome, _ms: None)  # before any service's
        for service in self.services:
            service.activated(now_ms)

    def _bootstrap(self, view: View, _now_ms: int) -> Decision[None]:
        """What a new cluster's first leader writes."""
        replica, users = self.replica, self.replica.config.users_formatted
        return decide_birth(view, replica.log_level_formatted, users, migrating=self._migrating)

    def _deposed(self) -> None:
        for service in self.services:
            service.deposed()
