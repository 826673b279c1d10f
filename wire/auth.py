"""SASL PLAIN: how a connection gets its principal.

Order       SaslHandshake, then SaslAuthenticate, once; ApiVersions at any time. Anything else before
            the principal is known is answered with ILLEGAL_SASL_STATE (34) and the connection closed.
Safety      the first file to see a password, and the last: it is compared in constant time and never
            logged. PLAIN sends it in the clear, so it is for loopback until there is TLS.
Source      RFC 4616; Kafka SaslServerAuthenticator, PlainSaslServer.
"""

import enum
import hmac
from collections.abc import Mapping
from typing import Final

from fencepost.controller.authorization import ANONYMOUS
from fencepost.wire.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from fencepost.wire.k17_sasl_handshake import MECHANISMS, SaslHandshake, SaslMechanisms

TOKEN_BYTES_MAX: Final = 64 * 1024
USERS_MAX: Final = 10_000
UNAUTHENTICATED_FRAME_BYTES_MAX: Final = 512 * 1024  # Kafka's sasl.server.max.receive.size
MECHANISM: Final = "PLAIN"


class Expects(enum.Enum):
    """What must come next on a connection that has no principal yet."""

    HANDSHAKE = enum.auto()
    TOKEN = enum.auto()
    BARE_TOKEN = enum.auto()
    NOTHING = enum.auto()  # the principal is known


class PlainServer:
    """The server's side of SASL PLAIN on one connection. No I/O."""

    __slots__ = ("_credentials", "expects", "principal")

    def __init__(self, credentials: Mapping[str, str]) -> None:
        self._credentials = credentials
        self.expects = Expects.HANDSHAKE
        self.principal = ANONYMOUS

    def handshake(self, request: SaslHandshake) -> SaslMechanisms:
        """Raises IllegalSaslState, UnsupportedSaslMechanism; the connection is closed then."""
        if self.expects is not Expects.HANDSHAKE:
            raise IllegalSaslState("SaslHandshake came twice")
        if request.mechanism not in MECHANISMS:
            raise UnsupportedSaslMechanism(
                f"mechanism {request.mechanism!r} is not enabled; use {', '.join(MECHANISMS)}"
            )
        self.expects = Expects.BARE_TOKEN if request.tokens_are_bare else Expects.TOKEN
        return SaslMechanisms(MECHANISMS)

    def authenticate(self, token: bytes) -> None:
        """Sets ``principal``. Raises IllegalSaslState, SaslAuthenticationFailed; close then."""
        if self.expects not in (Expects.TOKEN, Expects.BARE_TOKEN):
            raise IllegalSaslState("SaslAuthenticate came before a SaslHandshake")
        user = self._user_of(token)
        if user is None:
            raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
        self.principal = f"User:{user}"
        self.expects = Expects.NOTHING

    def _user_of(self, token: bytes) -> str | None:
        if len(token) > TOKEN_BYTES_MAX:
            return None
        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:  # not UTF-8, or not three parts
            return None
        expected = self._credentials.get(user)
        # Compared also for an unknown user, so that time does not tell who exists.
        matches = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not matches or authorization_id not in ("", user):
            return None
        return user


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
