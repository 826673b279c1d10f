"""How a leader hands leadership over: at a clean stop, on request, and where it cannot serve and another may.

A failed decision may be the fault of this node's own state, which another node's state does not share. So the
first one of a leadership hands over, unless this node did so within the last hour. A full disk may be this
node's alone: so does a leader without room, once a minute, as the others may have none either.

As in the Raft thesis (3.10) the leader proposes no more, and requests that a voter which holds the whole log
campaigns at once. If none took over within a second, it leads on.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.quorum.electorate import Electorate
from fencepost.quorum.proposer import Proposer
from fencepost.quorum.raft_log import FOLLOWER, RaftLog
from fencepost.records.types import NodeId

YIELD_S_MAX: Final = 1.0  # of trying to hand over, but at a clean stop; then it leads on
VIOLATED: Final = "a decision failed"
FULL: Final = "the disk is full"
YIELD_PERIOD_S: Final = 3600.0  # between two hand-overs for failed decisions
FULL_PERIOD_S: Final = 60.0  # and for a full disk

_PERIODS_S: Final = {VIOLATED: YIELD_PERIOD_S, FULL: FULL_PERIOD_S}


class Succession:
    """See the module. ``maintain`` every few milliseconds."""

    def __init__(
        self,
        peers: Sequence[NodeId],
        raft: RaftLog,
        proposer: Proposer,
        electorate: Electorate,
        connected: Collection[NodeId],
        clock: Callable[[], float],
        log: FilteringBoundLogger,
    ) -> None:
        self._peers = peers
        self._raft = raft
        self._proposer = proposer
        self._electorate = electorate
        self._connected = connected
        self._clock = clock
        self._log = log
        self._leaving = False
        self._successor: NodeId | None = None  # who is to lead, if that was requested
        self._yields_until_s: float | None = None
        self._yielded_s: dict[str, float] = {}  # by reason

    def leave(self) -> bool:
        """Hand over and do not propose any more. True once the request to a voter is sent, or none is needed.

        The entry in flight must be done first, and the successor must hold the whole log: call again.
        """
        self._leaving, self._successor = True, None
        return self._hand_over()

    @property
    def successors(self) -> list[NodeId]:
        """The voters that are connected and count, in ascending order."""
        return sorted(p for p in self._peers if p in self._connected and self._electorate.counts(p))

    def move(self, to: NodeId | None) -> None:
        """Hand over to ``to``, None: to any voter, and lead on if it does not take over in time."""
        self._successor, self._yields_until_s = to, self._clock() + YIELD_S_MAX
        self._log.info("leadership_hand_over_begun", reason="requested", to=to, term=self._raft.term)

    def give_way(self, reason: str) -> None:
        """Hand over to any voter, unless that was tried lately for the same reason; see ``move``."""
        now = self._clock()
        since_s = now - self._yielded_s.get(reason, -math.inf)
        if self._raft.is_leader and self._peers and since_s >= _PERIODS_S[reason]:
            self._yielded_s[reason], self._yields_until_s = now, now + YIELD_S_MAX
            self._successor = None
            self._log.warning("leadership_hand_over_begun", reason=reason, term=self._raft.term)

    def maintain(self) -> None:
        """Go on handing over, if that is under way; lead on if no voter is ready to take over in time."""
        if self._proposer.violated:
            self._proposer.violated = False
            self.give_way(VIOLATED)
        if self._yields_until_s is None:
            return
        if self._raft.is_leader and self._clock() < self._yields_until_s:
            self._hand_over()
            return
        self._yields_until_s = None
        self._proposer.stopping = self._leaving

    def _hand_over(self) -> bool:
        self._proposer.stopping = True
        if self._raft.role == FOLLOWER or not self._peers:
            return True
        if not self._proposer.idle:
            return False
        wanted = [each for each in self.successors if self._successor in (None, each)]
        return any(self._raft.hand_over(peer) for peer in wanted)
