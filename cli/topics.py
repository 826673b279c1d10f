"""``fencepost topics``: create, list, describe, change and delete topics.

Flags and lines are those of ``kafka-topics``; its ``--topic`` of list, describe and delete is a regular
expression that the whole name must match. JSON has the names of the columns.
Reached     --dir and --bootstrap-controller ask the active controller, --bootstrap-server a broker.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import click

from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.route import Route, refused, route_options
from fencepost.cli.topics_change import alter, assigned, delete_records
from fencepost.cli.topics_recover import recover
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.controller.errors import ErrorCode
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic, TopicCreated
from fencepost.settings.node_identity import id_text
from fencepost.wire.errors import raise_for
from fencepost.wire.k03_metadata import METADATA, Metadata, PartitionMetadata, TopicMetadata
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    TOPIC_RESOURCE,
    ConfigResource,
    DescribeConfigs,
)

AT_ONCE_MAX: Final = 500  # topics in one request
SOURCE_TOPIC: Final = 1  # the setting was given to the topic; any other source is a default
NONE: Final = "none"  # as Kafka's tool prints a leader that is not there


@click.group()
def topics() -> None:
    """Topics: create, list, describe, change, delete, and start a lost partition again."""


for _command in (alter, delete_records, recover):
    topics.add_command(_command)


@topics.command()
@click.option("--topic", "name", required=True, help="Its name.")
@click.option("--partitions", type=int, help="How many; else the controller's num.partitions.")
@click.option("--replication-factor", type=int, help="Replicas of each partition; there is one.")
@click.option("--replica-assignment", help="Broker ids, one for each partition: 1,2,1; partitions by commas.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="It is well if the topic is there already.")
@route_options
@format_option
def create(
    route: Route,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    output_format: str,
) -> None:
    """Create a topic. Exit status 1 if it is refused, 3 if the outcome is unknown."""
    topic = NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if replication_factor is None else replication_factor,
        tuple(enumerate(assigned(replica_assignment))),
        tuple(_setting(each) for each in configs),
    )
    (created,) = route.ask(CREATE_TOPICS, CreateTopics((topic,))).topics
    exists = created.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    if created.error_code and not (exists and if_not_exists):
        raise refused(created.error_code, created.error_message, f"topic {name}")
    if (replication_factor or 1) > 1 and not exists:
        click.echo(
            f"topic {name}: partitions have one replica each, not {replication_factor} "
            f"(fencepost.allow.unreplicated=true)",
            err=True,
        )
    if output_format == JSON:
        echo_json(_creation(created, exists))
    else:
        click.echo(f"Topic {name} exists already." if exists else f"Created topic {name}.")


@topics.command("list")
@click.option("--topic", "pattern", help="Only topics whose whole name matches this expression.")
@route_options
@format_option
def list_(route: Route, pattern: str | None, output_format: str) -> None:
    """List topics by name."""
    names = [topic.name for topic in _found(route, pattern)]
    if output_format == JSON:
        echo_json({"topics": names})
        return
    for name in names:
        click.echo(name)


@topics.command()
@click.option("--topic", "pattern", help="Only topics whose whole name matches this expression.")
@click.option("--topic-id", help="Only the topic of this id.")
@click.option("--unavailable-partitions", is_flag=True, help="Only partitions without a leader.")
@click.option("--if-exists", is_flag=True, help="It is well if no such topic is there.")
@route_options
@format_option
def describe(
    route: Route,
    pattern: str | None,
    topic_id: str | None,
    unavailable_partitions: bool,
    if_exists: bool,
    output_format: str,
) -> None:
    """Describe topics: settings, and of each partition the leader, replicas and in-sync replicas."""
    found = _found(route, pattern)
    if topic_id is not None:
        found = [topic for topic in found if topic.topic_id and id_text(topic.topic_id) == topic_id]
    if not found and (pattern or topic_id) and not if_exists:
        raise Failed(f"no topic matches {pattern or topic_id}")
    configs = _configs(route, [topic.name for topic in found if topic.name is not None])
    rows = [_description(topic, configs.get(topic.name or "", {})) for topic in found]
    if unavailable_partitions:
        for row in rows:
            row["Partitions"] = [each for each in row["Partitions"] if each["Leader"] is None]
        rows = [row for row in rows if row["Partitions"]]
    if output_format == JSON:
        echo_json({"topics": rows})
        return
    for row in rows:
        for line in _lines(row, heading=not unavailable_partitions):
            click.echo(line)


@topics.command()
@click.option("--topic", "pattern", required=True, help="Topics whose whole name matches this expression.")
@click.option("--if-exists", is_flag=True, help="It is well if no such topic is there.")
@route_options
@format_option
def delete(route: Route, pattern: str, if_exists: bool, output_format: str) -> None:
    """Delete topics with all their records. Exit status 1 if one is refused, 3 if the outcome is unknown."""
    names = [topic.name for topic in _found(route, pattern) if topic.name is not None]
    if not names and not if_exists:
        raise Failed(f"no topic matches {pattern}")
    deleted: list[str] = []
    for some in _slices(names):
        for topic in route.ask(DELETE_TOPICS, DeleteTopics(tuple(some))).topics:
            gone = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # since it was listed
            if topic.error_code and not gone:
                raise refused(topic.error_code, topic.error_message, f"topic {topic.name}")
            deleted.append(topic.name or "")
    if output_format == JSON:
        echo_json({"topics": deleted})
        return
    for name in deleted:
        click.echo(f"Deleted topic {name}.")


# -- asking ----------------------------------------------------------------------------------------------


def _found(route: Route, pattern: str | None) -> list[TopicMetadata]:
    """The topics whose whole name matches, by name."""
    try:
        wanted = re.compile(pattern) if pattern is not None else None
    except re.error as error:
        raise WrongUsage(f"--topic: {pattern!r} is no regular expression: {error}") from error
    answer = route.ask(METADATA, Metadata(None, allow_auto_topic_creation=False))
    named = sorted((topic.name, topic) for topic in answer.topics if topic.name is not None)
    return [topic for name, topic in named if wanted is None or name == pattern or wanted.fullmatch(name)]


def _configs(route: Route, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """What was set for each topic; what is as everywhere is left out."""
    found: dict[str, dict[str, str]] = {}
    for some in _slices(names):
        request = DescribeConfigs(tuple(ConfigResource(TOPIC_RESOURCE, name) for name in some))
        for result in route.ask(DESCRIBE_CONFIGS, request).results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue  # deleted since it was listed
            raise_for(result.error_code, result.error_message)
            own = (each for each in result.configs if each.source == SOURCE_TOPIC)
            found[result.name] = {each.name: each.value or "" for each in own}
    return found


def _slices(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), AT_ONCE_MAX):
        yield names[first : first + AT_ONCE_MAX]


# -- arguments -------------------------------------------------------------------------------------------


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise WrongUsage(f"--config: expected KEY=VALUE, got {text!r}")
    return name.strip(), value.strip()


# -- printing --------------------------------------------------------------------------------------------


def _creation(created: TopicCreated, exists: bool) -> dict[str, object]:
    if exists:
        return {"Topic": created.name, "Created": False}
    return {
        "Topic": created.name,
        "Created": True,
        "TopicId": id_text(created.topic_id),
        "PartitionCount": created.partition_count,
        "ReplicationFactor": created.replication_factor,
    }


def _description(topic: TopicMetadata, configs: dict[str, str]) -> dict[str, Any]:
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return {
        "Topic": topic.name,
        "TopicId": None if topic.topic_id is None else id_text(topic.topic_id),
        "PartitionCount": len(partitions),
        "ReplicationFactor": max((len(each.replica_nodes) for each in partitions), default=0),
        "Configs": configs,
        "Partitions": [_partition(each) for each in partitions],
    }


def _partition(partition: PartitionMetadata) -> dict[str, Any]:
    return {
        "Partition": partition.partition_index,
        "Leader": None if partition.leader_id < 0 else partition.leader_id,
        "LeaderEpoch": partition.leader_epoch,
        "Replicas": list(partition.replica_nodes),
        "Isr": list(partition.isr_nodes),
    }


def _lines(row: dict[str, Any], *, heading: bool) -> Iterator[str]:
    """As Kafka's tool: a line for the topic, an indented one for each partition, tabs between."""
    if heading:
        configs = ",".join(f"{name}={value}" for name, value in row["Configs"].items())
        names = ("Topic", "TopicId", "PartitionCount", "ReplicationFactor")
        yield "\t".join([*(f"{name}: {row[name]}" for name in names), f"Configs: {configs}"])
    for each in row["Partitions"]:
        leader = NONE if each["Leader"] is None else each["Leader"]
        replicas, isr = _joined(each["Replicas"]), _joined(each["Isr"])
        cells = (f"Topic: {row['Topic']}", f"Partition: {each['Partition']}", f"Leader: {leader}")
        yield "\t" + "\t".join([*cells, f"Replicas: {replicas}", f"Isr: {isr}"])


def _joined(broker_ids: Iterable[int]) -> str:
    return ",".join(str(each) for each in broker_ids)
