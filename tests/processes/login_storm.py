"""``make login-storm``: a thousand failed logins a second, from many addresses, beside clients that work.

Cluster    three nodes that want logins, by PLAIN or SCRAM, with CONNECTIONS_MAX connections of each listener.
Storm      a process of its own, which opens connections from 127.0.0.x to all nodes in turn: unknown users,
           wrong passwords, by both mechanisms. Some logins never end.
Served     an application that commits transactions, and clients that have logged in and are idle: one on each
           node.
Shown      no transaction fails, no idle client is closed, no leader changes, each failed login is answered
           with SASL_AUTHENTICATION_FAILED or closed, sockets and memory of the nodes stay within bounds. How
           long transactions take beside the storm, and without it, is printed.
"""

import asyncio
import base64
import itertools
import multiprocessing
import random
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from kio.schema.api_versions.v3.request import ApiVersionsRequest

from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from tests.harness.nodes import CALM, Nodes, running
from tests.processes.raw_client import RawClient
from tests.secret_files import write_secret

USER: Final = ("alice", "alice-password")
CONNECTIONS_MAX: Final = 400
OWN_DESCRIPTORS_MAX: Final = 150  # of a node, beside its clients' sockets
UNDER_WAY_MAX: Final = 1500  # logins, over all nodes: more than they have room for
GROWTH_KIB_MAX: Final = 48 * 1024
ADDRESSES: Final = 50
TURN_S: Final = 0.02
LOGIN_S: Final = 60.0
REFUSED: Final = 58
KINDS: Final = ("PLAIN", "SCRAM-SHA-256", "unended")


