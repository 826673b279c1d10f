"""How long a login counts: ``connections.max.reauth.ms``, and logging in again on the same connection.

Over        the next request closes the connection, but for a SaslHandshake, which begins a login anew.
Again       at most every AGAIN_S, as the same principal and by the same mechanism. Else it is a failed login.
Source      KIP-368; Kafka SaslServerAuthenticator.ReauthInfo, SocketServer.processCompletedReceives.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from fencepost.records.invariant import CorruptData
from fencepost.wire.auth import Logins, SaslServer
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE

AGAIN_S: Final = 1.0


class Session:
    """The login of one connection. No I/O; ``now_s`` is of a clock that only grows."""

    __slots__ = ("_again_s", "_end_s", "_last", "_lifetime_ms", "_logins", "has_end", "under_way")

    def __init__(self, logins: Logins, lifetime_ms: Callable[[str], int]) -> None:
        self._logins = logins
        self._lifetime_ms = lifetime_ms  # by mechanism; 0: as long as the connection
        self.has_end = False  # of the last login that is complete
        self._end_s = inf
        self._again_s = -inf
        self._last = SaslServer(logins, session_ms=lifetime_ms)
        self.under_way: SaslServer | None = self._last

    @classmethod
    def of(cls, logins: Logins | None, lifetime_ms: Callable[[str], int]) -> "Session | None":
        """None without ``logins``: no login is wanted."""
        return None if logins is None else cls(logins, lifetime_ms)

    def complete(self, now_s: float) -> None:
        """The login under way is done."""
        self.under_way = None
        self.has_end = self._last.lifetime_ms > 0
        self._end_s = now_s + self._last.lifetime_ms / 1000

    def login_for(self, key: int, now_s: float) -> SaslServer | None:
        """The login that a request with this key is a step of; a SaslHandshake may begin one.

        Raises CorruptData: the last login counts no more.
        """
        if self.under_way is not None:
            return self.under_way
        if key == SASL_HANDSHAKE.key and now_s - self._again_s >= AGAIN_S:
            self._again_s = now_s
            self._last = SaslServer(self._logins, session_ms=self._lifetime_ms, before=self._last)
            self.under_way = self._last
        elif now_s >= self._end_s:
            raise CorruptData("its login is older than connections.max.reauth.ms allows")
        return self.under_way
