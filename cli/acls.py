"""``fencepost acls``: list, add and remove ACLs.

Options and lines are those of ``kafka-acls``. JSON has one object for each ACL.
Reached     --dir and --bootstrap-controller ask the active controller, --bootstrap-server a broker.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from fencepost.cli.acls_import import import_
from fencepost.cli.acls_output import print_acls, require
from fencepost.cli.output import format_option
from fencepost.cli.route import Route, route_options
from fencepost.cluster.console import WrongUsage
from fencepost.controller.acl_types import (
    ANY,
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    CreateAcls,
    DeleteAcls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.acls import CHANGES_MAX
from fencepost.wire.k29_describe_acls import DESCRIBE_ACLS
from fencepost.wire.k30_create_acls import CREATE_ACLS
from fencepost.wire.k31_delete_acls import DELETE_ACLS

_PATTERNS: Final = {each.name.lower(): each for each in PatternType}
_OPERATIONS: Final = {each.name.replace("_", "").lower(): each for each in Operation}
_Named = list[tuple[ResourceType, str]]


@click.group()
def acls() -> None:
    """Who may do what: list, add and remove ACLs, as kafka-acls does."""


acls.add_command(import_)


def _resource_options(command: Callable[..., Any]) -> Any:
    """Options that name resources; the command gets them as ``named``, with the pattern type's name."""

    @functools.wraps(command)
    def with_resources(
        topics: tuple[str, ...],
        groups: tuple[str, ...],
        transactional_ids: tuple[str, ...],
        cluster: bool,
        **options: Any,
    ) -> Any:
        named: _Named = [(ResourceType.TOPIC, name) for name in topics]
        named += [(ResourceType.GROUP, name) for name in groups]
        named += [(ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids]
        named += [(ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else []
        return command(named=named, **options)

    for option in (
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option("--transactional-id", "transactional_ids", multiple=True, help="May be repeated."),
        click.option("--group", "groups", multiple=True, help="A consumer group; may be repeated."),
        click.option("--topic", "topics", multiple=True, help="A topic, or *; may be repeated."),
    ):
        with_resources = option(with_resources)
    return with_resources


def _entry_options(command: Callable[..., Any]) -> Any:
    """Options that say who may, or may not, do what; the command gets the ACLs that they make."""

    @functools.wraps(command)
    def with_acls(
        named: _Named,
        pattern: str,
        allowed: tuple[str, ...],
        denied: tuple[str, ...],
        allow_hosts: tuple[str, ...],
        deny_hosts: tuple[str, ...],
        operations: tuple[str, ...],
        producer: bool,
        consumer: bool,
        idempotent: bool,
        **options: Any,
    ) -> Any:
        if pattern == "match":
            raise WrongUsage("--resource-pattern-type: an ACL is literal or prefixed; match is for a list")
        what = _operations_of(named, operations, producer, consumer, idempotent)
        who = [(Permission.ALLOW, name, host) for name in allowed for host in allow_hosts or (WILDCARD,)]
        who += [(Permission.DENY, name, host) for name in denied for host in deny_hosts or (WILDCARD,)]
        made = [
            Acl(kind, _pattern_of(kind, pattern), name, principal, host, operation, permission)
            for kind, name, operation in what
            for permission, principal, host in who
        ]
        return command(made=made, named=named, pattern=pattern, **options)

    names = ", ".join(each.name.title().replace("_", "") for each in Operation)
    for option in (
        click.option("--idempotent", is_flag=True, help="With --producer: IDEMPOTENT_WRITE on the cluster."),
        click.option("--consumer", is_flag=True, help="What a consumer of the --topic in the --group needs."),
        click.option("--producer", is_flag=True, help="What a producer of the --topic needs."),
        click.option("--operation", "operations", multiple=True, help=f"One of {names}. Default: All."),
        click.option("--deny-host", "deny_hosts", multiple=True, help="Default: *."),
        click.option("--allow-host", "allow_hosts", multiple=True, help="Default: *."),
        click.option("--deny-principal", "denied", multiple=True, help="User:NAME; may be repeated."),
        click.option("--allow-principal", "allowed", multiple=True, help="User:NAME; may be repeated."),
        _pattern_option,
    ):
        with_acls = option(with_acls)
    return _resource_options(with_acls)


_pattern_option: Final = click.option(
    "--resource-pattern-type",
    "pattern",
    type=click.Choice(list(_PATTERNS)),
    default="literal",
    show_default=True,
    help="How the names are compared.",
)


@acls.command("list")
@_resource_options
@click.option("--principal", "principals", multiple=True, help="Only ACLs of these; may be repeated.")
@click.option(
    "--resource-pattern-type",
    "pattern",
    type=click.Choice([*_PATTERNS, "any"]),
    default="literal",
    show_default=True,
    help="With names: the ACLs of a name as it stands, or all that apply to it (match).",
)
@route_options
@format_option
def list_(route: Route, named: _Named, principals: tuple[str, ...], pattern: str, output_format: str) -> None:
    """List ACLs: all, or those of some resources and principals."""
    found: dict[Acl, None] = {}
    for wanted in _filters(named, pattern):
        found |= dict.fromkeys(route.ask(DESCRIBE_ACLS, wanted).acls)
    shown = [acl for acl in found if not principals or acl.principal in principals]
    print_acls("Current ACLs", shown, output_format)


@acls.command()
@_entry_options
@route_options
@format_option
def add(route: Route, made: list[Acl], named: _Named, pattern: str, output_format: str) -> None:
    """Add ACLs. Exit status 1 if one is refused, 3 if the outcome is unknown."""
    if not made:
        raise WrongUsage("expected --allow-principal or --deny-principal, and a resource such as --topic")
    for first in range(0, len(made), CHANGES_MAX):
        for result in route.ask(CREATE_ACLS, CreateAcls(tuple(made[first : first + CHANGES_MAX]))).results:
            require(result.error_code, result.error_message)
    print_acls("Adding ACLs", made, output_format)


@acls.command()
@_entry_options
@route_options
@format_option
def remove(route: Route, made: list[Acl], named: _Named, pattern: str, output_format: str) -> None:
    """Remove ACLs; without a principal all of the resources. Prints those that were removed."""
    if not named:
        raise WrongUsage("expected a resource, such as --topic")
    wanted = [_exactly(acl) for acl in made] or list(_filters(named, pattern))
    removed: dict[Acl, None] = {}
    for result in route.ask(DELETE_ACLS, DeleteAcls(tuple(wanted))).results:
        require(result.error_code, result.error_message)
        removed |= dict.fromkeys(result.acls)
    print_acls("Removed ACLs", list(removed), output_format)


def _operations_of(
    named: _Named, operations: tuple[str, ...], producer: bool, consumer: bool, idempotent: bool
) -> list[tuple[ResourceType, str, Operation]]:
    """(type, name, operation) of each ACL, as kafka-acls makes them of its options."""
    given = [_operation(each) for each in operations]
    if not (producer or consumer):
        return [(kind, name, each) for kind, name in named for each in given or [Operation.ALL]]
    if given:
        raise WrongUsage("--operation says it all: not with --producer or --consumer")
    of: dict[ResourceType, set[Operation]] = {}
    if producer:
        of[ResourceType.TOPIC] = {Operation.WRITE, Operation.DESCRIBE, Operation.CREATE}
        of[ResourceType.TRANSACTIONAL_ID] = {Operation.WRITE, Operation.DESCRIBE}
    if consumer:
        of.setdefault(ResourceType.TOPIC, set()).update((Operation.READ, Operation.DESCRIBE))
        of[ResourceType.GROUP] = {Operation.READ}
    made = [(kind, name, each) for kind, name in named for each in sorted(of.get(kind, ()))]
    if producer and idempotent:
        made.append((ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE))
    return made


def _pattern_of(kind: ResourceType, pattern: str) -> PatternType:
    return PatternType.LITERAL if kind == ResourceType.CLUSTER else _PATTERNS[pattern]


def _operation(text: str) -> Operation:
    found = _OPERATIONS.get(text.replace("_", "").lower())
    if found is None:
        raise WrongUsage(f"--operation: expected one of {', '.join(_OPERATIONS)}; got {text!r}")
    return found


def _filters(named: _Named, pattern: str) -> Iterator[AclFilter]:
    if not named:
        yield AclFilter(pattern_type=ANY if pattern == "literal" else _PATTERNS.get(pattern, ANY))
    for kind, name in named:
        yield AclFilter(kind, name, _PATTERNS.get(pattern, ANY))


def _exactly(acl: Acl) -> AclFilter:
    return AclFilter(
        acl.resource_type, acl.name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission
    )
