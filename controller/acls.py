"""ACLs in the metadata log: added, removed, and what changed last.

Rows        ACLS by resource and id; ACL_KEYS finds a row by its id; ACL_CHANGES has the last CHANGES_KEPT
            changes by their number, so that who holds the ACLs in memory takes over what is new.
Invariant   the number of changes only grows, and change n is the n-th of the log, the first is 1.
Ids         are made of the content (``Acl.acl_id``): to add an ACL that is there is no change.
Source      Kafka AclControlManager (createAcls, deleteAcls, validateNewAcl, replay), AclApis.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import msgspec

from fencepost.controller import levels
from fencepost.controller.acl_types import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclResult,
    AclsDeleted,
    CreateAcls,
    CreateAclsAnswer,
    DeleteAclsAnswer,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, InvalidRequest, PolicyViolation
from fencepost.controller.view import KEY_BYTES_MAX, MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.invariant import invariant
from fencepost.records.logged import ROW_COST
from fencepost.records.schema import AccessControlEntryRecord, RemoveAccessControlEntryRecord

ACLS_MAX: Final = 200_000  # in the cluster: every node keeps all of them in memory, some 100 MB of them
CHANGES_MAX: Final = 500  # of one request: they share an entry of the log
CHANGES_KEPT: Final = 10_000  # who is further behind reads all ACLs again
TEXT_BYTES_MAX: Final = 400  # of a resource's name, a principal and a host, each
ROWS_WRITTEN: Final = 5  # of a record: two for the ACL, two for the change, and one that goes

AclKey = tuple[int, int, str, UUID]  # resource type, pattern type, name, id


def _encode_key(key: AclKey) -> bytes:
    resource_type, pattern_type, name, acl_id = key
    return bytes((resource_type, pattern_type)) + name.encode() + b"\0" + acl_id.bytes


def _decode_key(key: bytes) -> AclKey:
    return key[0], key[1], key[2:-17].decode(), UUID(bytes=key[-16:])


class AclChange(msgspec.Struct, frozen=True):
    """One change: the ACL that was added, or the id of the one that was removed."""

    acl_id: UUID
    added: Acl | None = None


class AclState(msgspec.Struct, frozen=True, array_like=True):
    """``changes``: the number of the last change. ``count``: of the ACLs that are there."""

    changes: int = 0
    count: int = 0


ACLS: Final[Table[AclKey, Acl]] = Table("acls", Acl, _encode_key, _decode_key)
ACL_KEYS: Final[Table[UUID, tuple[int, int, str]]] = Table(
    "acl_keys", tuple[int, int, str], lambda key: key.bytes, lambda key: UUID(bytes=key)
)
ACL_CHANGES: Final[Table[int, AclChange]] = Table("acl_changes", AclChange, encode_int_key, decode_int_key)
ACL_STATE: Final[Table[int, AclState]] = Table("acl_state", AclState, encode_int_key, decode_int_key)
ACL_TABLES: Final = (ACLS, ACL_KEYS, ACL_CHANGES, ACL_STATE)

_ONLY: Final = 0  # the key of the one row of ACL_STATE
_NONE: Final = AclState()
_TYPES: Final = frozenset(int(each) for each in ResourceType)
_PATTERNS: Final = frozenset((int(PatternType.LITERAL), int(PatternType.PREFIXED)))
_OPERATIONS: Final = frozenset(int(each) for each in Operation)
_PERMISSIONS: Final = frozenset(int(each) for each in Permission)


# -- reading ---------------------------------------------------------------------------------------------


def state(view: View) -> AclState:
    """How many changes there were, and how many ACLs there are."""
    return view.get(ACL_STATE, _ONLY) or _NONE


def find(view: View, acl_id: UUID) -> Acl | None:
    """The ACL of that id."""
    resource = view.get(ACL_KEYS, acl_id)
    return None if resource is None else view.get(ACLS, (*resource, acl_id))


def page(view: View, after: AclChange | None, rows_max: int) -> tuple[list[AclChange], bool]:
    """ACLs behind the last one of a page before, and whether there are more. Raises InvalidRequest."""
    key: AclKey | None = None
    if after is not None:
        if after.added is None:
            raise InvalidRequest("a page follows an ACL that is there")
        _require_valid(after.added)
        key = (after.added.resource_type, after.added.pattern_type, after.added.name, after.acl_id)
    rows: list[AclChange] = []
    for (*_, acl_id), acl in view.scan(ACLS, key):
        if len(rows) == rows_max:
            return rows, True
        rows.append(AclChange(acl_id, acl))
    return rows, False


def changes_since(view: View, known: int) -> list[AclChange] | None:
    """What changed after change ``known``; None if that is not kept any more, or never was."""
    last = state(view).changes
    if known > last or last - known > CHANGES_KEPT:
        return None
    found = [view.get(ACL_CHANGES, number) for number in range(known + 1, last + 1)]
    return [each for each in found if each is not None]


def records_of(view: View) -> Iterator[AccessControlEntryRecord]:
    """The records that make the ACLs, in the order of their rows."""
    for key, acl in view.scan(ACLS):
        yield _record(key[3], acl)


# -- deciding --------------------------------------------------------------------------------------------


def decide_create(view: View, request: CreateAcls) -> Decision[CreateAclsAnswer]:
    """One result for each ACL; those that are valid are added together.

    Raises UnsupportedVersion below log level 8, InvalidRequest for more than CHANGES_MAX, PolicyViolation
    above ACLS_MAX.
    """
    levels.require_acls(view)
    if len(request.acls) > CHANGES_MAX:
        raise InvalidRequest(
            f"{len(request.acls)} ACLs in one request; at most {CHANGES_MAX} are added at once"
        )
    records: dict[UUID, AccessControlEntryRecord] = {}
    results = []
    for acl in request.acls:
        try:
            _require_valid(acl)
        except InvalidRequest as error:
            results.append(AclResult(error.code, str(error)))
            continue
        results.append(AclResult())
        acl_id = acl.acl_id
        if view.get(ACL_KEYS, acl_id) is None:
            records[acl_id] = _record(acl_id, acl)
    if state(view).count + len(records) > ACLS_MAX:
        raise PolicyViolation(f"the cluster has {state(view).count} ACLs; at most {ACLS_MAX} may be there")
    return Decision(tuple(records.values()), CreateAclsAnswer(tuple(results)), extra_cost=_cost(records))


def decide_delete(view: View, matches: Iterable[tuple[UUID, ...] | ApiError]) -> Decision[DeleteAclsAnswer]:
    """Remove the ACLs of these ids that are still there: for each filter of a request what matched it.

    Raises UnsupportedVersion below log level 8, InvalidRequest for more than CHANGES_MAX.
    """
    levels.require_acls(view)
    records: dict[UUID, RemoveAccessControlEntryRecord] = {}
    results = []
    for each in matches:
        if isinstance(each, ApiError):
            results.append(AclsDeleted((), each.code, str(each)))
            continue
        found = {acl_id: acl for acl_id in each if (acl := find(view, acl_id)) is not None}
        records |= {acl_id: RemoveAccessControlEntryRecord(id=acl_id) for acl_id in found}
        results.append(AclsDeleted(tuple(found.values())))
    if len(records) > CHANGES_MAX:
        raise InvalidRequest(
            f"the filters match {len(records)} ACLs; at most {CHANGES_MAX} are removed at once: narrow them"
        )
    return Decision(tuple(records.values()), DeleteAclsAnswer(tuple(results)), extra_cost=_cost(records))


def require_known(wanted: AclFilter) -> None:
    """Raises InvalidRequest for a filter with a number that is none of Kafka's."""
    any_pattern = _PATTERNS | {1, int(PatternType.MATCH)}
    if wanted.resource_type not in _TYPES | {1} or wanted.pattern_type not in any_pattern:
        raise InvalidRequest("the filter's resource type or pattern type is unknown")
    if wanted.operation not in _OPERATIONS | {1} or wanted.permission not in _PERMISSIONS | {1}:
        raise InvalidRequest("the filter's operation or permission is unknown")


