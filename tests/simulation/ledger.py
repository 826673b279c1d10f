"""What an all-seeing observer knows: everything applied, everything anyone was told, who led, who voted.

The ledger only writes down. ``news`` is what one event of the simulation added; the invariants
(tests/simulation/invariants.py) judge it against the rest, after every event.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any

from fencepost.controller.brokers import FENCE
from fencepost.controller.errors import ApiError, RequestTimedOut, StorageFull
from fencepost.controller.migration import DIRECT_WRITERS
from fencepost.controller.view import ImageHeader
from fencepost.quorum.journal import NO_OP
from fencepost.quorum.raft_log import CANDIDATE
from fencepost.quorum.replica import Replica
from fencepost.records.control import LeaderChange, Voters
from fencepost.records.entry import Entry, decode_entry, decode_records
from fencepost.records.schema import (
    AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    ZkMigrationStateRecord,
)
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import BrokerId, LogIndex, NodeId, Term
from fencepost.snapshots.image import image_digest
from fencepost.snapshots.store import Store
from tests.simulation.facts import Fact, TransactionFacts

Block = tuple[int, int]  # first, end
Claim = tuple[int, int, int]  # controller epoch, proposer, proposal number: names an entry
RowAt = tuple[str, bytes]  # table, encoded key


@dataclass(slots=True, eq=False)
class Attempt:
    """One request of one client. ``mark`` is in the record that it leads to, and in no other."""

    number: int
    kind: str  # "allocate", "register", "read", ...
    mark: object
    asked_s: float
    told_end: int  # the highest block end that anyone had been told when it was sent
    node: NodeId
    broker_id: BrokerId = BrokerId(-1)  # whose it is
    life: int = 0  # of the node
    taken_s: float = 0.0  # when the node took it
    leader_ms: tuple[Term, int] | None = None  # its term and its clock then, if it was active
    full: bool = False  # the node knew that its disk was full when it took the request, and when it answered
    outcome: str = "waiting"  # "done", "refused", "unknown"
    answer: Any = None

    def settle(self, answer: Any) -> None:
        """What the client was told."""
        self.answer = answer
        if isinstance(answer, RequestTimedOut):
            self.outcome = "unknown"
        elif isinstance(answer, ApiError):
            self.outcome = "refused"
        else:
            self.outcome = "done"


@dataclass(frozen=True, slots=True)
class Seen:
    """One committed entry, as one node applied it or found it superseded."""

    node: NodeId
    index: LogIndex
    term: Term
    command: bytes
    entry: Entry | None  # None: a no-op
    applied: bool
    changes_leader: bool
    before: ImageHeader
    after: ImageHeader
    digest: str  # of the image after it
    blocks: tuple[Block, ...]
    marks: tuple[object, ...]
    fenced: tuple[BrokerId, ...] = ()
    upgrade: tuple[ZkMigrationStateRecord, ...] = ()
    transactions: tuple[TransactionStateRecord | TransactionForgotten, ...] = ()

    @property
    def claim(self) -> Claim | None:
        """Who proposed it."""
        entry = self.entry
        return None if entry is None else (entry.controller_epoch, entry.proposer, entry.proposal)


@dataclass(frozen=True, slots=True)
class Campaign:
    """A node votes for itself. ``image_is_bad``: it knew that before the event, and still does."""

    node: NodeId
    directory: uuid.UUID
    term: Term
    image_is_bad: bool


@dataclass(slots=True)
class News:
    """What one event added."""

    seen: list[Seen] = field(default_factory=list)
    installed: list[tuple[NodeId, ImageHeader, str]] = field(default_factory=list)
    told: list[Attempt] = field(default_factory=list)
    led: list[tuple[Term, NodeId]] = field(default_factory=list)
    committed: list[tuple[NodeId, int, LogIndex]] = field(default_factory=list)  # node, life, commit index
    votes: list[tuple[NodeId, uuid.UUID, Term, NodeId]] = field(default_factory=list)
    campaigns: list[Campaign] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)  # of partitions and transactional producers

    def __bool__(self) -> bool:
        news = (self.seen, self.told, self.led, self.committed, self.votes, self.campaigns, self.installed)
        return any(news) or bool(self.facts)


@dataclass(slots=True)
class Ledger:
    """All that was seen so far. Maps are by the first who showed it."""

    entries: dict[LogIndex, Seen] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)  # by image version
    winners: dict[int, Claim] = field(default_factory=dict)  # by base version
    leaders: dict[Term, NodeId] = field(default_factory=dict)
    votes: dict[tuple[NodeId, uuid.UUID, Term], NodeId] = field(default_factory=dict)
    commit_index: dict[tuple[NodeId, int], LogIndex] = field(default_factory=dict)  # by node and life
    campaigned: dict[NodeId, Term] = field(default_factory=dict)  # for which term each node did last
    image_is_bad: dict[NodeId, bool] = field(default_factory=dict)  # as each node knew after its last event
    blocks: dict[Block, LogIndex] = field(default_factory=dict)  # in the committed log
    told_blocks: list[Block] = field(default_factory=list)  # ascending
    marks: dict[object, LogIndex] = field(default_factory=dict)
    granted: list[Attempt] = field(default_factory=list)  # allocations that were answered with a block
    told_end: int = 0  # the highest end of those
    refused: dict[object, Attempt] = field(default_factory=dict)  # by mark
    bindings: set[tuple[NodeId, uuid.UUID]] = field(default_factory=set)  # ever in somebody's log
    last_bound: dict[NodeId, object] = field(default_factory=dict)  # what each node's electorate said last
    bound: dict[NodeId, uuid.UUID] = field(default_factory=dict)  # newest in the committed log
    bound_at: LogIndex = LogIndex(0)
    transactions: TransactionFacts = field(default_factory=TransactionFacts)
    news: News = field(default_factory=News)
    lives: dict[NodeId, int] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)  # that a node took
    active_ms: dict[Term, int] = field(default_factory=dict)  # by the leader's clock
    fences_wanted: set[tuple[Term, BrokerId]] = field(default_factory=set)  # by the brokers themselves
    heartbeat_ms: dict[tuple[Term, BrokerId], int] = field(default_factory=dict)  # at least, by whom it led
    changed: set[NodeId] = field(default_factory=set)  # their image changed while they ran
    changed_rows: dict[NodeId, set[RowAt]] = field(default_factory=dict)  # in memory, by node in ``changed``
    changed_ever: set[RowAt] = field(default_factory=set)  # in memory, of any node
    counts: dict[str, int] = field(default_factory=dict)  # for the summary

    def count(self, what: str, times: int = 1) -> None:
        """This happened again, so often."""
        self.counts[what] = self.counts.get(what, 0) + times

    def started(self, node: NodeId, replica: Replica) -> None:
        """A process came up."""
        self.lives[node] = self.lives.get(node, 0) + 1
        self.image_is_bad[node] = replica.watch.is_bad
        if replica.watch.is_bad:
            return  # as its image was found
        self._is_good(node)
        self.news.installed.append((node, replica.store.image.header, image_digest(replica.store)))
        self.bindings.update(replica.electorate.bound().items())

    def looked_at(self, replica: Replica) -> None:
        """After a turn: role and commit index."""
        node, raft = replica.config.node_id, replica.raft
        if raft.is_leader and self.leaders.get(raft.term) != node:
            self.news.led.append((raft.term, node))
        life = self.lives[node]
        if self.commit_index.get((node, life)) != raft.commit_index:
            self.news.committed.append((node, life, raft.commit_index))
        was_bad, is_bad = self.image_is_bad[node], replica.watch.is_bad
        self.image_is_bad[node] = is_bad
        if raft.role == CANDIDATE and self.campaigned.get(node) != raft.term:
            self.campaigned[node] = raft.term
            directory = replica.config.directory_id
            self.news.campaigns.append(Campaign(node, directory, raft.term, was_bad and is_bad))
        if node in self.changed:
            return  # perhaps what binds voters cannot be read
        bound, unapplied = replica.electorate.bound(), replica.electorate._unapplied()
        if unapplied or bound is not self.last_bound.get(node):  # almost always they are what they were
            self.last_bound[node] = bound
            for each in (bound, *unapplied):
                self.bindings.update(each.items())

    def activated(self, term: Term, now_ms: int) -> None:
        """A node decides from now on."""
        self.active_ms[term] = now_ms

    def taken(self, attempt: Attempt, life: int, now_s: float, replica: Replica | None) -> None:
        """A node took a request."""
        attempt.life, attempt.taken_s = life, now_s
        self.attempts.append(attempt)
        if replica is not None and replica.proposer.active:
            attempt.leader_ms = (replica.raft.term, replica.proposer.now_ms())

    def fence_wanted(self, replica: Replica | None, broker_id: BrokerId) -> None:
        """A broker asked to be fenced."""
        if replica is not None:
            self.fences_wanted.add((replica.raft.term, broker_id))

    def voted(self, node: NodeId, directory: uuid.UUID, term: Term, candidate: NodeId) -> None:
        """A vote left the process."""
        self.news.votes.append((node, directory, term, candidate))

    def told(self, attempt: Attempt, answer: Any) -> None:
        """An answer left the process; whether it arrives is not the node's to know."""
        attempt.settle(answer)
        self.count(f"{attempt.kind} {attempt.outcome}")
        if isinstance(answer, StorageFull):
            self.count("refused by full disks")
        self.news.told.append(attempt)

    def fact(self, fact: Fact) -> None:
        """Something happened on a partition or to a transactional producer."""
        self.count(type(fact).__name__.lower())
        self.news.facts.append(fact)

    def installed(self, node: NodeId, store: Store) -> None:
        """A snapshot became the image."""
        self.count("snapshots installed")
        if node in self.changed:
            self._is_good(node)
            self.count("images restored")
        self.news.installed.append((node, store.image.header, image_digest(store)))

    def applied(
        self,
        node: NodeId,
        index: LogIndex,
        term: Term,
        command: bytes,
        before: ImageHeader,
        ids_end: int,
        store: Store,
    ) -> None:
        """A committed entry went through a node's apply; ``ids_end`` was the first free id before it."""
        after = store.image.header
        if command[:1] == NO_OP:
            seen = Seen(node, index, term, command, None, False, False, before, after, "", (), ())
            self.news.seen.append(seen)
            return
        entry = decode_entry(command[1:])
        applied = after != before
        blocks: list[Block] = []
        marks: list[object] = []
        changes_leader = False
        records = [record for batch in decode_records(entry) for record in batch.records] if applied else []
        given = [r for r in records if isinstance(r, AllocateProducerIdsRecord)]
        for record in records:
            if isinstance(record, RegisterBrokerRecord):
                marks.append(record.incarnation_id)
            elif isinstance(record, LeaderChange):
                changes_leader = True
            elif isinstance(record, Voters) and index > self.bound_at:
                self.bound_at = index
                self.bound = {
                    v.voter_id: v.voter_directory_id
                    for v in record.voters
                    if v.voter_directory_id is not None
                }
                self.bindings.update(self.bound.items())
        for each in given:
            if each.broker_id != DIRECT_WRITERS:
                blocks.append((ids_end, each.producer_id_end))
                marks.append(each.producer_id_end - ids_end)
            ids_end = each.producer_id_end
        digest = self._digest_of(node, store)
        self.news.seen.append(
            Seen(
                node,
                index,
                term,
                command,
                entry,
                applied,
                changes_leader,
                before,
                after,
                digest,
                tuple(blocks),
                tuple(marks),
                tuple(
                    r.broker_id
                    for r in records
                    if isinstance(r, BrokerRegistrationChangeRecord) and r.fenced == FENCE
                ),
                tuple(r for r in records if isinstance(r, ZkMigrationStateRecord)),
                tuple(r for r in records if isinstance(r, TransactionStateRecord | TransactionForgotten)),
            )
        )

    def _is_good(self, node: NodeId) -> None:
        self.changed.discard(node)
        self.changed_rows.pop(node, None)

    def _digest_of(self, node: NodeId, store: Store) -> str:
        """Empty of a changed image: what it says is judged by no one but its own cluster."""
        return "" if node in self.changed else image_digest(store)

    def absorb(self) -> None:
        """Write down the part of the news that no invariant writes itself."""
        for seen in self.news.seen:
            for block in seen.blocks:
                self.blocks.setdefault(block, seen.index)
            for mark in seen.marks:
                self.marks.setdefault(mark, seen.index)
        for attempt in self.news.told:
            if attempt.outcome == "refused":
                self.refused[attempt.mark] = attempt
            elif attempt.outcome == "done" and attempt.kind == "allocate":
                self.granted.append(attempt)

    def turn_page(self) -> None:
        """The news was judged."""
        for attempt in self.news.told:
            if attempt.outcome == "done" and attempt.kind == "allocate":
                self.told_end = max(self.told_end, attempt.answer.first + attempt.answer.length)
        self.news = News()
