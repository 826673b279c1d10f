"""A group member that reads, processes and writes in transactions, with aiokafka. Words: see owners.py."""

import asyncio
import sys
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

SESSION_MS = 6_000
HEARTBEAT_MS = 500


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """One producer for each input partition that the member owns, or one for all of them."""

    def __init__(self, bootstrap: str, group: str, target: str, owner: str, way: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._target = target
        self._owner = owner
        self._per_partition = way == "partition"
        self._writers: dict[str, AIOKafkaProducer] = {}
        self._busy = asyncio.Lock()  # a producer that is stopped in a transaction never ends its commit

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """What belongs to a partition is made anew when it comes back."""
        if not self._per_partition:
            return
        async with self._busy:
            for writer in self._writers.values():
                await writer.stop()
            self._writers.clear()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """aiokafka fetches offsets and records while this runs, so nothing is initialized here."""

    async def initialize(self, partition: TopicPartition) -> bool:
        """Makes the producer if there is none; True if the offset must then be fetched again."""
        async with self._busy:
            if self._id(partition) in self._writers:
                return False
            writer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, transactional_id=self._id(partition))
            await writer.start()  # asks for its producer id: what an earlier owner left open is aborted
            self._writers[self._id(partition)] = writer
            return self._per_partition

    async def transact(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """One record, in a transaction that ends when a line comes."""
        async with self._busy:
            writer = self._writers.get(self._id(partition))
            if writer is None:  # the partition was taken away since its record came
                return
            await writer.begin_transaction()
            await writer.send_and_wait(self._target, value)
            await writer.send_offsets_to_transaction({partition: offset + 1}, self._group)
            say("pending", offset)
            await asyncio.to_thread(sys.stdin.readline)
            await writer.commit_transaction()
            say("committed", offset)

    def _id(self, partition: TopicPartition) -> str:
        return f"{self._group}-{partition.partition}" if self._per_partition else self._owner


def say(*words: object) -> None:
    """One line."""
    print(*words, flush=True)  # noqa: T201


async def main(bootstrap: str, group: str, source: str, target: str, owner: str, way: str) -> None:
    """Until it is killed, or a call fails."""
    member = Member(bootstrap, group, target, owner, way)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([source], listener=member)
    await consumer.start()
    try:
        async for record in consumer:
            partition = TopicPartition(record.topic, record.partition)
            if partition not in consumer.assignment():
                continue
            if await member.initialize(partition):
                consumer.seek(partition, await consumer.committed(partition) or 0)
            else:
                await member.transact(partition, record.offset, record.value)
    except KafkaError as error:
        say("failed", repr(error))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
