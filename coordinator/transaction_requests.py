"""Requests about one transactional id: decided, parked where that avoids a 51, and decided again.

A request whose transactional id has a prepared transaction would be answered CONCURRENT_TRANSACTIONS (51). It
waits (coordinator/parked.py) until the decision that completes that transaction is submitted, and is decided
right behind it, in the same entry.

Others   a group-aware InitProducerId (KIP-447) waits for transactions of other ids, one after the other.
"""

from collections.abc import Callable
from typing import Final, Generic

from fencepost.controller.errors import ApiError, ConcurrentTransactions, NotCoordinator
from fencepost.controller.transactions import states
from fencepost.controller.transactions.group_init import RivalsEnding
from fencepost.controller.transactions.states import PREPARED_STATES
from fencepost.controller.view import View
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.marker_sender import MarkerSender
from fencepost.coordinator.parked import ParkedRequests
from fencepost.coordinator.transaction_counts import TransactionCounts
from fencepost.quorum.port import Decide, Outcome, R, Submit
from fencepost.wire.dispatch import Reply

TRIES_MAX: Final = 16  # decisions of one request that may be a 51; then 51 is its answer


class Fencing(ConcurrentTransactions):
    """Open transactions are being aborted, as another instance of their producers took over.

    ``transactional_ids``   of other producers than the one that requested it.
    """

    def __init__(self, message: str, transactional_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.transactional_ids = transactional_ids


class TransactionRequests:
    """See the module. Soft state of one leadership: ``activated`` and ``deposed`` say who leads."""

    def __init__(
        self,
        image: Callable[[], View],
        submit: Submit,
        markers: MarkerSender,
        errors: CoordinatorErrors,
        *,
        counts: TransactionCounts,
        clock: Callable[[], float],
    ) -> None:
        self.port = submit
        self.image = image
        self.markers = markers
        self.errors = errors
        self.counts = counts
        self.clock = clock
        self.parked = ParkedRequests()
        self.active = False

    def activated(self) -> None:
        """Requests may be parked from now on."""
        self.active = True

    def deposed(self) -> None:
        """Parked requests find the next coordinator: nothing of them is done."""
        self.active = False
        refusal = NotCoordinator("this node no longer coordinates transactions; nothing was done")
        for request in self.parked.drain():
            request.refuse(refusal)

    def expire(self) -> None:
        """Decide those that waited for as long as they may."""
        for request in self.parked.expired(self.clock()):
            request.submit()
        self.counts.parked = len(self.parked)

    def begin(self, transactional_id: str, decide: Decide[R], reply: Reply[R], park_s: float) -> None:
        """Decide a request, and reply; it may be parked for ``park_s``."""
        if not self.park(transactional_id, decide, reply, park_s):  # an entry would only say 51
            self._request(transactional_id, decide, reply, park_s).submit()

    def park(self, transactional_id: str, decide: Decide[R], reply: Reply[R], park_s: float) -> bool:
        """Park it, if its transaction waits for markers. False: nothing is in its way, or it stays there."""
        if not self.markers.is_pending(transactional_id) or self.markers.wedges.is_stuck(transactional_id):
            return False
        return self.parked.park(self._request(transactional_id, decide, reply, park_s))

    def _request(
        self, transactional_id: str, decide: Decide[R], reply: Reply[R], park_s: float
    ) -> "TransactionRequest[R]":
        return TransactionRequest(self, transactional_id, decide, reply, self.clock() + park_s)

    def release(self, transactional_id: str) -> None:
        """The decision that completes its transaction was submitted: these go into the same entry."""
        for request in self.parked.release(transactional_id):
            request.submit()

    def collides(self, transactional_id: str) -> bool:
        """The id's transaction is prepared, and nothing that completes it is proposed or waits to be."""
        if self.markers.is_pending(transactional_id):
            return True
        row = states.get(self.image(), transactional_id)
        prepared = row is not None and row.state in PREPARED_STATES
        return prepared and not self.markers.is_completing(transactional_id)


class TransactionRequest(Generic[R]):
    """One request; a ``Parked``, and the reply of its own decision."""

    __slots__ = ("_decide", "_own_id", "_reply", "_requests", "_tries", "transactional_id", "until_s")

    def __init__(
        self,
        requests: TransactionRequests,
        transactional_id: str,
        decide: Decide[R],
        reply: Reply[R],
        until_s: float,
    ) -> None:
        self._requests = requests
        self._decide = decide
        self._reply = reply
        self._tries = 0  # decisions that were a 51
        self._own_id = transactional_id
        self.transactional_id = transactional_id  # that it waits for
        self.until_s = until_s

    def submit(self) -> None:
        """Implements ``Parked.submit``."""
        self._requests.port(self._decide, self, closing=self._reply)

    def refuse(self, refusal: ApiError, /) -> None:
        """Implements ``Parked.refuse``."""
        self._reply(refusal, 0)

    def __call__(self, outcome: Outcome[R], throttle_ms: int, /) -> None:
        """The entry of its batch is applied, or its outcome is known otherwise."""
        requests = self._requests
        requests.markers.look(self.transactional_id)
        if isinstance(outcome, ConcurrentTransactions):
            if isinstance(outcome, Fencing):
                requests.counts.fenced += max(1, len(outcome.transactional_ids))
            if isinstance(outcome, Fencing | RivalsEnding):
                self._wait_for(outcome.transactional_ids)
            if requests.active and self._wait_more():
                return
        self._reply(requests.errors.translate(outcome), throttle_ms)

    def _wait_for(self, transactional_ids: tuple[str, ...]) -> None:
        """Of other producers, whose markers are sent from now on: the first that has some to be written."""
        pending = [each for each in transactional_ids if self._requests.markers.look(each)]
        self.transactional_id = pending[0] if pending else self._own_id

    def _wait_more(self) -> bool:
        """Park it after a 51, or decide it at once if nothing is in its way any more. False: answer 51."""
        requests = self._requests
        self._tries += 1
        if self._tries >= TRIES_MAX or requests.clock() >= self.until_s:
            return False
        if requests.markers.wedges.is_stuck(self.transactional_id):
            return False  # nothing ends it before an operator does something
        if not requests.collides(self.transactional_id):
            self.submit()
            return True
        return requests.parked.park(self)
