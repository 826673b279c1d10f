"""``fencepost configs``: describe the settings of topics and brokers, change those of topics; SCRAM users.

Words       those of ``kafka-configs``: --entity-type, --entity-name, --add-config, --delete-config, and its
            short forms --topic, --broker and --user.
"""

from typing import Any, Final

import click

from fencepost.cli.configs_users import alter_user, describe_users
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.route import Route, refused, route_options
from fencepost.cluster.console import WrongUsage
from fencepost.controller.config_changes import (
    BROKER_RESOURCE,
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from fencepost.controller.topics import TOPIC_RESOURCE
from fencepost.wire.errors import code_of
from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS, ConfigResource, DescribeConfigs
from fencepost.wire.k44_incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS

USERS: Final = -1  # no resource of Kafka's: users have APIs of their own
TYPES: Final = {"topics": TOPIC_RESOURCE, "brokers": BROKER_RESOURCE, "users": USERS}
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}
SET_HERE: Final = {TOPIC_RESOURCE: 1, BROKER_RESOURCE: 4}  # what is shown without --all


@click.group()
def configs() -> None:
    """Settings of topics and brokers, and SCRAM credentials of users: describe and change them."""


def _entity_options(command: Any) -> Any:
    options = (
        click.option("--entity-type", type=click.Choice(tuple(TYPES)), help="What --entity-name is."),
        click.option("--entity-name", help="A topic's or user's name, or a broker's id."),
        click.option("--topic", help="Short for --entity-type topics --entity-name."),
        click.option("--broker", help="Short for --entity-type brokers --entity-name."),
        click.option("--user", help="Short for --entity-type users --entity-name."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@configs.command()
@_entity_options
@click.option("--all", "every", is_flag=True, help="Those that are as everywhere, too.")
@route_options
@format_option
def describe(
    route: Route,
    entity_type: str | None,
    entity_name: str | None,
    topic: str | None,
    broker: str | None,
    user: str | None,
    every: bool,
    output_format: str,
) -> None:
    """Describe the settings of a topic or broker, or users' SCRAM credentials.

    Of a broker ask it: --bootstrap-server. Without --entity-name all users are shown.
    """
    if entity_type == "users" and entity_name is None:
        describe_users(route, None, output_format)
        return
    kind, name = _entity(entity_type, entity_name, topic, broker, user)
    if kind == USERS:
        describe_users(route, name, output_format)
        return
    request = DescribeConfigs((ConfigResource(kind, name),))
    (found,) = route.ask(DESCRIBE_CONFIGS, request).results
    if found.error_code:
        raise refused(code_of(found.error_code), found.error_message, name)
    rows = [
        {
            "Name": each.name,
            "Value": each.value,
            "Sensitive": bool(each.sensitive),
            "Source": SOURCES.get(each.source, str(each.source)),
        }
        for each in found.configs
        if every or each.source == SET_HERE[kind]
    ]
    if output_format == JSON:
        echo_json({"settings": rows})
        return
    for row in rows:
        value = "null" if row["Value"] is None else row["Value"]
        click.echo(f"{row['Name']}={value} sensitive={str(row['Sensitive']).lower()} source={row['Source']}")


@configs.command()
@_entity_options
@click.option("--add-config", help="K=V,.. to set; a value with commas in brackets: K=[V1,V2].")
@click.option("--delete-config", help="K,.. to have their default again.")
@click.option("--validate-only", is_flag=True, help="Say whether it can be done, and do nothing.")
@route_options
@format_option
def alter(
    route: Route,
    entity_type: str | None,
    entity_name: str | None,
    topic: str | None,
    broker: str | None,
    user: str | None,
    add_config: str | None,
    delete_config: str | None,
    validate_only: bool,
    output_format: str,
) -> None:
    """Change settings of a topic, or a user's SCRAM credentials: SCRAM-SHA-256=[password=SECRET].

    Exit status 1 if one is refused: then nothing is changed.
    """
    kind, name = _entity(entity_type, entity_name, topic, broker, user)
    added = _added(add_config or "", is_secret=kind == USERS)
    deleted = [key.strip() for key in (delete_config or "").split(",") if key.strip()]
    if not added and not deleted:
        raise WrongUsage("expected --add-config or --delete-config")
    if kind == USERS:
        if validate_only:
            raise WrongUsage("--validate-only: users are changed, or not")
        alter_user(route, name, added, deleted, output_format)
        return
    changes = [ConfigChange(key, value) for key, value in added]
    changes += [ConfigChange(key, None, ConfigOperation.DELETE) for key in deleted]
    request = AlterConfigs((ResourceChanges(kind, name, tuple(changes)),), validate_only)
    (altered,) = route.ask(INCREMENTAL_ALTER_CONFIGS, request).resources
    if altered.error_code:
        raise refused(altered.error_code, altered.error_message, name)
    if output_format == JSON:
        echo_json({"Name": name, "Changed": [each.name for each in changes], "ValidateOnly": validate_only})
    else:
        click.echo(f"{'Could update' if validate_only else 'Completed updating'} config for {name}.")


def _entity(
    kind: str | None, name: str | None, topic: str | None, broker: str | None, user: str | None
) -> tuple[int, str]:
    """The resource's type and name. Raises WrongUsage."""
    named: list[tuple[int, str]] = []
    if kind is not None and name is not None:
        named.append((TYPES[kind], name))
    if topic is not None:
        named.append((TOPIC_RESOURCE, topic))
    if broker is not None:
        named.append((BROKER_RESOURCE, broker))
    if user is not None:
        named.append((USERS, user))
    if len(named) != 1 or (kind is None) != (name is None):
        raise WrongUsage("expected one of --topic, --broker, --user, and --entity-type with --entity-name")
    return named[0]


def _added(text: str, *, is_secret: bool) -> list[tuple[str, str]]:
    """Kafka's form: K=V by commas; brackets keep the commas of a value. Raises WrongUsage."""
    found = []
    rest = text
    shown = "something else" if is_secret else repr(text)
    while rest:
        key, equals, rest = rest.partition("=")
        if not equals or not key.strip():
            raise WrongUsage(f"--add-config: expected K=V,.., got {shown}")
        if rest.startswith("["):
            value, bracket, rest = rest[1:].partition("]")
            if not bracket or (rest and not rest.startswith(",")):
                raise WrongUsage(f"--add-config: expected K=[V1,V2],.., got {shown}")
            rest = rest[1:]
        else:
            value, _, rest = rest.partition(",")
        found.append((key.strip(), value))
    return found
