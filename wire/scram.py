"""SCRAM-SHA-256 and SCRAM-SHA-512: both sides of a login that never sends the password.

Order       client-first, server-first, client-final, server-final: two tokens from each side.
Unknown     a user that is not there is answered like one that is: a salt that is always the same for that
            name, the same iterations. The name is refused only with the proof, which never fits.
Safety      proofs are compared in constant time; salted passwords, keys and proofs are never logged.
Source      RFC 5802, RFC 7677; Kafka ScramSaslServer, ScramFormatter (passwords and names are UTF-8, as they
            are), KIP-84. Channel binding is not offered, and extensions are ignored.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from fencepost.controller.scram_types import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Mechanism,
    StoredCredential,
    stored_of,
)
from fencepost.wire.errors import SaslAuthenticationFailed

MECHANISMS: Final[Mapping[str, Mechanism]] = {each.title: each for each in Mechanism}
SCRAM_MECHANISMS: Final[Mapping[str, str]] = {each.title: each.hash_name for each in Mechanism}
"""The hash of each mechanism."""
TOKEN_BYTES_MAX: Final = 8 * 1024
NONCE_CHARACTERS_MAX: Final = 1024

_FIRST: Final = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>(?:[^,=\x00]|=2C|=3D)+))?,)"
    r"(?P<bare>n=(?P<user>(?:[^,=\x00]|=2C|=3D)+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,.*)?)",
    re.DOTALL,
)
_FINAL: Final = re.compile(
    r"(?P<without>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,.*)?),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]{0,8})(?:,.*)?",
    re.DOTALL,
)


def credential_of(mechanism: str, password: str, salt: bytes, iterations: int) -> StoredCredential:
    """Of a password. Takes some milliseconds: that is its purpose."""
    salted = _salted(mechanism, password, salt, iterations)
    return stored_of(MECHANISMS[mechanism], salted, salt, iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What AlterUserScramCredentials (51) carries in the place of the password."""
    return _salted(mechanism, password, salt, iterations)


Recorded: TypeAlias = Callable[[str, Mechanism], StoredCredential | None]
"""The credential of a user in the metadata log, as far as the node has it."""


