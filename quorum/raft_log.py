"""pysyncobj 0.3.17 as the Raft core: driven, never trusted.

It keeps term, vote, log and roles, and calls ``on_committed`` for every committed entry in order.
Everything name-mangled that we touch is in ``REACHED`` and asserted to exist at start-up.

How pysyncobj bites (docs/raft-hazards.md), and what is done here
H7, H6   its dumps and compaction lose entries: overridden to nothing, its serializer replaced.
H11      it queues commands, and forwards them to another leader: ``propose`` appends to the journal itself,
         as leader only, and pysyncobj's queue is switched off.
H12      an exception in apply is retried forever by its own thread: we drive the ticks, so it
         reaches our driver, which halts. Its callbacks are not used.
H13,H14  membership and pickle: refused by ``messages``; its ``pickle`` is replaced by one that raises.
L3, L4   it campaigns at once after a stall or a step-down: the deadline is pushed out first. And it
         gives up leading after a stall of its own: the time away is taken off the others' silence.
L8       it copies its log's tail: the journal caps slices, so a tick may have to be repeated.
L12'     with appendEntriesUseBatch off it sends an empty message after every apply, with it on none until
         the next heartbeat: on, and ``propose`` sends; the next message carries the commit index.
L14      it uses another clock than the rest of the node: ``use_clock`` replaces it.
"""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Final, NoReturn

import pysyncobj.syncobj
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node as PysyncobjNode
from pysyncobj.transport import Transport

from fencepost.quorum.firewall import RaftMessage
from fencepost.quorum.journal import REGULAR, Journal, JournalEntry
from fencepost.records.invariant import InvariantViolation, invariant
from fencepost.records.types import LogIndex, NodeId, Term

FOLLOWER: Final = 0
CANDIDATE: Final = 1
LEADER: Final = 2

STALL_S: Final = 0.25  # a gap between ticks after which this process, not the leader, was away
RETRY_S: Final = (0.10, 0.20)  # a vote round that failed right after a disconnect is retried this soon
RANK_STEP_S: Final = 0.06  # voters campaign one after the other when the leader's connection closes
RANK_JITTER_S: Final = 0.03
APPLY_S_MAX: Final = 0.01  # of applying in one tick; the rest comes with the next
ABSTAIN_S: Final = 3600.0  # a node that resigned does not campaign for so long
UNLED_S: Final = 10.0  # unless no other node has led for so long

REACHED: Final = (
    "raftState",
    "raftCurrentTerm",
    "raftLeader",
    "raftElectionDeadline",
    "raftCommitIndex",
    "raftLastApplied",
    "raftNextIndex",
    "raftMatchIndex",
    "lastResponseTime",
    "connectedNodes",
    "otherNodes",
    "onMessageReceived",
    "applyLogEntries",
    "getCurrentLogIndex",
    "getEntries",
    "sendAppendEntries",
    "tryLogCompaction",
    "setCurrentTerm",
    "setState",
    "generateRaftTimeout",
)


class _NoPickle:
    """Stands where pysyncobj keeps its pickle module: a use is our bug."""

    def __getattr__(self, name: str) -> NoReturn:
        raise InvariantViolation(f"pysyncobj reached for pickle.{name}")


class _NoSerializer:
    """Stands where pysyncobj keeps its dump machinery: it never has anything."""

    def getTransmissionData(self, _node: PysyncobjNode) -> None:  # noqa: N802 - pysyncobj's name
        """No dump to send; the firewall turns the empty message into Behind."""

    def cancelTransmisstion(self, _node: PysyncobjNode) -> None:  # noqa: N802
        """Do nothing: no transmission is under way."""


class RaftNode(int, PysyncobjNode):  # type: ignore[misc]
    """A node as pysyncobj keeps them in sets and dictionaries: its id, hashed and compared as a number.

    pysyncobj's own class does both in Python, some fifty times per entry.
    """

    __hash__ = int.__hash__
    __eq__ = int.__eq__
    __ne__ = int.__ne__

    def __init__(self, node_id: int) -> None:
        PysyncobjNode.__init__(self, node_id)


_NO_POLLER: Final = SimpleNamespace(poll=lambda _timeout: None, subscribe=lambda *_: None)


