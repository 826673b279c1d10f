"""One node of Apache Kafka for audits and comparisons (``tests/clients/kafka_broker.py``).

Small       few internal partitions, metadata snapshots every few kilobytes, expiry looked for twice a second.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.clients.kafka_broker import VERSION, Broker, fetch
from tests.clients.players import NotHere
from tests.ports import free_port

__all__ = ["VERSION", "WORN", "Broker", "NotHere", "running"]

HERE: Final = Path(__file__).parent

SETTINGS: Final = """\
num.partitions=2
auto.create.topics.enable=false
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
group.initial.rebalance.delay.ms=0
metadata.log.max.record.bytes.between.snapshots=4000
log.index.size.max.bytes=4096
log.cleaner.backoff.ms=300
log.cleaner.dedupe.buffer.size=16777216
log.initial.task.delay.ms=500
log.retention.check.interval.ms=1000
num.network.threads=1
num.io.threads=2
background.threads=2
"""

WORN: Final = """\
transactional.id.expiration.ms=3000
transaction.remove.expired.transaction.cleanup.interval.ms=500
metadata.log.segment.ms=2000
metadata.max.retention.ms=2000
metadata.max.idle.interval.ms=500
"""
"""As after months: the coordinator has forgotten ids, the metadata log begins at a snapshot."""


@contextlib.contextmanager
def running(home: Path, settings: str = "") -> Iterator[Broker]:
    """A new broker, up; killed at the end if no test stopped it."""
    fetch()
    broker = Broker(home, f"{SETTINGS}{settings}", node_id=1, port=free_port(), controllers={1: free_port()})
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
