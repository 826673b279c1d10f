"""One voter's process under virtual time: a real Replica on a real directory, its timers, its deaths.

It does what quorum/active_controller.py does: whatever happens asks for a turn, a turn that proposed
asks for another, a timer ticks, a slower one beats. A flush takes time and holds up everything else.
A stopped process hears nothing until it continues; then it hears everything at once, late.
A killed one loses the open LMDB transaction and what its archive had not written, and comes back from
what is left.
"""

import os
import random
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from controller.brokers import Contacts
from controller.producer_ids import latest
from quorum.gather import GATHER_S
from quorum.messages import Vote, decode
from quorum.replica import Replica, ReplicaConfig
from records.types import LogIndex, NodeId, Offset, Term
from snapshots.archive import Archive
from tests.simulation.agenda import Agenda
from tests.simulation.ledger import Ledger
from tests.simulation.network import Network

TICK_S = 0.01
BEAT_S = 0.05
SESSION_MS = 2_000
WALL_MS = 1_790_000_000_000  # what wall clocks show at virtual time 0, but for their skew
CLUSTER = "simulated"


class Killed(Exception):
    """The process dies at this very call."""


class Watched(Replica):
    """A replica whose applies and installations the ledger sees."""

    def __init__(
        self, ledger: Ledger, config: ReplicaConfig, at_flush: Callable[[], None], **what: Any
    ) -> None:
        self.ledger = ledger
        super().__init__(config, **what)
        commit = self.store.commit  # from here on: not while it starts

        def dying() -> bool:
            at_flush()
            flushed = commit()
            at_flush()
            return flushed

        self.store.commit = dying  # type: ignore[method-assign]

    def _on_committed(self, index: LogIndex, term: Term, command: bytes) -> None:
        before, ids_end = self.store.image.header, latest(self.store.image).end
        super()._on_committed(index, term, command)
        self.ledger.applied(self.config.node_id, index, term, command, before, ids_end, self.store)

    def installed(self, *what: Any) -> None:
        super().installed(*what)
        self.ledger.installed(self.config.node_id, self.store)