def use_clock(clock: Callable[[], float], rng: random.Random) -> None:
    """Give every RaftLog of this process its clock and its randomness. Call before the first one."""
    core = pysyncobj.syncobj
    core.monotonicTime = clock
    core.random = rng
    core.createPoller = lambda _kind: _NO_POLLER
    core.createJournal = lambda journal: journal
    core.PIPE_NOTIFIER_ENABLED = False
    core.Serializer = lambda *_: _NoSerializer()
    core.pickle = _NoPickle()


class RaftLog(SyncObj):  # type: ignore[misc]
    """One voter's Raft core. ``transport`` is a pysyncobj Transport; see quorum/transport.py."""

    _SyncObj__raftElectionDeadline: float
    _SyncObj__raftLeader: "RaftNode | None"
    _SyncObj__raftCommitIndex: LogIndex
    _SyncObj__raftLastApplied: LogIndex

    def __init__(
        self,
        node_id: NodeId,
        peers: list[NodeId],
        journal: Journal,
        transport: Transport,
        *,
        applied_index: LogIndex,
        election_s: tuple[float, float],
        heartbeat_s: float,
        on_committed: Callable[[LogIndex, Term, bytes], bool],  # True: not applied, and the core is frozen
        on_role: Callable[[int, int], None],
    ) -> None:
        self._node_id = node_id
        self._journal = journal
        self._on_committed = on_committed
        self._election_s = election_s
        self._clock: Callable[[], float] = pysyncobj.syncobj.monotonicTime
        self._rng: random.Random = pysyncobj.syncobj.random
        self._last_tick = self._clock()
        self._hurried = False
        self.is_frozen = False  # nothing is applied: see quorum/image_watch.py
        self._abstains_until_s = 0.0  # it resigned: it campaigns again then
        self._led_s = 0.0  # when another node was last known to lead
        self._nodes = {peer: RaftNode(peer) for peer in sorted(peers)}
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=True,
            appendEntriesBatchSizeBytes=4 * 1024 * 1024,
            appendEntriesPeriod=heartbeat_s,
            raftMinTimeout=election_s[0],
            raftMaxTimeout=election_s[1],
            leaderFallbackTimeout=election_s[1],
            connectionTimeout=max(3.5, election_s[1]),
            dynamicMembershipChange=False,
            commandsWaitLeader=False,
            fullDumpFile=None,
            journalFile=journal,
            onStateChanged=on_role,
        )
        super().__init__(RaftNode(node_id), list(self._nodes.values()), conf, transport=transport)
        for name in REACHED:
            invariant(hasattr(self, f"_SyncObj__{name}"), "pysyncobj changed", missing=name)
        self._SyncObj__raftLastApplied = applied_index
        commit_index = max(LogIndex(journal.getRaftCommitIndex()), applied_index)
        self._SyncObj__raftCommitIndex = commit_index
        journal.setRaftCommitIndex(commit_index)
        if not self._nodes:  # a lone voter waits for no leader's silence: its own vote elects it
            self._SyncObj__raftElectionDeadline = self._clock()

    # -- overridden: what pysyncobj must not do --------------------------------------------------

    def _SyncObj__applyLogEntries(self) -> bool:  # noqa: N802
        """Apply what is committed, for ``APPLY_S_MAX`` at a time. pysyncobj's own applies all there is."""
        if not self.behind_commit:
            return False
        until_s = self._clock() + APPLY_S_MAX
        while self.behind_commit:
            index = LogIndex(self._SyncObj__raftLastApplied + 1)
            entry = self._journal.entry_at(index)
            if entry is None:
                raise InvariantViolation(f"committed entry {index} is not in the journal")
            command, _, term = entry
            if self._on_committed(index, Term(term), command):
                break
            self._SyncObj__raftLastApplied = index
            if self._clock() > until_s:
                break
        return False

    def _checkCommandsToApply(self) -> None:  # noqa: N802
        """pysyncobj's queue of commands to append, or to forward: nothing is ever in it (``propose``)."""

    def _SyncObj__getCurrentLogIndex(self) -> int:  # noqa: N802
        """The same as pysyncobj's, which reads it twelve times for each entry."""
        return self._journal.last_index

    def _SyncObj__getEntries(  # noqa: N802
        self, first: int | None, count: int | None = None, bytes_max: int | None = None
    ) -> list[JournalEntry]:
        """The same as pysyncobj's, without a slice for a single entry, as most calls want.

        pysyncobj's own returns at least one entry, whatever ``bytes_max`` is.
        """
        is_single = count == 1 or (count is None and first == self._journal.last_index)
        if first is None or not is_single:
            several: list[JournalEntry] = super()._SyncObj__getEntries(first, count, bytes_max)
            return several
        entry = self._journal.entry_at(first)
        return [] if entry is None else [entry]

    def _SyncObj__tryLogCompaction(self) -> None:  # noqa: N802
        """Do nothing: the snapshotter compacts the log (quorum/snapshotter.py)."""

    # -- what the rest reads ----------------------------------------------------------------------

    @property
    def term(self) -> Term:
        """The current term of this node."""
        term: Term = self._SyncObj__raftCurrentTerm
        return term

    @property
    def role(self) -> int:
        """This node's role: FOLLOWER, CANDIDATE or LEADER."""
        role: int = self._SyncObj__raftState
        return role

    @property
    def is_leader(self) -> bool:
        """This node believes that it leads. It may be deposed already: only an apply proves it."""
        leads: bool = self._SyncObj__raftState == LEADER
        return leads

    @property
    def leader_id(self) -> NodeId | None:
        """Whom this node follows, itself included."""
        leader = self._SyncObj__raftLeader
        return None if leader is None else NodeId(leader.id)

    @property
    def commit_index(self) -> LogIndex:
        """The highest index known to be committed."""
        return self._SyncObj__raftCommitIndex

    @property
    def applied_index(self) -> LogIndex:
        """The highest index handed to ``on_committed``."""
        return self._SyncObj__raftLastApplied

    def match_index(self, peer: NodeId) -> LogIndex:
        """How far the follower's log is known to match. 0 when unknown."""
        return LogIndex(self._SyncObj__raftMatchIndex.get(self._nodes[peer], 0))

    def next_index(self, peer: NodeId) -> LogIndex:
        """What is sent next to the follower."""
        return LogIndex(self._SyncObj__raftNextIndex.get(self._nodes[peer], 1))

    def last_contact_s(self, peer: NodeId) -> float | None:
        """Leader: when the follower answered last, in the clock's seconds."""
        contact_s = self._SyncObj__lastResponseTime.get(self._nodes[peer])
        return None if contact_s is None else float(contact_s)

    # -- what the driver does ---------------------------------------------------------------------

    def tick(self, *, may_vote: Callable[[], bool]) -> None:
        """One step of the core. The journal must have been flushed: this counts its entries.

        ``may_vote``   is called only where it matters: on a follower whose election comes near.
        """
        now = self._clock()
        away_s = now - self._last_tick
        stalled = away_s > STALL_S
        self._last_tick = now
        if stalled:
            self._excuse(away_s)
        role_before = self._SyncObj__raftState
        soonest = now + self._election_s[0]
        near = role_before != LEADER and self._SyncObj__raftElectionDeadline < soonest
        if stalled or (near and (self._abstains(now) or not may_vote())):
            self._postpone_election(soonest)
        self.doTick(0.0)
        role = self._SyncObj__raftState
        if role_before == LEADER and role != LEADER:
            self._rest()
        if self._hurried and role == CANDIDATE:
            self._hurried = False
            self._SyncObj__raftElectionDeadline = now + self._rng.uniform(*RETRY_S)

    def _excuse(self, away_s: float) -> None:
        """Do not count the others' silence while this process stood still, perhaps with the whole machine.

        A leader that was deposed in the meantime learns it (NewerTerm) from the first peer that answers.
        """
        contact_s = self._SyncObj__lastResponseTime
        for node in contact_s:
            contact_s[node] += away_s

    @property
    def behind_commit(self) -> bool:
        """Committed entries wait to be applied: tick again. Not while the image is bad."""
        return not self.is_frozen and self._SyncObj__raftCommitIndex > self._SyncObj__raftLastApplied

    def deliver(self, peer: NodeId, message: RaftMessage) -> None:
        """Give the core a message that the firewall let through."""
        role_before = self._SyncObj__raftState
        if message["type"] == "append_entries":
            self._led_s = self._clock()
        self._SyncObj__onMessageReceived(self._nodes[peer], message)
        if role_before == LEADER and self._SyncObj__raftState == FOLLOWER:
            self._rest()

    def propose(self, payload: bytes) -> LogIndex:
        """Append an entry as leader and send it. Halts unless it continues the journal."""
        invariant(self.is_leader, "a proposal by a node that does not lead", term=self.term)
        index = LogIndex(self._journal.last_index + 1)
        self._journal.add(REGULAR + payload, index, self.term)
        self._SyncObj__sendAppendEntries()
        return index

    def keep_next_index(self, peer: NodeId, at_least: LogIndex) -> None:
        """An ack never moves the next index back (it would send everything twice)."""
        node = self._nodes[peer]
        if self._SyncObj__raftNextIndex.get(node, 0) < at_least:
            self._SyncObj__raftNextIndex[node] = int(at_least)

    def forget(self, peer: NodeId) -> None:
        """The follower has not what it acknowledged: nothing is known of its log any more."""
        node = self._nodes[peer]
        if node in self._SyncObj__raftMatchIndex:
            self._SyncObj__raftMatchIndex[node] = 0
            self._SyncObj__raftNextIndex[node] = int(self._journal.last_index) + 1

    def step_down(self, term: Term) -> None:
        """Another node is in a later term: follow (Raft §5.1)."""
        if term <= self.term:
            return
        was_leader = self.is_leader
        self._SyncObj__setCurrentTerm(int(term), None)
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(FOLLOWER)
        if was_leader:
            self._rest()

    def resign(self, abstain_s: float = ABSTAIN_S) -> None:
        """Lead no more, and do not campaign for ``abstain_s``, unless no other node leads for ``UNLED_S``.

        For a leader that cannot write what makes it active: another node may be able to.
        """
        if not self.is_leader:
            return
        now = self._clock()
        self._abstains_until_s, self._led_s = now + abstain_s, now
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(FOLLOWER)
        self._rest()

    def _abstains(self, now: float) -> bool:
        return now < self._abstains_until_s and now - self._led_s < UNLED_S

    def campaign_by_rank(self, lost: NodeId | None) -> None:
        """The leader's connection closed, or (None) all are open and none led yet: campaign by rank."""
        if self.role != FOLLOWER or (self.term > 0 if lost is None else self.leader_id != lost):
            return
        rivals = sorted(n for n in (*self._nodes, self._node_id) if n != lost)
        jitter_s = 0.0 if lost is None else self._rng.uniform(0, RANK_JITTER_S)
        deadline = self._clock() + rivals.index(self._node_id) * RANK_STEP_S + jitter_s
        if deadline < self._SyncObj__raftElectionDeadline:
            self._SyncObj__raftElectionDeadline = deadline
            self._hurried = True

    def hand_over(self, peer: NodeId) -> bool:
        """Request that ``peer`` campaigns at once; it must hold the whole log. True: the request was sent."""
        if not self.is_leader or self.match_index(peer) != self._journal.last_index:
            return False
        self.transferLeadership(self._nodes[peer])
        return True

    def installed(self, index: LogIndex, term: Term) -> None:
        """A snapshot up to (``index``, ``term``) is the image now, and the journal starts there.

        At a start this node's term may be older: it died before it flushed the one of the transfer.
        """
        if term > self.term:
            self._SyncObj__setCurrentTerm(int(term), None)
        self._SyncObj__raftLastApplied = index
        self._SyncObj__raftCommitIndex = max(index, self._SyncObj__raftCommitIndex)

    def _rest(self) -> None:
        """A deposed leader waits a whole timeout before it campaigns (L4)."""
        self._postpone_election(self._clock() + self._SyncObj__generateRaftTimeout())

    def _postpone_election(self, deadline: float) -> None:
        self._SyncObj__raftElectionDeadline = max(self._SyncObj__raftElectionDeadline, deadline)
