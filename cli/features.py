"""``fencepost features``: the log level of a cluster, and raising it after an upgrade (docs/upgrading.md).

Source   ``kafka-features.sh`` describe and upgrade.
"""

from pathlib import Path

import click
import msgspec

from fencepost.cli.output import JSON, echo_json, format_option, optional
from fencepost.cli.target_options import find_target, target_options
from fencepost.cluster.console import lines, table
from fencepost.cluster.controllers import ask
from fencepost.controller.levels import LogLevels
from fencepost.wire.k20057_log_levels import LOG_LEVELS, AskLogLevels


@click.group()
def features() -> None:
    """Say or raise the log level: which formats of log and snapshots the cluster writes."""


@features.command()
@target_options
@format_option
def describe(
    directory: Path, bootstrap_controller: str | None, command_config: Path | None, output_format: str
) -> None:
    """Say the log level in force, and the highest that each voter reads.

    A voter whose highest level is 'unknown' is not connected to the active controller.
    """
    target = find_target(directory, bootstrap_controller, command_config)
    _print(ask(target, LOG_LEVELS, AskLogLevels()), output_format)


@features.command()
@click.option(
    "--log-level", type=click.IntRange(min=0), required=True, metavar="N", help="The level from now on."
)
@target_options
@format_option
def upgrade(
    log_level: int,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> None:
    """Raise the log level, once every node runs the new version. It is never lowered again.

    Refused (exit status 1) unless every voter is connected and reads N. Raising to the level in force changes
    nothing.
    """
    target = find_target(directory, bootstrap_controller, command_config)
    _print(ask(target, LOG_LEVELS, AskLogLevels(log_level)), output_format)


def _print(levels: LogLevels, output_format: str) -> None:
    if output_format == JSON:
        echo_json(msgspec.to_builtins(levels))
        return
    click.echo(lines({"LogLevel": levels.log_level, "LogLevelMax": levels.log_level_max}))
    rows = [(each.node_id, optional(each.log_level_max, "unknown")) for each in levels.voters]
    click.echo(table(("NodeId", "LogLevelMax"), rows))
