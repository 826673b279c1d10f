"""ACLs as Kafka's documentation says them, one after the other: what the index must agree with."""

from collections.abc import Iterable

from fencepost.controller.acl_types import Acl, Operation, PatternType, Permission

IMPLYING = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def allowed(
    acls: Iterable[Acl],
    super_users: frozenset[str],
    allow_if_no_acl: bool,
    principal: str,
    host: str,
    operation: Operation,
    resource: tuple[int, str],
) -> bool:
    if principal in super_users:
        return True
    about = [acl for acl in acls if applies(acl, resource)]
    if not about:
        return allow_if_no_acl
    mine = [acl for acl in about if acl.principal in (principal, "User:*") and acl.host in (host, "*")]
    if any(acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in mine):
        return False
    enough = {operation, Operation.ALL} | IMPLYING.get(operation, set())
    return any(acl.permission == Permission.ALLOW and acl.operation in enough for acl in mine)


def allowed_on_some(
    acls: Iterable[Acl], principal: str, host: str, operation: Operation, resource_type: int, names: list[str]
) -> bool:
    """On a resource of these names, or of one that an ACL names: an implied operation does not count."""
    mine = [
        acl
        for acl in acls
        if acl.resource_type == resource_type
        and acl.principal in (principal, "User:*")
        and acl.host in (host, "*")
        and acl.operation in (operation, Operation.ALL)
    ]
    return any(
        any(acl.permission == Permission.ALLOW for acl in of_name)
        and all(acl.permission != Permission.DENY for acl in of_name)
        for name in names
        if (of_name := [acl for acl in mine if applies(acl, (resource_type, name))])
    )


def applies(acl: Acl, resource: tuple[int, str]) -> bool:
    resource_type, name = resource
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, "*")
