"""The Raft firewall: what stands between the network and pysyncobj, and makes it safe.

As shipped, pysyncobj loses acknowledged writes (docs/raft-hazards.md). Four fixes live here:

ack terms     an Ack carries the term it was given in; one of another term is dropped (H2).
conflict cut  entries that the log already has are stripped, so that only a real conflict truncates,
              and the commit index is capped at what this message vouches for (H1).
voters        a vote counts once per voter and term (H3).
stale resets  a reset below what the follower is known to have is dropped (H4).

Besides: frames of an old term are answered with ours (L1), a leader that sees a higher term steps
down, and a voter whose directory is not bound (wiped, re-formatted) neither votes nor is counted.

No sockets, no clock: ``outgoing`` and ``incoming`` translate, the caller moves the bytes.
"""

import uuid
from typing import Protocol, TypedDict

from fencepost.quorum.journal import Journal
from fencepost.quorum.messages import (
    Ack,
    AppendEntries,
    Behind,
    Message,
    NewerTerm,
    RequestVote,
    TimeoutNow,
    Vote,
)
from fencepost.quorum.peer_clocks import PeerClocks
from fencepost.records.invariant import InvariantViolation, invariant
from fencepost.records.types import LogIndex, NodeId, Term


class RaftMessage(TypedDict, total=False):
    """pysyncobj's message: ``type``, and the fields of that type."""

    type: str
    term: int
    commit_index: int
    prevLogIdx: int
    prevLogTerm: int
    entries: list[tuple[bytes, int, int]]
    transmission: str  # never let through
    last_log_index: int
    last_log_term: int
    next_node_idx: int
    reset: bool
    success: bool


class Raft(Protocol):
    """What the firewall needs of the Raft core (quorum/raft_log.py)."""

    @property
    def term(self) -> Term:
        """The current term of this node."""

    @property
    def is_leader(self) -> bool:
        """It believes that it leads."""

    @property
    def commit_index(self) -> LogIndex:
        """The highest index known to be committed."""

    def deliver(self, peer: NodeId, message: RaftMessage) -> None:
        """Give the core a message."""

    def match_index(self, peer: NodeId) -> LogIndex:
        """How far a follower is known to match."""

    def next_index(self, peer: NodeId) -> LogIndex:
        """What a follower is sent next."""

    def keep_next_index(self, peer: NodeId, at_least: LogIndex) -> None:
        """Never let an ack move it back."""

    def forget(self, peer: NodeId) -> None:
        """Nothing is known of a follower's log any more."""

    def step_down(self, term: Term) -> None:
        """Follow in a later term."""


class Counted(Protocol):
    """Whose votes and acks count (quorum/electorate.py)."""

    @property
    def may_vote(self) -> bool:
        """This node's directory is bound."""

    def counts(self, peer: NodeId) -> bool:
        """The peer's directory is bound."""

    def bound_to(self, peer: NodeId) -> uuid.UUID | None:
        """The directory that is bound to the peer's node id, if any."""

    def is_own(self, directory: uuid.UUID | None) -> bool:
        """It is this node's directory."""


