"""``make demo``: three processes elect a leader, it dies; no id is given twice, no transaction is torn.

What is counted   every producer id that any client here received: one by one from the brokers
                  (InitProducerId), block by block from the controller (AllocateProducerIds), and the
                  ids of three real Kafka clients. Duplicates are counted over all of them.
Transactions      of real producers that go on through all of this: see cli.demo_transactions.
Time without a leader   from the SIGKILL to the end of the first allocation that was begun after it.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import Final

import click

from fencepost.bench.demo_transactions import PARTITIONS, PRODUCERS, Verdict, Writers, check
from fencepost.client.transactional_producer import Outcome
from fencepost.cluster.console import Failed, progress, table
from fencepost.cluster.controllers import client_of
from fencepost.cluster.lifecycle import bring_up, send, start_nodes, stop_nodes
from fencepost.cluster.local_cluster import LocalCluster, create_cluster, free_port
from fencepost.cluster.state import await_live, leader_id, state
from fencepost.cluster.target import brokers_of, controllers_of
from fencepost.controller.brokers import Endpoint, RegisterBroker
from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, NodeId
from fencepost.settings.config import Address
from fencepost.snapshots.history import Allocation, producer_id_history
from fencepost.wire.client import Connection, ConnectionLost, ControllerClient, RequestTimeout
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS

NODES: Final = 3
BLOCK_LENGTH: Final = 100  # small, so that a few seconds show many blocks
CALM_SECONDS: Final = 1.5
ALLOCATION_SECONDS_MAX: Final = 20.0
ASKER_ID: Final = BrokerId(1000)
SETTINGS: Final = (
    f"producer.id.block.size={BLOCK_LENGTH}",
    "producer.id.allocation.rate=0",
    f"num.partitions={PARTITIONS}",
)
RETRY_SECONDS: Final = 0.02


@dataclass(slots=True)
class Received:
    """Every id that clients received."""

    by_broker: dict[NodeId, list[int]] = field(default_factory=dict)
    blocks: list[ProducerIdBlock] = field(default_factory=list)
    real_clients: dict[str, int] = field(default_factory=dict)

    def ids(self) -> Iterator[int]:
        """Every id, as often as a client received it."""
        yield from self.real_clients.values()
        for ids in self.by_broker.values():
            yield from ids
        for block in self.blocks:
            yield from range(block.first, block.first + block.length)


def play(*, keep: bool) -> int:
    """The demo on a new cluster. Returns the exit status; ``keep`` leaves the cluster's folder."""
    home = Path(tempfile.mkdtemp(prefix="fencepost-demo-"))
    cluster = create_cluster(home / "cluster", NODES, free_port(NODES), SETTINGS)
    try:
        return _show(cluster)
    finally:
        stop_nodes(cluster.nodes)
        if keep:
            click.echo(f"The cluster's folder is {cluster.directory}", err=True)
        else:
            shutil.rmtree(home)


def _show(cluster: LocalCluster) -> int:
    began = time.monotonic()
    bring_up(cluster)
    click.echo(
        f"1. {NODES} processes elected a leader and are live after {time.monotonic() - began:.1f} s:\n"
    )
    click.echo(_nodes(cluster))
    received = Received()
    click.echo("\n2. Idempotent producers, made by real Kafka clients, got their producer ids:\n")
    _ask_real_clients(cluster, received)
    with Writers(brokers_of(cluster)) as writers:
        asyncio.run(_story(cluster, received, writers))
        writers.stop()
    click.echo("\n5. The log, read back from the archives of all nodes: who was given how many blocks:\n")
    click.echo(_blocks_per_broker(cluster))
    verdict = check(writers.target, writers.outcomes)
    click.echo("\n6. What became of the transactions, and what a read_committed consumer sees of them:\n")
    _print_verdict(verdict)
    counts = Counter(received.ids())
    duplicates = sum(count - 1 for count in counts.values())
    click.echo(f"ids handed out {counts.total()}, duplicates {duplicates}")
    return 0 if duplicates == 0 and not verdict.faults else 1


def _print_verdict(verdict: Verdict) -> None:
    click.echo(verdict.lines())
    for fault in verdict.faults:
        click.echo(fault)
    ended, seen = verdict.ended, verdict.seen
    click.echo(
        f"\ntransactions committed {ended[Outcome.COMMITTED]}, seen {seen[Outcome.COMMITTED]}; "
        f"aborted {ended[Outcome.ABORTED]}, seen {seen[Outcome.ABORTED]} "
        f"({verdict.hidden} records are hidden); torn or repeated {len(verdict.faults)}"
    )


def _nodes(cluster: LocalCluster) -> str:
    rows = [
        (node["node_id"], node["pid"] or "-", node["client"], "leader" if node["leader"] else node["status"])
        for node in state(cluster)["nodes"]
    ]
    return table(("NODE", "PID", "LISTENER", "STATUS"), rows)


def _ask_real_clients(cluster: LocalCluster, received: Received) -> None:
    from fencepost.bench.demo_clients import CLIENTS

    for name, ask in CLIENTS.items():
        try:
            received.real_clients[name] = ask(cluster.bootstrap)
        except ModuleNotFoundError:
            click.echo(f"   {name:<16} is not installed (it comes with fencepost[test])")
        except TimeoutError as error:
            raise Failed(str(error)) from error
        else:
            click.echo(f"   {name:<16} producer id {received.real_clients[name]}")


