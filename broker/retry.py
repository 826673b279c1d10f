"""Pacing of what is attempted until it succeeds: exponential backoff with full jitter."""

from random import Random
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.controller.errors import ApiError
from fencepost.wire.client import ConnectionLost, RequestTimeout

CALL_FAILURES: Final = (ApiError, ConnectionLost, RequestTimeout)
"""How a call to the controllers can fail. The last two leave the outcome unknown."""

PAUSE_MS_FIRST: Final = 20
PAUSE_MS_MAX: Final = 1_000
"""Well below any session timeout, so that a broker whose controllers come back is back at once."""


class Complaints:
    """Says in the log why something fails: once, and again when another kind of failure takes over."""

    def __init__(self, event: str, log: FilteringBoundLogger, **facts: str) -> None:
        self._event = event
        self._log = log
        self._facts = facts
        self._kind: tuple[str, int | None] | None = None

    def failed(self, error: Exception) -> None:
        """It failed. What tells kinds apart is type and code: texts hold addresses and times."""
        kind = (type(error).__name__, error.code if isinstance(error, ApiError) else None)
        if kind != self._kind:
            self._kind = kind
            self._log.warning(self._event, **self._facts, reason=f"{kind[0]}: {error}")

    def succeeded(self) -> None:
        """The next failure is worth a line, whatever it is."""
        self._kind = None


class Retry:
    """One attempt's failures in a row: how long to pause, and each kind of them logged once."""

    def __init__(self, attempt: str, *, rng: Random, log: FilteringBoundLogger) -> None:
        self._attempt = attempt
        self._rng = rng
        self._log = log
        self._complaints = Complaints("attempt_failed", log, attempt=attempt)
        self._failures = 0

    def failed(self, error: Exception) -> float:
        """Count a failure. Returns the seconds to pause: uniform in [0, bound), a bound that doubles."""
        self._complaints.failed(error)
        bound_ms = min(PAUSE_MS_FIRST << min(self._failures, 10), PAUSE_MS_MAX)
        self._failures += 1
        return self._rng.random() * bound_ms / 1000

    def succeeded(self) -> None:
        """The next failure is a first one again."""
        if self._failures:
            self._log.info("attempt_succeeded", attempt=self._attempt, failures=self._failures)
        self._failures = 0
        self._complaints.succeeded()