class ScramUsers:
    """The credentials of a listener's users, made of their passwords; others have one that no proof fits.

    ``key`` makes the salts, and is the cluster's: a user has the same one on every node, and after a restart.
    ``recorded``: users of the metadata log, before those of the passwords. Set once the node can say.
    """

    def __init__(
        self,
        passwords: Mapping[str, str],
        mechanisms: Iterable[str],
        key: bytes,
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        self._key = key
        self._iterations = iterations
        self.recorded: Recorded = _none_recorded
        self._known = {
            (mechanism, user): credential_of(mechanism, password, self._salt(mechanism, user), iterations)
            for mechanism in mechanisms
            for user, password in passwords.items()
        }

    def find(self, mechanism: str, user: str) -> StoredCredential:
        """The user's credential, or what looks like one."""
        decoy = StoredCredential(
            self._salt(mechanism, user),
            self._iterations,
            self._made(mechanism, user, b"stored key"),
            self._made(mechanism, user, b"server key"),
        )
        return self.recorded(user, MECHANISMS[mechanism]) or self._known.get((mechanism, user), decoy)

    def _salt(self, mechanism: str, user: str) -> bytes:
        return self._made(mechanism, user, b"salt")[:16]

    def _made(self, mechanism: str, user: str, purpose: bytes) -> bytes:
        return _hmac(mechanism, self._key, b"\0".join((b"scram", purpose, mechanism.encode(), user.encode())))


def _none_recorded(_user: str, _mechanism: Mechanism) -> StoredCredential | None:
    return None


class ScramServer:
    """The server's side of one login. No I/O. ``nonce`` is of this login alone, printable without a comma."""

    __slots__ = (
        "_client_first",
        "_credential",
        "_gs2",
        "_mechanism",
        "_nonce",
        "_server_first",
        "_users",
        "user",
    )

    def __init__(self, mechanism: str, users: ScramUsers, nonce: str) -> None:
        self._mechanism = mechanism
        self._users = users
        self._nonce = nonce
        self._credential: StoredCredential | None = None
        self._gs2 = self._client_first = self._server_first = ""
        self.user: str | None = None  # once the proof fits

    def respond(self, token: bytes) -> bytes:
        """The token that answers the client's; ``user`` is set with the last one.

        Raises SaslAuthenticationFailed; close then.
        """
        if len(token) > TOKEN_BYTES_MAX:
            raise self._failed()
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._failed() from None
        return (self._begin(text) if self._credential is None else self._end(text, self._credential)).encode()

    def _begin(self, text: str) -> str:
        found = _FIRST.fullmatch(text)
        if found is None or len(found["nonce"]) > NONCE_CHARACTERS_MAX:
            raise self._failed()
        user = _unescaped(found["user"])
        if found["authzid"] is not None and _unescaped(found["authzid"]) != user:
            raise self._failed()
        credential = self._credential = self._users.find(self._mechanism, user)
        self._gs2, self._client_first = found["gs2"], found["bare"]
        self._nonce = found["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first

    def _end(self, text: str, credential: StoredCredential) -> str:
        found = _FINAL.fullmatch(text)
        if found is None or self.user is not None or found["nonce"] != self._nonce:
            raise self._failed()
        if _decoded(found["binding"]) != self._gs2.encode():
            raise self._failed()
        proof = _decoded(found["proof"])
        said = f"{self._client_first},{self._server_first},{found['without']}".encode()
        signature = _hmac(self._mechanism, credential.stored_key, said)
        if proof is None or len(proof) != len(signature):
            raise self._failed()
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored = hashlib.new(SCRAM_MECHANISMS[self._mechanism], client_key).digest()
        if not hmac.compare_digest(stored, credential.stored_key):
            raise self._failed()
        named = _FIRST.fullmatch(self._gs2 + self._client_first)
        self.user = None if named is None else _unescaped(named["user"])
        return "v=" + base64.b64encode(_hmac(self._mechanism, credential.server_key, said)).decode()

    def _failed(self) -> SaslAuthenticationFailed:
        """The same for everything, as in Kafka: nothing tells which users there are."""
        return SaslAuthenticationFailed(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )


class ScramClient:
    """The client's side of one login. No I/O."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_escaped(user)},r={nonce}"
        self._expected = b""

    def first(self) -> bytes:
        """The first token."""
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """The token with the proof. Raises SaslAuthenticationFailed: the server breaks the protocol."""
        text = server_first.decode("utf-8", "replace")
        found = _SERVER_FIRST.fullmatch(text)
        salt = None if found is None else _decoded(found["salt"])
        if found is None or salt is None or not found["nonce"].startswith(self._nonce):
            raise SaslAuthenticationFailed(f"the server's {self._mechanism} token is not one")
        iterations = int(found["iterations"])
        if found["nonce"] == self._nonce or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslAuthenticationFailed(
                f"the server wants {iterations} iterations of {self._mechanism}; expected {ITERATIONS_MIN} "
                f"to {ITERATIONS_MAX}, and a nonce of its own"
            )
        salted = _salted(self._mechanism, self._password, salt, iterations)
        client_key = _hmac(self._mechanism, salted, b"Client Key")
        stored = hashlib.new(SCRAM_MECHANISMS[self._mechanism], client_key).digest()
        without = f"c=biws,r={found['nonce']}"
        said = f"{self._bare},{text},{without}".encode()
        signature = _hmac(self._mechanism, stored, said)
        server_key = _hmac(self._mechanism, salted, b"Server Key")
        self._expected = b"v=" + base64.b64encode(_hmac(self._mechanism, server_key, said))
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without},p={base64.b64encode(proof).decode()}".encode()

    def require_proof(self, server_final: bytes) -> None:
        """Raises SaslAuthenticationFailed: the server does not know the password either."""
        if not self._expected or not hmac.compare_digest(server_final, self._expected):
            raise SaslAuthenticationFailed(
                f"the server does not prove that it knows the user ({self._mechanism})"
            )


def _salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(SCRAM_MECHANISMS[mechanism], password.encode(), salt, iterations)


def _hmac(mechanism: str, key: bytes, said: bytes) -> bytes:
    return hmac.new(key, said, SCRAM_MECHANISMS[mechanism]).digest()


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
