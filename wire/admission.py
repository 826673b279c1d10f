"""Admission: which connections a listener accepts, which it closes to make room, and which stay for too long.

Full        at ``max.connections``, or when sockets have taken their descriptors: the connection that has
            been idle for the longest is closed for a new one. Never one with a request in process, and never
            one that proved to be a peer's. If there is no other, the new one is refused. Where more than one
            in LOGIN_SHARE has not logged in, it is the oldest of those: logins that fail, or never end, take
            no place from a client that is served.
Address     past ``max.connections.per.ip`` a new one from that address is refused.
Time        counted in sweeps, one each SWEEP_S: time in which the process was stopped does not count.
Idle        closed after ``connections.max.idle.ms`` without a byte; a request in process is no idleness.
Slow        of a part of a frame, PACE_BYTES must come in PACE_SWEEPS, unless that completes it.
Login       where one is wanted, it must be done within LOGIN_SWEEPS.
Source      Kafka's ConnectionQuotas and Selector.IdleExpiryManager; Kafka closes the longest idle one, too.
"""

import math
from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from fencepost.wire.descriptors import lowest_free, sockets_end
from fencepost.wire.limited_log import LimitedLog
from fencepost.wire.limits import ListenerLimits

SWEEP_S: Final = 1.0
PACE_SWEEPS: Final = 10
PACE_BYTES: Final = PACE_SWEEPS * 64 * 1024
LOGIN_SWEEPS: Final = 10
LOGIN_SHARE: Final = 4
FREED_MAX: Final = 64  # connections that are closed in one sweep for their descriptors


class Admitted(Protocol):
    """A connection, as far as its admission needs one."""

    address: str
    peer: str
    active_sweep: int  # when a byte last came

    @property
    def may_make_room(self) -> bool:
        """It may be closed for another one."""

    def received_bytes(self) -> int:
        """How much of the next frame is here."""

    def close(self) -> None:
        """Send what was written, then close."""

    def cut(self, reason: str) -> None:
        """Close the connection at once, without sending what is left."""


C = TypeVar("C", bound=Admitted)


class Admission(Generic[C]):
    """The connections of one listener."""

    def __init__(self, limits: ListenerLimits, log: LimitedLog) -> None:
        self._limits = limits
        self._sockets_end = sockets_end()
        self._log = log
        self._idle_sweeps_max = max(1, math.ceil(limits.idle_ms_max / (SWEEP_S * 1000)))
        self.sweeps = 0  # so far; a connection notes in which it was active
        self.by_activity: OrderedDict[C, None] = OrderedDict()  # the longest idle first
        self._by_address: dict[str, int] = {}
        self._logins: OrderedDict[C, int] = OrderedDict()  # not authenticated, and since which sweep
        self._parts: dict[C, tuple[int, int]] = {}  # since which sweep a part of a frame waits, and its bytes

    def __len__(self) -> int:
        return len(self.by_activity)

    def all(self) -> tuple[C, ...]:
        """Every connection, the longest idle first."""
        return tuple(self.by_activity)

    def admit(self, connection: C, number: int, *, authenticated: bool) -> bool:
        """Take a new connection in, or refuse it. ``number``: its descriptor, -1 if it has none."""
        limits, address = self._limits, connection.address
        from_there = self._by_address.get(address, 0)
        if limits.connections_per_ip_max is not None and from_there >= limits.connections_per_ip_max:
            reason = f"{from_there} connections from {address} (max.connections.per.ip)"
            self._log.warning("connection_refused", peer=connection.peer, reason=reason)
            return False
        if number >= self._sockets_end:
            reason = f"sockets have their {self._sockets_end} file descriptors (RLIMIT_NOFILE)"
        elif len(self.by_activity) >= limits.connections_max:
            reason = f"{len(self.by_activity)} connections (max.connections)"
        else:
            reason = ""
        if reason and not self._make_room(reason):
            self._log.warning("connection_refused", peer=connection.peer, reason=f"{reason}, all in use")
            return False
        connection.active_sweep = self.sweeps
        self.by_activity[connection] = None
        self._by_address[address] = from_there + 1
        if not authenticated:
            self._logins[connection] = self.sweeps
        return True

    def forget(self, connection: C) -> None:
        """A connection is gone, or will be in a moment."""
        if connection not in self.by_activity:
            return
        del self.by_activity[connection]
        left = self._by_address[connection.address] - 1
        if left:
            self._by_address[connection.address] = left
        else:
            del self._by_address[connection.address]
        self._logins.pop(connection, None)
        self._parts.pop(connection, None)

    def recent(self, connection: C) -> None:
        """A byte came, or a reply went."""
        connection.active_sweep = self.sweeps
        self.by_activity.move_to_end(connection)

    def authenticated(self, connection: C) -> None:
        """Note that the connection has logged in."""
        self._logins.pop(connection, None)

    def waits_for_frame(self, connection: C) -> None:
        """A part of a frame is here, and the client is to send the rest."""
        if connection in self.by_activity:
            self._parts.setdefault(connection, (self.sweeps, connection.received_bytes()))

    def completed(self, connection: C) -> None:
        """No part of a frame waits for its client."""
        self._parts.pop(connection, None)

    def sweep(self) -> None:
        """Close those whose time is over. To be called each SWEEP_S."""
        self.sweeps += 1
        self._sockets_end = sockets_end()
        self._free_descriptors()
        self._close_idle()
        self._close_slow()
        while self._logins:
            connection, since = next(iter(self._logins.items()))
            if self.sweeps - since < LOGIN_SWEEPS:
                break
            self.forget(connection)
            connection.cut(f"no login within {LOGIN_SWEEPS * SWEEP_S:g} s")

    def _free_descriptors(self) -> None:
        """Sockets or others have taken from the reserve, or the limit was lowered: give some back."""
        taken = lowest_free()
        for _ in range(min(taken - self._sockets_end, FREED_MAX)):
            if not self._make_room(f"{taken} file descriptors are open (RLIMIT_NOFILE)"):
                return

    def _close_idle(self) -> None:
        idle_since_max = self.sweeps - self._idle_sweeps_max
        while self.by_activity:
            connection = next(iter(self.by_activity))
            if connection.active_sweep > idle_since_max:
                return
            if connection.may_make_room:
                self.forget(connection)
                connection.close()  # without a line in the log: clients of good will do this, too
            else:
                self.recent(connection)

    def _close_slow(self) -> None:
        for connection, (since, had) in tuple(self._parts.items()):
            if self.sweeps - since < PACE_SWEEPS:
                continue
            received = connection.received_bytes()
            if received - had < PACE_BYTES:
                self.forget(connection)
                connection.cut(f"{received - had} bytes of a frame in {PACE_SWEEPS * SWEEP_S:g} s")
            else:
                self._parts[connection] = (self.sweeps, received)

    def _make_room(self, reason: str) -> bool:
        if len(self._logins) > max(1, len(self.by_activity) // LOGIN_SHARE):
            for connection in self._logins:
                if connection.may_make_room:
                    self.forget(connection)
                    connection.cut(f"the oldest without a login made room: {reason}")
                    return True
        for _ in range(len(self.by_activity)):
            connection = next(iter(self.by_activity))
            if connection.may_make_room:
                self.forget(connection)
                connection.cut(f"the longest idle one made room: {reason}")
                return True
            self.by_activity.move_to_end(connection)
        return False
