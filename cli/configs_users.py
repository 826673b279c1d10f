"""``fencepost configs`` of users: SCRAM credentials, as kafka-configs sets and shows them."""

import secrets
from collections.abc import Sequence
from typing import Final

import click

from fencepost.cli.output import JSON, echo_json
from fencepost.cli.route import Route, refused
from fencepost.cluster.console import WrongUsage
from fencepost.controller.errors import ErrorCode
from fencepost.controller.scram_types import (
    ITERATIONS_MIN,
    AlterScram,
    DescribeScram,
    Mechanism,
    ScramDeletion,
    ScramUpsertion,
)
from fencepost.settings.born_users import SALT_BYTES
from fencepost.wire.errors import code_of
from fencepost.wire.k50_describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS
from fencepost.wire.k51_alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from fencepost.wire.scram import MECHANISMS, salted_password

_FORM: Final = "expected SCRAM-SHA-256=[password=SECRET] or SCRAM-SHA-512=[iterations=8192,password=SECRET]"


def describe_users(route: Route, user: str | None, output_format: str) -> None:
    """One user's credentials, or all users': mechanism and iterations."""
    request = DescribeScram(None if user is None else (user,))
    found = route.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, request).results
    for each in found:
        if each.error_code not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
            raise refused(code_of(each.error_code), each.error_message, each.user)
    rows = [
        {"User": each.user, "Mechanism": Mechanism(kind).title, "Iterations": iterations}
        for each in found
        for kind, iterations in each.credentials
    ]
    if output_format == JSON:
        echo_json({"users": rows})
        return
    for name in dict.fromkeys(str(row["User"]) for row in rows):
        shown = ", ".join(
            f"{row['Mechanism']}=iterations={row['Iterations']}" for row in rows if row["User"] == name
        )
        click.echo(f"SCRAM credential configs for user-principal '{name}' are {shown}")


def alter_user(
    route: Route, user: str, added: Sequence[tuple[str, str]], deleted: Sequence[str], output_format: str
) -> None:
    """Set and remove credentials of a user. The password is salted here, and never sent."""
    request = AlterScram(
        tuple(ScramDeletion(user, _mechanism(each)) for each in deleted),
        tuple(_upsertion(user, title, text) for title, text in added),
    )
    (altered,) = route.ask(ALTER_USER_SCRAM_CREDENTIALS, request).results
    if altered.error_code:
        raise refused(code_of(altered.error_code), altered.error_message, user)
    if output_format == JSON:
        changed = [*(title for title, _ in added), *deleted]
        echo_json({"Name": user, "Changed": changed, "ValidateOnly": False})
    else:
        click.echo(f"Completed updating config for user {user}.")


def _upsertion(user: str, title: str, text: str) -> ScramUpsertion:
    """Raises WrongUsage, which never shows the text: it has a password."""
    mechanism = _mechanism(title)
    given = {}
    for pair in text.split(","):
        key, _, value = pair.partition("=")
        given[key.strip()] = value
    if not set(given) <= {"iterations", "password"} or not given.get("password"):
        raise WrongUsage(f"--add-config: {_FORM}")
    iterations = given.get("iterations", str(ITERATIONS_MIN))
    if not iterations.isdigit() or len(iterations) > 9:
        raise WrongUsage(f"--add-config: {_FORM}")
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salted_password(mechanism.title, given["password"], salt, int(iterations))
    return ScramUpsertion(user, mechanism, int(iterations), salt, salted)


def _mechanism(title: str) -> Mechanism:
    found = MECHANISMS.get(title.strip())
    if found is None:
        raise WrongUsage(f"a user has {', '.join(MECHANISMS)}, not {title!r}: {_FORM}")
    return found
