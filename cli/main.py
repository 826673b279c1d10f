"""``fencepost``: the commands, each loaded only when it is typed.

A node is started through here too, so this module imports little but click: what a node does not run,
it does not load.
Exit status  ``fencepost.cluster.console.EXIT_STATUSES``.
"""

import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final, NamedTuple, NoReturn

import click

from fencepost import __version__
from fencepost.cli.output import say_error
from fencepost.cluster.console import EXIT_STATUSES, INTERRUPTED, Failed, Unreadable
from fencepost.records.levels import LevelTooHigh


class _Home(NamedTuple):
    module: str
    attribute: str
    hidden: bool = False


UNPRINTED: Final = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)
"""Errors of a write to standard output, which names no file: ``> /dev/full``."""

COMMANDS: Final = {
    "up": _Home("fencepost.cli.cluster", "up"),
    "ps": _Home("fencepost.cli.cluster", "ps"),
    "kill": _Home("fencepost.cli.cluster", "kill"),
    "start": _Home("fencepost.cli.cluster", "start"),
    "down": _Home("fencepost.cli.cluster", "down"),
    "move-leader": _Home("fencepost.cli.move_leader", "move_leader"),
    "logs": _Home("fencepost.cli.logs", "logs"),
    "health": _Home("fencepost.cli.health", "health"),
    "quorum": _Home("fencepost.cli.quorum", "quorum"),
    "features": _Home("fencepost.cli.features", "features"),
    "topics": _Home("fencepost.cli.topics", "topics"),
    "configs": _Home("fencepost.cli.configs", "configs"),
    "acls": _Home("fencepost.cli.acls", "acls"),
    "producer-ids": _Home("fencepost.cli.producer_ids", "producer_ids"),
    "produce": _Home("fencepost.cli.produce", "produce"),
    "consume": _Home("fencepost.cli.consume", "consume"),
    "groups": _Home("fencepost.cli.groups", "groups"),
    "get-offsets": _Home("fencepost.cli.get_offsets", "get_offsets"),
    "transactions": _Home("fencepost.cli.transactions", "transactions"),
    "explain": _Home("fencepost.cli.explain", "explain"),
    "snapshot": _Home("fencepost.cli.snapshot", "snapshot"),
    "storage": _Home("fencepost.cli.storage", "storage"),
    "migrate": _Home("fencepost.cli.migrate", "migrate"),
    "fault": _Home("fencepost.cli.fault", "fault"),
    "schema": _Home("fencepost.cli.schema", "schema"),
    "node": _Home("fencepost.cli.node", "node"),
    "container": _Home("fencepost.cli.container", "container"),
    "audit": _Home("fencepost.cli.audit", "audit"),
    "bench": _Home("fencepost.cli.bench", "bench"),
    "demo": _Home("fencepost.cli.demo", "demo", hidden=True),
}


class _LazyGroup(click.Group):
    """Knows every command by name and imports only the one that runs (or all, for ``--help``)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, home in COMMANDS.items() if not home.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = COMMANDS.get(cmd_name)
        if home is None:
            return None
        command = getattr(_imported(home.module), home.attribute)
        return command if isinstance(command, click.Command) else None


def _imported(name: str) -> ModuleType:
    """A module. What an import makes stays: to look for garbage in it took a seventh of a node's start."""
    if name in sys.modules:
        return sys.modules[name]
    enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: " + "; ".join(f"{status} {means}" for status, means in EXIT_STATUSES.items()) + ".",
)
@click.version_option(__version__)
def fencepost() -> None:
    """A Raft-replicated metadata quorum for Kafka's exactly-once control plane.

    \b
    Begin with:  fencepost up        three nodes on 127.0.0.1, ports from 9092
                 fencepost ps        who runs, who leads
                 fencepost kill leader
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and exit with its status."""
    # Where kio finds hypothesis, it registers test strategies: two seconds of a start, and a .hypothesis
    # folder in the current directory. None makes the import fail, as where no tests are installed.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    # structlog takes rich for tracebacks where it finds it: 66 modules, a fifth of a node's start. Not ours.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    _open_standard_streams()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = fencepost.main(args=arguments, prog_name="fencepost", standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        say_error(error, words)
        sys.exit(error.exit_code)
    except LevelTooHigh as error:
        say_error(Unreadable(str(error)), words)
        sys.exit(Unreadable.exit_code)
    except BrokenPipeError:
        # The reader of our output left (``| head``). Nothing more can be said on stdout.
        _print_no_more()
        sys.exit(1)
    except OSError as error:
        if error.filename is None and error.errno not in UNPRINTED:
            raise
        if error.filename is None:
            _print_no_more()
            say_error(
                Failed(f"the output could not be written: {os.strerror(error.errno or 0).lower()}"), words
            )
            sys.exit(Failed.exit_code)
        say_error(Unreadable(f"{error.filename}: {error.strerror}"), words)
        sys.exit(Unreadable.exit_code)
    sys.exit(status if isinstance(status, int) else 0)


def _open_standard_streams() -> None:
    """Where the shell closed one (``>&-``), the next file that is opened would be it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))


def _print_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
