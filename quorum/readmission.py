"""How a leader takes in a voter that came with another directory: unbound first, bound when it caught up."""

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
from fencepost.records.types import NodeId
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

    def maintain(self) -> None:
        """Unbind a voter that came with another directory; bind it once it holds what is committed."""
        for peer in self._peers:
            directory = self._electorate.directories.get(peer)
            known = self._electorate.bound().get(peer)
            if directory is None or directory == known or peer not in self._connected:
                continue
            caught_up = self._firewall.learner_match.get(peer, 0) >= self._raft.commit_index
            if not caught_up or not self._proposer.submit_control(partial(self._decide, peer, directory)):
                continue
            if known is None:
                self._log.info("voter_readmitted", voter=peer, directory=id_text(directory))
            else:
                self._log.info("voter_unbound", voter=peer, directory=id_text(known))

    def _decide(self, peer: NodeId, directory: UUID, view: View) -> tuple[ControlRecord, ...]:
        """See ``voters.decide_bind``. A node that cannot read what is written never becomes a voter."""
        if self._named_levels.get(peer, 0) < levels.in_force(view):
            return ()
        return voters.decide_bind(view, peer, directory)
