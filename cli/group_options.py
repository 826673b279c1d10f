"""Options and output that the commands of ``groups`` share."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fencepost.cli.group_calls import list_groups
from fencepost.cli.group_output import CONSUMER, Row, cells
from fencepost.cli.output import JSON, Command, echo_json
from fencepost.cli.target_options import broker_options, find_brokers
from fencepost.cluster.brokers import Brokers
from fencepost.cluster.console import WrongUsage, table
from fencepost.cluster.target import TIMEOUT_SECONDS
from fencepost.controller.groups.describe import ListGroups

R = TypeVar("R")

SIMPLE: Final = ""
"""The protocol type of a group that exists by its offsets alone."""


def cluster_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add ``broker_options`` and ``--timeout``; the command gets ``target`` and ``timeout_s``."""

    @functools.wraps(command)
    def with_target(
        directory: Path,
        bootstrap_server: str | None,
        command_config: Path | None,
        timeout_ms: int,
        **options: Any,
    ) -> R:
        target = find_brokers(directory, bootstrap_server, command_config)
        return command(target=target, timeout_s=timeout_ms / 1000, **options)

    timeout = click.option(
        "--timeout", "timeout_ms", type=click.IntRange(1), default=int(TIMEOUT_SECONDS * 1000),
        show_default=True, help="Milliseconds to wait for the brokers, retries included.",
    )  # fmt: skip
    return timeout(broker_options(with_target))


def groups_options(command: Command) -> Command:
    """Add ``--group`` as ``group_ids`` and ``--all-groups``."""
    every = click.option("--all-groups", is_flag=True, help="Every group of consumers that there is.")
    return click.option("--group", "group_ids", multiple=True, help="Which one; may be repeated.")(
        every(command)
    )


def topic_option(command: Command) -> Command:
    """Add ``--topic`` as ``topics``."""
    return click.option(
        "--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", help="Which partitions; may be repeated."
    )(command)


async def chosen(brokers: Brokers, group_ids: Sequence[str], *, all_groups: bool) -> list[str]:
    """The groups that the options name, each once. Raises WrongUsage.

    All groups are those of consumers, as for Kafka's tool: others' members give the offsets a meaning of
    their own.
    """
    if bool(group_ids) == all_groups:
        raise WrongUsage("expected --group, or --all-groups")
    if not all_groups:
        return list(dict.fromkeys(group_ids))
    listed = await list_groups(brokers, ListGroups())
    return [each.group_id for each in listed if each.protocol_type in (CONSUMER, SIMPLE)]


def print_rows(name: str, columns: Sequence[str], rows: Sequence[Row], output_format: str) -> None:
    """The rows as a table, or as the field ``name`` of a JSON document."""
    if output_format == JSON:
        echo_json({name: rows})
    else:
        click.echo(table(columns, [cells(columns, row) for row in rows]))
