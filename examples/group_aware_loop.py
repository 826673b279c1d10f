"""KIP-447's sample loop, group-aware: a producer per consumer, initialized with each assignment.

Run      python group_aware_loop.py BOOTSTRAP_SERVERS INPUT OUTPUT GROUP [RECORDS]
Many     instances may run at once, without names of their own: the coordinator gives each producer one. After
         a rebalance `init_transactions` returns when nothing is open any more for the partitions that moved.
RECORDS  ends when the group has committed so many offsets; without it, it runs on.
"""

import asyncio
import sys

from fencepost.client import (
    AbortableError,
    CommitFailed,
    Consumer,
    ConsumerRecord,
    GroupMetadata,
    Producer,
    TopicPartition,
)


def process(record: ConsumerRecord) -> bytes:
    """What is written for a record."""
    return (record.value or b"").upper()


async def rewind(consumer: Consumer) -> None:
    """Read from the committed offsets on."""
    assignment = consumer.assignment()
    committed = await consumer.committed(assignment)
    for partition, offset in committed.items():
        consumer.seek(partition, offset.offset)
    begin_anew = [each for each in assignment if each not in committed]
    if begin_anew:
        await consumer.seek_to_beginning(*begin_anew)


async def copy(producer: Producer, consumer: Consumer, target: str, batch: list[ConsumerRecord]) -> None:
    """What was read, and how far, in one transaction. Raises AbortableError."""
    producer.begin_transaction()
    for record in batch:
        await producer.send(target, process(record), key=record.key)
    offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in batch}
    await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    await producer.commit_transaction()


async def is_done(consumer: Consumer, topic: str, partitions: list[int], records: int) -> bool:
    """The group has committed so many offsets, over all partitions."""
    committed = await consumer.committed(TopicPartition(topic, each) for each in partitions)
    return sum(each.offset for each in committed.values()) >= records


async def main(bootstrap_servers: str, source: str, target: str, group: str, records: int | None) -> None:
    """Copy records from the topic ``source`` to ``target``, in transactions."""
    async with (
        Consumer(
            bootstrap_servers,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        ) as consumer,
        Producer(bootstrap_servers, group_aware=True) as producer,
    ):
        partitions = await consumer.partitions_for(source)
        consumer.subscribe([source])
        initialized_for: GroupMetadata | None = None
        while True:
            batch = await consumer.poll(timeout_ms=200)
            try:
                is_new = producer.needs_assignment or initialized_for != consumer.group_metadata()
                if consumer.assignment() and is_new:
                    await producer.init_transactions(group=consumer.group_assignment())
                    initialized_for = consumer.group_metadata()
                    await rewind(consumer)  # nothing is open any more for these partitions
                elif batch:
                    await copy(producer, consumer, target, batch)
            except CommitFailed:
                initialized_for = None  # a rebalance: the next poll joins it
                if not producer.needs_assignment:
                    await producer.abort_transaction()
                await rewind(consumer)
            except AbortableError:
                await producer.abort_transaction()
                await rewind(consumer)
            if not batch and records is not None and await is_done(consumer, source, partitions, records):
                return


if __name__ == "__main__":
    servers, source, target, group = sys.argv[1:5]
    asyncio.run(main(servers, source, target, group, int(sys.argv[5]) if len(sys.argv) > 5 else None))
