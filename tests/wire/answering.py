"""A reply for endpoints that are called without a connection."""

from collections.abc import Callable
from typing import Any


class Answering:
    """Calls ``call`` with the answer; ``closed`` has the reasons for which the connection was closed."""

    def __init__(self, call: Callable[[Any, int], None]) -> None:
        self._call = call
        self.closed: list[str] = []

    def __call__(self, outcome: Any, throttle_ms: int = 0, /) -> None:
        self._call(outcome, throttle_ms)

    def close(self, reason: str, /) -> None:
        self.closed.append(reason)