async def _story(cluster: LocalCluster, received: Received, writers: Writers) -> None:
    """Load, the death of the leader, its return; under load and transactions all the time."""
    ended = asyncio.Event()
    client = client_of(controllers_of(cluster))
    asker = await _register(cluster, client)
    load = [asyncio.create_task(_take_ids(node.node_id, _address(cluster, node.node_id), received, ended))
            for node in cluster.nodes]  # fmt: skip
    load.append(asyncio.create_task(_take_blocks(client, asker, received, ended)))
    try:
        await asyncio.sleep(CALM_SECONDS)
        click.echo("\n3. Producers ask every broker for ids, and one client the controller for blocks:\n")
        click.echo(_so_far(received))
        before = writers.count().total()
        click.echo(f"\n   {PRODUCERS} transactional producers ended {before} transactions meanwhile.")
        gap_s, dead = await _kill_leader(cluster, asker, received)
        click.echo(
            f"\n4. kill -9 of node {dead}, the leader. The next allocation took {gap_s * 1000:.0f} ms."
        )
        await asyncio.to_thread(_bring_back, cluster, dead)
        click.echo(f"   Node {dead} is back; node {await asyncio.to_thread(leader_id, cluster)} leads.")
        await asyncio.sleep(CALM_SECONDS)
        after = writers.count().total() - before
        click.echo(f"   The transactional producers went on: {after} transactions since the kill.")
    finally:
        ended.set()
        await asyncio.gather(*load)
        await client.close()


async def _register(cluster: LocalCluster, client: ControllerClient) -> AllocateProducerIds:
    """Register the demo's own client, which hosts nothing: only a registered broker may allocate blocks."""
    request = RegisterBroker(
        broker_id=ASKER_ID,
        cluster_id=cluster.cluster_id,
        incarnation_id=uuid.uuid4(),
        directory_id=uuid.uuid4(),
        endpoints=(Endpoint("NONE", "127.0.0.1", 1),),
    )
    epoch = await client.call(BROKER_REGISTRATION, request, timeout_s=ALLOCATION_SECONDS_MAX)
    return AllocateProducerIds(ASKER_ID, BrokerEpoch(epoch))


async def _take_ids(node_id: NodeId, address: Address, received: Received, ended: asyncio.Event) -> None:
    """Ask one broker for producer ids, one after the other, whatever happens to it."""
    ids = received.by_broker.setdefault(node_id, [])
    question = InitProducerId(transactional_id=None, transaction_timeout_ms=60_000)
    while not ended.is_set():
        try:
            connection = await Connection.open(address.host, address.port, timeout_s=1.0)
        except ConnectionLost:
            await asyncio.sleep(RETRY_SECONDS)
            continue
        with contextlib.suppress(ConnectionLost, RequestTimeout):
            while not ended.is_set():
                try:
                    answer = await connection.call(INIT_PRODUCER_ID, question, timeout_s=1.0)
                    ids.append(answer.producer_id)
                except ApiError:  # no block at hand at the moment: ask again soon
                    await asyncio.sleep(RETRY_SECONDS)
        connection.close()


async def _take_blocks(
    client: ControllerClient, asker: AllocateProducerIds, received: Received, ended: asyncio.Event
) -> None:
    while not ended.is_set():
        block = await client.call(ALLOCATE_PRODUCER_IDS, asker, timeout_s=ALLOCATION_SECONDS_MAX)
        received.blocks.append(block)
        await asyncio.sleep(RETRY_SECONDS)


async def _kill_leader(
    cluster: LocalCluster, asker: AllocateProducerIds, received: Received
) -> tuple[float, NodeId]:
    """SIGKILL, then allocate once, with a client that knows nothing yet. Returns the seconds it took."""
    leader = await asyncio.to_thread(leader_id, cluster)
    if leader is None:
        raise Failed("no node leads")
    client = client_of(controllers_of(cluster))
    try:
        killed_at = time.monotonic()
        send(cluster.node(leader), SIGKILL)
        block = await client.call(ALLOCATE_PRODUCER_IDS, asker, timeout_s=ALLOCATION_SECONDS_MAX)
        received.blocks.append(block)
        return time.monotonic() - killed_at, leader
    finally:
        await client.close()


def _bring_back(cluster: LocalCluster, dead: NodeId) -> None:
    children = start_nodes(cluster, [cluster.node(dead)])
    with progress() as show:
        await_live(cluster, children, show)


def _so_far(received: Received) -> str:
    rows = [(f"broker {node_id}", f"{len(ids)} ids") for node_id, ids in sorted(received.by_broker.items())]
    rows.append(("controller", f"{len(received.blocks)} blocks of {BLOCK_LENGTH}"))
    return table(("SOURCE", "GAVE SO FAR"), rows)


def _blocks_per_broker(cluster: LocalCluster) -> str:
    blocks: Counter[BrokerId] = Counter()
    for item in producer_id_history([node.config.directory for node in cluster.nodes]):
        if isinstance(item, Allocation):
            blocks[item.broker_id] += 1
    names = {ASKER_ID: "the client of the controller"} | {
        BrokerId(node.node_id): f"broker {node.node_id}" for node in cluster.nodes
    }
    rows = [(names[broker_id], count, count * BLOCK_LENGTH) for broker_id, count in sorted(blocks.items())]
    return table(("BROKER", "BLOCKS", "IDS"), rows)


def _address(cluster: LocalCluster, node_id: NodeId) -> Address:
    return cluster.node(node_id).ports()["client"]
