"""What commands print: failures with their exit status, tables, progress.

Exit status  the classes below carry it; ``fencepost.cli.main`` lists what each means.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import click

from fencepost.records.printable import printable

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C."""

EXIT_STATUSES: Final = {
    0: "done",
    1: "failed, or something was found",
    2: "wrong usage",
    3: "could not be read, or the outcome is unknown",
    4: "the cluster's authorizer refused it",
    INTERRUPTED: "interrupted",
}
"""Of every command. docs/commands.md has the same table."""


class Failed(click.ClickException):
    """The command did not do what it was meant to do, and that is certain."""

    exit_code = 1


class WrongUsage(click.ClickException):
    """The options contradict each other, or an argument is wrong."""

    exit_code = 2


class Unreadable(click.ClickException):
    """Something could not be read, or the outcome of a request is unknown."""

    exit_code = 3


class NotAuthorized(click.ClickException):
    """The cluster's authorizer refused the request."""

    exit_code = 4


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded to their widest cell, two spaces between, as Kafka's tools print. A row is a line."""
    cells = [[printable(str(cell)) for cell in row] for row in (columns, *rows)]
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