def framed(key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih", key, version, 7, -1) + body
    return struct.pack(">i", len(frame)) + frame


def texted(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def token(content: bytes) -> bytes:
    """SaslAuthenticate, version 1."""
    return framed(36, 1, struct.pack(">i", len(content)) + content)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """What follows the correlation id. Raises IncompleteReadError: the connection is closed."""
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return (await reader.readexactly(length))[4:]


async def failing_login(address: tuple[str, int], source: str, kind: str, name: str) -> str:
    """What came of it."""
    reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
    try:
        mechanism = "PLAIN" if kind == "unended" else kind
        writer.write(framed(17, 1, texted(mechanism.encode())))
        await answer(reader)
        if kind == "unended":
            await reader.read()
            return "closed before it logged in"
        if kind == "PLAIN":
            writer.write(token(f"\0{name}\0wrong".encode()))
        else:
            writer.write(token(f"n,,n={name},r=abcdef".encode()))
            first = (await answer(reader)).split(b"r=", 1)[1].split(b",")[0]
            proof = base64.b64encode(bytes(32))
            writer.write(token(b"c=biws,r=" + first + b",p=" + proof))
        (code,) = struct.unpack(">h", (await answer(reader))[:2])
        return f"answered {code}"
    except (asyncio.IncompleteReadError, ConnectionError):
        return "closed"
    finally:
        writer.close()


async def _storm(addresses: list[tuple[str, int]], rate: int, seconds: float) -> Counter[str]:
    """So many logins begin each second, unless UNDER_WAY_MAX have not ended."""
    outcomes: Counter[str] = Counter()
    under_way: set[asyncio.Task[None]] = set()

    async def one(number: int) -> None:
        kind = KINDS[2] if number % 50 == 0 else KINDS[number % 2]
        name = "alice" if number % 3 == 0 else f"user-{random.randrange(10**6)}"
        try:
            async with asyncio.timeout(LOGIN_S):
                source = f"127.0.0.{2 + number % ADDRESSES}"
                outcomes[await failing_login(addresses[number % len(addresses)], source, kind, name)] += 1
        except OSError as error:
            outcomes[type(error).__name__] += 1

    begin = time.monotonic()
    numbers = itertools.count()
    due = 0
    while (passed := time.monotonic() - begin) < seconds:
        while due < passed * rate:
            due += 1
            if len(under_way) >= UNDER_WAY_MAX:
                outcomes["not begun"] += 1
                continue
            task = asyncio.create_task(one(next(numbers)))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.sleep(TURN_S)
    for each in under_way:
        each.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*under_way, return_exceptions=True)
    return outcomes


def storm(addresses: list[tuple[str, int]], rate: int, seconds: float) -> Counter[str]:
    """Of a process of its own."""
    return asyncio.run(_storm(addresses, rate, seconds))


class Served(threading.Thread):
    """Transactions one after the other. ``latencies_s`` by what is going on."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(name="served")
        self.latencies_s: dict[str, list[float]] = {}
        self.failed: list[str] = []
        self.phase = ""
        self._nodes = nodes
        self._is_over = threading.Event()

    def run(self) -> None:
        settings: dict[str, Any] = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER[0],
            "sasl.password": USER[1],
        }
        producer = TransactionalProducer(self._nodes.bootstrap, "served", settings)
        while not self._is_over.is_set():
            phase, begin = self.phase, time.monotonic()
            outcome = producer.write([Record("t", b"x" * 100)] * 10)
            if outcome is not Outcome.COMMITTED:
                self.failed.append(f"{phase}: {outcome}")
            self.latencies_s.setdefault(phase, []).append(time.monotonic() - begin)

    def end(self) -> None:
        self._is_over.set()
        self.join()

    def line(self, phase: str) -> str:
        found = sorted(self.latencies_s.get(phase, []))
        if not found:
            return f"{phase}: no transaction"
        middle, late = statistics.median(found), found[int(len(found) * 0.99)]
        times = f"{middle * 1e3:.0f} ms in the median, 99 % {late * 1e3:.0f} ms"
        return f"{phase}: {len(found)} transactions, {times}"


def sockets_of(nodes: Nodes, node: int) -> int:
    """Open descriptors of the node's process."""
    return sum(1 for _ in Path(f"/proc/{nodes.pid(node)}/fd").iterdir())


def watched(nodes: Nodes, rate: int, seconds: float, served: Served) -> tuple[Counter[str], int, int]:
    """The storm's outcomes, and the most descriptors and KiB that a node had meanwhile."""
    addresses = [nodes.address(each, "client") for each in nodes.node_ids]
    sockets, memory = 0, 0
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(time.time).result()
        served.phase = "storm"
        coming = pool.submit(storm, addresses, rate, seconds)
        while not coming.done():
            sockets = max(sockets, *(sockets_of(nodes, each) for each in nodes.node_ids))
            memory = max(memory, *(nodes.rss_anon_kib(each) for each in nodes.node_ids))
            time.sleep(0.2)
        served.phase = "after"
        return coming.result(), sockets, memory


def problems_of(outcomes: Counter[str], sockets: int, growth: int, served: Served) -> list[str]:
    """What is not as it is to be."""
    found = list(served.failed[:5])
    strange = {
        each for each in outcomes if not each.startswith(("closed", "not begun", f"answered {REFUSED}"))
    }
    if strange:
        found.append(f"logins ended so: {sorted(strange)}")
    if not outcomes[f"answered {REFUSED}"]:
        found.append("no login was refused")
    if sockets > CONNECTIONS_MAX + OWN_DESCRIPTORS_MAX:
        found.append(f"a node had {sockets} descriptors")
    if growth > GROWTH_KIB_MAX:
        found.append(f"a node grew by {growth} KiB")
    return found


def show(nodes: Nodes, rate: int, seconds: float) -> list[str]:
    """Returns what is wrong."""
    leadership = nodes.leadership()
    before = max(nodes.rss_anon_kib(each) for each in nodes.node_ids)
    idle = [RawClient(nodes.address(each, "client"), USER) for each in nodes.node_ids]
    served = Served(nodes)
    served.phase = "warming up"
    served.start()
    try:
        time.sleep(2)
        served.phase = "quiet"
        time.sleep(seconds)
        outcomes, sockets, memory = watched(nodes, rate, seconds, served)
        time.sleep(2)
    finally:
        served.end()
    for phase in ("quiet", "storm", "after"):
        click.echo(served.line(phase))
    click.echo(f"logins in {seconds:g} s: {dict(outcomes)}")
    click.echo(f"at most {sockets} descriptors, {memory} KiB of a node ({before} KiB before)")
    problems = problems_of(outcomes, sockets, memory - before, served)
    for client in idle:
        try:
            client.call(ApiVersionsRequest(client_software_name="idle", client_software_version="1"))
        except (OSError, struct.error, ValueError) as error:
            problems.append(f"an idle client was closed: {error!r}")
        client.__exit__()
    if nodes.leadership() != leadership:
        problems.append("another node leads")
    return problems


@click.command()
@click.option("--rate", default=1000, help="logins a second")
@click.option("--seconds", default=15.0)
def main(rate: int, seconds: float) -> None:
    """Exit status: 0 shown; 1 it is not so."""
    with tempfile.TemporaryDirectory(prefix="fencepost-logins-") as home:
        folder = Path(home)
        users = write_secret(folder / "users", f"{'='.join(USER)}\nbroker=broker-password\n")
        write_secret(folder / "broker", "broker-password\n")
        settings = (
            "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
            f"sasl.plain.users.file={users}",
            "sasl.username=broker",
            f"sasl.password.file={folder / 'broker'}",
            f"max.connections={CONNECTIONS_MAX}",
        )
        with running(folder / "cluster", *settings, *CALM) as nodes:
            problems = show(nodes, rate, seconds)
    if problems:
        raise click.ClickException("; ".join(problems))


if __name__ == "__main__":
    sys.exit(main())
