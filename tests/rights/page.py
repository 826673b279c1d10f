"""The table of docs/authorization.md, and the principals that follow from it.

Principals  for each operation on each type of resource that the page names: it alone is allowed, by the name
            of the resource, by a prefix or by the wildcard; or it alone is denied, beside everything or
            beside all rights on resources. And without ACLs, with all, and a super user who is denied all.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.controller.acl_types import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.hostile.insider_world import Names

PAGE: Final = Path(__file__).parents[2] / "docs" / "authorization.md"
HEAD: Final = "| key | API | needs | on | when | code |"
NAMES: Final = Names(0)
UNMADE: Final = "secret~unmade"
"""No name that a topic can have: what would create it answers by the rights, and creates nothing."""
T, G, X, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
NAMED: Final = {T: (NAMES.topic, UNMADE), G: (NAMES.group,), X: (NAMES.transactional_id,), C: (CLUSTER_NAME,)}
PREFIXES: Final = {T: "secret", G: "secret-gr", X: "secret-i", C: CLUSTER_NAME}
RESOURCE_TYPES: Final = (T, G, X)  # those of which there are many
NOTHING, ALL, RESOURCES, SUPER = "nothing", "everything", "everything of resources", "super"
Right = tuple[Operation, ResourceType]


class PageRow(NamedTuple):
    """A line of the table."""

    key: int
    operation: Operation
    of: ResourceType
    note: str


class State(NamedTuple):
    """What a principal may do. ``base``: the state that it differs from by ``right`` alone."""

    name: str
    acls: tuple[Acl, ...]
    base: str = ""
    right: Right | None = None

    @property
    def user(self) -> str:
        """Its name."""
        return self.name.lower().replace(" ", "-").replace("_", "-")


def rows() -> Iterator[PageRow]:
    """The table; tests/test_authorization.py holds it equal to broker/access/needs.py."""
    lines = PAGE.read_text("utf-8").split(HEAD, 1)[1].split("\n\n", 1)[0].splitlines()
    for line in lines[2:]:
        key, _, operation, of, note, _ = (each.strip() for each in line.strip("|").split("|"))
        if operation != "nothing":
            yield PageRow(int(key), Operation[operation], ResourceType[of], note)


def pairs() -> list[tuple[Operation, ResourceType]]:
    """Each operation on each type of resource that a key needs."""
    return sorted({(row.operation, row.of) for row in rows()}, key=lambda pair: (pair[1], pair[0]))


def states() -> Iterator[State]:
    """All principals."""
    yield State(NOTHING, ())
    yield State(ALL, _all(ALL, NAMED))
    yield State(RESOURCES, _all(RESOURCES, RESOURCE_TYPES))
    yield State(SUPER, tuple(_acl(SUPER, of, Operation.ALL, permission=Permission.DENY) for of in NAMED))
    for right in pairs():
        yield from _of_right(*right)
    beside, right = "DESCRIBE on TOPIC", (Operation.CREATE, C)
    user = f"CREATE on CLUSTER beside {beside}"
    acls = (*_literal(user, T, Operation.DESCRIBE), *_literal(user, C, Operation.CREATE))
    yield State(user, acls, beside, right)


def _of_right(operation: Operation, of: ResourceType) -> Iterator[State]:
    right = (operation, of)
    name = f"{operation.name} on {of.name}"
    yield State(name, _literal(name, of, operation), NOTHING, right)
    user = f"{name} by a prefix"
    prefixed = _acl(user, of, operation, name=PREFIXES[of], pattern=PatternType.PREFIXED)
    yield State(user, (prefixed,), NOTHING, right)
    if of != C:
        user = f"{name} by the wildcard"
        yield State(user, (_acl(user, of, operation, name=WILDCARD),), NOTHING, right)
    for base, types in ((ALL, NAMED), (RESOURCES, RESOURCE_TYPES)):
        if of in types:
            user = f"{base} but {name}"
            denied = _literal(user, of, operation, permission=Permission.DENY)
            yield State(user, (*_all(user, types), *denied), base, right)


def _all(state: str, types: Iterable[ResourceType]) -> tuple[Acl, ...]:
    return tuple(acl for of in types for acl in _literal(state, of, Operation.ALL))


def _literal(
    state: str, of: ResourceType, operation: Operation, permission: Permission = Permission.ALLOW
) -> tuple[Acl, ...]:
    return tuple(_acl(state, of, operation, name=name, permission=permission) for name in NAMED[of])


def _acl(
    state: str,
    of: ResourceType,
    operation: Operation,
    *,
    name: str | None = None,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    principal = f"User:{State(state, ()).user}"
    return Acl(of, pattern, name or NAMED[of][0], principal, "*", operation, permission)
