"""The network between voters, as quorum/links.py sees it: one connection each way, generations, closings.

A voter dials every other and speaks only on the connection it dialled. On a connection frames arrive in
order unless the weather says otherwise; between connections there is no order. A blocked direction
swallows nothing: what was sent waits, as in TCP, until the direction opens or the connection is cut.
A closing is told to the reader after the frames before it, and to the writer when it can be heard.
"""

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fencepost.quorum.messages import decode
from fencepost.records.types import NodeId
from tests.simulation.agenda import Agenda
from tests.simulation.weather import Weather

DIAL_S = (0.01, 0.25)  # between attempts


class Peer(Protocol):
    """What the network needs of a process."""

    node_id: NodeId
    directory_id: uuid.UUID
    life: int  # counts its starts

    @property
    def up(self) -> bool: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def log_level(self) -> int: ...  # what a peer must be able to read

    log_level_max: int  # what it reads

    def bound(self) -> Mapping[NodeId, uuid.UUID]: ...
    def hear(self, event: str, peer: NodeId, *facts: object) -> None: ...


@dataclass(slots=True, eq=False)
class Connection:
    """From a life of ``source`` to a life of ``target``."""

    source: NodeId
    target: NodeId
    source_life: int
    target_life: int
    directory_id: uuid.UUID  # the source's
    last_arrival: float = 0.0
    waiting: list[bytes | None] = field(default_factory=list)  # behind a blocked direction; None: the closing
    ready: bool = False  # welcomed: frames may follow
    open: bool = True


