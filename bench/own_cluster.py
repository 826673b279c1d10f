"""The cluster that a bench measures: its own, made and started as ``fencepost up`` does, with the quota off.

Brokers   of the load are registered and nothing else: they stay fenced, no client sees them, and a fenced
          broker may allocate, as in Kafka.
Disk      a file system in memory makes every flush free; a temporary directory there is not used.
"""

import random
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Final

import click

from fencepost.cluster.console import Failed, WrongUsage
from fencepost.cluster.controllers import ask, run
from fencepost.cluster.lifecycle import bring_up, stop_nodes
from fencepost.cluster.local_cluster import (
    HOST,
    PORT_OFFSETS,
    LocalCluster,
    create_cluster,
    exists,
    free_port,
)
from fencepost.cluster.target import TEMPORARY_ID_FIRST, TEMPORARY_ID_LAST, Target
from fencepost.controller.brokers import Endpoint, RegisterBroker, UnregisterBroker
from fencepost.records.types import BrokerEpoch, BrokerId, NodeId
from fencepost.wire.client import ControllerClient
from fencepost.wire.k60_describe_cluster import CONTROLLERS, DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER

QUOTA_OFF: Final = "producer.id.allocation.rate=0"
STOCK_PORT_OFFSET: Final = 400  # of the stock pysyncobj nodes that are measured beside ours
BENCH_PORT_OFFSETS: Final = (*PORT_OFFSETS, STOCK_PORT_OFFSET)
ASK_SECONDS: Final = 10.0
IN_MEMORY: Final = frozenset(("tmpfs", "ramfs"))
ON_DISK: Final = Path("/var/tmp")  # noqa: S108 - the directory is made by mkdtemp


@dataclass(frozen=True, slots=True)
class OwnCluster:
    """A cluster that was started for a bench, and the processes of its nodes."""

    cluster: LocalCluster
    children: dict[NodeId, Popen[bytes]]


@contextmanager
def workspace(cluster_directory: Path | None) -> Iterator[Path]:
    """A temporary directory on a disk, the one the cluster will be on; gone afterwards."""
    root = Path(tempfile.gettempdir())
    if cluster_directory is not None:
        root = cluster_directory.absolute().parent
    elif filesystem(root) in IN_MEMORY and ON_DISK.is_dir():
        root = ON_DISK
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-", dir=root) as directory:
        yield Path(directory)


@contextmanager
def own_cluster(
    work: Path,
    node_count: int,
    port: int | None,
    directory: Path | None,
    settings: Sequence[str] = (),
) -> Iterator[OwnCluster]:
    """Create and start a cluster; end it on leaving. In ``directory``, if given, it stays on disk.

    ``settings``: ``key=value`` lines for its nodes, beside ours.
    """
    if directory is not None and exists(directory):
        raise WrongUsage(
            f"{directory} holds a cluster already; the bench makes its own: choose another --dir"
        )
    place = directory or work / "cluster"
    cluster = create_cluster(
        place, node_count, port or free_port(node_count, BENCH_PORT_OFFSETS), (QUOTA_OFF, *settings)
    )
    try:
        yield OwnCluster(cluster, bring_up(cluster))
    finally:
        stop_nodes(cluster.nodes)


def filesystem(path: Path) -> str:
    """The type of the file system that ``path`` is on, ``unknown`` where /proc does not say."""
    wanted = path.resolve()
    best, kind = "", "unknown"
    try:
        for line in Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines():
            _, mounted, found, *_ = line.split(" ")
            if wanted.is_relative_to(mounted) and len(mounted) >= len(best):
                best, kind = mounted, found
    except OSError:
        pass
    return kind


def controllers(target: Target) -> tuple[dict[int, tuple[str, int]], int]:
    """The controller listeners by node id, and which node leads, as that node says."""
    answer = ask(target, DESCRIBE_CLUSTER, DescribeCluster(endpoint_type=CONTROLLERS), timeout_s=ASK_SECONDS)
    nodes = {node.broker_id: (node.host, node.port) for node in answer.brokers}
    if answer.controller_id not in nodes:
        raise Failed(
            f"{target.name}: node {answer.controller_id} leads, and is not among nodes {sorted(nodes)}"
        )
    return nodes, answer.controller_id


def register_brokers(target: Target, count: int) -> list[tuple[int, int]]:
    """Register brokers TEMPORARY_ID_FIRST and up. Returns (broker id, epoch) of each."""
    ids = range(TEMPORARY_ID_FIRST, TEMPORARY_ID_FIRST + count)
    return run(target, lambda client: _register(client, ids))


@contextmanager
def temporary_broker(target: Target) -> Iterator[tuple[int, int]]:
    """A broker of ours in another cluster: under an id that no broker has, unregistered on leaving."""
    broker_id = random.randint(TEMPORARY_ID_FIRST, TEMPORARY_ID_LAST)
    (broker,) = run(target, lambda client: _register(client, (broker_id,)))
    try:
        yield broker
    finally:
        leave = UnregisterBroker(BrokerId(broker_id))
        try:
            ask(target, UNREGISTER_BROKER, leave, timeout_s=ASK_SECONDS)
        except click.ClickException as error:  # the figures are worth more than a broker that stays fenced
            click.echo(f"broker {broker_id} stays registered: {error.format_message()}", err=True)


async def _register(client: ControllerClient, broker_ids: Sequence[int]) -> list[tuple[int, int]]:
    cluster = await client.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=ASK_SECONDS)
    epochs: list[tuple[int, int]] = []
    for broker_id in broker_ids:
        broker = RegisterBroker(
            broker_id=BrokerId(broker_id),
            cluster_id=cluster.cluster_id,
            incarnation_id=uuid.uuid4(),
            directory_id=uuid.uuid4(),
            endpoints=(Endpoint("NONE", HOST, 1),),  # one is demanded
        )
        epoch: BrokerEpoch = await client.call(BROKER_REGISTRATION, broker, timeout_s=ASK_SECONDS)
        epochs.append((broker_id, epoch))
    return epochs


def new_history(work: Path, wanted: Path | None) -> Path:
    """The history's file, empty: what the user wants, else one that goes with the workspace."""
    file = (wanted or work / "history.jsonl").absolute()
    try:
        file.write_bytes(b"")
    except OSError as error:
        raise WrongUsage(f"--history: {error}") from error
    return file
