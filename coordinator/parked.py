"""Requests parked until a transaction completes, instead of an answer of CONCURRENT_TRANSACTIONS (51).

Why       clients retry 51. kafkajs fails on it in EndTxn, and for all others the pause before they retry is
          longer than the transaction takes. So what would be answered 51 waits here, and is decided
          together with the decision that completes the transaction: one entry carries both.
Order     those of one transactional id are decided in the order in which they came.
Bounds    PARKED_MAX requests at once, each until ``until_s``; after that 51 it is.
Source    docs/kafka-notes.md E3, consequence 2; to a client it is a slow answer.
"""

from typing import Final, Protocol

from fencepost.controller.errors import ApiError

PARKED_MAX: Final = 10_000
PARK_S_MAX: Final = 3.0
"""A producer that starts or begins: well below every client's request timeout, and they all retry 51."""

PARK_END_S_MAX: Final = 25.0
"""EndTxn: kafkajs, which dies of a 51, gives a request 30 s."""


class Parked(Protocol):
    """A TransactionRequest (coordinator/transaction_requests.py) of any response type."""

    @property
    def transactional_id(self) -> str:
        """Whose transaction it waits for."""

    @property
    def until_s(self) -> float:
        """Of the node's clock: then its outcome is given, 51 included."""

    def submit(self) -> None:
        """Have the request decided now."""

    def refuse(self, refusal: ApiError, /) -> None:
        """Give this to its reply: it is not decided any more."""


class ParkedRequests:
    """See the module. Soft state of one leadership."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[Parked]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, request: Parked) -> bool:
        """Keep it until its transaction completes or ``expired`` gives it back. False: there is no room."""
        if self._count >= PARKED_MAX:
            return False
        self._by_id.setdefault(request.transactional_id, []).append(request)
        self._count += 1
        return True

    def release(self, transactional_id: str) -> list[Parked]:
        """Those of an id, which is free now, in the order in which they came."""
        released = self._by_id.pop(transactional_id, [])
        self._count -= len(released)
        return released

    def expired(self, now_s: float) -> list[Parked]:
        """Those that waited for as long as they may. Looks at all: at most PARKED_MAX."""
        found = [each for of_id in self._by_id.values() for each in of_id if now_s >= each.until_s]
        for request in found:
            of_id = self._by_id[request.transactional_id]
            of_id.remove(request)
            if not of_id:
                del self._by_id[request.transactional_id]
        self._count -= len(found)
        return found

    def drain(self) -> list[Parked]:
        """All of them: the leadership is over."""
        found = [request for of_id in self._by_id.values() for request in of_id]
        self._by_id.clear()
        self._count = 0
        return found
