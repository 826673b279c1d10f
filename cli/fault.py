"""``fencepost fault``: a cluster for the tests of programs in any language, and its faults, from the shell.

``run`` starts the kit's cluster (testing/cluster.py) and a test command; the other verbs are for that
command, and find the cluster by FENCEPOST_FAULTS. What they do is done when they end.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from fencepost.cli.client_settings import pairs
from fencepost.cli.output import JSON, Command, echo_json, format_option
from fencepost.cluster.console import Failed, Unreadable, WrongUsage, table
from fencepost.testing import control
from fencepost.testing.cluster import Cluster
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.faults import MATCHED

BOOTSTRAP: Final = "FENCEPOST_BOOTSTRAP"
LOOK_S: Final = 0.1
WAIT_S: Final = 30.0


@click.group()
def fault() -> None:
    """A cluster for tests in any language, and its faults.

    \b
    Begin with:  fencepost fault run -- go test ./...
    In a test:   fencepost fault drop-answer EndTxn --match transactional_id=app --times 1
                 fencepost fault kill leader
    """


@fault.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option("-n", "--nodes", "node_count", type=int, default=3, show_default=True, help="How many nodes.")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="Made before; repeatable."
)
@click.option("--override", "overrides", multiple=True, callback=pairs, metavar="KEY=VALUE", help="Of nodes.")
@format_option
def run(
    words: tuple[str, ...],
    node_count: int,
    topics: tuple[str, ...],
    overrides: dict[str, str],
    output_format: str,
) -> int:
    """Run COMMAND beside a new cluster, and end with its status; without one stay until Ctrl-C.

    COMMAND finds the cluster in FENCEPOST_BOOTSTRAP. Its nodes and folder go with it, however it ends. A
    fault that is still armed at its end is exit status 1.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with _explained(), contextlib.ExitStack() as stack:
        own = Cluster(node_count, topics=dict(map(_topic, topics)), config=overrides, faults=True)
        cluster = stack.enter_context(own)
        path = cluster.directory.parent / control.SOCKET
        stack.enter_context(control.Control(cluster, path))
        environment = {**os.environ, BOOTSTRAP: cluster.bootstrap, control.VARIABLE: str(path)}
        if words:
            status = _run(words, environment)
            left = cluster.faults.clear()
            if left and status == 0:
                raise Failed(f"left armed: {'; '.join(map(str, left))}")
            return status
        if output_format == JSON:
            echo_json({"bootstrap": cluster.bootstrap, "socket": str(path)})
        else:
            click.echo(f"export {BOOTSTRAP}={cluster.bootstrap}\nexport {control.VARIABLE}={path}")
        while True:
            time.sleep(LOOK_S)


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.partition(":")
    if colon and not (partitions.isascii() and partitions.isdigit()):
        raise WrongUsage(f"--topic: expected NAME or NAME:PARTITIONS, got {text!r}")
    return name, int(partitions) if colon else 1


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """The command's exit status; after a signal 128 and its number, as shells say it. Raises WrongUsage."""
    try:
        child = subprocess.Popen(words, env=environment)
    except OSError as error:
        raise WrongUsage(f"{words[0]}: {error.strerror}") from error
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _explained() -> Any:
    try:
        yield
    except ClusterFailed as error:
        raise Failed(str(error)) from error


# -- faults of requests ------------------------------------------------------------------------------------


def _required(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path:
    if path is None:
        raise WrongUsage(
            "there is no cluster to break: this command is for what 'fencepost fault run -- COMMAND' runs; "
            "elsewhere name its socket by --socket"
        )
    return path


def _shared(command: Command) -> Command:
    """``--socket`` and ``--format``."""
    option = click.option(
        "--socket",
        "path",
        type=click.Path(path_type=Path),
        envvar=control.VARIABLE,
        callback=_required,
        help=f"Of 'fencepost fault run'.  [default: {control.VARIABLE}]",
    )
    return option(format_option(command))


def _armed(command: Command) -> Command:
    match = click.option(
        "--match", multiple=True, callback=pairs, metavar="KEY=VALUE", help=f"Only of {', '.join(MATCHED)}."
    )
    times = click.option("--times", type=click.IntRange(1), help="How often.  [default: until it is cleared]")
    return click.argument("api", metavar="API")(match(times(_shared(command))))


def _say(path: Path, verb: str, **words: object) -> Any:
    """Raises Failed, Unreadable."""
    with _explained():
        try:
            return control.request(path, verb, **words)
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror or error}; does 'fencepost fault run' run?") from error


