"""``fencepost features``: finalized features and the log level of a cluster (docs/upgrading.md).

Source   ``kafka-features.sh`` describe, upgrade and downgrade.
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from fencepost.cli.output import JSON, echo_json, format_option, optional
from fencepost.cli.target_options import find_target, target_options
from fencepost.cluster.console import lines, table
from fencepost.cluster.controllers import ask
from fencepost.cluster.target import Target
from fencepost.controller.feature_updates import Direction, FeatureUpdate, UpdateFeatures
from fencepost.controller.levels import LogLevels
from fencepost.wire.connection import SOFTWARE
from fencepost.wire.k18_api_versions import API_VERSIONS, Features
from fencepost.wire.k57_update_features import UPDATE_FEATURES
from fencepost.wire.k20057_log_levels import LOG_LEVELS, AskLogLevels

FEATURE_HELP = "A feature and the level it is to have, such as transaction.version=2. May be repeated."


@click.group()
def features() -> None:
    """Say, raise or lower what the cluster has finalized: features, and the log level."""


@features.command()
@target_options
@format_option
def describe(
    directory: Path, bootstrap_controller: str | None, command_config: Path | None, output_format: str
) -> None:
    """Say the finalized features, the log level in force, and the highest that each voter reads.

    A voter whose highest level is 'unknown' is not connected to the active controller.
    """
    _print(find_target(directory, bootstrap_controller, command_config), output_format)


@features.command()
@click.option("--log-level", type=click.IntRange(min=0), metavar="N", help="The log level from now on.")
@click.option("--feature", "wanted", multiple=True, metavar="NAME=LEVEL", help=FEATURE_HELP)
@click.option("--dry-run", is_flag=True, help="Only say whether the features could be raised.")
@target_options
@format_option
def upgrade(
    log_level: int | None,
    wanted: tuple[str, ...],
    dry_run: bool,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> None:
    """Raise the log level or features, once every node runs the new version.

    The log level is never lowered again. Refused (exit status 1) unless every voter is connected and reads N,
    and every registered broker supports the feature's level. What is at its level already is left as it is.
    """
    target = find_target(directory, bootstrap_controller, command_config)
    if log_level is None and not wanted:
        raise click.UsageError("nothing to raise: give --log-level N, --feature NAME=LEVEL, or both")
    if log_level is not None and dry_run:
        raise click.UsageError("--dry-run is for features: a log level is raised, or it is not asked for")
    updates = [_update(each, Direction.UPGRADE) for each in wanted]
    if log_level is not None:
        ask(target, LOG_LEVELS, AskLogLevels(log_level))
    if updates:
        ask(target, UPDATE_FEATURES, UpdateFeatures(tuple(updates), dry_run))
    _print(target, output_format)


@features.command()
@click.option("--feature", "wanted", multiple=True, required=True, metavar="NAME=LEVEL", help=FEATURE_HELP)
@click.option("--unsafe", is_flag=True, help="Also if the cluster would lose metadata.")
@click.option("--dry-run", is_flag=True, help="Only say whether the features could be lowered.")
@target_options
@format_option
def downgrade(
    wanted: tuple[str, ...],
    unsafe: bool,
    dry_run: bool,
    directory: Path,
    bootstrap_controller: str | None,
    command_config: Path | None,
    output_format: str,
) -> None:
    """Lower features; level 0 removes one. Open transactions end as the clients that began them say."""
    target = find_target(directory, bootstrap_controller, command_config)
    direction = Direction.UNSAFE_DOWNGRADE if unsafe else Direction.SAFE_DOWNGRADE
    updates = tuple(_update(each, direction) for each in wanted)
    ask(target, UPDATE_FEATURES, UpdateFeatures(updates, dry_run))
    _print(target, output_format)


def _update(text: str, direction: Direction) -> FeatureUpdate:
    name, equals, level = text.partition("=")
    if not equals or not name or not level.isdecimal() or int(level) > 32767:
        raise click.BadParameter(f"{text!r}: expected NAME=LEVEL, such as transaction.version=2")
    return FeatureUpdate(name, int(level), direction)


def _print(target: Target, output_format: str) -> None:
    levels = ask(target, LOG_LEVELS, AskLogLevels())
    found = ask(target, API_VERSIONS, SOFTWARE).features
    rows = _rows(found)
    if output_format == JSON:
        echo_json({**msgspec.to_builtins(levels), "features": rows})
        return
    columns = ("Feature", "SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
    click.echo(table(columns, [tuple(each.values()) for each in rows]))
    _print_levels(levels)


def _rows(found: Features) -> list[dict[str, Any]]:
    finalized = {each.name: each.level for each in found.finalized}
    return [
        {
            "feature": each.name,
            "supported_min_version": each.min_version,
            "supported_max_version": each.max_version,
            "finalized_version_level": finalized.get(each.name, 0),
        }
        for each in sorted(found.supported, key=lambda each: each.name)
    ]


def _print_levels(levels: LogLevels) -> None:
    click.echo(lines({"LogLevel": levels.log_level, "LogLevelMax": levels.log_level_max}))
    rows = [(each.node_id, optional(each.log_level_max, "unknown")) for each in levels.voters]
    click.echo(table(("NodeId", "LogLevelMax"), rows))
