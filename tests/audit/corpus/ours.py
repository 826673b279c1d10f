"""``python -m tests.audit.corpus.ours``: record a cluster of ours under the writers of Kafka's corpus.

Three nodes; leaders are killed and nodes stopped while clients of four libraries write; the directories are
copied while they run, and once more when all nodes are stopped.
"""

import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from signal import SIGTERM
from typing import Final

import click

from fencepost.cluster.lifecycle import send
from fencepost.cluster.local_cluster import LocalCluster
from tests.audit.corpus import recording, share
from tests.audit.faults import cluster as clusters
from tests.audit.kafka.copying import copy_running
from tests.audit.kafka.life import WRITTEN
from tests.audit.kafka.traffic import Traffic
from tests.audit.kafka.writers import PARTITIONS, Writers
from tests.clients.kafka_broker import VERSION, fetch

BETWEEN_SECONDS: Final = 6.0
SETTINGS: Final = (
    "producer.id.block.size=5",
    "producer.id.allocation.rate=0",
    f"num.partitions={PARTITIONS}",
)
SHORT: Final = {"retention.ms": "4000"}
OURS: Final = {name: SHORT if name == "short" else {} for name in (*WRITTEN, "plain")}


@click.command()
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Leave the copies in this folder, pack nothing."
)
def main(seed: int, keep: Path | None) -> None:
    """Let a cluster live, audit both copies of it, and pack them. Exit status 1: there is a finding, or too
    little is decided."""
    fetch(VERSION)
    home = Path(tempfile.mkdtemp(prefix="fencepost-audit-"))
    copies = keep or home / "copies"
    is_right = True
    try:
        _live(home, seed, copies)
        for each in ("stopped", "running"):
            is_right &= share.passes(copies / each, is_stopped=each == "stopped")
            if keep is None:
                packed = recording.pack(copies / each, f"fencepost-{each}")
                click.echo(f"Packed: {packed}, {packed.stat().st_size:,} bytes")
    finally:
        shutil.rmtree(home)
    sys.exit(0 if is_right else 1)


def _live(home: Path, seed: int, copies: Path) -> None:
    random = Random(seed)
    with clusters.running(home / "cluster", SETTINGS) as cluster:
        traffic = Traffic(cluster.bootstrap)
        traffic.make_topics(OURS, PARTITIONS)
        writers = Writers(cluster.bootstrap, WRITTEN, seed, home, version=VERSION, protocol="classic")
        with writers:
            for number in range(3):
                time.sleep(BETWEEN_SECONDS)
                if number == 1:
                    _restart(cluster, random)
                else:
                    clusters.bring_back(cluster, clusters.kill_leader(cluster))
                click.echo(f"  transactions {writers.done}")
            time.sleep(BETWEEN_SECONDS)
            nodes = {each.node_id: each.directory for each in cluster.nodes}
            copy_running({int(key): path for key, path in nodes.items()}, copies / "running", random)
            with contextlib.suppress(Exception):
                traffic.left_open()
            writers.stop()
    for node_id, directory in nodes.items():
        shutil.copytree(directory, copies / "stopped" / str(node_id))
    for image in copies.glob("*/*/data/store"):
        shutil.rmtree(image)


def _restart(cluster: LocalCluster, random: Random) -> None:
    """SIGTERM to a node, and up again."""
    node = random.choice(cluster.nodes)
    send(node, SIGTERM)
    time.sleep(2)
    clusters.bring_back(cluster, node.node_id)


if __name__ == "__main__":
    main()
