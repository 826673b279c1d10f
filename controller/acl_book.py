"""The ACLs in memory, and whether they allow something: ``authorize``.

Order       a super user may do everything. Of the ACLs that apply one that denies wins, then one that allows.
            If ACLs apply to the resource and none is about this, it is denied; if none applies at all,
            ``allow.everyone.if.no.acl.found`` counts.
Applies     an ACL of the resource's own name, of a prefix of it, or of ``*``, whatever principal it names.
About       the principal or ``User:*``, from the host or ``*``, with the operation, what implies it, or ALL.
Cost        the length of a name at most, in dictionary look-ups: never the number of ACLs. What was found for
            a resource is remembered until an ACL is added or removed, for the thread alone that changes them.
Source      Kafka StandardAuthorizerData (authorize, findAclRule), Authorizer.authorizeByResourceType.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from fencepost.controller.acl_types import (
    EVERYONE,
    IMPLIED_BY,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.acls import ACLS, AclChange, changes_since, state
from fencepost.controller.view import View

_Bits = dict[tuple[str, str], int]  # (principal, host) to bits: 1 << operation denies, << 16 allows

_ALLOW_SHIFT: Final = 16
_DENIES: Final = {each: 1 << each | 1 << Operation.ALL for each in Operation}
_ALLOWS: Final = {
    each: sum(1 << by for by in {each, Operation.ALL, *IMPLIED_BY.get(each, ())}) << _ALLOW_SHIFT
    for each in Operation
}
_HARDCODE: Final = "hardcode"
"""A name that Kafka looks up before it looks for any resource: super users, and where there are no ACLs."""
VERDICTS_MAX: Final = 10_000  # of each kind that are remembered
NAME_REMEMBERED_MAX: Final = 255  # characters of a resource's name: longer ones are looked up each time
_Question = tuple[str, str, Operation, int, str]  # of ``verdict``


class AclBook:
    """The ACLs as of one change, indexed by resource. ``take`` and ``load`` change them."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.changes = -1  # the number of the last change that is in here; -1: nothing is
        self.acls: dict[UUID, Acl] = {}
        self._literal: dict[int, dict[str, _Bits]] = {each: {} for each in ResourceType}
        self._prefixed: dict[int, dict[str, _Bits]] = {each: {} for each in ResourceType}
        self._lengths: dict[int, dict[int, int]] = {each: {} for each in ResourceType}  # of prefixes
        self._of_principal: dict[tuple[int, str], dict[UUID, Acl]] = {}
        self._verdicts: dict[tuple[str, str, int, int], bool] = {}  # see ``allows_some``
        self._remembered: dict[_Question, bool | None] = {}  # see ``remembered_verdict``

    def load(self, acls: Iterable[tuple[UUID, Acl]], changes: int) -> None:
        """These are all ACLs, as of that change."""
        self._clear()
        for acl_id, acl in acls:
            self._add(acl_id, acl)
        self.changes = changes

    def take(self, found: Iterable[AclChange], changes: int) -> None:
        """Take over changes in their order; ``changes`` is the number of the last one."""
        for each in found:
            if each.added is None:
                self._remove(each.acl_id)
            elif each.acl_id not in self.acls:
                self._add(each.acl_id, each.added)
        self._verdicts.clear()
        self.changes = changes

    def follow(self, view: View) -> None:
        """Take over what the image has and this has not."""
        if state(view).changes == self.changes:
            return
        found = changes_since(view, self.changes) if self.changes >= 0 else None
        if found is None:
            self.load(((key[3], acl) for key, acl in view.scan(ACLS)), state(view).changes)
        else:
            self.take(found, state(view).changes)

    def matching(self, wanted: AclFilter) -> list[tuple[UUID, Acl]]:
        """The ACLs that match, ordered by resource."""
        found = [(acl_id, acl) for acl_id, acl in self.acls.items() if wanted.matches(acl)]
        return sorted(
            found, key=lambda each: (each[1].resource_type, each[1].pattern_type, each[1].name, each[0])
        )

    def bits(self, resource_type: int, name: str, principal: str, host: str) -> int | None:
        """What the ACLs that apply to a resource deny and allow; None if none applies to it at all."""
        literal = self._literal[resource_type]
        found = [each for each in (literal.get(name), literal.get(WILDCARD)) if each is not None]
        lengths = self._lengths[resource_type]
        if lengths:
            prefixed = self._prefixed[resource_type]
            for length in lengths:
                each = prefixed.get(name[:length])
                if each is not None and length <= len(name):
                    found.append(each)
        if not found:
            return None
        total = 0
        for each in found:
            get = each.get
            total |= (
                get((principal, host), 0)
                | get((principal, WILDCARD), 0)
                | get((EVERYONE, host), 0)
                | get((EVERYONE, WILDCARD), 0)
            )
        return total

    def verdict(
        self, principal: str, host: str, operation: Operation, resource_type: int, name: str
    ) -> bool | None:
        """Whether the ACLs that apply to a resource allow the operation; None: none applies to it at all."""
        bits = self.bits(resource_type, name, principal, host)
        if bits is None:
            return None
        return not bits & _DENIES[operation] and bool(bits & _ALLOWS[operation])

    def remembered_verdict(
        self, principal: str, host: str, operation: Operation, resource_type: int, name: str
    ) -> bool | None:
        """``verdict``, looked up once until an ACL changes.

        For the thread that changes them alone: another one could keep what it found before a change.
        """
        question = (principal, host, operation, resource_type, name)
        try:
            return self._remembered[question]
        except KeyError:
            found = self.verdict(*question)
        if len(name) <= NAME_REMEMBERED_MAX:
            if len(self._remembered) >= VERDICTS_MAX:
                self._remembered.clear()
            self._remembered[question] = found
        return found

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """An ACL allows the operation on some resource of a type, and none denies all that it is about.

        As Kafka's: an operation that is only implied does not count.
        """
        question = (principal, host, operation, resource_type)
        verdict = self._verdicts.get(question)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            verdict = self._verdicts[question] = self._allows_some(*question)
        return verdict

    def _allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        about = [
            acl
            for who in {principal, EVERYONE}
            for acl in self._of_principal.get((resource_type, who), {}).values()
            if acl.host in (host, WILDCARD) and acl.operation in (operation, Operation.ALL)
        ]
        denied = {(acl.pattern_type, acl.name) for acl in about if acl.permission == Permission.DENY}
        allowed = {(acl.pattern_type, acl.name) for acl in about if acl.permission == Permission.ALLOW}
        everything = (int(PatternType.LITERAL), WILDCARD)
        if everything in denied:
            return False
        if everything in allowed:
            return True
        prefixes = {name for pattern, name in denied if pattern == PatternType.PREFIXED}
        return any(
            (pattern, name) not in denied
            and not any(name[:length] in prefixes for length in range(1, len(name) + 1))
            for pattern, name in allowed
        )

    def _add(self, acl_id: UUID, acl: Acl) -> None:
        self._remembered.clear()
        self.acls[acl_id] = acl
        self._of_principal.setdefault((acl.resource_type, acl.principal), {})[acl_id] = acl
        if acl.pattern_type == PatternType.PREFIXED:
            names = self._prefixed[acl.resource_type]
            if acl.name not in names:
                lengths = self._lengths[acl.resource_type]
                lengths[len(acl.name)] = lengths.get(len(acl.name), 0) + 1
        else:
            names = self._literal[acl.resource_type]
        bits = names.setdefault(acl.name, {})
        who = (acl.principal, acl.host)
        bits[who] = bits.get(who, 0) | _bit(acl)

    def _remove(self, acl_id: UUID) -> None:
        self._remembered.clear()
        acl = self.acls.pop(acl_id, None)
        if acl is None:
            return
        of_principal = self._of_principal[acl.resource_type, acl.principal]
        del of_principal[acl_id]
        if not of_principal:
            del self._of_principal[acl.resource_type, acl.principal]
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        names = (self._prefixed if is_prefix else self._literal)[acl.resource_type]
        bits, who = names[acl.name], (acl.principal, acl.host)
        bits[who] &= ~_bit(acl)  # no other ACL has this bit: two of one content are one
        if not bits[who]:
            del bits[who]
        if bits:
            return
        del names[acl.name]
        if is_prefix:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]


def _bit(acl: Acl) -> int:
    bit = 1 << acl.operation
    return bit << _ALLOW_SHIFT if acl.permission == Permission.ALLOW else bit


def authorize(
    acls: AclBook,
    super_users: frozenset[str],
    allow_if_no_acl: bool,
    principal: str,
    host: str,
    operation: Operation,
    resource: tuple[ResourceType, str],
) -> bool:
    """Whether the principal may do the operation to the resource; see the module."""
    if principal in super_users:
        return True
    verdict = acls.verdict(principal, host, operation, *resource)
    if verdict is None:
        return allow_if_no_acl
    return verdict


def authorize_some(
    acls: AclBook,
    super_users: frozenset[str],
    allow_if_no_acl: bool,
    principal: str,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
) -> bool:
    """Whether the principal may do the operation to any resource of the type (KIP-679)."""
    hardcode = (resource_type, _HARDCODE)
    if authorize(acls, super_users, allow_if_no_acl, principal, host, operation, hardcode):
        return True
    return acls.allows_some(principal, host, operation, resource_type)
