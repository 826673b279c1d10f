"""Bounds the calls of a transactional producer: one that hangs is reported, then the process ends.

Why       send_offsets_to_transaction of librdkafka may wait without end (docs/clients.md). Users start
          another producer when one is stuck, and so does this.
Time      is counted in ticks of this process: one that is paused does not hang meanwhile.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.checker.library_log import Requests

HUNG_SECONDS: Final = 30.0
"""Three times the timeout of a transaction, and longer than any call that is given a timeout."""

QUIET_SECONDS: Final = 10.0
"""A client that seeks a coordinator sends a request each second, and what it retries sooner than this."""

TICK_SECONDS: Final = 0.25
SEEN_SECONDS: Final = 4.0  # in which the run looks at the nodes, before the connections are closed

Report = Callable[..., None]


class Watch:
    """A thread that looks at the one call that is under way, if any."""

    def __init__(self, requests: Requests, report: Report) -> None:
        self._requests = requests
        self._report = report
        self._call: dict[str, Any] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    @contextmanager
    def call(self, name: str, number: int) -> Iterator[None]:
        """It is under way."""
        self._call = {"call": name, "number": number}
        try:
            yield
        finally:
            self._call = None

    def _run(self) -> None:
        watched, ticks, quiet_since = None, 0, 0.0
        while True:
            time.sleep(TICK_SECONDS)
            call = self._call
            if call is None or call is not watched:
                watched, ticks = call, 0
                continue
            ticks += 1
            if ticks == round((HUNG_SECONDS - QUIET_SECONDS) / TICK_SECONDS):
                quiet_since = time.time()
            elif ticks >= round(HUNG_SECONDS / TICK_SECONDS):
                self._hung(call, quiet_since)

    def _hung(self, call: dict[str, Any], quiet_since: float) -> None:
        verdict = self._requests.verdict(quiet_since)
        self._report("call_hung", **call, seconds=HUNG_SECONDS, verdict=verdict, **self._requests.facts())
        for _ in range(round(SEEN_SECONDS / TICK_SECONDS)):
            time.sleep(TICK_SECONDS)
        os._exit(1)
