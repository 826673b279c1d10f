"""Users' SCRAM credentials in the metadata log: set, removed, described.

Rows        SCRAM_CREDENTIALS by user and mechanism; SCRAM_STATE counts changes and credentials.
Invariant   the number of changes only grows: who knows it knows whether its credentials are the newest.
Safety      a password never gets here, nor into the log: the client salts it, and what verifies it is kept.
Source      Kafka ScramControlManager, ScramImage.describe.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.controller import levels
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode, InvalidRequest, PolicyViolation
from fencepost.controller.scram_types import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    AlterScram,
    AlterScramAnswer,
    DescribeScram,
    DescribeScramAnswer,
    Mechanism,
    ScramDeletion,
    ScramUpsertion,
    StoredCredential,
    UserAltered,
    UserDescribed,
    stored_of,
)
from fencepost.controller.view import KEY_BYTES_MAX, MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.invariant import invariant
from fencepost.records.levels import SCRAM_USERS
from fencepost.records.logged import ROW_COST
from fencepost.records.schema import RemoveUserScramCredentialRecord, UserScramCredentialRecord

CREDENTIALS_MAX: Final = (
    10_000  # in the cluster: a broker without a voter's store keeps all of them in memory
)
CHANGES_MAX: Final = 500  # of one request: they share an entry of the log
USER_BYTES_MAX: Final = 250  # of a name
SALT_BYTES_MAX: Final = 256
ROWS_WRITTEN: Final = 2  # of a record

CredentialKey = tuple[str, int]  # user, mechanism


class ScramState(msgspec.Struct, frozen=True, array_like=True):
    """``changes``: how many there were. ``count``: of the credentials that are there."""

    changes: int = 0
    count: int = 0


SCRAM_CREDENTIALS: Final[Table[CredentialKey, StoredCredential]] = Table(
    "scram_credentials",
    StoredCredential,
    lambda key: key[0].encode() + b"\0" + bytes((key[1] & 0xFF,)),
    lambda key: (key[:-2].decode(), key[-1]),
)
SCRAM_STATE: Final[Table[int, ScramState]] = Table("scram_state", ScramState, encode_int_key, decode_int_key)
SCRAM_TABLES: Final = (SCRAM_CREDENTIALS, SCRAM_STATE)

_ONLY: Final = 0  # the key of the one row of SCRAM_STATE
_NONE: Final = ScramState()
_KNOWN: Final = frozenset(int(each) for each in Mechanism)
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_Changes = dict[str, ScramDeletion | ScramUpsertion]


# -- reading ---------------------------------------------------------------------------------------------


def state(view: View) -> ScramState:
    """How many changes there were, and how many credentials there are."""
    return view.get(SCRAM_STATE, _ONLY) or _NONE


def find(view: View, user: str, mechanism: Mechanism) -> StoredCredential | None:
    """The user's credential. ``user`` is what a client claims: any text."""
    if not is_name(user):
        return None
    return view.get(SCRAM_CREDENTIALS, (user, int(mechanism)))


def records_of(view: View) -> Iterator[UserScramCredentialRecord]:
    """The records that make the credentials, in the order of their rows."""
    for (user, mechanism), found in view.scan(SCRAM_CREDENTIALS):
        yield record_of(user, mechanism, found)


def record_of(user: str, mechanism: int, credential: StoredCredential) -> UserScramCredentialRecord:
    """The record that sets it."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def is_name(user: str) -> bool:
    """A user may have this name."""
    is_text = "\0" not in user and not any("\ud800" <= each <= "\udfff" for each in user)
    return is_text and 0 < len(user.encode()) <= USER_BYTES_MAX


def describe(view: View, request: DescribeScram) -> DescribeScramAnswer:
    """Each user's mechanisms, or of all users. Raises InvalidRequest for too many."""
    wanted = request.users or ()
    if len(wanted) > CREDENTIALS_MAX:
        raise InvalidRequest(f"{len(wanted)} users in one request; at most {CREDENTIALS_MAX} are described")
    found: dict[str, list[tuple[int, int]]] = {}
    if wanted:
        for user in wanted:
            found[user] = [
                (mechanism, each.iterations)
                for mechanism in Mechanism
                if (each := find(view, user, mechanism)) is not None
            ]
    else:
        for (user, kind), credential in view.scan(SCRAM_CREDENTIALS):
            found.setdefault(user, []).append((kind, credential.iterations))
    times = Counter(wanted)
    return DescribeScramAnswer(tuple(_described(user, rows, times[user]) for user, rows in found.items()))


