"""A cluster of ours that has lived: three nodes, traffic of all kinds, the leader killed and started again.

``python -m tests.audit.faults.cluster [--groups]`` packs the directories of such a cluster as a fixture:
of producers of all kinds, or of groups that commit offsets in transactions.
"""

import contextlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from signal import SIGKILL
from typing import Final

import click

from fencepost.cluster.console import progress
from fencepost.cluster.lifecycle import bring_up, send, start_nodes, stop_nodes
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.cluster.state import await_live, leader_id
from fencepost.records.types import NodeId
from tests.audit.kafka.fixture import pack, unpack
from tests.audit.kafka.group_traffic import GroupTraffic
from tests.audit.kafka.traffic import CODECS, OPEN_MS, Traffic
from tests.ports import cluster_port

__all__ = ["GROUPS", "OPEN_MS", "PACKED", "bring_back", "kill_leader", "live", "running", "unpacked"]

PACKED: Final = Path(__file__).parent / "fencepost.tar.gz"
GROUPS: Final = Path(__file__).parent / "groups.tar.gz"
NODES: Final = 3
ROUNDS: Final = 9
TOPICS: Final = (*(f"codec-{codec}" for codec in CODECS), "payments")
SETTINGS: Final = ("producer.id.block.size=3", "producer.id.allocation.rate=0")


@contextlib.contextmanager
def running(directory: Path, settings: Sequence[str] = SETTINGS) -> Iterator[LocalCluster]:
    """Three nodes, up; ended at the end."""
    cluster = create_cluster(directory, NODES, cluster_port(), settings)
    try:
        bring_up(cluster)
        yield cluster
    finally:
        stop_nodes(cluster.nodes)


def kill_leader(cluster: LocalCluster) -> NodeId:
    """SIGKILL. Returns whom."""
    leader = leader_id(cluster)
    if leader is None:
        raise RuntimeError("no node leads")
    send(cluster.node(leader), SIGKILL)
    return leader


def bring_back(cluster: LocalCluster, node_id: NodeId) -> None:
    """Start it again; returns when it is live."""
    children = start_nodes(cluster, [cluster.node(node_id)])
    with progress() as show:
        await_live(cluster, children, show)


def live(cluster: LocalCluster, rounds: int = ROUNDS) -> None:
    """Traffic before and after the death of a leader."""
    traffic = Traffic(cluster.bootstrap)
    traffic.make_topics({name: {} for name in TOPICS})
    for _ in range(2):
        traffic.commits_and_aborts(rounds)
        traffic.without_transactions()
        traffic.fenced()
        traffic.timed_out()
        bring_back(cluster, kill_leader(cluster))
    traffic.commits_and_aborts(rounds)
    traffic.left_open()


def live_groups(cluster: LocalCluster) -> None:
    """Members come and go, before and after the death of a leader; a group without members resets offsets."""
    traffic = GroupTraffic(cluster.bootstrap)
    traffic.make_topics({name: {} for name in TOPICS})
    traffic.commits_and_aborts(ROUNDS)
    traffic.loop(3)
    traffic.group(4)
    bring_back(cluster, kill_leader(cluster))
    traffic.loop(3)
    traffic.group(3)
    traffic.assigned("assigned", (5, 2))


def unpacked(folder: Path, packed: Path = PACKED) -> Path:
    """A fixture, in ``folder``: a directory as ``fencepost up --dir`` leaves it, without the images."""
    return unpack(folder, packed)


@click.command()
@click.option("--groups", is_flag=True, help="Of groups, not of producers.")
def main(groups: bool) -> None:
    """Let a cluster live, and pack what it leaves."""
    packed = GROUPS if groups else PACKED
    home = Path(tempfile.mkdtemp(prefix="fencepost-audit-"))
    try:
        with running(home / "cluster") as cluster:
            (live_groups if groups else live)(cluster)
        for image in home.glob("cluster/nodes/*/data/store"):
            shutil.rmtree(image)
        (home / "cluster/cluster.secret").unlink()
        pack(home / "cluster", packed)
        with tarfile.open(packed) as archive:
            click.echo(f"{len(archive.getmembers())} files, {packed.stat().st_size} bytes")
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
