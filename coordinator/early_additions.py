"""Additions that brokers ask for while the last transaction's markers are written: made once they are.

Why      such an addition is refused with 51. Asked again every few milliseconds, each refusal would take an
         entry of the log, and the one that succeeds an entry of its own.
Made     it is parked as a client's request would be (coordinator/parked.py), so it shares the entry that
         completes the last transaction; then it is announced, which answers the partition leader's question.
Answer   51, at once and without an entry: it promises nothing, and the broker comes again by itself.
Lost     an announcement, or the leadership: the broker's next question makes it. One that is asked twice is
         made twice, which changes nothing: with transactions V2 a pair has one transaction, and a later one
         fences it. While one is parked, the same one is decided as if none were: so a leader without a quorum
         is found out.
"""

from typing import Final

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    same_for_all,
)
from fencepost.coordinator.addition import Addition
from fencepost.coordinator.announcer import Announcer
from fencepost.coordinator.transaction_requests import TransactionRequests
from fencepost.quorum.port import Outcome

PARK_S_MAX: Final = 1.0
"""As long as a broker goes on asking (broker/verification.py)."""


class EarlyAdditions:
    """See the module. Soft state of one leadership: its requests refuse what is parked when that ends."""

    def __init__(self, requests: TransactionRequests, announcer: Announcer) -> None:
        self._requests = requests
        self._announcer = announcer
        self._parked: set[AddPartitions] = set()

    def __len__(self) -> int:
        return len(self._parked)

    def park(
        self, request: AddPartitionsToTxn
    ) -> tuple[AddPartitionsToTxn, tuple[tuple[str, AddPartitionsAnswer], ...]]:
        """Park what is early. Returns the rest, which is to be decided, and refusals of what is parked."""
        refused = {each for each in request.transactions if each.for_client and self._park(each)}
        if not refused:
            return request, ()
        rest = tuple(each for each in request.transactions if each not in refused)
        refusals = tuple(
            (each.transactional_id, same_for_all(each, ErrorCode.CONCURRENT_TRANSACTIONS)) for each in refused
        )
        return AddPartitionsToTxn(rest, request.batched), refusals

    def _park(self, wanted: AddPartitions) -> bool:
        if wanted in self._parked:
            return False
        early = _Early(self, Addition(wanted))
        if not self._requests.park(wanted.transactional_id, early.addition, early, PARK_S_MAX):
            return False
        self._parked.add(wanted)
        return True

    def forget(self, addition: Addition) -> None:
        """It is parked no longer: the same one may be parked again."""
        self._parked.discard(addition.request)

    def made(self, addition: Addition, outcome: Outcome[AddPartitionsToTxnAnswer]) -> None:
        """A parked one is applied, or refused."""
        self.forget(addition)
        if isinstance(outcome, AddPartitionsToTxnAnswer):
            self._announcer.announce(addition.announcement())


class _Early:
    """Takes the outcome of a parked addition; the broker was answered long ago."""

    __slots__ = ("_additions", "addition")

    def __init__(self, additions: EarlyAdditions, addition: Addition) -> None:
        self._additions = additions
        self.addition = addition

    def __call__(self, outcome: Outcome[AddPartitionsToTxnAnswer], _throttle_ms: int = 0, /) -> None:
        self._additions.made(self.addition, outcome)

    def close(self, _reason: str, /) -> None:
        """Whether it is made is not known: the broker asks again. No connection waits for this."""
        self._additions.forget(self.addition)
