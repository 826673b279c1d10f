"""``make count-start``: what a start costs that verifies a large image, beside ``lmdb.verify`` of its file.

Image     of a node that is a cluster by itself: transactional ids, each with its row of updates, written in
          a shuffled order, so that pages are as full as they are where rows come and go.
Rounds    each subject once, every other round in the opposite order, each in a process of its own: CPU time
          of ``lmdb.verify`` alone, and of opening the store and its journal as a start does.
Start     of the node itself, to where the cluster is live: its CPU time, and the wall time of the start.
Status    1 if a median is above ``VERIFY_MAX`` or ``WALL_MAX``.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import click
import msgspec

from fencepost.cluster import lifecycle
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.controller.transactions.states import TRANSACTIONS, UPDATES, State, Transaction
from fencepost.records.invariant import invariant
from fencepost.records.transaction_parts import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.snapshots.reader import STORE
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import Verdict
from tests.ports import cluster_port

VERIFY_MAX: Final = 2.0
WALL_MAX: Final = 1.2
FLUSHED: Final = 50_000  # rows at once
SUBJECTS: Final = {
    "lmdb.verify": """
from lmdb import verify
def work(directory):
    assert verify.verify(str(directory / STORE)) == []
""",
    "store opened": """
import structlog, time
from fencepost.quorum.opened_store import open_journal, open_store
def work(directory):
    log = structlog.get_logger()
    store = open_store(directory, sync=True, log=log)
    open_journal(store, time.monotonic, log)
    store.abandon()
""",
}
TIMED: Final = """
import sys, time
from pathlib import Path
from fencepost.snapshots.reader import STORE
{work}
begun = time.process_time()
work(Path(sys.argv[1]))
print(time.process_time() - begun)
"""


def fill(directory: Path, row_count: int) -> None:
    """Put rows into the image of a node that does not run."""
    numbers = list(range(row_count // 2))
    random.Random(row_count).shuffle(numbers)
    store = Store.open(directory / STORE)
    invariant(store.verify_image() is Verdict.SOUND, f"no image in {directory}")
    image = store.image
    for at in range(0, len(numbers), FLUSHED // 2):
        for number in numbers[at : at + FLUSHED // 2]:
            name, updated_ms = f"payments-{number * 7919 % 1_000_003:07}", 1_700_000_000_000 + number
            row = Transaction(
                name,
                ProducerId(number),
                0,
                60_000,
                State.COMPLETE_COMMIT,
                (TopicPartitions("orders", (number % 12,)),),
                updated_ms,
            )
            image.put(TRANSACTIONS, name, row)
            image.put(UPDATES, (updated_ms, name), True)
        image.header = msgspec.structs.replace(image.header)  # the same, to be saved
        store.flush()
        click.echo(f"{min(row_count, 2 * at + FLUSHED)} of {row_count} rows", err=True)
    store.close()


def cpu_s_of(subject: str, directory: Path) -> float:
    """CPU seconds of the work, without those of the imports."""
    script = TIMED.format(work=SUBJECTS[subject])
    command = (sys.executable, "-c", script, str(directory))
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def started(cluster: LocalCluster) -> tuple[float, float]:
    """(CPU seconds of the node, wall seconds), from the start until the cluster is live."""
    begun = time.monotonic()
    (child,) = lifecycle.bring_up(cluster).values()
    wall_s = time.monotonic() - begun
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    lifecycle.stop_nodes(cluster.nodes)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), wall_s


@click.command()
@click.option("--rows", default=1_000_000)
@click.option("--rounds", default=5)
def main(rows: int, rounds: int) -> None:
    """Print CPU seconds of each round, and the ratios of the medians."""
    with tempfile.TemporaryDirectory(prefix="start-cost-") as home:
        cluster = create_cluster(Path(home) / "cluster", 1, cluster_port(), [])
        (node,) = cluster.nodes
        started(cluster)
        directory = node.directory / "data"
        fill(directory, rows)
        spent: dict[str, list[float]] = {subject: [] for subject in SUBJECTS}
        starts: list[tuple[float, float]] = []
        for number in range(rounds):
            for subject in list(SUBJECTS)[:: 1 if number % 2 else -1]:
                spent[subject].append(cpu_s_of(subject, directory))
            starts.append(started(cluster))
    for subject, each in spent.items():
        click.echo(
            f"{subject}: {statistics.median(each):.2f} s of CPU ({', '.join(f'{s:.2f}' for s in each)})"
        )
    first, second = (statistics.median(each) for each in spent.values())
    click.echo(f"opened, beside lmdb.verify: {second / first:.2f} times (at most {VERIFY_MAX})")
    wall = statistics.median(wall_s / cpu_s for cpu_s, wall_s in starts)
    pairs = ", ".join(f"{wall_s:.2f} for {cpu_s:.2f}" for cpu_s, wall_s in starts)
    click.echo(f"start: wall seconds for CPU seconds {pairs}: {wall:.2f} times (at most {WALL_MAX})")
    sys.exit(second / first > VERIFY_MAX or wall > WALL_MAX)


if __name__ == "__main__":
    main()
