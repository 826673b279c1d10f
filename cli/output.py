"""Options that most commands share, and results and errors as JSON (docs/commands.md)."""

import contextlib
import datetime as dt
import json
import os
import re
import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

SCHEMA_VERSION: Final = 1
"""Of all JSON; it changes when a field goes or means something else, not when one is added."""
NAMED_BY_DATA: Final = frozenset({"committed_offsets", "configs", "cores", "cpu_ms", "log_dirs", "log_ends"})
"""Fields whose own keys are names of groups, settings, nodes, folders or logs."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]+")
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


def echo_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout. Keys that are heads of Kafka's tables are in snake_case there."""
    click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **in_snake_case(document)}, indent=2))


def in_snake_case(document: Mapping[str, Any]) -> dict[str, Any]:
    """``LOG-END-OFFSET`` and ``LogEndOffset`` are ``log_end_offset``; names that are no fields stay."""
    return {
        snake_case(str(key)): value if snake_case(str(key)) in NAMED_BY_DATA else _inside(value)
        for key, value in document.items()
    }


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping):
        return in_snake_case(value)
    if isinstance(value, list | tuple):
        return [_inside(each) for each in value]
    return value


def snake_case(head: str) -> str:
    """A column's head, or a field's name, as a key of JSON."""
    return _NO_LETTER.sub("_", _HUMP.sub("_", head)).strip("_").lower()


def echo_line(value: Mapping[str, object]) -> None:
    """Print one of many JSON documents, on a line of its own."""
    click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **value}))


@contextlib.contextmanager
def while_read() -> Iterator[None]:
    """What is within prints until its reader leaves (``| head``), which is no failure."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def require_reader() -> None:
    """Raises BrokenPipeError: standard output is a pipe whose reader left."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # not a file, in tests
        return
    looked = select.poll()
    looked.register(descriptor, 0)
    if looked.poll(0):
        raise BrokenPipeError


def say_error(error: click.ClickException, arguments: Sequence[str]) -> None:
    """Print it on stderr: as JSON, if that is the format which the command line asks for."""
    if not is_json(arguments):
        error.show()
        return
    said = {"message": error.format_message(), "exit_status": error.exit_code}
    click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "error": said}), err=True)


def is_json(arguments: Sequence[str]) -> bool:
    """Whether ``--format json`` stands there. A command line that could not be parsed has no other answer."""
    last = next((at for at in reversed(range(len(arguments))) if arguments[at].startswith("--format")), None)
    if last is None:
        return False
    name, equals, value = arguments[last].partition("=")
    return name == "--format" and (value if equals else "".join(arguments[last + 1 : last + 2])) == JSON


def optional(value: Any, missing: object = "none") -> Any:
    """``value``, or what to print where there is none."""
    return missing if value is None else value


def when(at_ms: int) -> str:
    """A time in UTC, as ISO 8601 writes it."""
    try:
        return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms since 1970"


def ago(duration_ms: int) -> str:
    """How long ago, in its largest unit; of the future too, where clocks differ."""
    if duration_ms < 0:
        return "in the future, by this machine's clock"
    seconds = duration_ms // 1000
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"
