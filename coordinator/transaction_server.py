"""The transaction coordinator's endpoints: API keys 22 (with an id), 24, 26, 65, 66, and set_aside.py's.

Where       the active controller's, on its controller listener and on its node's client listener. Elsewhere
            they answer NOT_COORDINATOR (16); while the leadership begins, COORDINATOR_LOAD_IN_PROGRESS (14).
Decisions   controller/transactions; answers leave when the entry of their batch is applied. A request takes
            no task: it is a decision, and a call of its reply.
51          parks the request where that helps (coordinator/transaction_requests.py): it is decided again in
            the entry that completes the transaction it collided with.
Unknown     outcomes are COORDINATOR_NOT_AVAILABLE (15) to a client: never a failure that later shows as done.

Source      Kafka KafkaApis, TransactionCoordinator; docs/kafka-notes.md B2 to B7, E3.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from fencepost.controller.acl_errors import TransactionalIdAuthorizationFailed
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidRequest,
)
from fencepost.controller.transactions import describe, end_txn, init_producer_id
from fencepost.controller.transactions.add_partitions import (
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.controller.transactions.describe import (
    DescribeTransactions,
    DescribeTransactionsAnswer,
    ListTransactions,
    Selection,
)
from fencepost.controller.transactions.end_txn import EndDecision, EndTxn, EndTxnAnswer
from fencepost.controller.transactions.group_init import RivalsEnding
from fencepost.controller.transactions.init_producer_id import InitDecision
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.controller.transactions.markers import Marker
from fencepost.controller.view import View
from fencepost.coordinator import broker_batches
from fencepost.coordinator.addition import Addition
from fencepost.coordinator.announcer import Announcer
from fencepost.coordinator.announcer import Send as SendAnnouncements
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.early_additions import EarlyAdditions
from fencepost.coordinator.marker_sender import CallLater, MarkerSender, Send
from fencepost.coordinator.parked import PARK_END_S_MAX, PARK_S_MAX
from fencepost.coordinator.set_aside import SetAsideServer
from fencepost.coordinator.transaction_counts import TransactionCounts
from fencepost.coordinator.transaction_lists import TransactionLists
from fencepost.coordinator.transaction_requests import Fencing, TransactionRequests
from fencepost.coordinator.transaction_timers import TransactionTimers, TransactionTimes
from fencepost.quorum.port import Background, Outcome, Submit
from fencepost.quorum.replica import Replica
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Context, Reply, Service, Then, served
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS, EncodedList

NO_ID: Final = ""  # of a request whose transactional id is still to be made: no transaction has it
ADDED_MAX: Final = 1_000  # transactions of a broker's request to add or verify: some 20 ms; it sends 500
DESCRIBED_MAX: Final = 5_000  # ids of one request


class TransactionServer:
    """See the module. Soft state is of one leadership: ``activated`` and ``deposed`` say who leads.

    ``claim`` gives the coordinator producer ids; a node sets it to its own broker's.
    ``serves_two_phase``: transactions without a timeout may begin, of principals that are allowed to.
    """

    def __init__(
        self,
        times: TransactionTimes,
        replica: Replica,
        submit: Submit,
        acls: Acls,
        *,
        send: Send,
        send_announcements: SendAnnouncements,
        call_later: CallLater,
        background: Background,
        clock: Callable[[], float],
        may_expire: Callable[[], bool] = lambda: True,
        serves_two_phase: bool = False,
        log: FilteringBoundLogger,
    ) -> None:
        self._times = times
        self._serves_two_phase = serves_two_phase
        self._replica = replica
        self._submit = submit
        self._acls = acls
        self.announcer = Announcer(self._image, send_announcements, call_later)
        self._errors = CoordinatorErrors(replica)
        self._lists = TransactionLists(replica, call_later, background)
        self.allocate_producer_id: Callable[[], ProducerId] = _no_producer_id
        self.counts = TransactionCounts()
        self.markers = MarkerSender(
            self._image,
            submit,
            send,
            call_later,
            quarantine=replica.quarantine,
            on_completing=self._release,
            on_completed=self._completed,
            now_ms=replica.proposer.now_ms,
            log=log,
        )
        self.requests = TransactionRequests(
            self._image, submit, self.markers, self._errors, counts=self.counts, clock=clock
        )
        self._early = EarlyAdditions(self.requests, self.announcer)
        self.set_aside = SetAsideServer(submit, acls, self.markers, replica.quarantine, self._errors)
        self._timers = TransactionTimers(
            times,
            self._image,
            submit,
            call_later,
            quarantine=replica.quarantine,
            clock=clock,
            slowest_ms=replica.slowest_ms,
            may_expire=may_expire,
            counts=self.counts,
            markers=self.markers,
            log=log,
        )

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        own = (
            served(INIT_PRODUCER_ID, self.init_producer_id),
            served(ADD_PARTITIONS_TO_TXN, self.add_partitions),
            served(END_TXN, self.end_txn),
            served(DESCRIBE_TRANSACTIONS, self.describe),
            served(LIST_TRANSACTIONS, self.list_transactions),
        )
        return {**dict(own), **self.set_aside.service}

    # -- leadership ---------------------------------------------------------------------------------

    def activated(self, now_ms: int) -> None:
        """This node coordinates from now on: what is prepared is completed, of earlier leaders too."""
        self.announcer.activated()
        self.requests.activated()
        self.markers.activated()
        self._timers.activated(now_ms)

    def deposed(self) -> None:
        """This node's leadership has ended: markers, timers and parked requests stop."""
        self.markers.deposed()
        self._timers.deposed()
        self.requests.deposed()

    def maintain(self, now_ms: int) -> None:
        """Every few milliseconds while this node coordinates: changes, parked requests, timeouts, expiry."""
        self.announcer.announce_changes()
        self.requests.expire()
        self._timers.maintenance_tick(now_ms)
        self.counts.markers_waiting = self.markers.waiting
        self.counts.wedged = self.markers.wedges.partitions

    def sweep(self, _now_ms: int) -> None:
        """See driver.Service: its timers are finer than that."""

    # -- producers ----------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerId, context: Context, reply: Reply[InitProducerIdAnswer]
    ) -> None:
        """API key 22, with a transactional id, or of a group's member, for which one may be made."""
        if request.transactional_id is None and request.member is None:
            raise InvalidRequest("a producer id without a transactional id is a broker's to give")
        if request.enables_two_phase:
            self._require_two_phase(context.principal)
        named = msgspec.structs.replace(request, client_id=context.client_id or "")
        decide = partial(self._decide_init, named)
        self.requests.begin(request.transactional_id or NO_ID, decide, reply, PARK_S_MAX)

    def _require_two_phase(self, principal: str) -> None:
        """Raises TransactionalIdAuthorizationFailed: what no timeout ends is not for every client."""
        if not self._serves_two_phase:
            raise TransactionalIdAuthorizationFailed(
                "two-phase commit is off: transaction.two.phase.commit.enable of the coordinator's node"
            )
        if not self._acls.allows(principal, Operation.TWO_PHASE_COMMIT):
            raise TransactionalIdAuthorizationFailed(
                f"{principal} may not use two-phase commit: an operator allows it with the line "
                f"'{principal} {Operation.TWO_PHASE_COMMIT}' of authorizer.acls.file"
            )

    def _decide_init(self, request: InitProducerId, view: View, now_ms: int) -> InitDecision:
        is_needed = init_producer_id.needs_producer_id(view, request, now_ms)
        fresh = self.allocate_producer_id() if is_needed else None
        decided = init_producer_id.decide_init_producer_id(
            view, request, now_ms=now_ms, fresh=fresh, max_timeout_ms=self._times.timeout_ms_max
        )
        if decided.records and isinstance(decided.response, ConcurrentTransactions):
            others = decided.response.transactional_ids if isinstance(decided.response, RivalsEnding) else ()
            return msgspec.structs.replace(decided, response=Fencing(str(decided.response), others))
        return decided

    def add_partitions(
        self, request: AddPartitionsToTxn, context: Context, reply: Reply[AddPartitionsToTxnAnswer]
    ) -> None:
        """API key 24. In batches it comes from brokers, which are answered at once."""
        if not request.batched:
            (transaction,) = request.transactions
            adding = Addition(transaction)

            def announced(outcome: Outcome[AddPartitionsToTxnAnswer], throttle_ms: int) -> None:
                if isinstance(outcome, AddPartitionsToTxnAnswer):
                    self.announcer.announce_and_reply(adding.announcement(), reply, outcome, throttle_ms)
                else:
                    reply(outcome, throttle_ms)

            then = Then(announced, reply)
            self.requests.begin(transaction.transactional_id, adding, then, PARK_S_MAX)
            return
        self._acls.require(context.principal, Operation.CLUSTER_ACTION)
        ids = {each.transactional_id for each in request.transactions}
        if len(ids) < len(request.transactions) or len(ids) > ADDED_MAX:
            raise InvalidRequest(
                f"{len(request.transactions)} transactions with {len(ids)} ids; "
                f"expected each once, at most {ADDED_MAX}"
            )
        rest, early = self._early.park(request)
        if early and not rest.transactions:
            reply(AddPartitionsToTxnAnswer(early))
        else:
            broker_batches.submit(self._submit, rest, self._errors.before(reply), reply, early=early)

    def end_txn(self, request: EndTxn, context: Context, reply: Reply[EndTxnAnswer | None]) -> None:
        """Commit or abort a transaction (API key 26)."""
        decide = partial(self._decide_end, request)
        self.requests.begin(request.transactional_id, decide, reply, PARK_END_S_MAX)

    def _decide_end(self, request: EndTxn, view: View, now_ms: int) -> EndDecision:
        fresh = self.allocate_producer_id() if end_txn.needs_producer_id_at_end(view, request) else None
        return end_txn.decide_end_txn(view, request, now_ms=now_ms, fresh=fresh)

    # -- markers --------------------------------------------------------------------------------------

    def _release(self, transactional_id: str) -> None:
        self.requests.release(transactional_id)

    def _completed(self, marker: Marker) -> None:
        if marker.committed:
            self.counts.committed += 1
        else:
            self.counts.aborted += 1

    # -- describing ---------------------------------------------------------------------------------

    def describe(
        self, request: DescribeTransactions, context: Context, reply: Reply[DescribeTransactionsAnswer]
    ) -> None:
        """API key 65. Of a transaction that ends: the partitions whose marker is not known to be written."""
        if len(request.transactional_ids) > DESCRIBED_MAX:
            raise InvalidRequest(f"{len(request.transactional_ids)} ids; at most {DESCRIBED_MAX}")
        self._submit(partial(self._decide_describe, request), self._errors.before(reply), closing=reply)

    def _decide_describe(
        self, request: DescribeTransactions, view: View, _now_ms: int
    ) -> Decision[DescribeTransactionsAnswer]:
        rows = describe.describe_many(view, request.transactional_ids, self.markers.written)
        return Decision((), DescribeTransactionsAnswer(rows))

    def list_transactions(
        self, request: ListTransactions, context: Context, reply: Reply[EncodedList]
    ) -> None:
        """API key 66. An entry proves that this node leads; then another thread reads what is on disk."""

        def proven(outcome: Outcome[int], throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(self._errors.translate(outcome), throttle_ms)
            else:
                self._lists.read(selection, outcome, reply)

        selection = Selection(request)
        self._submit(lambda _view, now_ms: Decision((), now_ms), proven, closing=reply)

    def _image(self) -> View:
        return self._replica.store.image


def _no_producer_id() -> ProducerId:
    raise CoordinatorNotAvailable("this node has no broker role, so no producer ids of its own to give")
