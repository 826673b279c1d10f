"""``fencepost up``, ``ps``, ``kill``, ``start`` and ``down``: a cluster on this machine.

``up`` is done when the cluster is live: the active controller lists every broker as unfenced, in an answer
that rides on a committed entry, and every broker's listener shows all brokers to clients.
What keeps a node from starting is said, by the node's name, before anything starts; a node that
dies while starting is named with the end of its log, and what this command started is ended again. A new
cluster that does not come up is removed.
"""

import contextlib
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from types import FrameType
from typing import Final

import click

from fencepost.cli.output import JSON, dir_option, echo_json, format_option
from fencepost.cluster import local_cluster, node_process
from fencepost.cluster.console import INTERRUPTED, Failed, Unreadable, WrongUsage, table
from fencepost.cluster.lifecycle import STOP_SECONDS_MAX, bring_up, send, start_nodes, stop_nodes
from fencepost.cluster.local_cluster import LocalCluster, PortsTaken, free_port, open_cluster
from fencepost.cluster.secured import secured
from fencepost.cluster.state import await_answering, named_node, state
from fencepost.records.types import NodeId
from fencepost.wire.auth import UsersSyntaxError, parse_users
from fencepost.wire.setting_files import SettingFileError, read_setting_file

NODES_DEFAULT: Final = 3
PORT_DEFAULT: Final = 9092
WATCH_SECONDS: Final = 0.1
SIGNALS: Final = ("KILL", "STOP", "CONT", "TERM")