def _print_faults(rows: list[dict[str, Any]], output_format: str) -> None:
    if output_format == JSON:
        echo_json({"faults": rows})
        return
    for row in rows:
        click.echo(f"{row['number']}  {row['text']}{'' if row['is_armed'] else ', over'}")


def _arming(name: str, short: str, *arguments: Callable[[Command], Command]) -> None:
    """A command that arms one fault."""

    def arm(
        path: Path, output_format: str, api: str, match: dict[str, str], times: int | None, **more: Any
    ) -> None:
        row = _say(path, "arm", action=name.replace("-", "_"), api=api, match=match, times=times, **more)
        _print_faults([row], output_format)

    command: Any = arm
    for argument in arguments:
        command = argument(command)
    fault.command(name, help=f"{short} API is Kafka's name of a request: Produce, EndTxn.")(_armed(command))


_arming("drop-answer", "The request is done, and its answer is lost with the connection.")
_arming("disconnect", "The client's connection is closed, and nothing is done.")
_arming("delay", "The request reaches its node later.", click.argument("ms", type=click.FloatRange(0)))
_arming("fail", "The client gets the error CODE, Kafka's number or name, and nothing is done.",
        click.argument("code"))  # fmt: skip


@fault.command("list")
@_shared
def list_(path: Path, output_format: str) -> None:
    """List the faults that were armed, and how often each fired."""
    _print_faults(_say(path, "list"), output_format)


@fault.command()
@click.argument("number", type=int, required=False)
@_shared
def clear(path: Path, number: int | None, output_format: str) -> None:
    """Clear fault NUMBER, or all; prints those that were armed."""
    _print_faults(_say(path, "clear", number=number), output_format)


@fault.command()
@click.argument("number", type=int)
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How often.")
@click.option("--timeout", "timeout_s", type=float, default=WAIT_S, show_default=True, help="Seconds.")
@_shared
def wait(path: Path, number: int, count: int, timeout_s: float, output_format: str) -> None:
    """Wait until fault NUMBER has fired. Exit status 1: it did not in time."""
    _print_faults([_say(path, "wait", number=number, count=count, timeout_s=timeout_s)], output_format)


# -- faults of nodes ---------------------------------------------------------------------------------------


def _print_nodes(rows: list[dict[str, Any]], output_format: str) -> None:
    if output_format == JSON:
        echo_json({"nodes": rows})
    else:
        click.echo(table(("NODE", "STATUS"), [tuple(row.values()) for row in rows]))


def _which(name: str) -> int | str:
    return int(name) if name.isascii() and name.isdigit() else name


def _of_one(name: str, short: str) -> None:
    def of_one(path: Path, output_format: str, which: str) -> None:
        _print_nodes(_say(path, "nodes", do=name, which=_which(which)), output_format)

    argument = click.argument("which", metavar="NODE")
    fault.command(name, help=f"{short} NODE is a number, 'leader' or 'follower'.")(argument(_shared(of_one)))


def _of_some(name: str, short: str, count: int, metavar: str) -> None:
    def of_some(path: Path, output_format: str, nodes: tuple[int, ...]) -> None:
        _print_nodes(_say(path, "nodes", do=name, others=list(nodes)), output_format)

    argument = click.argument("nodes", metavar=metavar, nargs=count, type=int)
    fault.command(name, help=short)(argument(_shared(of_some)))


_of_one("kill", "End a node as a power cut does (SIGKILL).")
_of_some("start", "Start dead nodes again, or all, and wait until they answer.", -1, "[NODE]...")
_of_one("pause", "Stop a node's process (SIGSTOP).")
_of_some("resume", "Let paused nodes go on, or all.", -1, "[NODE]...")
_of_some("cut", "Cut two nodes off from each other. Clients reach both.", 2, "NODE NODE")
_of_one("isolate", "Cut a node off from all others. Clients reach it.")


@fault.command()
@_shared
def heal(path: Path, output_format: str) -> None:
    """End every cut."""
    _print_nodes(_say(path, "nodes", do="heal"), output_format)


@fault.command("advance-clock")
@click.argument("seconds", type=click.FloatRange(0))
@_shared
def advance_clock(path: Path, seconds: float, output_format: str) -> None:
    """Make every node's clock later: transactions time out, retention and expiry come due."""
    _print_nodes(_say(path, "nodes", do="advance_clock", seconds=seconds), output_format)
