"""A transaction that hangs: open on a partition, and known to no coordinator."""

import time
from datetime import timedelta
from typing import Final

from kio.schema.produce.v11.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.types import Term
from tests.broker.batches import batch, from_producer
from tests.harness.nodes import Nodes, wait_for
from tests.processes.raw_client import RawClient

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


def produce_hanging(
    address: tuple[str, int], topic: str, *, producer_id: int, epoch: int = 0, partition: int = 0
) -> int:
    """A transaction's batch by a raw Produce v11 to a leader that verifies nothing; where it lies.

    Brokers need ``transaction.partition.verification.enable=false``.
    """
    content = batch(
        b"left open", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    request = ProduceRequest(
        transactional_id=TransactionalId("planted"),
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=10)),
        topic_data=(
            TopicProduceData(
                name=TopicName(topic),
                partition_data=(PartitionProduceData(index=i32(partition), records=Records(content)),),
            ),
        ),
    )
    with RawClient(address) as client:
        ((row,),) = (each.partition_responses for each in client.call(request).responses)
    assert not int(row.error_code), row
    return int(row.base_offset)
