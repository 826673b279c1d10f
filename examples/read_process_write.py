"""Read, process, write: each input record has its effect once, whatever is killed (KIP-447's sample loop).

Run      python read_process_write.py BOOTSTRAP_SERVERS INPUT OUTPUT GROUP [RECORDS]
Many     instances may run at once, each with a producer of its own: the group fences the offsets of an
         instance that lost its partitions, and its transaction aborts.
RECORDS  ends when the group has committed so many offsets; without it, it runs on.
"""

import asyncio
import os
import sys

from fencepost.client import AbortableError, Consumer, ConsumerRecord, Producer, TopicPartition


def process(record: ConsumerRecord) -> bytes:
    """What is written for a record."""
    return (record.value or b"").upper()


async def rewind(consumer: Consumer) -> None:
    """Read again what the aborted transaction had read: from the committed offsets on."""
    assignment = consumer.assignment()
    committed = await consumer.committed(assignment)
    for partition, offset in committed.items():
        consumer.seek(partition, offset.offset)
    begin_anew = [each for each in assignment if each not in committed]
    if begin_anew:
        await consumer.seek_to_beginning(*begin_anew)


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
            heartbeat_interval_ms=500,
        ) as consumer,
        Producer(bootstrap_servers, transactional_id=f"{group}-{os.getpid()}") as producer,
    ):
        partitions = await producer.partitions_for(source)
        consumer.subscribe([source])
        while True:
            batch = await consumer.poll()
            if not batch:
                if records is not None and await is_done(consumer, source, partitions, records):
                    return
                continue
            producer.begin_transaction()
            try:
                for record in batch:
                    await producer.send(target, process(record), key=record.key)
                # The next offset to read of each partition: the last record's, and one.
                offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in batch}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                await producer.commit_transaction()
            except AbortableError:
                await producer.abort_transaction()
                await rewind(consumer)


if __name__ == "__main__":
    servers, source, target, group = sys.argv[1:5]
    asyncio.run(main(servers, source, target, group, int(sys.argv[5]) if len(sys.argv) > 5 else None))
