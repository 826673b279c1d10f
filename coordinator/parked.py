"""Requests parked until a transaction completes, instead of an answer of CONCURRENT_TRANSACTIONS (51).

Why       51 says: ask again. kafkajs cannot bear it on EndTxn, and for all others the pause before they ask
          again is longer than the transaction takes. So what would be told 51 waits here, and is asked again
          together with the decision that completes the transaction: one entry carries both.
Order     those of one transactional id are asked again in the order in which they came.
Bounds    HELD_MAX requests at once, each until ``until_s``; after that 51 it is.
Source    docs/kafka-notes.md E3, consequence 2; to a client it is a slow answer.
"""

from dataclasses import dataclass
from typing import Any, Final

from fencepost.quorum.port import Decide
from fencepost.wire.dispatch import Reply

HELD_MAX: Final = 10_000
HOLD_S_MAX: Final = 3.0
"""A producer that starts or begins: well below every client's request timeout, and they all retry 51."""

HOLD_END_S_MAX: Final = 25.0
"""EndTxn: kafkajs, which dies of a 51, gives a request 30 s."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that waits until ``until_s`` of the node's clock. ``tries``: refusals with 51."""

    transactional_id: str
    decide: Decide[Any]
    reply: Reply
    until_s: float
    tries: int = 0


class Held:
    """See the module. Soft state of one leadership."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[Waiting]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, waiting: Waiting) -> bool:
        """Keep it until its transaction completes or ``expired`` gives it back. False: there is no room."""
        if self._count >= HELD_MAX:
            return False
        self._by_id.setdefault(waiting.transactional_id, []).append(waiting)
        self._count += 1
        return True

    def release(self, transactional_id: str) -> list[Waiting]:
        """Those of an id, which is free now, in the order in which they came."""
        released = self._by_id.pop(transactional_id, [])
        self._count -= len(released)
        return released

    def expired(self, now_s: float) -> list[Waiting]:
        """Those that waited for as long as they may. Looks at all: at most HELD_MAX."""
        found = [each for of_id in self._by_id.values() for each in of_id if now_s >= each.until_s]
        for waiting in found:
            of_id = self._by_id[waiting.transactional_id]
            of_id.remove(waiting)
            if not of_id:
                del self._by_id[waiting.transactional_id]
        self._count -= len(found)
        return found

    def drain(self) -> list[Waiting]:
        """All of them: the leadership is over."""
        found = [waiting for of_id in self._by_id.values() for waiting in of_id]
        self._by_id.clear()
        self._count = 0
        return found