@click.command(short_help="Start a local cluster and wait until it is live.")
@click.option("-n", "--nodes", "node_count", type=int, help=f"How many nodes.  [default: {NODES_DEFAULT}]")
@dir_option
@click.option(
    "--port", type=int, help=f"Client port of node 1; 0 takes free ones.  [default: {PORT_DEFAULT}]"
)
@click.option(
    "--tls", "by_tls", is_flag=True, help="By TLS, with an authority of its own in D/tls, if D is new."
)
@click.option(
    "--users",
    "users_file",
    type=click.Path(path_type=Path),
    help="With --tls: lines NAME=PASSWORD of who may log in; each is given D/clients/NAME.properties.",
)
@click.option("--detach", is_flag=True, help="Return when the cluster is live; 'fencepost down' ends it.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of every node, if D is new.",
)
@format_option
def up(
    node_count: int | None,
    directory: Path,
    port: int | None,
    by_tls: bool,
    users_file: Path | None,
    detach: bool,
    overrides: tuple[str, ...],
    output_format: str,
) -> int:
    """Start a local cluster, one process per node: new in an empty --dir, else the one that is there.

    In the foreground Ctrl-C ends it, with exit status 130. A new cluster that does not come up is removed.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if users_file is not None and not by_tls:
        raise WrongUsage("--users needs --tls: passwords and data would go in the clear")
    users = None if users_file is None else _read_users(users_file)
    directory = directory.absolute()
    is_new = not local_cluster.exists(directory)
    try:
        with _removed_unless_live(directory) if is_new else contextlib.nullcontext():
            cluster = _open_or_create(directory, node_count, port, overrides, by_tls=by_tls, users=users)
            children = bring_up(cluster)
    except PortsTaken as error:
        way_out = "'fencepost up --port 0' takes free ones" if is_new else "end it, or choose another --dir"
        raise Failed(f"{error.message}; {way_out}") from error
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        _print_cluster(cluster, output_format, welcome=True)
        return 0 if detach else _watch(cluster, children)
    except KeyboardInterrupt:
        if not detach:
            stop_nodes(cluster.nodes)
        return INTERRUPTED


@click.command()
@dir_option
@format_option
def ps(directory: Path, output_format: str) -> None:
    """Say which nodes run, and who leads."""
    _print_cluster(open_cluster(directory), output_format, welcome=False)


@click.command(short_help="Kill a node, or pause it, or let it go on.")
@click.argument("name", metavar="NODE")
@dir_option
@click.option(
    "--signal",
    "signal_name",
    type=click.Choice(SIGNALS, case_sensitive=False),
    default="KILL",
    show_default=True,
)
@format_option
def kill(name: str, directory: Path, signal_name: str, output_format: str) -> None:
    """Send NODE (a number, or 'leader') a signal; KILL, if nothing else is said."""
    cluster = open_cluster(directory)
    node = named_node(cluster, name)
    pid = node.pid()
    if not send(node, signal.Signals[f"SIG{signal_name}"]):
        raise Failed(f"node {node.node_id} is not running")
    if output_format == JSON:
        echo_json({"node_id": node.node_id, "pid": pid, "signal": signal_name})
    else:
        click.echo(f"node {node.node_id} (pid {pid}): SIG{signal_name}; now {node.status()}")


@click.command(short_help="Start a node again.")
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
@dir_option
@format_option
def start(names: Sequence[str], directory: Path, output_format: str) -> None:
    """Start NODE again (a number; several may be given) and return when its controller listener answers."""
    cluster = open_cluster(directory)
    nodes = [named_node(cluster, name) for name in names]
    for node in nodes:
        if node.status() == "stopped":
            raise Failed(
                f"node {node.node_id} is stopped by a signal; "
                f"'fencepost kill {node.node_id} --signal CONT' lets it go on"
            )
        if node.pid() is not None:
            raise Failed(f"node {node.node_id} is {node.status()} already (pid {node.pid()})")
    children = start_nodes(cluster, nodes)
    await_answering(nodes, children)
    _print_cluster(cluster, output_format, welcome=False)


@click.command(short_help="End every node cleanly.")
@dir_option
@format_option
def down(directory: Path, output_format: str) -> None:
    """End every node cleanly: it finishes what is in flight and hands its leadership over."""
    cluster = open_cluster(directory)
    with cluster.lock():
        killed = stop_nodes(cluster.nodes)
    if output_format == JSON:
        nodes = [{"node_id": each.node_id, "was_killed": each in killed} for each in cluster.nodes]
        echo_json({"directory": str(cluster.directory), "nodes": nodes})
        return
    for node in killed:
        click.echo(f"node {node.node_id} did not end in {STOP_SECONDS_MAX:.0f} s and was killed", err=True)
    click.echo(f"{len(cluster.nodes)} nodes are down; their state stays in {cluster.directory}")


@contextlib.contextmanager
def _removed_unless_live(directory: Path) -> Iterator[None]:
    """A cluster that is made within goes again if this ends by an error, and the folders made for it."""
    was_there = directory.exists()
    made = [each for each in directory.parents if not each.exists()]
    try:
        yield
    except BaseException:
        if _is_idle(directory):
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):
                for each in made:
                    each.rmdir()
                if was_there:
                    directory.mkdir()
        raise


def _is_idle(directory: Path) -> bool:
    """No node of it runs, not even one that another command started."""
    try:
        return all(node.pid() is None for node in open_cluster(directory).nodes)
    except Unreadable:
        return not directory.exists()


def _open_or_create(
    directory: Path,
    node_count: int | None,
    port: int | None,
    overrides: tuple[str, ...],
    *,
    by_tls: bool,
    users: Mapping[str, str] | None,
) -> LocalCluster:
    if not local_cluster.exists(directory):
        count = NODES_DEFAULT if node_count is None else node_count
        local_cluster.require_node_count(count)
        first = PORT_DEFAULT if port is None else port or free_port(count)
        own, files = secured(str(directory.absolute()), count, first, users) if by_tls else ({}, {})
        return local_cluster.create_cluster(directory, count, first, overrides, own=own, files=files)
    cluster = open_cluster(directory)
    there = {"-n": (node_count, len(cluster.nodes)), "--port": (port or None, cluster.port)}
    for option, (wanted, found) in there.items():
        if wanted not in (None, found):
            raise WrongUsage(
                f"the cluster in {directory} was made with {option} {found}; choose another --dir"
            )
    if by_tls:
        raise WrongUsage("--tls and --users are for a new cluster; choose another --dir")
    if overrides:
        raise WrongUsage(f"--override is for a new cluster; edit {directory}/nodes/N/{local_cluster.CONFIG}")
    return cluster


def _read_users(file: Path) -> Mapping[str, str]:
    try:
        return parse_users(read_setting_file("--users", file, is_secret=True))
    except SettingFileError as error:
        raise Unreadable(str(error)) from error
    except UsersSyntaxError as error:
        raise WrongUsage(f"--users {file}: {error}") from error


def _print_cluster(cluster: LocalCluster, output_format: str, *, welcome: bool) -> None:
    seen = state(cluster)
    if output_format == JSON:
        echo_json(seen)
        return
    home = _short(cluster.directory)
    if welcome:
        click.echo(f"Cluster {cluster.cluster_id}: {len(cluster.nodes)} nodes, each a process of its own.")
        click.echo("Each votes in the quorum and is a broker; Kafka clients may connect to any of them.")
        if any(node.config.allow_unreplicated for node in cluster.nodes):
            click.echo(
                "A partition has one replica, whatever its topic requests: while that broker is dead, the"
            )
            click.echo("partition can be neither written nor read (fencepost.allow.unreplicated=true).")
        click.echo(f"State and logs are in {home}/nodes/N (log.txt); 'fencepost down' ends the cluster.\n")
    rows = [
        (
            node["node_id"],
            ",".join(node["roles"]),
            node["pid"] or "-",
            node["client"] or "-",
            f"{node['status']}, leader" if node["leader"] else node["status"],
        )
        for node in seen["nodes"]
    ]
    click.echo(table(("NODE", "ROLES", "PID", "LISTENER", "STATUS"), rows))
    if welcome:
        option = "" if home == ".fencepost" else f" --dir {home}"
        click.echo(f"\nbootstrap.servers={cluster.bootstrap}")
        if (cluster.directory / "tls" / "ca.pem").exists():
            click.echo(f"Clients trust {home}/tls/ca.pem; settings of each user are in {home}/clients.")
        click.echo(f"Next, in another terminal:  fencepost kill leader{option}")


def _short(directory: Path) -> str:
    try:
        return str(directory.relative_to(Path.cwd()))
    except ValueError:
        return str(directory)


def _watch(cluster: LocalCluster, children: Mapping[NodeId, Popen[bytes]]) -> int:
    """Stay until Ctrl-C, or until no node is left. Names each node that ends."""
    ended: set[NodeId] = set()
    while True:
        for node_id, child in children.items():
            status = child.poll()  # also reaps it
            if status is not None and node_id not in ended:
                ended.add(node_id)
                click.echo(
                    f"node {node_id} ended ({node_process.ending(status)}); "
                    f"'fencepost start {node_id}' brings it back",
                    err=True,
                )
        statuses = {node.status() for node in cluster.nodes}
        if not statuses & {"running", "stopped"}:
            return 1 if "dead" in statuses else 0  # all are down: another ``fencepost down`` ended them
        time.sleep(WATCH_SECONDS)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
