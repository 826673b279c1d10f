"""What time the voters have: each follower tells its leader, the leader tells them what a majority says.

A clock that has jumped (controller/clocks.py) has no say, so voters that jumped together are no
majority. Rides on acknowledgements and heartbeats; a node of before leaves the field out, and has no say.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from fencepost.controller.clocks import agreed_ms
from fencepost.records.types import NodeId

READ_S: Final = 1.0  # a clock is read, and the majority looked for, at most so often
SAID_S_MAX: Final = 10.0  # what a voter said counts for so long


class _Said(NamedTuple):
    at_s: float
    unjumped_ms: int


class OwnClock(Protocol):
    """This node's wall clock (settings/node_clock.py)."""

    def unjumped_ms(self) -> int | None:
        """The time; None while the clock is not believed."""

    def agree(self, majority_ms: int) -> None:
        """What a majority says."""


class PeerClocks:
    """See the module. ``clock`` is monotonic, in seconds."""

    def __init__(self, voter_count: int, clock: Callable[[], float], wall: OwnClock) -> None:
        self._voter_count = voter_count
        self._clock = clock
        self._wall = wall
        self._said: dict[NodeId, _Said] = {}
        self._own: int | None = None
        self._own_read_s = self._agreed_read_s = -READ_S
        self._agreed: int | None = None

    def own_ms(self) -> int | None:
        """For the leader: the time here, at most ``READ_S`` old; None if this clock jumped."""
        now_s = self._clock()
        if now_s - self._own_read_s >= READ_S:
            self._own_read_s, self._own = now_s, self._wall.unjumped_ms()
        return self._own

    def said(self, peer: NodeId, unjumped_ms: int | None) -> None:
        """A follower said what time it has; None: it does not know."""
        if unjumped_ms is None:
            self._said.pop(peer, None)
        else:
            self._said[peer] = _Said(self._clock(), unjumped_ms)

    def agreed_ms(self) -> int | None:
        """The leader's answer to all: the time by a majority, at most ``READ_S`` old."""
        now_s = self._clock()
        if now_s - self._agreed_read_s < READ_S:
            return self._agreed
        self._agreed_read_s = now_s
        times = [
            each.unjumped_ms + int((now_s - each.at_s) * 1000)
            for each in self._said.values()
            if now_s - each.at_s <= SAID_S_MAX
        ]
        own = self._wall.unjumped_ms()
        self._agreed = agreed_ms([*times, *([] if own is None else [own])], self._voter_count)
        self.agreed(self._agreed)
        return self._agreed

    def agreed(self, majority_ms: int | None) -> None:
        """A leader, perhaps this one, says what a majority has."""
        if majority_ms is not None:
            self._wall.agree(majority_ms)
