"""How ACLs are printed: as kafka-acls prints them, or as JSON."""

from collections.abc import Iterable

import click

from fencepost.cli.output import JSON, echo_json
from fencepost.cluster.console import Failed, NotAuthorized
from fencepost.controller.acl_types import Acl, Operation, PatternType, Permission, ResourceType
from fencepost.controller.errors import ErrorCode


def print_acls(title: str, found: list[Acl], output_format: str) -> None:
    """The ACLs, by resource."""
    if output_format == JSON:
        echo_json({"acls": [_document(acl) for acl in found]})
        return
    for resource, of_it in _by_resource(found).items():
        click.echo(f"{title} for resource `{resource}`:")
        for acl in of_it:
            each = _document(acl)
            click.echo(
                f"\t(principal={acl.principal}, host={acl.host}, operation={each['operation']}, "
                f"permissionType={each['permissionType']})"
            )
        click.echo()


def _by_resource(found: Iterable[Acl]) -> dict[str, list[Acl]]:
    rows: dict[str, list[Acl]] = {}
    for acl in found:
        each = _document(acl)
        resource = (
            f"ResourcePattern(resourceType={each['resourceType']}, name={acl.name}, "
            f"patternType={each['patternType']})"
        )
        rows.setdefault(resource, []).append(acl)
    return rows


def _document(acl: Acl) -> dict[str, str]:
    return {
        "resourceType": ResourceType(acl.resource_type).name,
        "name": acl.name,
        "patternType": PatternType(acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name,
        "permissionType": Permission(acl.permission).name,
    }


def require(code: int, message: str | None) -> None:
    """Raises NotAuthorized or Failed for the code of a change."""
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise NotAuthorized(message or "CLUSTER_AUTHORIZATION_FAILED")
    if code:
        raise Failed(message or f"error {code}")
