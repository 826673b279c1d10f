"""Options that most commands share, and results as JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

TEXT: Final = "text"
JSON: Final = "json"


def format_option(command: Command) -> Command:
    """Add ``--format text|json`` as the argument ``output_format``."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice([TEXT, JSON]),
        default=TEXT,
        show_default=True,
        help="How to print the result.",
    )(command)


dir_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=".fencepost",
    show_default=True,
    help="The folder of a cluster made by 'fencepost up'.",
)


def echo_json(value: object) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(value, indent=2))


def optional(value: Any, missing: object = "none") -> Any:
    """``value``, or what to print where there is none."""
    return missing if value is None else value
