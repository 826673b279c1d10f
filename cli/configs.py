"""``fencepost configs``: describe and change settings of topics and brokers, and users' SCRAM credentials.

Words       those of ``kafka-configs``: --entity-type, --entity-name, --entity-default, --add-config,
            --delete-config, and its short forms --topic, --broker, --broker-defaults and --user.
"""

from typing import Any, Final

import click

from fencepost.cli.configs_users import alter_user, describe_users
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.route import Route, refused, route_options
from fencepost.cluster.console import WrongUsage
from fencepost.controller.broker_configs import ALL_BROKERS, BROKER_RESOURCE
from fencepost.controller.config_changes import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from fencepost.controller.topic_configs import SOURCE_BROKER, SOURCE_BROKERS, SOURCE_TOPIC
from fencepost.controller.topics import TOPIC_RESOURCE
from fencepost.wire.errors import code_of
from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS, ConfigResource, DescribeConfigs
from fencepost.wire.k44_incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS

USERS: Final = -1  # no resource of Kafka's: users have APIs of their own
TYPES: Final = {"topics": TOPIC_RESOURCE, "brokers": BROKER_RESOURCE, "users": USERS}
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}


@click.group()
def configs() -> None:
    """Settings of topics and brokers, and SCRAM credentials of users: describe and change them."""


def _entity_options(command: Any) -> Any:
    options = (
        click.option("--entity-type", type=click.Choice(tuple(TYPES)), help="What --entity-name is."),
        click.option("--entity-name", help="A topic's or user's name, or a broker's id."),
        click.option("--entity-default", is_flag=True, help="With --entity-type brokers: all brokers."),
        click.option("--topic", help="Short for --entity-type topics --entity-name."),
        click.option("--broker", help="Short for --entity-type brokers --entity-name."),
        click.option(
            "--broker-defaults", is_flag=True, help="Short for --entity-type brokers --entity-default."
        ),
        click.option("--user", help="Short for --entity-type users --entity-name."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@configs.command()
@_entity_options
@click.option("--all", "every", is_flag=True, help="Those too that are not set for this entity.")
@route_options
@format_option
def describe(route: Route, every: bool, output_format: str, **entity: Any) -> None:
    """Describe the settings of a topic or broker, or users' SCRAM credentials.

    Of a broker ask it: --bootstrap-server. Without --entity-name all users are shown.
    """
    if entity["entity_type"] == "users" and entity["entity_name"] is None:
        describe_users(route, None, output_format)
        return
    kind, name = _entity(**entity)
    if kind == USERS:
        describe_users(route, name, output_format)
        return
    request = DescribeConfigs((ConfigResource(kind, name),), with_synonyms=True)
    (found,) = route.ask(DESCRIBE_CONFIGS, request).results
    if found.error_code:
        raise refused(code_of(found.error_code), found.error_message, name)
    rows: list[dict[str, Any]] = [
        {
            "Name": each.name,
            "Value": each.value,
            "Sensitive": bool(each.sensitive),
            "Source": _source(each.source),
            "Synonyms": [
                {"Name": one.name, "Value": one.value, "Source": _source(one.source)} for one in each.synonyms
            ],
        }
        for each in found.configs
        if every or each.source == _own_source(kind, name)
    ]
    if output_format == JSON:
        echo_json({"settings": rows})
        return
    for row in rows:
        synonyms = ", ".join(f"{each['Source']}:{each['Name']}={_shown(each)}" for each in row["Synonyms"])
        sensitive = str(row["Sensitive"]).lower()
        click.echo(f"{row['Name']}={_shown(row)} sensitive={sensitive} synonyms={{{synonyms}}}")


@configs.command()
@_entity_options
@click.option("--add-config", help="K=V,.. to set; a value with commas in brackets: K=[V1,V2].")
@click.option("--delete-config", help="K,.. to have their default again.")
@click.option("--validate-only", is_flag=True, help="Say whether it can be done, and do nothing.")
@route_options
@format_option
def alter(
    route: Route,
    add_config: str | None,
    delete_config: str | None,
    validate_only: bool,
    output_format: str,
    **entity: Any,
) -> None:
    """Change settings of a topic or brokers, or a user's SCRAM credentials: SCRAM-SHA-256=[password=SECRET].

    Exit status 1 if one is refused: then nothing is changed.
    """
    kind, name = _entity(**entity)
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
        whose = name or "all brokers"
        click.echo(f"{'Could update' if validate_only else 'Completed updating'} config for {whose}.")


def _source(source: int) -> str:
    return SOURCES.get(source, str(source))


def _own_source(kind: int, name: str) -> int:
    """Of what is set for this entity: what is shown without --all."""
    if kind == TOPIC_RESOURCE:
        return SOURCE_TOPIC
    return SOURCE_BROKERS if name == ALL_BROKERS else SOURCE_BROKER


def _shown(setting: dict[str, Any]) -> str:
    return "null" if setting["Value"] is None else str(setting["Value"])


def _entity(
    *,
    entity_type: str | None,
    entity_name: str | None,
    entity_default: bool,
    topic: str | None,
    broker: str | None,
    broker_defaults: bool,
    user: str | None,
) -> tuple[int, str]:
    """The resource's type and name. Raises WrongUsage."""
    named: list[tuple[int, str]] = []
    if entity_type is not None and entity_name:
        named.append((TYPES[entity_type], entity_name))
    if entity_type == "brokers" and entity_default:
        named.append((BROKER_RESOURCE, ALL_BROKERS))
    if topic is not None:
        named.append((TOPIC_RESOURCE, topic))
    if broker is not None:
        named.append((BROKER_RESOURCE, broker))
    if broker_defaults:
        named.append((BROKER_RESOURCE, ALL_BROKERS))
    if user is not None:
        named.append((USERS, user))
    if len(named) != 1 or (entity_type is None) != (not entity_name and not entity_default):
        raise WrongUsage(
            "expected one of --topic, --broker, --broker-defaults, --user, and --entity-type with "
            "--entity-name (or, of brokers, with --entity-default)"
        )
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
