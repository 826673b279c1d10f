"""SASL: how a connection gets its principal, by PLAIN or by SCRAM (wire/scram.py).

Order       SaslHandshake, then SaslAuthenticate, once for PLAIN and twice for SCRAM; ApiVersions at any time.
            Anything else before the principal is known is answered with ILLEGAL_SASL_STATE (34) and the
            connection closed.
Safety      a password of PLAIN is compared in constant time and never logged. PLAIN sends it as it is: it
            is for loopback, or for TLS.
Source      RFC 4616; Kafka SaslServerAuthenticator, PlainSaslServer.
"""

import enum
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fencepost.controller.authorization import ANONYMOUS
from fencepost.wire.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from fencepost.wire.k17_sasl_handshake import SaslHandshake, SaslMechanisms
from fencepost.wire.scram import SCRAM_MECHANISMS, ScramServer, ScramUsers

TOKEN_BYTES_MAX: Final = 64 * 1024
USERS_MAX: Final = 10_000
UNAUTHENTICATED_FRAME_BYTES_MAX: Final = 512 * 1024  # Kafka's sasl.server.max.receive.size
NONCE_BYTES: Final = 24
MECHANISM: Final = "PLAIN"


class Expects(enum.Enum):
    """What must come next on a connection that has no principal yet."""

    HANDSHAKE = enum.auto()
    TOKEN = enum.auto()
    BARE_TOKEN = enum.auto()
    NOTHING = enum.auto()  # the principal is known


@dataclass(frozen=True, slots=True)
class Logins:
    """Who may log in at a listener: passwords by user, and the mechanisms that are enabled.

    ``scram``: None if none of its mechanisms is.
    """

    passwords: Mapping[str, str] = field(repr=False)
    mechanisms: tuple[str, ...] = (MECHANISM,)
    scram: ScramUsers | None = field(default=None, repr=False)

    @classmethod
    def of(cls, passwords: Mapping[str, str], mechanisms: tuple[str, ...], key: bytes) -> "Logins":
        """``key`` makes the salts of SCRAM. Takes milliseconds for each user and mechanism of SCRAM."""
        scram = tuple(each for each in mechanisms if each in SCRAM_MECHANISMS)
        return cls(passwords, mechanisms, ScramUsers(passwords, scram, key) if scram else None)


class SaslServer:
    """The server's side of one login. No I/O.

    ``session_ms``: how long it counts by which mechanism; 0: as long as the connection. ``before``: the login
    that it renews.
    """

    __slots__ = ("_before", "_logins", "_scram", "_session_ms", "expects", "mechanism", "principal")

    def __init__(
        self,
        logins: Logins,
        *,
        session_ms: Callable[[str], int] = lambda _mechanism: 0,
        before: "SaslServer | None" = None,
    ) -> None:
        self._logins = logins
        self._session_ms = session_ms
        self._before: tuple[str, str] | None = (
            None if before is None else (before.principal, before.mechanism)
        )
        self._scram: ScramServer | None = None
        self.mechanism: str = ""
        self.expects = Expects.HANDSHAKE
        self.principal: str = ANONYMOUS

    def handshake(self, request: SaslHandshake) -> SaslMechanisms:
        """Raises IllegalSaslState, UnsupportedSaslMechanism; the connection is closed then."""
        if self.expects is not Expects.HANDSHAKE:
            raise IllegalSaslState("SaslHandshake came twice")
        enabled = self._logins.mechanisms
        if request.mechanism not in enabled:
            raise UnsupportedSaslMechanism(
                f"mechanism {request.mechanism[:50]!r} is not enabled; use {', '.join(enabled)}", enabled
            )
        if request.mechanism in SCRAM_MECHANISMS and self._logins.scram is not None:
            nonce = secrets.token_urlsafe(NONCE_BYTES)
            self._scram = ScramServer(request.mechanism, self._logins.scram, nonce)
        self.mechanism = request.mechanism
        self.expects = Expects.BARE_TOKEN if request.tokens_are_bare else Expects.TOKEN
        return SaslMechanisms(enabled)

    def authenticate(self, token: bytes) -> bytes:
        """The token that answers; sets ``principal`` with the last one.

        Raises IllegalSaslState, SaslAuthenticationFailed; close then.
        """
        if self.expects not in (Expects.TOKEN, Expects.BARE_TOKEN):
            raise IllegalSaslState("SaslAuthenticate came before a SaslHandshake")
        principal, mechanism = self._before or ("", "")
        if self._before is not None and self.mechanism != mechanism:
            raise SaslAuthenticationFailed(
                f"SASL mechanism {self.mechanism!r} requested by client is not supported for "
                f"re-authentication of mechanism {mechanism!r}"
            )
        answer = b""
        if self._scram is None:
            user = self._user_of(token)
            if user is None:
                raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
        else:
            answer, user = self._scram.respond(token), self._scram.user
        if user is not None:
            if self._before is not None and principal != f"User:{user}":
                raise SaslAuthenticationFailed(
                    f"Cannot change principals during re-authentication from {principal} to User:{user}"
                )
            self.principal = f"User:{user}"
            self.expects = Expects.NOTHING
        return answer

    @property
    def lifetime_ms(self) -> int:
        """How long the login counts from now on, once it is complete; 0: no limit, or not complete."""
        return self._session_ms(self.mechanism) if self.expects is Expects.NOTHING else 0

    def _user_of(self, token: bytes) -> str | None:
        if len(token) > TOKEN_BYTES_MAX:
            return None
        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:  # not UTF-8, or not three parts
            return None
        expected = self._logins.passwords.get(user)
        # Compared also for an unknown user, so that time does not tell who exists.
        matches = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not matches or authorization_id not in ("", user):
            return None
        return user


class Login(NamedTuple):
    """With what a client logs in."""

    user: str
    password: str
    mechanism: str = MECHANISM

    def __repr__(self) -> str:
        """Without the password."""
        return f"Login({self.user!r}, mechanism={self.mechanism!r})"


def plain_token(user: str, password: str) -> bytes:
    """The client's token (RFC 4616): authorization id, user, password."""
    return f"\0{user}\0{password}".encode()


class UsersSyntaxError(ValueError):
    """A line of a file of users that cannot be read. Says the line, never the password."""


def parse_users(text: str) -> dict[str, str]:
    """Password by user name, from lines ``name=password``; blank lines and ``#`` comments are skipped.

    Raises UsersSyntaxError.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, password = line.partition("=")
        if not (name.strip() and equals and password.strip()) or name.strip() in users:
            raise UsersSyntaxError(f"line {number}: expected name=password, each name once")
        users[name.strip()] = password.strip()
    if len(users) > USERS_MAX:
        raise UsersSyntaxError(f"{len(users)} users, at most {USERS_MAX} are read")
    return users
