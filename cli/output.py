"""How commands speak: results on stdout as text or JSON, complaints and progress on stderr.

Exit status  the classes below carry it; ``fencepost.cli.main`` lists what each means.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

TEXT: Final = "text"
JSON: Final = "json"

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C."""


class Failed(click.ClickException):
    """What was asked was not achieved, and that is known."""

    exit_code = 1


class WrongUsage(click.ClickException):
    """The command cannot be meant like that."""

    exit_code = 2


class Unreadable(click.ClickException):
    """Something could not be read, or the outcome of a request is unknown."""

    exit_code = 3


class NotAuthorized(click.ClickException):
    """The cluster's authorizer refused."""

    exit_code = 4


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


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded to their widest cell, two spaces between, as Kafka's tools print."""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def lines(pairs: Mapping[str, object]) -> str:
    """One ``Name:   value`` line per pair, values aligned, as ``kafka-metadata-quorum`` prints."""
    width = max(len(name) for name in pairs) + 1
    return "\n".join(f"{name + ':':<{width}}  {value}" for name, value in pairs.items())


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yields a function that shows what is being waited for, on a terminal only, on one line of stderr."""
    terminal = sys.stderr.isatty()

    def show(text: str) -> None:
        if terminal:
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)

    try:
        yield show
    finally:
        show("")