class Process:
    """See the module. ``trace`` gets one line per event."""

    def __init__(
        self,
        node_id: NodeId,
        root: Path,
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        *,
        voter_ids: frozenset[NodeId],
        initial_voters: Mapping[NodeId, uuid.UUID] | None,
        directory_id: uuid.UUID,
        on_active: Callable[["Process", int], None],
        on_killed: Callable[["Process"], None],
        trace: Callable[[str], None],
    ) -> None:
        self.node_id = node_id
        self.directory = root / f"node-{node_id}"
        self.directory_id = directory_id
        self.initial_voters = initial_voters
        self.replica: Watched | None = None
        self.life = 0
        self.skew_ms = 0
        self.network: Network | None = None  # they need each other
        self.contacts = Contacts(0, SESSION_MS)
        self.doomed = False  # dies at its next frame
        self._agenda = agenda
        self._rng = rng
        self._ledger = ledger
        self._voter_ids = voter_ids
        self._on_active = on_active
        self._on_killed = on_killed
        self._trace = trace
        self._log = Log(self)
        self._inbox: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._stops = 0
        self._busy_until = 0.0
        self._waking_at = 0.0
        self._turn_at: float | None = None
        self._held_s = 0.0
        self._synced_bytes: dict[Path, int] = {}

    # -- life -------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """It runs, or is stopped."""
        return self.replica is not None

    @property
    def stopped(self) -> bool:
        """SIGSTOP."""
        return self._stops > 0

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.up:
            return
        self.life += 1
        life = self.life
        self._inbox = []
        self._stops, self._busy_until, self._turn_at, self._held_s, self.doomed = 0, 0.0, None, 0.0, False
        self.replica = Watched(
            self._ledger,
            ReplicaConfig(
                node_id=self.node_id,
                directory_id=self.directory_id,
                cluster_id=CLUSTER,
                voter_ids=self._voter_ids,
                initial_voters=self.initial_voters,
                directory=self.directory,
                snapshot_entries=40,
                segment_bytes=4096,
                sync=False,
            ),
            self._at_flush,
            send=self._send,
            clock=lambda: self._agenda.now,
            wall_ms=lambda: WALL_MS + int(self._agenda.now * 1000) + self.skew_ms,
            background=lambda work, done: self._background(life, work, done),
            rng=self._rng,
            on_active=self._activated,
            log=self._log,
        )
        self._ledger.started(self.node_id, self.replica)
        for archive in self.replica.archiver.archives.values():
            self._note_syncs(archive)
        for name, period_s in (("tick", TICK_S), ("beat", BEAT_S)):
            self._agenda.after(self._rng.uniform(0.0, period_s), self._timer, life, name, period_s)
        if self.network is not None:
            self.network.started(self.node_id)

    def kill(self, *, power_loss: bool = False) -> None:
        """SIGKILL: what was not flushed is gone; with ``power_loss`` also what the archive did not sync."""
        replica, self.replica = self.replica, None
        if replica is None:
            return
        self._trace(f"{self.node_id} killed" + (" with power loss" if power_loss else ""))
        replica.store.abandon()
        for archive in replica.archiver.archives.values():
            close_files(archive)
        if power_loss:
            self._lose_unsynced()
        if self.network is not None:
            self.network.died(self.node_id)

    def wipe(self, directory_id: uuid.UUID) -> None:
        """The directory of a dead process is lost and formatted again."""
        self._trace(f"{self.node_id} wiped, now directory {directory_id}")
        shutil.rmtree(self.directory)
        self.directory_id = directory_id
        self.initial_voters = None
        self._synced_bytes.clear()

    def stop(self) -> None:
        """SIGSTOP."""
        self._stops += 1

    def go_on(self, life: int) -> None:
        """SIGCONT, if it is still the same process."""
        if self.up and self.life == life and self._stops > 0:
            self._stops -= 1
            self._wake_inbox()

    # -- what happens -----------------------------------------------------------------------------

    def bound(self) -> Mapping[NodeId, uuid.UUID]:
        """For the handshake."""
        return self.replica.electorate.bound() if self.replica is not None else {}

    def hear(self, event: str, peer: NodeId, *facts: object) -> None:
        """Something that links.py would tell the replica."""
        if self.replica is not None:
            self.run(getattr(self.replica, event), peer, *facts)

    def run(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Make a call on the process's one thread, now or when it can, then want a turn."""
        if not self.up:
            return
        if self.stopped or self._agenda.now < self._busy_until:
            self._inbox.append((call, arguments))
            self._wake_inbox()
        else:
            self._guarded(call, *arguments)
            self._want_turn()

    def _wake_inbox(self) -> None:
        """Look at the inbox when the process is free again."""
        if not self.stopped and self._inbox and self._waking_at <= self._agenda.now:
            self._waking_at = max(self._busy_until, self._agenda.now)
            self._agenda.at(self._waking_at, self._empty_inbox, self.life)

    def _empty_inbox(self, life: int) -> None:
        self._waking_at = 0.0
        if not self._lives(life) or self.stopped:
            return
        if self._agenda.now < self._busy_until:
            self._wake_inbox()
            return
        inbox, self._inbox = self._inbox, []
        for call, arguments in inbox:
            if self._lives(life):
                self._guarded(call, *arguments)
        self._want_turn()

    def _lives(self, life: int) -> bool:
        return self.replica is not None and self.life == life

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Killed:
            self.kill()
            self._on_killed(self)
            return None

    def _want_turn(self) -> None:
        if self._turn_at is None and self.up:
            self._turn_at = max(self._agenda.now, self._busy_until) + self._rng.uniform(0.0, 0.0005)
            self._agenda.at(self._turn_at, self._turn, self.life)

    def _turn(self, life: int) -> None:
        if not self._lives(life):
            return
        self._turn_at = None
        if self.stopped or self._agenda.now < self._busy_until:
            self.run(lambda: None)  # a turn follows when it is free
        else:
            self._guarded(self._take_turn)

    def _take_turn(self) -> None:
        replica = self.replica
        if replica is None:
            return
        weather = self._weather()
        self._held_s = 0.0
        if replica.journal.must_flush:
            slow = self._rng.random() < weather.slow_flush
            self._held_s = self._rng.uniform(*weather.flush_s) + (weather.slow_flush_s if slow else 0.0)
            self._busy_until = self._agenda.now + self._held_s
        more = replica.turn()
        self._ledger.looked_at(replica)
        self._held_s = 0.0
        if more:
            self._want_turn()
        elif replica.proposer.gathering:
            self._agenda.after(GATHER_S, self._gathered, self.life)

    def _gathered(self, life: int) -> None:
        if self._lives(life):
            self._want_turn()

    def _timer(self, life: int, name: str, period_s: float) -> None:
        if not self._lives(life):
            return
        self._agenda.after(period_s, self._timer, life, name, period_s)
        if self.stopped:
            return  # timers of a stopped process fire once when it continues: the next one does
        if name == "beat" and self.replica is not None:
            self.run(self.replica.beat)
        else:
            self._want_turn()

    # -- what it asks of the world ----------------------------------------------------------------

    def _weather(self) -> Any:
        assert self.network is not None
        return self.network.weather

    def _send(self, peer: NodeId, frame: bytes) -> None:
        if self.network is None:
            return
        if self.doomed or self._rng.random() < self._weather().crash_in_send:
            raise Killed
        message = decode(frame)
        if isinstance(message, Vote) and self.replica is not None:
            self._ledger.looked_at(self.replica)
            self._ledger.voted(self.node_id, self.directory_id, Term(message.term), peer)
        self.network.send(self.node_id, peer, frame, self._held_s)

    def _at_flush(self) -> None:
        if self.up and self._rng.random() < self._weather().crash_in_flush:
            raise Killed

    def _background(self, life: int, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Another thread: the work happens in one go a little later, its result is told later still."""

        def execute() -> None:
            if not self._lives(life):
                return
            try:
                result = work()
            except OSError as error:
                result = error
            self._agenda.after(self._rng.uniform(0.0, 0.2), finish, result)

        def finish(result: Any) -> None:
            if self._lives(life):
                self.run(done, result)

        self._agenda.after(self._rng.uniform(0.0, 0.2), execute)

    def _activated(self, now_ms: int) -> None:
        self._trace(f"{self.node_id} active in epoch {self.replica.raft.term if self.replica else '?'}")
        self.contacts = Contacts(now_ms, SESSION_MS)
        self._on_active(self, now_ms)

    # -- the archive's part of a power loss -------------------------------------------------------

    def _segments(self) -> list[Path]:
        return sorted((self.directory / "archive").glob("*/*.log"))

    def _note_syncs(self, archive: Archive) -> None:
        """Remember what is on disk after each sync. Opening the archive was one."""
        sync = archive.sync

        def noting() -> Offset:
            end = sync()
            self._synced_bytes = {path: path.stat().st_size for path in self._segments()}
            return end

        archive.sync = noting  # type: ignore[method-assign]
        noting()

    def _lose_unsynced(self) -> None:
        """Cut the newest segment somewhere after what was synced; one that was never synced may be empty."""
        for path in self._segments()[-1:]:
            size, synced = path.stat().st_size, self._synced_bytes.get(path, 0)
            if os.access(path, os.W_OK) and path.stat().st_mode & 0o200 and synced < size:
                os.truncate(path, self._rng.randint(synced, size))


class Log:
    """A structlog logger's place: events go to the trace."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def _said(self, level: str, event: str, facts: dict[str, Any]) -> None:
        told = " ".join(f"{name}={fact}" for name, fact in facts.items())
        self._process._trace(f"{self._process.node_id} {level}: {event} {told}")

    def info(self, event: str, **facts: Any) -> None:
        self._said("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._said("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        self._said("error", event, facts)


def close_files(archive: Archive) -> None:
    """Let go of an archive's files as a dying process does: what is buffered is lost."""
    active = [archive._active] if archive._active is not None else []
    for file in (*archive._rolled, *active):
        os.close(file.descriptor)
