"""``fencepost acls import``: the lines of an ACL file as ACLs of the metadata log.

Cluster     a line's operation on the cluster stays that. TWO_PHASE_COMMIT is of every transactional id.
Kept        what DESCRIBE gave beside: the settings of topics, and the explanation of transactions.
            CLUSTER_ACTION needs nothing beside: on the controller listener it lets brokers forward.
Data        an ACL file left data and transactions open to everyone: with --allow-data they stay so.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from fencepost.cli.acls_output import print_acls, require
from fencepost.cli.output import format_option
from fencepost.cli.route import Route, route_options
from fencepost.cluster.console import Unreadable, WrongUsage
from fencepost.controller.acl_types import (
    CLUSTER_NAME,
    EVERYONE,
    WILDCARD,
    Acl,
    CreateAcls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.acls import CHANGES_MAX
from fencepost.controller.authorization import Acls, AclSyntaxError
from fencepost.controller.authorization import Operation as FileOperation
from fencepost.wire.k30_create_acls import CREATE_ACLS

_CLOSED: Final = (
    "Data and transactions, open to everyone until now, are closed to all but super users: add what each "
    "principal needs with 'fencepost acls add', or import with --allow-data."
)
_DATA: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--allow-data", is_flag=True, help="Data and transactions stay open to everyone (User:*).")
@click.option("--dry-run", is_flag=True, help="Print the ACLs, and add nothing.")
@route_options
@format_option
def import_(route: Route, file: Path, allow_data: bool, dry_run: bool, output_format: str) -> None:
    """Add what the lines of FILE (authorizer.acls.file) allow as ACLs, in one entry of the log.

    Every node must have authorizer.class.name in place of the file already, and its super.users. Without
    --allow-data every principal but super users loses data and transactions: then add what each needs.

    Exit status: 0 done, 1 refused, 2 wrong usage, 3 unreadable, or the outcome is unknown.
    """
    try:
        allowed = Acls.parse(file.read_text("utf-8")).allowed or frozenset()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{file}: {error}") from error
    except AclSyntaxError as error:
        raise Unreadable(f"{file}: {error}") from error
    made = sorted(dict.fromkeys(acls_of(allowed, allow_data=allow_data)), key=_order)
    if len(made) > CHANGES_MAX:
        raise WrongUsage(f"{file}: it makes {len(made)} ACLs, at most {CHANGES_MAX} at once")
    if not allow_data:
        click.echo(_CLOSED, err=True)
    if not dry_run:
        for result in route.ask(CREATE_ACLS, CreateAcls(tuple(made))).results:
            require(result.error_code, result.error_message)
    print_acls("ACLs that would be added" if dry_run else "Adding ACLs", made, output_format)


def acls_of(allowed: frozenset[tuple[str, FileOperation]], *, allow_data: bool) -> Iterator[Acl]:
    """The ACLs that allow what these lines did."""
    for principal, operation in allowed:
        if operation is FileOperation.TWO_PHASE_COMMIT:
            yield _allow(ResourceType.TRANSACTIONAL_ID, WILDCARD, principal, Operation.TWO_PHASE_COMMIT)
            continue
        yield _allow(ResourceType.CLUSTER, CLUSTER_NAME, principal, Operation[operation.name])
        if operation in (FileOperation.DESCRIBE, FileOperation.ALTER):
            yield _allow(ResourceType.TOPIC, WILDCARD, principal, Operation.DESCRIBE_CONFIGS)
            yield _allow(ResourceType.TRANSACTIONAL_ID, WILDCARD, principal, Operation.DESCRIBE)
        if operation is FileOperation.ALTER:
            yield _allow(ResourceType.TOPIC, WILDCARD, principal, Operation.ALTER_CONFIGS)
    if allow_data:
        for kind in _DATA:
            yield _allow(kind, WILDCARD, EVERYONE, Operation.ALL)
        yield _allow(ResourceType.CLUSTER, CLUSTER_NAME, EVERYONE, Operation.IDEMPOTENT_WRITE)


def _allow(kind: ResourceType, name: str, principal: str, operation: Operation) -> Acl:
    return Acl(kind, PatternType.LITERAL, name, principal, WILDCARD, operation, Permission.ALLOW)


def _order(acl: Acl) -> tuple[int, str, str, int]:
    return acl.resource_type, acl.name, acl.principal, acl.operation
