"""A cluster on this machine: one folder, one process per node.

Layout      D/cluster.json        cluster id, node count, first port
            D/cluster.secret      what the peers prove to each other that they know; mode 0600
            D/nodes/N/            node.properties, data/ (formatted: meta.properties, ...), log.txt, pid.json
Created     aside and renamed, so D is a whole cluster or not there. Paths inside are relative: D may move.
Ports       of node i from 1, P = first port: client P+i-1, controller P+100+i-1, Raft P+200+i-1,
            metrics P+300+i-1.
Source      docs/design.md 9.
"""

import fcntl
import json
import random
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fencepost.cluster import node_process
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.records.types import NodeId
from fencepost.settings.config import (
    CONTROLLER_LISTENER,
    PLAINTEXT,
    VOTERS_MAX,
    Address,
    ConfigError,
    ListenerAddress,
    NodeConfig,
    Voter,
)
from fencepost.settings.durable_file import write_durably
from fencepost.settings.node_directories import format_directories
from fencepost.settings.node_identity import (
    StorageError,
    id_text,
    random_id,
    read_identity,
    require_identity,
)
from fencepost.settings.properties import parse_properties

HOST: Final = "127.0.0.1"
CLUSTER: Final = "cluster.json"
SECRET: Final = "cluster.secret"  # noqa: S105  (a file's name)
LOCK: Final = "lock"
CONFIG: Final = "node.properties"
SECRET_BYTES: Final = 32
CONTROLLER_PORT_OFFSET: Final = 100
RAFT_PORT_OFFSET: Final = 200
METRICS_PORT_OFFSET: Final = 300
PORT_OFFSETS: Final = (0, CONTROLLER_PORT_OFFSET, RAFT_PORT_OFFSET, METRICS_PORT_OFFSET)
FREE_PORTS: Final = range(19092, 32000, 10)  # below the ports that outgoing connections are given


