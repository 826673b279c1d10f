"""What the processes of applications have in common: their history, and points at which they stop or die."""

import os
import signal
from typing import Any

from tests.checker.history import History
from tests.checker.library_log import Requests
from tests.checker.settings import POINTS, WANTED, Part
from tests.checker.watch import Watch


class ApplicationProcess:
    """One process's state. A signal of WANTED is carried out at one of the points that come."""

    def __init__(self, part: Part, history: History, requests: Requests) -> None:
        self._part = part
        self._history = history
        self._watch = Watch(requests, self._hung)
        self._random = part.random
        self._number = 0
        self._wanted: tuple[signal.Signals, int] | None = None  # and how many points before it
        for each in WANTED:
            signal.signal(each, self._want)

    def _want(self, number: int, _: object) -> None:
        self._wanted = WANTED[signal.Signals(number)], self._random.randrange(POINTS)

    def _point(self) -> None:
        if self._wanted is None:
            return
        deed, left = self._wanted
        self._wanted = (deed, left - 1) if left else None
        if not left:
            self._history.write("application_at_point", **self._named(), number=self._number, deed=deed.name)
            os.kill(os.getpid(), deed)

    def _hung(self, event: str, **fields: Any) -> None:
        self._history.write(event, **self._named(), **fields, transactional_id=self._part.transactional_id)

    def _named(self) -> dict[str, Any]:
        return {"application": self._part.name, "group": self._part.group}
