"""Options and signals that the benches share."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import click

from fencepost.cli.cluster import NODES_DEFAULT
from fencepost.cli.output import Command

OTHER_CORES_MIN: Final = 0.2  # worth a warning; interrupts and this command take a little, too


def counts(most: int, least: int = 1) -> Callable[[click.Context, click.Parameter, str], tuple[int, ...]]:
    """Reads N[,N..], each from ``least`` to ``most``."""

    def read(context: click.Context, option: click.Parameter, value: str) -> tuple[int, ...]:
        try:
            found = tuple(int(each) for each in value.split(","))
        except ValueError:
            found = ()
        if not found or not all(least <= count <= most for count in found):
            raise click.BadParameter(
                f"expected N[,N..], each from {least} to {most}, got {value!r}", context, option
            )
        return found

    return read


def own_cluster_options(command: Command) -> Command:
    """Add ``--dir``, ``--port`` and ``--nodes``, of the cluster that a bench makes."""
    for option in (
        click.option(
            "--dir",
            "directory",
            type=click.Path(path_type=Path),
            help="Make the cluster here, and leave it there, ended.  [default: a temporary folder]",
        ),
        click.option("--port", type=int, help="Client port of node 1.  [default: one that is free]"),
        click.option(
            "--nodes",
            "node_count",
            type=int,
            default=NODES_DEFAULT,
            show_default=True,
            help="How many nodes.",
        ),
    ):
        command = option(command)
    return command


def busy(other_cores: float) -> str:
    """A warning of programs that are none of the bench's."""
    cores = f"{other_cores:.1f} of {os.cpu_count()} cores"
    return f"Other programs used {cores} meanwhile: the figures are a busy machine's"


@contextmanager
def interruptible() -> Iterator[None]:
    """TERM and HUP end a bench as Ctrl-C does: its cluster with it."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, _interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, disposition in zip(numbers, before, strict=True):
            signal.signal(number, disposition)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
