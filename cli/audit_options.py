"""Options that several commands of ``fencepost audit`` have."""

from typing import Any, Final

import click

from fencepost.cli.output import Command
from fencepost.cluster.console import WrongUsage

PROPERTIES: Final = "fencepost.audit.properties"
"""Where a command keeps what ``--conf`` says, for the engine that it opens."""

directories = click.argument("roots", metavar="DIR...", nargs=-1)


def _with(command: Command, *options: Any) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def _keep_properties(context: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    """For ``_opened``. Raises WrongUsage."""
    for each in values:
        if not each.startswith("spark.hadoop.fs.") or "=" not in each:
            raise WrongUsage(f"--conf {each}: expected spark.hadoop.fs.NAME=VALUE; others are spark-submit's")
    context.meta[PROPERTIES] = dict(each.split("=", 1) for each in values)


def engine_options(command: Command) -> Command:
    """Which engine runs, and where."""
    return _with(
        command,
        click.option(
            "--engine",
            type=click.Choice(("auto", "embedded", "spark")),
            default="auto",
            show_default=True,
            help="embedded: in this process, without Java. auto: that below 1 GB of logs, if no master is "
            "named.",
        ),
        click.option(
            "--master", metavar="URL", help="Spark's.  [default: local[*], if nothing else says which]"
        ),
        click.option(
            "--memory",
            metavar="SIZE",
            help="What rows may take, or the driver's JVM; as Spark writes it: 2g.",
        ),
        click.option(
            "--conf",
            metavar="KEY=VALUE",
            multiple=True,
            expose_value=False,
            callback=_keep_properties,
            help="spark.hadoop.fs.*, of the file systems that URIs name; with either engine. Repeatable.",
        ),
    )


def deep_option(command: Command) -> Command:
    """Whether the records of every topic are opened."""
    return _with(
        command,
        click.option(
            "--deep",
            is_flag=True,
            help="Open the records of every topic, too: noise under a right checksum is found. Some "
            "microseconds for each record; what was read without it is read again.",
        ),
    )


def stopped_option(command: Command) -> Command:
    """Whether what is read may still have been written to."""
    return _with(
        command,
        click.option(
            "--stopped",
            "is_stopped",
            is_flag=True,
            help="No broker wrote to these directories when they were read or copied: what their ends lack "
            "is missing.",
        ),
    )


def unknown_option(command: Command) -> Command:
    """Whether unknowns are a fault."""
    return _with(
        command,
        click.option("--allow-unknown", is_flag=True, help="End with 0 where nothing but unknowns is left."),
    )


def tables_option(command: Command) -> Command:
    """Where tables are kept."""
    return _with(
        command,
        click.option(
            "--tables",
            "tables_dir",
            metavar="PATH",
            help="Where the tables are, or are made: only what is new in a DIR is read again.",
        ),
    )


def check_options(command: Command) -> Command:
    """Which checks run, and at what time."""
    return _with(
        command,
        click.option("--check", "names", metavar="NAME", multiple=True, help="Only this check. Repeatable."),
        click.option(
            "--now-ms",
            type=int,
            help="What time it is, for what is open too long.  [default: the latest in the logs]",
        ),
    )
