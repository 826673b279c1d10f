"""Log lines about peers that are refused: each reason now and then, and few lines altogether."""

import asyncio
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.wire.limited_log import INTERVAL_S, LimitedLog

AGAIN_S: Final = 30.0  # until the same reason is worth another line
REASONS_MAX: Final = 256  # remembered


class RefusalLog:
    """Of one node. Use on the event loop."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = LimitedLog(log)
        self._logged_at: dict[str, float] = {}  # by reason
        self._summary: asyncio.TimerHandle | None = None

    def add(self, reason: str, address: tuple[str, int] | str, *, is_peer: bool = True) -> None:
        """A connection is refused. What shows by a handshake what it is has lines of its own, which bytes
        that are no handshake cannot use up.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._logged_at.get(reason, -AGAIN_S) < AGAIN_S:
            return
        if len(self._logged_at) >= REASONS_MAX:
            self._logged_at.clear()
        self._logged_at[reason] = now
        if self._summary is None or self._summary.when() <= now:
            self._summary = loop.call_at(now + INTERVAL_S + 1, self._log.flush)
        kind = "peer" if is_peer else "stranger"
        self._log.warning("peer_refused", kind=kind, address=str(address), reason=reason)

    def close(self) -> None:
        """Say how many lines were left out."""
        if self._summary is not None:
            self._summary.cancel()
        self._log.close()
