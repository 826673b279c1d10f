"""The proposer: decides what waits, as one Raft entry at a time, and answers when it is applied.

Group commit   requests that arrive while an entry is in flight wait. Then all of them are decided in
               order, each seeing the records of those before it through an overlay, and go out as
               one entry. A second entry in flight is unsafe with a bare version: never.
Isolation      what goes wrong before an entry is proposed costs one request (quorum/draft.py), and while an
               answer is given one connection. A committed record that cannot apply halts the node.
Linger         clients often send their next request at once after a response. An entry costs two flushes and
               a round trip whatever it holds, so it waits up to ``LINGER_S`` for them (quorum/linger.py).
Outcome        is learned at apply, in any role, by (epoch, proposer, proposal). A later LeaderChange
               that is applied proves that an older entry of ours never will be. Until one of the two
               is seen the outcome is unknown, and after ``OUTCOME_WAIT_S`` it is reported as unknown (7).
Deferrable     requests (no client waits for them) go with the next entry of other requests, if it comes
               soon: an entry costs every node some hundreds of microseconds, a record in it far less.
Answers        refusals and reads too, leave only when the entry of their batch is applied: a deposed
               leader that wakes up can answer nothing.
Active         only after its own LeaderChange is applied, which is proposed after its own no-op is.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from fencepost.controller.errors import ApiError, NotController, RequestTimedOut, UnknownServerError
from fencepost.controller.replay import Applied, Superseded, replay_records
from fencepost.controller.view import Overlay, View
from fencepost.quorum.draft import Draft
from fencepost.quorum.in_flight import InFlight
from fencepost.quorum.linger import BATCH_TARGET, Linger
from fencepost.quorum.port import Decide, R, Reply, Request, Submission
from fencepost.quorum.raft_log import RaftLog
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.control import ControlRecord, encode_control
from fencepost.records.entry import Entry, LoggedBatch, encode_entry
from fencepost.records.types import Log, NodeId, ProposalNumber, Term
from fencepost.snapshots.store import HALTING, Store
from fencepost.wire.dispatch import Closing
from fencepost.wire.limited_log import LimitedLog

PENDING_MAX: Final = 20_000  # requests that wait; one more is refused with a code that clients retry
DECIDE_S_MAX: Final = 0.01  # of deciding at a time: what is left waits for the next entry
ANSWER_S_MAX: Final = 0.01  # of answering at a time: what is left goes with the next turn
PATIENCE_S: Final = 0.001  # how long a deferrable request waits for an entry that others need
OUTCOME_WAIT_S: Final = 3.0  # how long an answer waits for its entry's outcome before "unknown"

_HALTING_IN_REPLIES: Final = tuple(each for each in HALTING if each is not OSError)  # a socket's is its own


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
        leader_change: Callable[[View], tuple[ControlRecord, ...]],
        on_active: Callable[[int], None],
        on_deposed: Callable[[], None],
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self._node_id = node_id
        self._raft = raft
        self._store = store
        self._clock = clock
        self._wall_ms = wall_ms
        self._leader_change = leader_change
        self._on_active = on_active
        self._on_deposed = on_deposed
        self._log = log or structlog.get_logger()
        self._failures = LimitedLog(self._log, clock)  # a client may cause them, again and again
        self._pending: deque[Submission] = deque()
        self._clients_wait = 0  # so many of them are not deferrable
        self._alone = 0  # so many of them, from the first on, get an entry each
        self._controls: deque[Callable[[View], tuple[ControlRecord, ...]]] = deque()
        self._in_flight: InFlight | None = None
        self._previous_proposals: list[InFlight] = []  # of an earlier leadership of this node
        self._due: list[Submission] = []  # their entries are applied
        self._due_deferrable = 0  # so many of them are for deferrable requests
        self._deferrable_until_s = 0.0  # in the future while only deferrable requests wait
        self._linger = Linger()
        self._proposal = ProposalNumber(0)
        self._led_term: Term | None = None  # the term whose LeaderChange is proposed
        self.active_epoch: Term | None = None
        self.clock_base_ms = 0
        self.stopping = False
        self.must_resign = False  # a control record of this leadership cannot be written
        self.violated = False  # since quorum/succession.py last looked
        self.violations: Counter[str] = Counter()  # by concern, until the node's metrics take them
        self.answers_failed = 0  # likewise
        self._last_entry_s = self.last_commit_s = 0.0  # from proposal to apply; metrics take the latter

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
        """An entry of this node is proposed, its outcome not known."""
        return self._in_flight is not None

    def now_ms(self) -> int:
        """Wall clock at activation + monotonic time since; no jump in a leadership (docs/design.md 2)."""
        return self.clock_base_ms + int(self._clock() * 1000)

    # -- asking ---------------------------------------------------------------------------------

    def submit(
        self, decide: Decide[R], reply: Reply[R], *, deferrable: bool = False, closing: Closing | None = None
    ) -> bool:
        """Decide when the entry in flight is done; ``reply`` is called once, when it is applied.

        Returns whether a turn is due; where more are expected, for the first (it sets a timer) and the last.

        ``deferrable``   it makes no entry of its own for up to ``PATIENCE_S``. Order is kept.
        ``closing``   is closed if ``reply`` raises.
        """
        if self.active_epoch is None or self.stopping:  # None from the moment this node stops leading
            reply(NotController("this node is not the active controller"), 0)
        elif len(self._pending) >= PENDING_MAX:
            reply(NotController(f"{PENDING_MAX} requests wait already; nothing was done"), 0)
        else:
            if not deferrable:
                self._deferrable_until_s = 0.0
            elif not self._pending:
                self._deferrable_until_s = self._clock() + PATIENCE_S
            self._pending.append(Request(decide, reply, deferrable, closing))
            self._clients_wait += not deferrable
        first_or_last = self._clients_wait <= 1 or self._linger.is_complete(self._clients_wait)
        return first_or_last and self._in_flight is None and not deferrable

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
        if self._controls and self._propose_control(self._controls.popleft()):
            return
        if not self._pending or self._only_deferrable:
            return
        if self._linger.over(self._clients_wait, self._clock()):
            self._propose_decisions()

    def _propose_decisions(self) -> None:
        now_ms, until_s = self.now_ms(), self._clock() + DECIDE_S_MAX
        draft = Draft(self._store.image, self._violated)
        while self._pending and not draft.is_full:
            request = self._pending.popleft()
            if not draft.take(request, now_ms):
                self._pending.appendleft(request)
                break
            self._clients_wait -= not request.deferrable
            if self._alone:
                self._alone -= 1
                break
            if self._clock() > until_s:
                break
        try:
            encoded = self._encoded(draft.batches(now_ms))
        except HALTING:
            raise
        except Exception as error:  # noqa: BLE001 - each of them is decided again, in an entry of its own
            draft = self._apart(draft, error)
            encoded = self._encoded(())
        self._propose(encoded, draft.logged(), draft.overlay, draft.answers, draft.deferrable)

    def _apart(self, draft: Draft, error: Exception) -> Draft:
        """What to propose in place of an entry that cannot be encoded: the refusal of the one request in it.

        Of several none is at fault for certain: they wait again, for an entry each.
        """
        requests = draft.answers
        empty = Draft(self._store.image, self._violated)
        if len(requests) == 1:
            self._violated(requests[0], error)
            refusal = UnknownServerError(f"the entry cannot be encoded, nothing was done: {error!r}")
            empty.refuse(requests[0], refusal)
            return empty
        self._pending.extendleft(reversed(requests))
        self._clients_wait += len(requests) - draft.deferrable
        self._alone = len(requests)
        return empty

    def _violated(self, request: Submission, error: Exception) -> None:
        """A request could not be decided; this node's state may be at fault."""
        self.violations[request.concern] += 1
        self._failures.error("decision_failed", concern=request.concern, error=repr(error), exc_info=error)
        self.violated = True

    def _propose_control(self, decide: Callable[[View], tuple[ControlRecord, ...]]) -> bool:
        """Propose what ``decide`` returns. False: it returns nothing, and what waits can be proposed."""
        try:
            controls = decide(self._store.image)
            if not controls:
                return False
            keyed = [BatchRecord(*encode_control(record)) for record in controls]
            batch = encode_batch(keyed, timestamp_ms=self.now_ms(), control=True)
            overlay = Overlay(self._store.image)
            replay_records(overlay, controls)
            encoded = self._encoded(((Log.METADATA, batch),))
        except HALTING:
            raise
        except Exception as error:  # noqa: BLE001 - around one decision: another node may be able to
            self.violations["control"] += 1
            self._log.error("control_record_failed", error=repr(error), exc_info=error, next="resigns")
            self.must_resign = True
            return True  # what waits is refused then, and surely not done
        self._propose(encoded, (LoggedBatch(Log.METADATA, True, controls, len(controls)),), overlay, [])
        return True

    def _encoded(self, batches: tuple[tuple[Log, bytes], ...]) -> bytes:
        self._proposal = ProposalNumber(self._proposal + 1)
        version = self._store.image.header.version
        return encode_entry(Entry(version, self._raft.term, self._node_id, self._proposal, batches))

    def _propose(
        self,
        encoded: bytes,
        logged: tuple[LoggedBatch, ...],
        overlay: Overlay,
        answers: list[Submission],
        deferrable: int = 0,
    ) -> None:
        epoch = self._raft.term
        self._in_flight = InFlight(epoch, self._proposal, answers, logged, overlay, self._clock(), deferrable)
        self._raft.propose(encoded)

    # -- learning -------------------------------------------------------------------------------

    def own_no_op_applied(self) -> None:
        """The no-op of this node's leadership is applied: begin the leader epoch with a LeaderChange."""
        term = self._raft.term
        if self._led_term == term:
            return
        self._led_term = term
        self.clock_base_ms = self._wall_ms() - int(self._clock() * 1000)
        if self._in_flight is not None:  # ours, of an earlier leadership: this LeaderChange decides it
            self._previous_proposals.append(self._in_flight)
            self._in_flight = None
        self._propose_control(self._leader_change)

    def decided(self, entry: Entry) -> tuple[tuple[LoggedBatch, ...], Overlay] | None:
        """Records and overlay of an entry that this very process decided: no second decoding or replay."""
        flight = self._in_flight
        if flight is not None and flight.is_in(entry, self._node_id):
            return flight.batches, flight.overlay
        return None

    def applied(self, entry: Entry, outcome: Applied | Superseded) -> None:
        """An entry, of whomever, was applied or superseded. Answers leave from here."""
        for flight in [f for f in (self._in_flight, *self._previous_proposals) if f is not None]:
            if flight.is_in(entry, self._node_id):
                self._settle(flight, outcome)
            elif isinstance(outcome, Applied) and entry.controller_epoch > flight.epoch:
                self._settle(flight, Superseded(outcome.version))  # it can never apply now
        own = isinstance(outcome, Applied) and entry.proposer == self._node_id
        if own and entry.controller_epoch == self._led_term and self.active_epoch != self._led_term:
            if self._raft.is_leader and self._raft.term == self._led_term:
                self.active_epoch = self._led_term
                self._on_active(self.now_ms())

    def _settle(self, flight: InFlight, outcome: Applied | Superseded) -> None:
        if flight is self._in_flight:
            self._in_flight = None
            self._last_entry_s = self.last_commit_s = self._clock() - flight.since_s
        else:
            self._previous_proposals.remove(flight)
        if isinstance(outcome, Applied):
            if flight.answers:  # not answered "unknown" yet
                self._due += flight.answers
                self._due_deferrable += flight.deferrable
            return
        refusal = NotController("another leader's decision took its place; nothing was done")
        self._refuse(flight.answers, refusal)

    def answer(self) -> bool:
        """Give answers whose entries are applied, for ``ANSWER_S_MAX``. False: some are left.

        After the last one ``pump`` waits a moment for more requests.
        """
        due, self._due = self._due, []
        if not due:
            return True
        given = self._respond(due, self._clock() + ANSWER_S_MAX)
        self._due = due[given:] + self._due
        if not self._due:
            deferrable, self._due_deferrable = self._due_deferrable, 0
            self._linger.expect(given - deferrable + self._clients_wait, self._clock(), self._last_entry_s)
        return not self._due

    def _refuse(self, requests: Iterable[Submission], refusal: ApiError) -> None:
        for request in requests:
            request.refuse(refusal)
            self._respond((request,))

    def _respond(self, requests: Iterable[Submission], until_s: float = inf) -> int:
        """Give answers until then, at least one; returns how many.

        One that cannot be given closes its connection, and all others are given.
        """
        given = 0
        for request in requests:
            given += 1
            try:
                request.respond()
            except _HALTING_IN_REPLIES:
                raise
            except Exception as error:  # noqa: BLE001 - around one request's answer
                concern = request.concern
                self.answers_failed += 1
                self._failures.error("answer_failed", concern=concern, error=repr(error), exc_info=error)
                if request.closing is not None:
                    request.closing.close(f"the answer to {concern} could not be given")
            if self._clock() > until_s:
                break
        return given

    @property
    def answers_due(self) -> bool:
        """Answers whose entries are applied wait for ``answer``."""
        return bool(self._due)

    @property
    def has_batch(self) -> bool:
        """Enough requests wait: propose them before those of the last entry are answered."""
        return 2 * len(self._pending) >= BATCH_TARGET

    @property
    def lingering(self) -> bool:
        """Requests wait for more to come: pump again within ``LINGER_S``. Deferrable ones wait for a tick."""
        return bool(self._pending) and self._in_flight is None and not self._only_deferrable

    @property
    def _only_deferrable(self) -> bool:
        """Whether all requests that wait are deferrable still. The clock is read only where it matters."""
        return bool(self._deferrable_until_s) and self._clock() < self._deferrable_until_s

    # -- losing leadership, giving up on outcomes -----------------------------------------------

    def deposed(self) -> None:
        """This node no longer leads. What was never proposed is definitely not done."""
        self._controls.clear()
        was_active, self.active_epoch = self.active_epoch, None
        refusal = NotController("this node lost its leadership before it decided; nothing was done")
        waiting, self._pending, self._clients_wait, self._alone = self._pending, deque(), 0, 0
        self._refuse(waiting, refusal)
        if was_active is not None:
            self._on_deposed()

    def expire(self) -> None:
        """Answer "unknown" where the outcome is not learned in time. The entry may still apply."""
        self._failures.flush()
        for flight in [f for f in (self._in_flight, *self._previous_proposals) if f is not None]:
            if self._clock() - flight.since_s < OUTCOME_WAIT_S:
                continue
            self._answer_unknown(flight)
            if flight is not self._in_flight:
                self._previous_proposals.remove(flight)

    def skipped(self) -> None:
        """A snapshot took the place of entries, ours perhaps among them: their outcomes stay unknown."""
        flights = [f for f in (self._in_flight, *self._previous_proposals) if f is not None]
        self._in_flight, self._previous_proposals = None, []
        for flight in flights:
            self._answer_unknown(flight)

    def give_up(self) -> None:
        """The image is bad: what was applied on it and is not answered, or is proposed, stays unknown."""
        due, self._due, self._due_deferrable = self._due, [], 0
        self._refuse(due, RequestTimedOut("the outcome is unknown: this node's image is bad"))
        self.skipped()

    def _answer_unknown(self, flight: InFlight) -> None:
        answers, flight.answers = flight.answers, []
        unknown = RequestTimedOut("the outcome is unknown: the record may still commit")
        self._refuse(answers, unknown)
