"""The one thread of a simulated process: calls wait while it is busy or stopped, and keep their order."""

from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.agenda import Agenda

Call = Callable[..., Any]


class Killed(BaseException):
    """The process dies at this very call. Nothing isolates that: it is no ``Exception``."""


class Thread:
    """Of one life of a process. ``event`` makes a call; ``lives`` says whether it still can."""

    def __init__(self, agenda: Agenda, event: Callable[..., None], lives: Callable[[], bool]) -> None:
        self.stops = 0  # SIGSTOPs that have not ended
        self.busy_until = 0.0
        self._agenda = agenda
        self._event = event
        self._lives = lives
        self._inbox: deque[tuple[Call, tuple[Any, ...]]] = deque()
        self._waking_at = 0.0

    def run(self, call: Call, *arguments: Any) -> None:
        """Make a call, now or when everything before it is done."""
        if self.stops or self._agenda.now < self.busy_until or self._inbox:
            self._inbox.append((call, arguments))
            self.wake()
        else:
            self._event(call, *arguments)

    def wake(self) -> None:
        """Look at what waits when the thread is free again."""
        if not self.stops and self._inbox and self._waking_at <= self._agenda.now:
            self._waking_at = max(self.busy_until, self._agenda.now)
            self._agenda.at(self._waking_at, self._empty)

    def _empty(self) -> None:
        if self.stops or not self._lives():
            return
        self._waking_at = 0.0
        while self._inbox and self._lives() and self._agenda.now >= self.busy_until:
            call, arguments = self._inbox.popleft()
            self._event(call, *arguments)
        if self._lives():
            self.wake()
