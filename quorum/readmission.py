"""How a leader takes in a voter that came with another directory: unbound first, bound when it caught up.

Caught up   it holds what was committed at the last look, ``MAINTAIN_S`` ago: under load that never pauses a
            voter's last ack may always be older than the last commit (rounds, Raft thesis §4.2.1).
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from fencepost.controller import levels, voters
from fencepost.controller.view import View
from fencepost.quorum.electorate import Electorate
from fencepost.quorum.firewall import Firewall
from fencepost.quorum.proposer import Proposer
from fencepost.quorum.raft_log import RaftLog
from fencepost.records.control import ControlRecord
from fencepost.records.types import LogIndex, NodeId, Term
from fencepost.settings.node_identity import id_text


class Readmission:
    """See the module. ``maintain`` every few milliseconds while this node leads."""

    def __init__(
        self,
        peers: Sequence[NodeId],
        proposer: Proposer,
        electorate: Electorate,
        firewall: Firewall,
        raft: RaftLog,
        connected: Collection[NodeId],
        named_levels: Mapping[NodeId, int],
        log: FilteringBoundLogger,
    ) -> None:
        self._peers = peers
        self._proposer = proposer
        self._electorate = electorate
        self._firewall = firewall
        self._raft = raft
        self._connected = connected
        self._named_levels = named_levels
        self._log = log
        self._looked: tuple[Term, LogIndex] | None = None  # at the last look: the term, what was committed

    def maintain(self) -> None:
        """Unbind a voter that came with another directory; bind it once it holds what is committed."""
        term, committed = self._raft.term, self._raft.commit_index
        goal = committed if self._looked is None or self._looked[0] != term else self._looked[1]
        self._looked = (term, committed)
        for peer in self._peers:
            directory = self._electorate.directories.get(peer)
            known = self._electorate.bound().get(peer)
            if directory is None or directory == known or peer not in self._connected:
                continue
            if self._firewall.learner_match.get(peer, 0) >= goal:
                self._proposer.submit_control(partial(self._decide, peer, directory))

    def _decide(self, peer: NodeId, directory: UUID, view: View) -> tuple[ControlRecord, ...]:
        """See ``voters.decide_bind``. A node that cannot read what is written never becomes a voter."""
        if self._named_levels.get(peer, 0) < levels.in_force(view):
            return ()
        steps = voters.decide_bind(view, peer, directory)
        if steps:
            known = voters.bindings(view).get(peer)
            event = "voter_readmitted" if known is None else "voter_unbound"
            self._log.info(event, voter=peer, directory=id_text(known or directory))
        return steps