class Firewall:
    """Translates between pysyncobj's dictionaries and typed messages, and refuses what is unsafe."""

    def __init__(self, raft: Raft, journal: Journal, counted: Counted) -> None:
        self._raft = raft
        self._journal = journal
        self._counted = counted
        self.clocks: PeerClocks | None = None  # None: no voter says what time it has
        self._votes: set[tuple[int, NodeId]] = set()
        self._ack_next: int | None = None  # rewrites the success ack of the message being delivered
        self.learner_match: dict[NodeId, LogIndex] = {}  # how far uncounted followers are
        self._silent: set[NodeId] = set()  # no ack of theirs has come since they connected

    def connected_anew(self, peer: NodeId) -> None:
        """No ack that is under way is late: the first one says what the peer has now."""
        self._silent.add(peer)

    # -- from pysyncobj to the network ----------------------------------------------------------

    def outgoing(self, peer: NodeId, message: RaftMessage) -> Message | None:
        """The typed form of what pysyncobj sends to ``peer``; None for what must not leave."""
        kind = message["type"]
        if kind == "append_entries":
            return self._outgoing_append(peer, message)
        if kind == "next_node_idx":
            return self._outgoing_ack(message)
        if kind == "request_vote":
            self._votes = {vote for vote in self._votes if vote[0] >= message["term"]}
            bound_to = self._counted.bound_to(peer)
            return RequestVote(message["term"], message["last_log_index"], message["last_log_term"], bound_to)
        if kind == "response_vote":
            return Vote(message["term"])
        if kind == "timeout_now":
            return TimeoutNow(message["term"])
        raise InvariantViolation(f"pysyncobj sent {kind!r}: forwarding and membership are switched off")

    def _outgoing_append(self, peer: NodeId, message: RaftMessage) -> Message:
        invariant("transmission" not in message, "pysyncobj split an entry into chunks")
        if "prevLogIdx" not in message:  # it would send its dump: the follower needs our snapshot
            # It would repeat itself for a whole heartbeat period, for its next index stays behind. Moved to
            # the end, the next message is refused and leads back here, once per round trip.
            self._raft.keep_next_index(peer, LogIndex(self._journal.last_index + 1))
            return Behind(message["term"], self._journal.first_index)
        return AppendEntries(
            message["term"],
            message["commit_index"],
            message["prevLogIdx"],
            message["prevLogTerm"],
            message["entries"],
            agreed_ms=None if self.clocks is None else self.clocks.agreed_ms(),
        )

    def _outgoing_ack(self, message: RaftMessage) -> Message:
        next_index = message["next_node_idx"]
        if message["success"] and self._ack_next is not None:
            next_index = self._ack_next
        unjumped_ms = None if self.clocks is None else self.clocks.own_ms()
        reset, success = message["reset"], message["success"]
        return Ack(self._raft.term, next_index, reset, success, unjumped_ms=unjumped_ms)

    # -- from the network to pysyncobj ----------------------------------------------------------

    def incoming(self, peer: NodeId, message: Message) -> Message | None:
        """Deliver what is safe. Returns an answer to send at once, if there is one."""
        raft = self._raft
        if (
            isinstance(message, AppendEntries | Behind | RequestVote | TimeoutNow)
            and message.term < raft.term
        ):
            return NewerTerm(raft.term)
        if isinstance(message, AppendEntries):
            if self.clocks is not None:
                self.clocks.agreed(message.agreed_ms)
            self._append(peer, message)
        elif isinstance(message, Ack):
            self._ack(peer, message)
        elif isinstance(message, RequestVote):
            self._request_vote(peer, message)
        elif isinstance(message, Vote):
            self._vote(peer, message)
        elif isinstance(message, Behind):
            return self._behind(peer, message)
        elif isinstance(message, TimeoutNow):
            if self._counted.may_vote:
                raft.deliver(peer, {"type": "timeout_now", "term": message.term})
        elif isinstance(message, NewerTerm) and message.term > raft.term:
            raft.step_down(Term(message.term))
        return None

    def _request_vote(self, peer: NodeId, message: RequestVote) -> None:
        """Who counts is said by the later of two logs: the candidate's may hold a record that ours lacks."""
        last = self._journal.last_index
        later = (message.last_term, message.last_index) > (self._journal.term_at(last) or 0, last)
        voting = self._counted.may_vote or (later and self._counted.is_own(message.directory))
        if voting and (later or self._counted.counts(peer)):
            self._raft.deliver(
                peer,
                {
                    "type": "request_vote",
                    "term": message.term,
                    "last_log_index": message.last_index,
                    "last_log_term": message.last_term,
                },
            )

    def _append(self, peer: NodeId, message: AppendEntries) -> None:
        """Strip what the log already has; cut only on a conflict; cap the commit index (H1)."""
        self._require_one_leader(peer, message.term)
        journal = self._journal
        claimed_end = message.prev_index + len(message.entries)
        commit = min(message.commit_index, claimed_end)
        prev_index, prev_term, entries = message.prev_index, message.prev_term, message.entries
        if prev_index < journal.first_index:
            # Below our sentinel everything is committed, so it is the leader's too (Raft §5.4).
            known = journal.first_index - prev_index
            if len(entries) < known:
                committed = self._raft.commit_index
                self._deliver_nothing_new(peer, message.term, min(commit, committed), committed)
                return
            prev_index, prev_term = journal.first_index, entries[known - 1][2]
            entries = entries[known:]
            invariant(
                journal.term_at(prev_index) == prev_term,
                "the leader's log differs below our snapshot",
                index=prev_index,
                ours=journal.term_at(prev_index),
                theirs=prev_term,
            )
        if journal.term_at(prev_index) == prev_term:
            matching = 0
            while matching < len(entries):
                _, index, term = entries[matching]
                if journal.term_at(index) != term:
                    break
                matching += 1
            if matching:
                _, prev_index, prev_term = entries[matching - 1]
                entries = entries[matching:]
            if not entries and journal.last_index > prev_index:
                self._deliver_nothing_new(peer, message.term, commit, LogIndex(claimed_end))
                return
        self._deliver_append(peer, message.term, commit, (prev_index, prev_term), entries)

    def _deliver_nothing_new(self, peer: NodeId, term: int, commit: int, matched: LogIndex) -> None:
        """Deliver a heartbeat that cannot cut, and make its ack say only what the leader vouched for."""
        last = self._journal.last_index
        self._ack_next = matched + 1
        try:
            last_term = self._journal.term_at(last) or 0
            self._deliver_append(peer, term, commit, (last, last_term), [])
        finally:
            self._ack_next = None

    def _deliver_append(
        self,
        peer: NodeId,
        term: int,
        commit: int,
        prev: tuple[int, int],
        entries: list[tuple[bytes, int, int]],
    ) -> None:
        self._raft.deliver(
            peer,
            {
                "type": "append_entries",
                "term": term,
                "commit_index": commit,
                "prevLogIdx": prev[0],
                "prevLogTerm": prev[1],
                "entries": entries,
            },
        )

    def _behind(self, peer: NodeId, message: Behind) -> Message:
        """A heartbeat without a log position: it moves no commit index, and is answered (L5)."""
        self._require_one_leader(peer, message.term)
        self._raft.deliver(peer, {"type": "append_entries", "term": message.term, "commit_index": 0})
        return Ack(self._raft.term, self._journal.last_index + 1, reset=False, success=False)

    def _require_one_leader(self, peer: NodeId, term: int) -> None:
        invariant(
            not (self._raft.is_leader and term == self._raft.term),
            "two leaders in one term",
            term=term,
            other=peer,
        )

    def _ack(self, peer: NodeId, message: Ack) -> None:
        raft = self._raft
        if message.term > raft.term:
            raft.step_down(Term(message.term))
            return
        if message.term != raft.term or not raft.is_leader:
            return  # H2: an ack of another term says nothing about this term's log
        if message.next_index < 1 or message.next_index > self._journal.last_index + 1:
            return
        if self.clocks is not None and self._counted.counts(peer):
            self.clocks.said(peer, message.unjumped_ms)
        success, is_first = message.success, peer in self._silent
        if success or message.reset:  # an answer to Behind says nothing of the log
            self._silent.discard(peer)
        if message.reset and message.next_index <= raft.match_index(peer):
            if not is_first:
                return  # H4: late; it would go back below what the follower has
            raft.forget(peer)  # it has less than it acknowledged: an earlier store, which it cannot see
            self.learner_match.pop(peer, None)
        if not self._counted.counts(peer):
            if success:
                self.learner_match[peer] = LogIndex(message.next_index - 1)
            success = False  # it keeps the connection alive, it commits nothing
        next_before = raft.next_index(peer)
        # A refusal goes back, never forward: of several messages under way the first is refused at the
        # conflict, the others only because they begin after the follower's end.
        reset = message.reset and message.next_index < next_before
        raft.deliver(
            peer,
            {
                "type": "next_node_idx",
                "next_node_idx": message.next_index,
                "reset": reset,
                "success": success,
            },
        )
        if success:
            raft.keep_next_index(peer, next_before)

    def _vote(self, peer: NodeId, message: Vote) -> None:
        if message.term != self._raft.term:
            return  # it elects no one now; kept, such votes would fill the memory
        if (message.term, peer) in self._votes or not self._counted.counts(peer):
            return  # H3: pysyncobj counts votes, Raft counts voters
        self._votes.add((message.term, peer))
        self._raft.deliver(peer, {"type": "response_vote", "term": message.term})
