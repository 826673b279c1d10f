"""SCRAM users that a cluster is born with: how ``storage format --add-scram`` names them, and their JSON.

Words       SCRAM-SHA-256=[name=alice,password=secret,iterations=8192], as ``kafka-storage`` takes them; in
            place of the password a salt and a saltedpassword, both base64. Errors never show what is secret.
"""

import base64
import binascii
import secrets
from typing import Any, Final

from fencepost.controller import scram
from fencepost.controller.scram_types import ITERATIONS_MAX, ITERATIONS_MIN, stored_of
from fencepost.records.schema import UserScramCredentialRecord
from fencepost.wire.scram import MECHANISMS, salted_password

SALT_BYTES: Final = 16
USERS_MAX: Final = 50  # of one cluster's birth: they are in bootstrap.json, which is small
_FORM: Final = "expected SCRAM-SHA-256=[name=NAME,password=PASSWORD] or SCRAM-SHA-512=[..]"
_KEYS: Final = frozenset(("name", "password", "iterations", "salt", "saltedpassword"))


def parse_user(text: str) -> UserScramCredentialRecord:
    """Of one ``--add-scram``. Raises ValueError."""
    title, equals, rest = text.partition("=")
    mechanism = MECHANISMS.get(title.strip())
    if mechanism is None or not equals or not (rest.startswith("[") and rest.endswith("]")):
        raise ValueError(_FORM)
    pairs = [each.partition("=") for each in rest[1:-1].split(",")]
    given = {key.strip(): value for key, _, value in pairs}
    if len(given) != len(pairs) or not set(given) <= _KEYS or not given.get("name"):
        raise ValueError(f"{_FORM}; other keys are iterations, salt and saltedpassword")
    if bool(given.get("password")) == ("saltedpassword" in given):
        raise ValueError("expected a password, or a salt and a saltedpassword")
    if "saltedpassword" in given and "salt" not in given:
        raise ValueError("a saltedpassword is of a salt: expected salt, too")
    if not scram.is_name(given["name"]):
        raise ValueError(f"expected a name of at most {scram.USER_BYTES_MAX} bytes")
    try:
        iterations = int(given.get("iterations", ITERATIONS_MIN))
        salt = _decoded(given["salt"]) if "salt" in given else secrets.token_bytes(SALT_BYTES)
        salted = _decoded(given["saltedpassword"]) if "saltedpassword" in given else None
    except (ValueError, binascii.Error):
        raise ValueError("expected a number of iterations, and base64 of salt and saltedpassword") from None
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(f"expected {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations, got {iterations}")
    if not 0 < len(salt) <= scram.SALT_BYTES_MAX:
        raise ValueError(f"expected a salt of 1 to {scram.SALT_BYTES_MAX} bytes")
    if salted is None:
        salted = salted_password(mechanism.title, given["password"], salt, iterations)
    credential = stored_of(mechanism, salted, salt, iterations)
    return scram.record_of(given["name"], mechanism, credential)


def written_user(user: UserScramCredentialRecord) -> dict[str, Any]:
    """As JSON. Inverse: ``read_users``."""
    secret = {name: base64.b64encode(getattr(user, name)).decode() for name in _BYTES}
    return {"name": user.name, "mechanism": user.mechanism, "iterations": user.iterations, **secret}


def read_users(content: Any, file: str) -> tuple[UserScramCredentialRecord, ...]:
    """Raises ValueError, which says the file's name."""
    try:
        return tuple(
            UserScramCredentialRecord(
                name=str(each["name"]),
                mechanism=int(each["mechanism"]),
                iterations=int(each["iterations"]),
                **{name: _decoded(each[name]) for name in _BYTES},
            )
            for each in content[:USERS_MAX]
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise ValueError(f"{file}: expected users as storage format writes them") from None


_BYTES: Final = ("salt", "stored_key", "server_key")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
