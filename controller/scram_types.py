"""SCRAM credentials of users, and what is requested of them: API keys 50 and 51. Secrets have no repr."""

import enum
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import ClassVar, Final

import msgspec

from fencepost.controller.errors import ErrorCode

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384


class Mechanism(enum.IntEnum):
    """Kafka's ScramMechanism."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def title(self) -> str:
        """As SASL names it."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """As hashlib names it."""
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"


class StoredCredential(msgspec.Struct, frozen=True):
    """What the log knows of a user: enough to verify a proof, not to make one."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"StoredCredential(iterations={self.iterations})"


def stored_of(mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int) -> StoredCredential:
    """RFC 5802: of SaltedPassword."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return StoredCredential(salt, iterations, stored_key, hmac.digest(salted_password, b"Server Key", name))


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential that is set. ``mechanism``: a Mechanism, or any number from the wire."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


class ScramDeletion(msgspec.Struct, frozen=True):
    """A credential that is removed."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class AlterScram:
    """API key 51."""

    timeout_ms: ClassVar[int] = 30_000  # none is in the request

    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()

    @property
    def users(self) -> tuple[str, ...]:
        """Each once, in their order."""
        names = [each.name for each in self.deletions] + [each.name for each in self.upsertions]
        return tuple(dict.fromkeys(names))


class UserAltered(msgspec.Struct, frozen=True):
    """What became of a user's changes."""

    user: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


class AlterScramAnswer(msgspec.Struct, frozen=True):
    """One for each user."""

    results: tuple[UserAltered, ...]


class DescribeScram(msgspec.Struct, frozen=True):
    """API key 50. ``users`` None, or none: all of them."""

    users: tuple[str, ...] | None = None


class UserDescribed(msgspec.Struct, frozen=True):
    """A user's (mechanism, iterations), or why they are not shown."""

    user: str
    credentials: tuple[tuple[int, int], ...] = ()
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


class DescribeScramAnswer(msgspec.Struct, frozen=True):
    """By user."""

    results: tuple[UserDescribed, ...]
