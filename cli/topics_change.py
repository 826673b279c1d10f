"""``fencepost topics alter`` and ``delete-records``: more partitions, fewer records.

Words       those of ``kafka-topics --alter`` and ``kafka-delete-records``, whose JSON file is read, too.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cli.route import Route, refused, route_options
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.cluster.brokers import Brokers, run
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.controller.errors import ErrorCode
from fencepost.controller.partition_creation import CreatePartitions, NewPartitions
from fencepost.wire.errors import raise_for
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from fencepost.wire.k21_delete_records import (
    DELETE_RECORDS,
    HIGH_WATERMARK,
    DeleteRecords,
    RecordsToDelete,
)
from fencepost.wire.k37_create_partitions import CREATE_PARTITIONS

EXPECTED: Final = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 5}, ...]}'
FILE_BYTES_MAX: Final = 1_000_000


@click.command()
@click.option("--topic", "name", required=True, help="Its name.")
@click.option("--partitions", type=int, help="How many it has then; never fewer than now.")
@click.option("--replica-assignment", help="Broker ids of all its partitions then: 1,2,1; those there stay.")
@click.option("--validate-only", is_flag=True, help="Say whether it can be done, and do nothing.")
@route_options
@format_option
def alter(
    route: Route,
    name: str,
    partitions: int | None,
    replica_assignment: str | None,
    validate_only: bool,
    output_format: str,
) -> None:
    """Give a topic more partitions. Exit status 1 if that is refused, 3 if the outcome is unknown."""
    brokers = assigned(replica_assignment)
    if partitions is None and not brokers:
        raise WrongUsage("expected --partitions or --replica-assignment")
    partitions = len(brokers) if partitions is None else partitions
    if brokers and len(brokers) != partitions:
        raise WrongUsage(f"--replica-assignment has {len(brokers)} partitions, --partitions is {partitions}")
    new = new_partitions(route, name, brokers) if brokers else None
    request = CreatePartitions((NewPartitions(name, partitions, new or None),), validate_only)
    (created,) = route.ask(CREATE_PARTITIONS, request).topics
    if created.error_code:
        raise refused(created.error_code, created.error_message, f"topic {name}")
    if output_format == JSON:
        echo_json({"Topic": name, "PartitionCount": partitions, "ValidateOnly": validate_only})
    else:
        click.echo(f"Topic {name} {'could have' if validate_only else 'has'} {partitions} partitions.")


def assigned(text: str | None) -> tuple[tuple[int, ...], ...]:
    """Kafka's form: partitions separated by commas, the replicas of one by colons. Raises WrongUsage."""
    if text is None:
        return ()
    try:
        return tuple(tuple(int(each) for each in part.split(":")) for part in text.split(","))
    except ValueError:
        raise WrongUsage(f"--replica-assignment: expected broker ids as 1,2,1; got {text!r}") from None


def new_partitions(
    route: Route, name: str, brokers: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """The brokers of the partitions that are not there yet.

    As of ``kafka-topics --alter`` the list begins with those that are there; it ignores what it says of them.
    Raises Failed: that would be to move one.
    """
    (found,) = route.ask(METADATA, Metadata((TopicQuery(name),), allow_auto_topic_creation=False)).topics
    there = {each.partition_index: each.replica_nodes for each in found.partitions}
    for index, wanted in enumerate(brokers[: len(there)]):
        if wanted != tuple(there.get(index, wanted)):
            raise Failed(
                f"partition {index} is on broker {_listed(there[index])}, not {_listed(wanted)}: "
                f"partitions that are there are not moved"
            )
    return brokers[len(there) :]


def _listed(brokers: Iterable[int]) -> str:
    return ":".join(map(str, brokers))


@click.command("delete-records")
@click.option("--topic", help="The topic; with --partition and --offset.")
@click.option("--partition", type=int, help="The partition's number.")
@click.option("--offset", type=int, help="The first offset to keep; -1: none of what is there now.")
@click.option(
    "--offset-json-file", type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help=f"Instead, a file as of kafka-delete-records: {EXPECTED}",
)  # fmt: skip
@broker_options
@format_option
def delete_records(
    directory: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    offset_json_file: Path | None,
    output_format: str,
) -> None:
    """Delete the records of partitions before an offset, for good. Exit status 1 if one is refused."""
    wanted = _wanted(topic, partition, offset, offset_json_file)

    async def ask(brokers: Brokers) -> list[int]:
        return [await _begin_at(brokers, each) for each in wanted]

    marks = run(find_brokers(directory, bootstrap_server, command_config), ask)
    rows = [
        {"Topic": each.topic, "Partition": each.index, "LowWatermark": mark}
        for each, mark in zip(wanted, marks, strict=True)
    ]
    if output_format == JSON:
        echo_json({"partitions": rows})
        return
    for row in rows:
        click.echo(f"partition: {row['Topic']}-{row['Partition']}\tlow_watermark: {row['LowWatermark']}")


async def _begin_at(brokers: Brokers, wanted: RecordsToDelete) -> int:
    """Where the partition begins then. What is done already is well, so it may be sent again."""

    async def attempt() -> int:
        request = DeleteRecords((wanted,))
        answer = await brokers.ask_leader(wanted.topic, wanted.index, DELETE_RECORDS, request)
        (row,) = answer.partitions
        name = ErrorCode(row.error_code).name
        raise_for(row.error_code, f"{wanted.topic}-{wanted.index}, offset {wanted.offset}: {name}")
        return row.low_watermark

    return await brokers.with_retries(attempt)


def _wanted(
    topic: str | None, partition: int | None, offset: int | None, file: Path | None
) -> tuple[RecordsToDelete, ...]:
    """Raises WrongUsage, Unreadable."""
    if file is not None:
        if (topic, partition, offset) != (None, None, None):
            raise WrongUsage("expected --offset-json-file, or --topic, --partition and --offset")
        return _read(file)
    if topic is None or partition is None or offset is None:
        raise WrongUsage("expected --topic, --partition and --offset, or --offset-json-file")
    if offset < HIGH_WATERMARK:
        raise WrongUsage(f"--offset: expected an offset, or -1 for the end; got {offset}")
    return (RecordsToDelete(topic, partition, offset),)


def _read(file: Path) -> tuple[RecordsToDelete, ...]:
    """Raises Unreadable."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise Unreadable(f"{file}: more than {FILE_BYTES_MAX} bytes")
        document: Any = json.loads(file.read_text("utf-8"))
        rows = [(each["topic"], each["partition"], each["offset"]) for each in document["partitions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"{file}: expected {EXPECTED}: {error}") from error
    for row in rows:
        if [type(each) for each in row] != [str, int, int]:
            raise Unreadable(f"{file}: expected {EXPECTED}, got {row}")
    return tuple(RecordsToDelete(*row) for row in rows)
