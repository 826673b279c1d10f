"""``python -m tests.clients.kraft [COMMAND..]``: three nodes of Apache Kafka to measure a cluster beside.

Settings   Kafka's defaults, its start script's Java options among them (a heap of 1 GiB each). What differs:
           each node is broker and controller, and the listeners are on loopback. So its topics of offsets and
           of transactions have three replicas, and any other has one, as here: replicas of what the loops
           read and write are ``--set default.replication.factor=3``.
COMMAND    is run once the nodes are up, with ``{bootstrap}``, ``{kill}``, ``{start}`` and ``{jars}`` (a class
           path) in its words replaced. Without one they are printed, and Ctrl-C ends the nodes.
TLS        ``--tls D/tls`` of ``fencepost up --tls --dir D``: both have certificates of one authority, and ask
           clients for theirs. COMMAND is then ``fencepost bench transactions --bootstrap-server OURS --peer
           {bootstrap} --command-config D/clients/client.properties ..``.
Kill       ``kill -9`` of the process that ``DIR/N/pid`` names: no other program starts, so that little is
           added to what is measured. Start: makes the file ``DIR/N/start``, which this program looks for.
End        no node outlives this program, however COMMAND ends.
"""

import contextlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import click

from fencepost.bench.own_cluster import workspace
from tests.clients.kafka_broker import VERSION, Broker, class_path, fetch
from tests.clients.players import NotHere
from tests.ports import free_port

NODES: Final = (1, 2, 3)
JVM: Final = (
    "-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
"""bin/kafka-server-start.sh and bin/kafka-run-class.sh of Apache Kafka."""

POLL_SECONDS: Final = 0.1
PID, START = "pid", "start"  # files of each node's folder
NODE: Final = "{node}"  # what ``fencepost bench groups`` replaces


class Kraft:
    """The nodes, and the commands that kill and start one of them."""

    def __init__(self, home: Path, settings: str, tls: Path | None = None) -> None:
        self._home = home
        controllers = {node_id: free_port() for node_id in NODES}
        self._nodes = [
            Broker(home / str(node_id), settings, node_id=node_id, port=free_port(),
                   controllers=controllers, jvm=JVM, tls=tls)
            for node_id in NODES
        ]  # fmt: skip

    @property
    def bootstrap(self) -> str:
        """All brokers."""
        return ",".join(each.bootstrap for each in self._nodes)

    @property
    def kill_command(self) -> str:
        """With NODE in it."""
        return shlex.join(("sh", "-c", f"kill -9 $(cat {shlex.quote(str(self._home / NODE / PID))})"))

    @property
    def start_command(self) -> str:
        """With NODE in it."""
        return shlex.join(("touch", str(self._home / NODE / START)))

    def start(self) -> None:
        """Returns when each node shows all. Raises RuntimeError."""
        for each in self._nodes:
            self._launch(each)
        for each in self._nodes:
            each.await_brokers(len(NODES))

    def start_wanted(self) -> None:
        """Launch each node that a start command was run for, once it has ended."""
        for each in self._nodes:
            wanted = each.home / START
            if wanted.exists() and each.has_ended():
                self._launch(each)
                wanted.unlink()

    def kill(self) -> None:
        """SIGKILL to all."""
        for each in self._nodes:
            each.kill()

    def _launch(self, node: Broker) -> None:
        (node.home / PID).write_text(str(node.launch()), "utf-8")


@contextlib.contextmanager
def running(home: Path, settings: str, tls: Path | None = None) -> Iterator[Kraft]:
    """The nodes, up; killed at the end. Raises NotHere, RuntimeError."""
    fetch()
    nodes = Kraft(home, settings, tls)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.kill()


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Of server.properties.")
@click.option(
    "--tls",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="D/tls of a cluster of 'fencepost up --tls': listeners take SSL, with its certificates.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(settings: tuple[str, ...], tls: Path | None, command: tuple[str, ...]) -> None:
    """Start three nodes of Apache Kafka and run COMMAND beside them.

    Exit status: that of COMMAND; 0 and NOT RUN, with the reason, where Java or Maven is missing.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    lines = "".join(f"{each}\n" for each in settings)
    try:
        with workspace(None) as home, running(home, lines, tls) as nodes:
            taken_s = time.monotonic() - began
            click.echo(f"Apache Kafka {VERSION}: {len(NODES)} nodes are up after {taken_s:.1f} s", err=True)
            sys.exit(_run(nodes, command) if command else _stay(nodes))
    except NotHere as error:
        click.echo(f"NOT RUN: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _run(nodes: Kraft, command: tuple[str, ...]) -> int:
    """The command's exit status. Nodes are started meanwhile when it wants that."""
    replaced = {
        "{bootstrap}": nodes.bootstrap,
        "{kill}": nodes.kill_command,
        "{start}": nodes.start_command,
        "{jars}": class_path(),
    }
    child = subprocess.Popen([replaced.get(word, word) for word in command])
    try:
        while child.poll() is None:
            nodes.start_wanted()
            time.sleep(POLL_SECONDS)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    return child.returncode


def _stay(nodes: Kraft) -> int:
    """Until Ctrl-C or SIGTERM."""
    click.echo(f"--bootstrap-server {nodes.bootstrap}")
    click.echo(f"--peer-kill {shlex.quote(nodes.kill_command)}")
    click.echo(f"--peer-start {shlex.quote(nodes.start_command)}")
    while True:
        nodes.start_wanted()
        time.sleep(POLL_SECONDS)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
