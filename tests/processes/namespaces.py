"""``make namespaces``: three nodes in three network namespaces, each with an inside and an outside listener.

Networks    INSIDE and OUTSIDE, two bridges. A node has an address on each; brokers, controllers and Raft use
            the inside. A client has an address on the outside alone, and knows hosts by name (/etc/netns).
Shown       a client that knows one outside name is given those of all brokers, commits a transaction to each
            of them and reads it; the inside cannot be reached from there, and from there the names of the
            outside are not given. A leader whose links are down is followed by another one.
Needs       the right to make namespaces (CAP_SYS_ADMIN, CAP_NET_ADMIN) and ``ip``: else NOT RUN, with the
            error. Namespaces, names and processes go at the end, whatever came of it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click

from fencepost.cluster.local_cluster import LocalCluster, create_cluster

NODES: Final = (1, 2, 3)
INSIDE, OUTSIDE = 1, 2  # networks, and the third byte of their addresses
SWITCH, CLIENT, NEIGHBOUR = "switch", "client", "neighbour"  # namespaces beside the nodes'
LAST_BYTE: Final = {CLIENT: 9, NEIGHBOUR: 8}
CLIENT_PORT, CONTROLLER_PORT, RAFT_PORT = 9092, 9093, 9094
OUTSIDE_PORT: Final = 19092
HOSTS: Final = Path("/etc/netns")
COMMAND_S: Final = 60.0
TRIES_MAX: Final = 60
PAUSE_S: Final = 0.5
PARTITIONS: Final = 6
NO_NODE: Final = -1


class NotAllowed(Exception):
    """This machine makes no namespaces for us."""


class Failed(Exception):
    """What was to be shown is not so."""


def address(network: int, host: int) -> str:
    """Of a node, by its id, or a client."""
    return f"10.231.{network}.{host}"


def name(node_id: int) -> str:
    """What a client of the outside knows a node by."""
    return f"kafka-{node_id}.outside.test"


class Networks:
    """The namespaces; their names begin with this process's id."""

    def __init__(self) -> None:
        self._prefix = f"fencepost-{os.getpid()}-"
        self.all = [SWITCH, *map(str, NODES), CLIENT, NEIGHBOUR]

    def of(self, which: object) -> str:
        """The name of a namespace."""
        return f"{self._prefix}{which}"

    def make(self) -> None:
        """Raises NotAllowed, with what the system said."""
        try:
            for each in self.all:
                _ip("netns", "add", self.of(each))
            lines = ["link add inside type bridge", "link add outside type bridge"]
            lines += ["link set inside up", "link set outside up"]
            for node_id in NODES:
                lines += self._linked(str(node_id), INSIDE, node_id) + self._linked(
                    str(node_id), OUTSIDE, node_id
                )
            lines += self._linked(CLIENT, OUTSIDE, LAST_BYTE[CLIENT])
            lines += self._linked(NEIGHBOUR, INSIDE, LAST_BYTE[NEIGHBOUR])
            _ip("-n", self.of(SWITCH), "-batch", "-", given="\n".join(lines))
            for each in self.all:
                _ip("-n", self.of(each), "link", "set", "lo", "up")
            for which, network, host in self._ends():
                device = _device(network)
                _ip("-n", self.of(which), "addr", "add", f"{address(network, host)}/24", "dev", device)
                _ip("-n", self.of(which), "link", "set", device, "up")
            folder = HOSTS / self.of(CLIENT)
            folder.mkdir(parents=True)
            names = "".join(f"{address(OUTSIDE, each)} {name(each)}\n" for each in NODES)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}", "utf-8")
        except OSError as error:
            raise NotAllowed(str(error)) from error

    def _linked(self, which: str, network: int, host: int) -> list[str]:
        """From the switch: a link whose other end is the device of that namespace."""
        end, bridge = f"{_device(network)[0]}{host}", _device(network)
        return [
            f"link add {end} type veth peer name {bridge} netns {self.of(which)}",
            f"link set {end} master {bridge}",
            f"link set {end} up",
        ]

    def _ends(self) -> Iterator[tuple[str, int, int]]:
        for node_id in NODES:
            yield str(node_id), INSIDE, node_id
            yield str(node_id), OUTSIDE, node_id
        yield CLIENT, OUTSIDE, LAST_BYTE[CLIENT]
        yield NEIGHBOUR, INSIDE, LAST_BYTE[NEIGHBOUR]

    def cut(self, node_id: int) -> None:
        """Both of its links are down."""
        for network in (INSIDE, OUTSIDE):
            _ip("-n", self.of(SWITCH), "link", "set", f"{_device(network)[0]}{node_id}", "down")

    def run(self, which: str, *command: str) -> str:
        """Its output. Raises Failed."""
        ended = subprocess.run(
            self._inside(which, *command), capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        if ended.returncode:
            raise Failed(f"{command[:3]} in {which}: {ended.stderr[-2_000:] or ended.stdout[-2_000:]}")
        return ended.stdout

    def launch(self, which: str, log: Path, *command: str) -> subprocess.Popen[bytes]:
        """A process that stays."""
        with log.open("wb") as file:
            return subprocess.Popen(
                self._inside(which, *command), stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    def _inside(self, which: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.of(which), *command]

    def remove(self) -> None:
        """What is there."""
        for each in self.all:
            with suppress(OSError):
                _ip("netns", "delete", self.of(each))
        shutil.rmtree(HOSTS / self.of(CLIENT), ignore_errors=True)


def _device(network: int) -> str:
    return {INSIDE: "inside", OUTSIDE: "outside"}[network]


def _ip(*arguments: str, given: str | None = None) -> None:
    ended = subprocess.run(
        ["ip", *arguments], input=given, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    if ended.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {ended.stderr.strip()}")


def cluster(folder: Path) -> LocalCluster:
    """Not started."""
    voters = ",".join(f"{each}@{address(INSIDE, each)}:{RAFT_PORT}" for each in NODES)
    shared = (
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name=INSIDE",
        f"controller.quorum.voters={voters}",
        "controller.quorum.bootstrap.servers="
        + ",".join(f"{address(INSIDE, each)}:{CONTROLLER_PORT}" for each in NODES),
        "fencepost.allow.insecure.listeners=true",
    )
    own = {
        each: (
            (
                f"listeners=INSIDE://{address(INSIDE, each)}:{CLIENT_PORT},"
                f"OUTSIDE://{address(OUTSIDE, each)}:{OUTSIDE_PORT},"
                f"CONTROLLER://{address(INSIDE, each)}:{CONTROLLER_PORT}"
            ),
            (
                f"advertised.listeners=INSIDE://{address(INSIDE, each)}:{CLIENT_PORT},"
                f"OUTSIDE://{name(each)}:{OUTSIDE_PORT}"
            ),
        )
        for each in NODES
    }
    return create_cluster(folder, len(NODES), 9_000, shared, own=own)


@contextmanager
def nodes(networks: Networks, made: LocalCluster) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Each in its namespace; ended."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for node in made.nodes:
            config = node.directory / "node.properties"
            command = (sys.executable, "-P", "-m", "fencepost.cli.main", "node", "--config", str(config))
            running[node.node_id] = networks.launch(str(node.node_id), node.directory / "output", *command)
        yield running
    finally:
        for each in running.values():
            each.kill()
            each.wait()


def client(bootstrap: str, *, writes: bool) -> tuple[str, ...]:
    """The command: see namespace_client.py."""
    return sys.executable, "-m", "tests.processes.namespace_client", bootstrap, str(int(writes))


def as_client(networks: Networks, which: str, bootstrap: str, *, writes: bool = True) -> dict[str, Any]:
    """What a client there sees; it is waited for until the cluster is there."""
    for _ in range(TRIES_MAX):
        found: dict[str, Any] = json.loads(networks.run(which, *client(bootstrap, writes=writes)))
        if "error" not in found:
            return found
        time.sleep(PAUSE_S)
    raise Failed(f"a client of {which}: {found['error']}")


def require(what: str, seen: object, wanted: object) -> None:
    """Raises Failed."""
    if seen != wanted:
        raise Failed(f"{what}: {seen}, not {wanted}")
    click.echo(f"{what}: {seen}")


def show(networks: Networks, running: dict[int, subprocess.Popen[bytes]]) -> None:
    """Raises Failed."""
    outside = sorted([name(each), OUTSIDE_PORT] for each in NODES)
    inside = sorted([address(INSIDE, each), CLIENT_PORT] for each in NODES)
    found = as_client(networks, CLIENT, f"{name(2)}:{OUTSIDE_PORT}")
    require("brokers by the outside's names", found["brokers"], outside)
    require("partitions with a transaction's record", found["read"], list(range(PARTITIONS)))
    neighbours = f"{address(INSIDE, 3)}:{CLIENT_PORT}"
    found = as_client(networks, NEIGHBOUR, neighbours, writes=False)
    require("brokers by the inside's addresses", found["brokers"], inside)
    unreached = json.loads(networks.run(CLIENT, *client(neighbours, writes=False)))
    require("the inside is reached from the outside", "error" not in unreached, False)
    leader = found["coordinator"]
    networks.cut(leader)
    other = next(each for each in NODES if each != leader)
    for _ in range(TRIES_MAX):
        now = as_client(networks, CLIENT, f"{name(other)}:{OUTSIDE_PORT}", writes=False)["coordinator"]
        if now not in (leader, NO_NODE):
            break
        time.sleep(PAUSE_S)
    require("another one leads when the leader's links are down", now not in (leader, NO_NODE), True)
    require("nodes that run", [each for each in NODES if running[each].poll() is None], list(NODES))


@click.command()
def main() -> None:
    """Exit status: 0 shown, or NOT RUN, with the reason; 1 it is not so."""
    networks = Networks()
    try:
        networks.make()
        with tempfile.TemporaryDirectory(prefix="fencepost-namespaces-") as folder:
            made = cluster(Path(folder) / "cluster")
            with nodes(networks, made) as running:
                show(networks, running)
    except (NotAllowed, FileNotFoundError) as error:
        click.echo(f"NOT RUN: {error}")
    except Failed as error:
        raise click.ClickException(str(error)) from error
    finally:
        with suppress(FileNotFoundError):
            networks.remove()


if __name__ == "__main__":
    main()
