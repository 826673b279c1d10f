"""A request that is decided in parts, so that no decision of it holds the event loop for long.

Order      the parts are submitted together and in order: each sees what those before it wrote. An entry holds
           as many of them as there is room and time for (quorum/proposer.py).
Reply      one, when the last part has its outcome. A part that failed, because leadership moved between two
           entries, has its code in its own rows only: the parts before it are done.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from fencepost.controller.errors import ApiError
from fencepost.quorum.port import Reply

R = TypeVar("R")


class Parts(Generic[R]):
    """The outcomes of one request's parts, at least one. ``join`` makes one response of them."""

    def __init__(self, count: int, reply: Reply[R], join: Callable[[Sequence[R | ApiError]], R]) -> None:
        self._outcomes: dict[int, R | ApiError] = {}
        self._count = count
        self._reply = reply
        self._join = join
        self._throttle_ms = 0

    def take(self, position: int, outcome: R | ApiError, throttle_ms: int = 0) -> None:
        """A part has its outcome."""
        self._outcomes[position] = outcome
        self._throttle_ms = max(self._throttle_ms, throttle_ms)
        if len(self._outcomes) < self._count:
            return
        outcomes = [self._outcomes[each] for each in range(self._count)]
        if all(isinstance(each, ApiError) for each in outcomes):
            self._reply(outcomes[0], self._throttle_ms)  # nothing was done, or it is not known of any
        else:
            self._reply(self._join(outcomes), self._throttle_ms)