def _described(user: str, rows: list[tuple[int, int]], times: int) -> UserDescribed:
    if times > 1:
        text = "Cannot describe SCRAM credentials for the same user twice in a single request"
        return UserDescribed(user, (), ErrorCode.DUPLICATE_RESOURCE, text)
    if not rows:
        text = "Attempt to describe a user credential that does not exist"
        return UserDescribed(user, (), ErrorCode.RESOURCE_NOT_FOUND, text)
    return UserDescribed(user, tuple(rows))


# -- deciding --------------------------------------------------------------------------------------------


def decide_alter(view: View, request: AlterScram) -> Decision[AlterScramAnswer]:
    """One result for each user; those without an error are changed together.

    Raises UnsupportedVersion below log level 10, InvalidRequest for more than CHANGES_MAX, PolicyViolation
    above CREDENTIALS_MAX.
    """
    levels.require_scram_users(view)
    count = len(request.deletions) + len(request.upsertions)
    if count > CHANGES_MAX:
        raise InvalidRequest(f"{count} changes in one request; at most {CHANGES_MAX} are made at once")
    errors: dict[str, tuple[ErrorCode, str]] = {}
    changes: _Changes = {}
    wanted: list[ScramDeletion | ScramUpsertion] = [*request.deletions, *request.upsertions]
    for each in wanted:
        if each.name in errors:
            continue
        if changes.pop(each.name, None) is not None:
            errors[each.name] = (ErrorCode.DUPLICATE_RESOURCE, _TWICE)
        elif (error := _error_of(view, each)) is not None:
            errors[each.name] = error
        else:
            changes[each.name] = each
    records = tuple(map(_record, changes.values()))
    added = sum(
        1 if isinstance(each, ScramUpsertion) else -1
        for each in changes.values()
        if isinstance(each, ScramDeletion) or find(view, each.name, Mechanism(each.mechanism)) is None
    )
    there = state(view).count
    if added > 0 and there + added > CREDENTIALS_MAX:
        raise PolicyViolation(f"the cluster has {there} SCRAM credentials; at most {CREDENTIALS_MAX} may be")
    results = tuple(UserAltered(user, *errors.get(user, (ErrorCode.NONE, None))) for user in request.users)
    return Decision(records, AlterScramAnswer(results), extra_cost=ROWS_WRITTEN * ROW_COST * len(records))


def _error_of(view: View, change: ScramDeletion | ScramUpsertion) -> tuple[ErrorCode, str] | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in _KNOWN:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramDeletion):
        if find(view, change.name, Mechanism(change.mechanism)) is None:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if not is_name(change.name):
        text = f"expected a name of at most {USER_BYTES_MAX} bytes, none of them 0"
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, text
    if change.iterations < ITERATIONS_MIN:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if change.iterations > ITERATIONS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not (0 < len(change.salt) <= SALT_BYTES_MAX and 0 < len(change.salted_password) <= SALT_BYTES_MAX):
        text = f"expected a salt and a salted password of 1 to {SALT_BYTES_MAX} bytes"
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, text
    return None


def _record(
    change: ScramDeletion | ScramUpsertion,
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    mechanism = Mechanism(change.mechanism)
    made = stored_of(mechanism, change.salted_password, change.salt, change.iterations)
    return record_of(change.name, mechanism, made)


def bootstrap_records(
    view: View, formatted: tuple[UserScramCredentialRecord, ...], level: int
) -> tuple[UserScramCredentialRecord, ...]:
    """What a new cluster's first leader writes of the users that its directory was formatted with."""
    return formatted if level >= SCRAM_USERS and levels.is_new(view) else ()


# -- replay ----------------------------------------------------------------------------------------------


def replay(view: MutableView, record: UserScramCredentialRecord) -> None:
    """Total."""
    key = (record.name, record.mechanism)
    is_new = view.get(SCRAM_CREDENTIALS, key) is None
    credential = StoredCredential(record.salt, record.iterations, record.stored_key, record.server_key)
    view.put(SCRAM_CREDENTIALS, key, credential)
    _change(view, 1 if is_new else 0)


def replay_remove(view: MutableView, record: RemoveUserScramCredentialRecord) -> None:
    """Total."""
    key = (record.name, record.mechanism)
    invariant(
        view.get(SCRAM_CREDENTIALS, key) is not None,
        "a credential was removed that is not there",
        record=record,
    )
    view.delete(SCRAM_CREDENTIALS, key)
    _change(view, -1)


def _change(view: MutableView, more: int) -> None:
    before = state(view)
    view.put(SCRAM_STATE, _ONLY, ScramState(before.changes + 1, before.count + more))


invariant(USER_BYTES_MAX + 2 <= KEY_BYTES_MAX, "a key of a credential fits")