class Network:
    """All connections. Frames are the very bytes that the voters send."""

    def __init__(
        self, agenda: Agenda, rng: random.Random, weather: Weather, peers: Mapping[NodeId, Peer]
    ) -> None:
        self._agenda = agenda
        self._rng = rng
        self.weather = weather
        self._peers = peers
        self._blocked: dict[tuple[NodeId, NodeId], int] = {}  # how many partitions block it
        self._out: dict[tuple[NodeId, NodeId], Connection] = {}  # as the source sees it
        self._in: dict[tuple[NodeId, NodeId], Connection] = {}  # as the target sees it

    # -- connecting -------------------------------------------------------------------------------

    def started(self, node: NodeId) -> None:
        """A process began to run: it dials everybody."""
        life = self._peers[node].life
        for peer in sorted(self._peers):
            if peer != node:
                self._agenda.after(self._rng.uniform(0.0, DIAL_S[0]), self._dial, node, life, peer)

    def _dial(self, source: NodeId, life: int, target: NodeId) -> None:
        caller, called = self._peers[source], self._peers[target]
        if not caller.up or caller.life != life or (source, target) in self._out:
            return
        mute = self._is_blocked(source, target) or self._is_blocked(target, source)
        if mute or not called.up or caller.stopped or called.stopped or not _read_each_other(caller, called):
            self._agenda.after(self._rng.uniform(*DIAL_S), self._dial, source, life, target)
            return
        connection = Connection(source, target, life, called.life, caller.directory_id)
        hellos = (dict(caller.bound()), called.directory_id, dict(called.bound()))
        self._out[source, target] = connection
        self._agenda.after(self._latency() * 2, self._accept, connection, hellos)

    def _accept(
        self,
        connection: Connection,
        hellos: tuple[dict[NodeId, uuid.UUID], uuid.UUID, dict[NodeId, uuid.UUID]],
    ) -> None:
        """The target is convinced; a second node with the id of a connected one is refused (links.admit)."""
        pair = (connection.source, connection.target)
        old = self._in.get(pair)
        elsewhere = old is not None and old.open and old.directory_id != connection.directory_id
        if not connection.open or elsewhere or not self._lives(connection):
            self._drop_out(connection)
            return
        if old is not None:
            old.open = False  # replaced without a word: what was on it is lost
            self._agenda.after(self._latency(), self._tell_source, old)
        self._in[pair] = connection
        bound_source, directory_target, bound_target = hellos
        target, source = self._peers[connection.target], self._peers[connection.source]
        target.hear("met", connection.source, connection.directory_id, bound_source, source.log_level_max)
        if connection.open:
            self._agenda.after(
                self._latency(), self._welcome, connection, source, directory_target, bound_target
            )

    def _welcome(
        self, connection: Connection, source: Peer, directory: uuid.UUID, bound: dict[NodeId, uuid.UUID]
    ) -> None:
        if self._out.get((connection.source, connection.target)) is not connection or not connection.open:
            return
        if source.up and source.life == connection.source_life:
            connection.ready = True
            reads = self._peers[connection.target].log_level_max  # of the life that answered
            source.hear("met", connection.target, directory, bound, reads)
            source.hear("connected", connection.target)

    def _drop_out(self, connection: Connection) -> None:
        connection.open = False
        pair = (connection.source, connection.target)
        if self._out.get(pair) is connection:
            del self._out[pair]
            wait_s = self._rng.uniform(*DIAL_S)
            self._agenda.after(
                wait_s, self._dial, connection.source, connection.source_life, connection.target
            )

    def _lives(self, connection: Connection) -> bool:
        source, target = self._peers[connection.source], self._peers[connection.target]
        return (
            source.up
            and target.up
            and (source.life, target.life) == (connection.source_life, connection.target_life)
        )

    # -- frames -----------------------------------------------------------------------------------

    def send(self, source: NodeId, target: NodeId, frame: bytes, held_s: float = 0.0) -> None:
        """Send a frame, or lose it: there may be no connection. It leaves in ``held_s``."""
        connection = self._out.get((source, target))
        if connection is None or not connection.ready or not connection.open:
            return
        weather, rng = self.weather, self._rng
        if rng.random() < weather.drop:
            return
        self._carry(connection, frame, held_s)
        if rng.random() < weather.duplicate:
            self._carry(connection, frame, held_s + rng.uniform(*weather.slow_s))

    def _carry(self, connection: Connection, frame: bytes | None, held_s: float) -> None:
        weather, rng = self.weather, self._rng
        arrival = self._agenda.now + held_s + self._latency()
        if rng.random() < weather.slow:
            arrival += rng.uniform(*weather.slow_s)
        if rng.random() >= weather.reorder or frame is None:
            arrival = max(arrival, connection.last_arrival)
            connection.last_arrival = arrival
        self._agenda.at(arrival, self._arrive, connection, frame)

    def _arrive(self, connection: Connection, frame: bytes | None) -> None:
        pair = (connection.source, connection.target)
        if not connection.open or self._in.get(pair) is not connection:
            return
        if self._is_blocked(*pair):
            connection.waiting.append(frame)
            return
        target = self._peers[connection.target]
        if not target.up or target.life != connection.target_life:
            return
        if frame is None:
            connection.open = False
            del self._in[pair]
            target.hear("lost", connection.source)
        else:
            target.hear("received", connection.source, decode(frame))

    def _latency(self) -> float:
        return self._rng.uniform(*self.weather.latency_s)

    # -- closing ----------------------------------------------------------------------------------

    def died(self, node: NodeId) -> None:
        """A process ended: what it sent arrives, then its peers see its connections close."""
        for pair, connection in sorted(self._out.items()):
            if connection.source == node:
                del self._out[pair]
                self._carry(connection, None, 0.0)
        for pair, connection in sorted(self._in.items()):
            if connection.target == node:
                del self._in[pair]
                connection.open = False
                self._agenda.after(self._latency(), self._tell_source, connection)

    def cut(self, source: NodeId, target: NodeId) -> None:
        """A connection breaks: what is on it is lost, both sides are told."""
        connection = self._out.get((source, target))
        if connection is None or not connection.open:
            return
        connection.open = False
        if self._in.get((source, target)) is connection:
            del self._in[source, target]
            self._agenda.after(self._latency(), self._tell_target, connection)
        self._agenda.after(self._latency(), self._tell_source, connection)

    def require_level(self, node: NodeId) -> None:
        """Cut a node's connections with those that cannot read its log level (links.require_level)."""
        for source, target in [*self._out]:
            if node in (source, target) and not _read_each_other(self._peers[source], self._peers[target]):
                self.cut(source, target)

    def _tell_target(self, connection: Connection) -> None:
        target = self._peers[connection.target]
        replaced = self._in.get((connection.source, connection.target)) is not None
        if target.up and target.life == connection.target_life and not replaced:
            target.hear("lost", connection.source)

    def _tell_source(self, connection: Connection) -> None:
        """The writer notices, unless nothing comes through to it: then later."""
        source = self._peers[connection.source]
        if not source.up or source.life != connection.source_life:
            return
        if self._is_blocked(connection.target, connection.source):
            self._agenda.after(0.1, self._tell_source, connection)
            return
        if self._out.get((connection.source, connection.target)) is connection:
            self._drop_out(connection)
            source.hear("disconnected", connection.target)

    # -- partitions -------------------------------------------------------------------------------

    def _is_blocked(self, source: NodeId, target: NodeId) -> bool:
        return (source, target) in self._blocked

    def block(self, pairs: list[tuple[NodeId, NodeId]]) -> None:
        """Nothing comes through in these directions from now on."""
        for pair in pairs:
            self._blocked[pair] = self._blocked.get(pair, 0) + 1

    def unblock(self, pairs: list[tuple[NodeId, NodeId]]) -> None:
        """What waited arrives late and in order."""
        for pair in pairs:
            left = self._blocked.get(pair, 0) - 1
            if left > 0:
                self._blocked[pair] = left
                continue
            self._blocked.pop(pair, None)
            connection = self._in.get(pair)
            if connection is not None:
                waiting, connection.waiting = connection.waiting, []
                for frame in waiting:
                    self._carry(connection, frame, 0.0)


def _read_each_other(one: Peer, other: Peer) -> bool:
    """Neither is at a log level that the other cannot read (handshake.check)."""
    return one.log_level <= other.log_level_max and other.log_level <= one.log_level_max
