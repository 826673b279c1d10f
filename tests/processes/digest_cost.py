"""``make count-digests``: how much more CPU time nodes take for digests of images.

Counted   what nodes do for no other reason: noting rows, digests, reports in acks and entries, and what is
          made of them (quorum/image_watch.py), by the CPU time of the node's thread. It is held against the
          CPU time of the whole process from its first digest under a load to its last, so other work of the
          machine is in neither; the clocks' own cost is in both.
Beside    them, what it costs to hold what is read of a store against its sums (snapshots/row_ranges.py) is
          counted and printed, and in no bound.
Load      ``fencepost bench`` on one cluster of three nodes: producer-id blocks, then transactions.
Status    1 if it is above ``SHARE_MAX`` of all nodes' under a load.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from fencepost.bench.own_cluster import QUOTA_OFF
from fencepost.cluster import lifecycle, node_process
from fencepost.cluster.local_cluster import create_cluster
from tests.ports import cluster_port

SHARE_MAX: Final = 0.03
COUNTS: Final = "digests.json"
OF_RANGES: Final = ("read", "wrote")
NODE: Final = """
import atexit, functools, json, sys, time
from fencepost.quorum.image_watch import ImageWatch
from fencepost.snapshots.digests import ChangedRows
from fencepost.snapshots.row_ranges import RowRanges
digests, spent, inside = [], {}, False
def counted(owner, name):
    work = getattr(owner, name)
    @functools.wraps(work)
    def count(*given):
        global inside
        if inside:
            return work(*given)
        inside, begun = True, time.thread_time_ns()
        try:
            return work(*given)
        finally:
            spent[name] = spent.get(name, 0) + time.thread_time_ns() - begun
            inside = False
    setattr(owner, name, count)
taken = ChangedRows.take
def take(self, image):
    digest = taken(self, image)
    if digest is not None:
        digests.append((time.time(), time.process_time_ns(), dict(spent)))
    return digest
ChangedRows.take = take
for name in ("applying", "has_applied", "heard", "on_ack", "on_entries"):
    counted(ImageWatch, name)
for name in ("read", "wrote"):
    counted(RowRanges, name)
atexit.register(lambda: json.dump(digests, open("digests.json", "w")))
from fencepost.cli.main import main
main()
"""
"""A node that counts; each digest: (seconds since the epoch, CPU ns of the process, by method those for
digests)."""


def counting(
    command: Sequence[str], directory: Path, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    words = list(command)
    begin = words.index("-m")
    words[begin : begin + 2] = ["-c", NODE]
    return node_process.spawn(words, directory, environment)


def bench(load: str, *options: str) -> tuple[float, float]:
    """When it began and ended."""
    begun = time.time()
    subprocess.run((sys.executable, "-m", "fencepost.cli.main", "bench", load, *options), check=True)
    return begun, time.time()


def spent_in(counts: Path, begun: float, ended: float) -> Counter[str]:
    """CPU ns between the digests of a load: in all, and by method."""
    within = [each for each in json.loads(counts.read_text()) if begun <= each[0] <= ended]
    (_, first, before), (_, last, after) = within[0], within[-1]
    return Counter({"process": last - first, **{name: after[name] - before.get(name, 0) for name in after}})


def share(spent: Counter[str]) -> float:
    """Of digests in the rest of the CPU time."""
    ranges = sum(spent[name] for name in OF_RANGES)
    digests = spent.total() - spent["process"] - ranges
    return digests / (spent["process"] - digests)


def said(spent: Counter[str]) -> str:
    ranges = sum(spent[name] for name in OF_RANGES) / spent["process"]
    parts = ", ".join(f"{name} {ns / 1e6:,.0f}" for name, ns in spent.items())
    return f"{share(spent):.2%} more CPU time, beside {ranges:.2%} for ranges (ms: {parts})"


@click.command()
@click.option(
    "--seconds", default=10.0, help="Of each load. In 20 the mock beside it forgets what it was sent."
)
@click.option("--producers", default=8)
@click.option("--clients", default=64)
def main(seconds: float, producers: int, clients: int) -> None:
    """Print it for each node under each load."""
    with tempfile.TemporaryDirectory(prefix="digest-cost-") as home:
        cluster = create_cluster(Path(home) / "cluster", 3, cluster_port(), [QUOTA_OFF])
        controllers = ",".join(map(str, cluster.controllers))
        length = ("--seconds", str(seconds))
        try:
            lifecycle.bring_up(cluster, counting)
            times = {
                "allocate": bench(
                    "allocate", "--bootstrap-controller", controllers, "--clients", str(clients), *length
                ),
                "transactions": bench(
                    *("transactions", "--bootstrap-server", cluster.bootstrap, "--messages", "1"),
                    *("--producers", str(producers), *length),
                ),
            }
        finally:
            lifecycle.stop_nodes(cluster.nodes)
        is_above = False
        for load, (begun, ended) in times.items():
            of_nodes = [spent_in(node.directory / COUNTS, begun, ended) for node in cluster.nodes]
            for node, spent in zip(cluster.nodes, of_nodes, strict=True):
                click.echo(f"{load}, node {node.node_id}: {said(spent)}")
            total = sum(of_nodes, Counter())
            click.echo(f"{load}, all nodes: {said(total)}")
            is_above |= share(total) > SHARE_MAX
    sys.exit(is_above)


if __name__ == "__main__":
    main()