def _require_valid(acl: Acl) -> None:
    for number, known, what in (
        (acl.resource_type, _TYPES, "resource type"),
        (acl.pattern_type, _PATTERNS, "pattern type"),
        (acl.operation, _OPERATIONS, "operation"),
        (acl.permission, _PERMISSIONS, "permission"),
    ):
        if number not in known:
            raise InvalidRequest(f"invalid {what} {number}; expected one of {sorted(known)}")
    for text, what in ((acl.name, "resource name"), (acl.principal, "principal"), (acl.host, "host")):
        is_text = "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)
        if not is_text or not 0 < len(text.encode()) <= TEXT_BYTES_MAX:
            raise InvalidRequest(
                f"the {what} is {text[:50]!r}; expected 1 to {TEXT_BYTES_MAX} bytes, none is 0"
            )
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise InvalidRequest(f"the only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"the principal is {acl.principal[:50]!r}; expected TYPE:NAME, such as User:alice"
        )


def _record(acl_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _cost(records: dict[UUID, AccessControlEntryRecord] | dict[UUID, RemoveAccessControlEntryRecord]) -> int:
    return ROWS_WRITTEN * ROW_COST * len(records)


# -- replay ----------------------------------------------------------------------------------------------


def replay(view: MutableView, record: AccessControlEntryRecord) -> None:
    """Total."""
    acl = Acl(
        record.resource_type,
        record.pattern_type,
        record.resource_name,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
    resource = (acl.resource_type, acl.pattern_type, acl.name)
    invariant(view.get(ACL_KEYS, record.id) is None, "an ACL was added twice", record=record)
    view.put(ACL_KEYS, record.id, resource)
    view.put(ACLS, (*resource, record.id), acl)
    _change(view, AclChange(record.id, acl), 1)


def replay_remove(view: MutableView, record: RemoveAccessControlEntryRecord) -> None:
    """Total."""
    resource = view.get(ACL_KEYS, record.id)
    if resource is None:
        invariant(False, "an ACL was removed that is not there", record=record)
        return
    view.delete(ACL_KEYS, record.id)
    view.delete(ACLS, (*resource, record.id))
    _change(view, AclChange(record.id), -1)


def _change(view: MutableView, change: AclChange, more: int) -> None:
    before = state(view)
    number = before.changes + 1
    view.put(ACL_CHANGES, number, change)
    if number > CHANGES_KEPT:
        view.delete(ACL_CHANGES, number - CHANGES_KEPT)
    view.put(ACL_STATE, _ONLY, AclState(number, before.count + more))


invariant(2 + TEXT_BYTES_MAX + 1 + 16 <= KEY_BYTES_MAX, "a key of an ACL fits")
