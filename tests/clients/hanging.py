"""A transaction that hangs: open on a partition, and known to no coordinator."""

import time
from typing import Final

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.types import Term
from tests.broker.batches import from_producer
from tests.harness.nodes import Nodes, wait_for

HANGING_PRODUCER_ID: Final = 7  # from_producer's


def leave_hanging(cluster: Nodes, topic: str) -> None:
    """A batch as brokers without verification take it, written to node 1's partition 0 while all are down."""
    folder = cluster.home(1) / f"{topic}-0"
    wait_for("the partition's log", (folder / "partition.metadata").exists)
    cluster.run("down")
    now_ms = int(time.time() * 1000)
    log = PartitionLog.open(folder, LogConfig(verification=False), now_ms)
    log.append(from_producer(b"left behind", sequence=0, transactional=True), now_ms, Term(0))
    log.close()
    cluster.up()