class PortsTaken(Failed):
    """Other programs listen where nodes are to listen."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node's folder and what its configuration says."""

    node_id: NodeId
    directory: Path
    config: NodeConfig

    def status(self) -> node_process.Status:
        """What the node's process is doing; see ``node_process.Status``."""
        recorded = node_process.recorded(self.directory)
        return "down" if recorded is None else recorded.status()

    def pid(self) -> int | None:
        """The pid of the node's process, if it is there."""
        recorded = node_process.recorded(self.directory)
        return recorded.pid if recorded is not None and recorded.status() != "dead" else None

    def ports(self) -> dict[str, Address]:
        """Every address that the node's process listens on, by what it is for."""
        config = self.config
        first = {config.client_listener: "client", config.controller_listener: "controller"}
        addresses = {
            **{first.get(each, f"client {each.name}"): each.address for each in config.listeners},
            "raft": config.raft_address,
            "metrics": None if config.metrics_port is None else Address(HOST, config.metrics_port),
        }
        return {name: address for name, address in addresses.items() if address is not None}


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """A cluster folder that was opened or created. Nothing here is cached from the disk but this."""

    directory: Path
    cluster_id: str
    port: int
    nodes: tuple[LocalNode, ...]

    @property
    def bootstrap(self) -> str:
        """What a Kafka client is given as ``bootstrap.servers``."""
        clients = ((node.config, node.config.client_listener) for node in self.nodes)
        there = ((config, client) for config, client in clients if client is not None)
        return ",".join(str(config.advertised_address(client.name)) for config, client in there)

    @property
    def controllers(self) -> tuple[Address, ...]:
        """The addresses of the controller listeners."""
        listeners = ((node.config, node.config.controller_listener) for node in self.nodes)
        return tuple(config.advertised_address(each.name) for config, each in listeners if each is not None)

    def node(self, node_id: int) -> LocalNode:
        """Raises WrongUsage if there is no such node."""
        for each in self.nodes:
            if each.node_id == node_id:
                return each
        known = ", ".join(str(each.node_id) for each in self.nodes)
        raise WrongUsage(f"there is no node {node_id} in {self.directory}; its nodes are {known}")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One command at a time starts or ends processes of this cluster; a second one waits."""
        with (self.directory / LOCK).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def exists(directory: Path) -> bool:
    """Whether there is a cluster in the folder. Raises Failed if the folder holds anything else."""
    if (directory / CLUSTER).exists():
        return True
    try:
        unexpected = sorted(each.name for each in directory.iterdir())
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise Failed(f"{directory} is not a folder; choose another --dir") from None
    if unexpected:
        raise Failed(
            f"{directory} is not a cluster's folder: it holds {', '.join(unexpected[:5])} and no {CLUSTER}; "
            f"choose another --dir"
        )
    return False


def open_cluster(directory: Path) -> LocalCluster:
    """Raises Unreadable: no cluster there, or not a whole one."""
    directory = directory.absolute()
    if not exists(directory):
        raise Unreadable(f"there is no cluster in {directory}; type: fencepost up --dir {directory}")
    try:
        content = json.loads((directory / CLUSTER).read_text("utf-8"))
        node_ids = range(1, int(content["node_count"]) + 1)
        nodes = tuple(_open_node(directory / "nodes" / str(node_id), NodeId(node_id)) for node_id in node_ids)
        return LocalCluster(directory, str(content["cluster_id"]), int(content["port"]), nodes)
    except ConfigError as error:  # says which file
        raise Unreadable(str(error)) from error
    except OSError as error:
        raise Unreadable(
            f"{error.filename or directory} cannot be read: {error.strerror}; {directory / CLUSTER} names it"
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{directory / CLUSTER} cannot be read: {error}") from error


def _open_node(directory: Path, node_id: NodeId) -> LocalNode:
    file = directory / CONFIG
    config = parse_properties(file.read_text("utf-8"), file)
    if config.node_id != node_id:
        raise ConfigError(f"{file}: expected node.id={node_id}, got {config.node_id}")
    return LocalNode(node_id, directory, config)


def create_cluster(
    directory: Path,
    node_count: int,
    port: int,
    overrides: Sequence[str] = (),
    *,
    own: Mapping[int, Sequence[str]] = MappingProxyType({}),
    files: Mapping[str, str] = MappingProxyType({}),
) -> LocalCluster:
    """Make and format a new cluster's folder. Starts nothing.

    ``overrides``: ``key=value`` lines for every node's configuration; a key given here replaces ours.
    ``own``: those of single nodes. ``files``: what lies beside them, by path, its owner's alone.
    Raises WrongUsage for an override or a port that no node can use.
    """
    directory = directory.absolute()
    require_node_count(node_count)
    cluster_id = id_text(random_id())
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    except OSError as error:
        raise Failed(f"{directory} cannot be made: {error}") from error
    try:
        write_durably(aside / SECRET, secrets.token_hex(SECRET_BYTES) + "\n", mode=0o600)
        for path, content in files.items():
            (aside / path).parent.mkdir(exist_ok=True)
            write_durably(aside / path, content, mode=0o600)
        voters = {NodeId(node_id): random_id() for node_id in range(1, node_count + 1)}
        for node_id, directory_id in voters.items():
            folder = aside / "nodes" / str(node_id)
            folder.mkdir(parents=True)
            text = _with_overrides(
                _configuration(node_id, node_count, port).render(), [*own.get(node_id, ()), *overrides]
            )
            try:
                config = parse_properties(text, folder / CONFIG)
            except ConfigError as error:
                raise WrongUsage(str(error).replace(f"{aside}/", f"{directory}/")) from error
            write_durably(folder / CONFIG, text)
            format_directories(config, cluster_id, directory_id=directory_id, initial_voters=voters)
        cluster = {"version": 1, "cluster_id": cluster_id, "node_count": node_count, "port": port}
        write_durably(aside / CLUSTER, json.dumps(cluster) + "\n")
        aside.chmod(0o755)
        aside.rename(directory)  # replaces an empty folder, fails on any other
    except (OSError, StorageError) as error:
        raise Failed(f"{directory} cannot be made: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # gone already if it was renamed
    return open_cluster(directory)


def require_node_count(node_count: int) -> None:
    """Raises WrongUsage."""
    if not 1 <= node_count <= VOTERS_MAX:
        raise WrongUsage(f"expected 1 to {VOTERS_MAX} nodes, got {node_count}")


def renamed_cluster(directory: Path, cluster_id: str) -> None:
    """The cluster has another id from now on. Raises OSError."""
    content = json.loads((directory / CLUSTER).read_text("utf-8"))
    write_durably(directory / CLUSTER, json.dumps(content | {"cluster_id": cluster_id}) + "\n")


def _configuration(node_id: NodeId, node_count: int, port: int) -> NodeConfig:
    def at(offset: int, node: int) -> Address:
        return Address(HOST, port + offset + node - 1)

    highest = port + METRICS_PORT_OFFSET + node_count - 1
    if port < 1 or highest > 65535:
        raise WrongUsage(f"--port {port}: the nodes' ports would go from {port} to {highest}")
    nodes = [NodeId(each) for each in range(1, node_count + 1)]
    return NodeConfig(
        node_id=node_id,
        roles=("controller", "broker"),
        log_directories=(Path("data"),),
        listeners=(
            ListenerAddress(PLAINTEXT, at(0, node_id)),
            ListenerAddress(CONTROLLER_LISTENER, at(CONTROLLER_PORT_OFFSET, node_id)),
        ),
        voters=tuple(Voter(each, at(RAFT_PORT_OFFSET, each)) for each in nodes),
        controller_bootstrap=tuple(at(CONTROLLER_PORT_OFFSET, each) for each in nodes),
        secret_file=Path("..") / ".." / SECRET,
        metrics_port=at(METRICS_PORT_OFFSET, node_id).port,
        allow_unreplicated=True,
        group_initial_rebalance_delay_ms=0,
    )


def _with_overrides(text: str, overrides: Sequence[str]) -> str:
    keys = {line.partition("=")[0].strip() for line in overrides}
    kept = [line for line in text.splitlines() if line.partition("=")[0] not in keys]
    return "\n".join([*kept, *overrides]) + "\n"


def require_startable(cluster: LocalCluster, nodes: Sequence[LocalNode]) -> None:
    """Everything that would keep a node from starting, said by name before anything starts.

    Raises Failed; PortsTaken if ports are all of it.
    """
    complaints = []
    taken = 0
    for node in nodes:
        try:
            identity = read_identity(node.config.directory)
            require_identity(
                node.config.directory, identity, cluster_id=cluster.cluster_id, node_id=node.node_id
            )
        except StorageError as error:
            complaints.append(f"node {node.node_id}: {error}")
        for purpose, address in node.ports().items():
            if not is_free(address):
                taken += 1
                complaints.append(
                    f"node {node.node_id}: port {address.port} ({purpose}) is in use by another program"
                )
    if complaints:
        kind = PortsTaken if taken == len(complaints) else Failed
        raise kind("\n       ".join(complaints))


def free_port(node_count: int, offsets: Sequence[int] = PORT_OFFSETS) -> int:
    """A ``--port`` of which all nodes' ports are free now, chosen at random. Raises Failed."""
    for port in random.sample(FREE_PORTS, len(FREE_PORTS)):
        ports = (port + offset + node for offset in offsets for node in range(node_count))
        if all(is_free(Address(HOST, each)) for each in ports):
            return port
    first, end = FREE_PORTS.start, FREE_PORTS.stop
    raise Failed(f"no free stretch of ports from {first} to {end}; give one with --port")


def is_free(address: Address) -> bool:
    """Whether a node could listen there now."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the node itself: TIME_WAIT is free
        try:
            probe.bind((address.host, address.port))
        except OSError:
            return False
        return True
