"""The proposer: decides what waits, as one Raft entry at a time, and answers when it is applied.

Group commit   requests that arrive while an entry is in flight wait. Then all of them are decided in
               order, each seeing the records of those before it through an overlay, and go out as
               one entry. A second entry in flight is unsafe with a bare version (DESIGN 2): never.
Gathering      whoever was just answered often asks again at once. An entry costs two flushes and a round
               trip whatever it holds, so the next one waits up to ``GATHER_S`` for them (quorum/gather.py).
Fate           is learned at apply, in any role, by (epoch, proposer, proposal). A later LeaderChange
               that is applied proves that an older entry of ours never will be. Until one of the two
               is seen the outcome is unknown, and after ``FATE_WAIT_S`` it is reported as unknown (7).
Patience       a request that nobody waits for goes with the next entry that somebody needs, if that is soon
               enough: an entry costs every node some hundreds of microseconds, a record in it far less.
Answers        refusals and reads too, leave only when the entry of their batch is applied: a deposed
               leader that wakes up can tell nobody anything.
Active         only after its own LeaderChange is applied, which is proposed after its own no-op is.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import structlog

from controller.decision import Decision
from controller.errors import ApiError, NotController, RequestTimedOut, UnknownServerError
from controller.replay import Applied, Superseded, replay_record
from controller.view import ImageHeader, Overlay, View
from quorum.gather import CROWD, Gather
from quorum.raft_log import RaftLog
from records.batch import BatchRecord, RecordParts, encode_batch
from records.control import ControlRecord, encode_control
from records.entry import Entry, LoggedBatch, encode_entry
from records.invariant import InvariantViolation
from records.logged import StateRecord, encode_record
from records.types import Log, NodeId, ProposalNumber, Term
from snapshots.store import Store

PENDING_MAX: Final = 20_000  # requests that wait; one past it is told to come back
DECISIONS_MAX: Final = 1024  # requests decided into one entry
RECORD_BYTES_MAX: Final = 1024 * 1024  # of keys and values in one entry; decisions stop past it
PATIENCE_S: Final = 0.005  # how long a patient request waits for an entry that others need
FATE_WAIT_S: Final = 3.0  # how long an answer waits for its entry's fate before "unknown"

Decide = Callable[[View, int], Decision[Any]]
Reply = Callable[[Any, int], None]  # (response or ApiError, throttle_ms)


class Submit(Protocol):
    """See ``Proposer.submit``."""

    def __call__(self, decide: Decide, reply: Reply, *, patient: bool = False) -> None:
        """Decide when the entry in flight is done."""


Asked = tuple[Decide, Reply, bool]  # a request that waits for a decision; whether it is patient
Answer = tuple[Reply, Any, int]  # a decided one that waits for its entry: reply, response, throttle_ms


@dataclass(slots=True)
class InFlight:
    """The one proposed entry whose fate is not known yet."""

    epoch: Term
    proposal: ProposalNumber
    answers: list[Answer]
    batches: tuple[LoggedBatch, ...]
    overlay: Overlay  # the image with the entry's records replayed, its header still the image's
    since_s: float
    patient: int = 0  # answers for which nobody waits, so nobody asks again after them


class _Decided:
    """The records of the entry that is being decided, by log."""

    __slots__ = ("_logs", "bytes")

    def __init__(self) -> None:
        self._logs: dict[Log, tuple[list[StateRecord], list[RecordParts]]] = {}
        self.bytes = 0

    def add(self, record: StateRecord) -> None:
        log, parts = encode_record(record)
        records, encoded = self._logs.setdefault(log, ([], []))
        records.append(record)
        encoded.append(parts)
        self.bytes += len(parts[0] or b"") + len(parts[1] or b"")

    def advanced(self, header: ImageHeader) -> ImageHeader:
        """``header`` with the offsets after these records, the version still the one before the entry."""
        ends = [*header.log_ends]
        for log, (records, _) in self._logs.items():
            ends[log] += len(records)
        return msgspec.structs.replace(header, log_ends=(ends[0], ends[1], ends[2]))

    def batches(self, now_ms: int) -> tuple[tuple[Log, bytes], ...]:
        return tuple(
            (log, encode_batch(encoded, timestamp_ms=now_ms))
            for log, (_, encoded) in sorted(self._logs.items())
        )

    def logged(self) -> tuple[LoggedBatch, ...]:
        return tuple(
            LoggedBatch(log, False, tuple(records), len(records))
            for log, (records, _) in sorted(self._logs.items())
        )


class Proposer:
    """Leads when its node does. All calls on the node's one thread."""

    def __init__(
        self,
        node_id: NodeId,
        raft: RaftLog,
        store: Store,
        *,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        claim: Callable[[View], tuple[ControlRecord, ...]],
        on_active: Callable[[int], None],
        on_deposed: Callable[[], None],
        on_answering: Callable[[Sequence[Answer]], None],
        log: Any = None,
    ) -> None:
        self._node_id = node_id
        self._raft = raft
        self._store = store
        self._clock = clock
        self._wall_ms = wall_ms
        self._claim = claim
        self._on_active = on_active
        self._on_deposed = on_deposed
        self._on_answering = on_answering
        self._log = log or structlog.get_logger()
        self._pending: deque[Asked] = deque()
        self._controls: deque[Callable[[View], tuple[ControlRecord, ...]]] = deque()
        self._in_flight: InFlight | None = None
        self._orphans: list[InFlight] = []  # of an earlier leadership of this node
        self._due: list[Answer] = []  # their entries are applied
        self._due_patient = 0  # so many of them are for patient requests
        self._patient_until_s = 0.0  # in the future while only patient requests wait
        self._gather = Gather()
        self._proposal = ProposalNumber(0)
        self._claimed: Term | None = None  # the term whose LeaderChange is proposed
        self.active_epoch: Term | None = None
        self._clock_base_ms = 0
        self.stopping = False
        self.last_commit_s = 0.0  # seconds from proposal to apply of the last entry

    @property
    def active(self) -> bool:
        """This node decides: its LeaderChange is applied and it still believes that it leads."""
        return self.active_epoch is not None and self._raft.is_leader and self.active_epoch == self._raft.term

    @property
    def idle(self) -> bool:
        """Nothing is in flight and nothing waits."""
        return not (self.in_flight or self._pending or self._controls or self._due)

    @property
    def in_flight(self) -> bool:
        """An entry of this node is proposed, its fate not known."""
        return self._in_flight is not None

    def now_ms(self) -> int:
        """Wall clock at activation + monotonic time since (DESIGN 2): it never jumps in a leadership."""
        return self._clock_base_ms + int(self._clock() * 1000)

    # -- asking ---------------------------------------------------------------------------------

    def submit(self, decide: Decide, reply: Reply, *, patient: bool = False) -> None:
        """Decide when the entry in flight is done; ``reply`` is called once, when it is applied.

        ``patient``   it makes no entry of its own for up to ``PATIENCE_S``. Order is kept.
        """
        if self.active_epoch is None or self.stopping:  # None from the moment this node stops leading
            reply(NotController("this node is not the active controller"), 0)
        elif len(self._pending) >= PENDING_MAX:
            reply(NotController(f"{PENDING_MAX} requests wait already; nothing was done"), 0)
        else:
            if not patient:
                self._patient_until_s = 0.0
            elif not self._pending:
                self._patient_until_s = self._clock() + PATIENCE_S
            self._pending.append((decide, reply, patient))

    def submit_control(self, decide: Callable[[View], tuple[ControlRecord, ...]]) -> bool:
        """Write control records (Voters), if ``decide`` returns any, before what waits. False: not now.

        One at a time; ``decide`` sees the image without anything in flight.
        """
        if not self.active or self.stopping or self._controls:
            return False
        self._controls.append(decide)
        return True

    # -- proposing ------------------------------------------------------------------------------

    def pump(self) -> None:
        """Propose what waits, unless an entry is in flight."""
        if self._in_flight is not None or not self.active:
            return
        if self._controls:
            controls = self._controls.popleft()(self._store.image)
            if controls:
                self._propose_control(controls)
                return
        if not self._pending or self._only_patient:
            return
        if self._gather.over(len(self._pending), self._clock()):
            self._propose_decisions()

    def _propose_decisions(self) -> None:
        now_ms = self.now_ms()
        overlay = Overlay(self._store.image)
        decided = _Decided()
        answers: list[Answer] = []
        patient_ones = 0
        while self._pending and len(answers) < DECISIONS_MAX and decided.bytes < RECORD_BYTES_MAX:
            decide, reply, patient = self._pending.popleft()
            patient_ones += patient
            try:
                decision = decide(overlay, now_ms)
            except ApiError as refusal:
                answers.append((reply, refusal, 0))
                continue
            except InvariantViolation:
                raise
            except Exception as error:  # noqa: BLE001 - a bad request harms only itself (DESIGN 2)
                self._log.error("decision_failed", error=repr(error))
                answers.append((reply, UnknownServerError(f"decision failed: {error!r}"), 0))
                continue
            for record in decision.records:
                decided.add(record)
                replay_record(overlay, record)  # a record that cannot apply halts here, unproposed
            if decision.records:
                overlay.header = decided.advanced(self._store.image.header)
            answers.append((reply, decision.response, decision.throttle_ms))
        self._propose(decided.batches(now_ms), decided.logged(), overlay, answers, patient_ones)

    def _propose_control(self, controls: tuple[ControlRecord, ...]) -> None:
        keyed = [BatchRecord(*encode_control(record)) for record in controls]
        batch = encode_batch(keyed, timestamp_ms=self.now_ms(), control=True)
        logged = (LoggedBatch(Log.METADATA, True, controls, len(controls)),)
        overlay = Overlay(self._store.image)
        for record in controls:
            replay_record(overlay, record)
        self._propose(((Log.METADATA, batch),), logged, overlay, [])

    def _propose(
        self,
        batches: tuple[tuple[Log, bytes], ...],
        logged: tuple[LoggedBatch, ...],
        overlay: Overlay,
        answers: list[Answer],
        patient: int = 0,
    ) -> None:
        epoch = self._raft.term
        self._proposal = ProposalNumber(self._proposal + 1)
        entry = Entry(self._store.image.header.version, epoch, self._node_id, self._proposal, batches)
        self._in_flight = InFlight(epoch, self._proposal, answers, logged, overlay, self._clock(), patient)
        self._raft.propose(encode_entry(entry))

    # -- learning -------------------------------------------------------------------------------

    def own_no_op_applied(self) -> None:
        """The no-op of this node's leadership is applied: claim the epoch with a LeaderChange."""
        term = self._raft.term
        if self._claimed == term:
            return
        self._claimed = term
        self._clock_base_ms = self._wall_ms() - int(self._clock() * 1000)
        if self._in_flight is not None:  # ours, of an earlier leadership: this LeaderChange decides its fate
            self._orphans.append(self._in_flight)
            self._in_flight = None
        self._propose_control(self._claim(self._store.image))

    def decided(self, entry: Entry) -> tuple[tuple[LoggedBatch, ...], Overlay] | None:
        """Records and overlay of an entry that this very process decided: no second decoding or replay."""
        flight = self._in_flight
        if flight is not None and self._is_ours(flight, entry):
            return flight.batches, flight.overlay
        return None

    def applied(self, entry: Entry, outcome: Applied | Superseded) -> None:
        """An entry, of whomever, was applied or superseded. Answers leave from here."""
        for flight in [f for f in (self._in_flight, *self._orphans) if f is not None]:
            if self._is_ours(flight, entry):
                self._settle(flight, outcome)
            elif isinstance(outcome, Applied) and entry.controller_epoch > flight.epoch:
                self._settle(flight, Superseded(outcome.version))  # it can never apply now
        claimed = isinstance(outcome, Applied) and entry.proposer == self._node_id
        if claimed and entry.controller_epoch == self._claimed and self.active_epoch != self._claimed:
            if self._raft.is_leader and self._raft.term == self._claimed:
                self.active_epoch = self._claimed
                self._on_active(self.now_ms())

    def _is_ours(self, flight: InFlight, entry: Entry) -> bool:
        return (entry.proposal, entry.controller_epoch, entry.proposer) == (
            flight.proposal,
            flight.epoch,
            self._node_id,
        )

    def _settle(self, flight: InFlight, outcome: Applied | Superseded) -> None:
        if flight is self._in_flight:
            self._in_flight = None
            self.last_commit_s = self._clock() - flight.since_s
        else:
            self._orphans.remove(flight)
        if isinstance(outcome, Applied):
            if flight.answers:  # not told "unknown" yet
                self._due += flight.answers
                self._due_patient += flight.patient
            return
        refusal = NotController("another leader's decision took its place; nothing was done")
        for reply, _, _ in flight.answers:
            reply(refusal, 0)

    def answer(self) -> None:
        """Give the answers whose entries are applied. Then ``pump`` waits a moment for who asks again."""
        due, self._due = self._due, []
        patient, self._due_patient = self._due_patient, 0
        self._on_answering(due)
        for reply, response, throttle_ms in due:
            reply(response, throttle_ms)
        if due:
            self._gather.expect(len(due) - patient + len(self._pending), self._clock())

    @property
    def answers_due(self) -> bool:
        """Answers whose entries are applied wait for ``answer``."""
        return bool(self._due)

    @property
    def crowded(self) -> bool:
        """Enough requests wait: propose them before those of the last entry are answered."""
        return 2 * len(self._pending) >= CROWD

    @property
    def gathering(self) -> bool:
        """Requests wait for more to come: pump again within ``GATHER_S``. Patient ones wait for a tick."""
        return bool(self._pending) and self._in_flight is None and not self._only_patient

    @property
    def _only_patient(self) -> bool:
        """Whoever waits has time. The clock is asked only where it matters."""
        return bool(self._patient_until_s) and self._clock() < self._patient_until_s

    # -- losing leadership, losing patience -----------------------------------------------------

    def deposed(self) -> None:
        """This node no longer leads. What was never proposed is definitely not done."""
        self._controls.clear()
        was_active, self.active_epoch = self.active_epoch, None
        refusal = NotController("this node lost its leadership before it decided; nothing was done")
        waiting, self._pending = self._pending, deque()
        for _, reply, _ in waiting:
            reply(refusal, 0)
        if was_active is not None:
            self._on_deposed()

    def expire(self) -> None:
        """Answer "unknown" where the fate is not learned in time. The entry may still apply."""
        for flight in [f for f in (self._in_flight, *self._orphans) if f is not None]:
            if self._clock() - flight.since_s < FATE_WAIT_S:
                continue
            _answer_unknown(flight)
            if flight is not self._in_flight:
                self._orphans.remove(flight)

    def skipped(self) -> None:
        """A snapshot took the place of entries, ours perhaps among them: nobody will say so any more."""
        flights = [f for f in (self._in_flight, *self._orphans) if f is not None]
        self._in_flight, self._orphans = None, []
        for flight in flights:
            _answer_unknown(flight)


def _answer_unknown(flight: InFlight) -> None:
    answers, flight.answers = flight.answers, []
    unknown = RequestTimedOut("the outcome is unknown: the record may still commit")
    for reply, _, _ in answers:
        reply(unknown, 0)
