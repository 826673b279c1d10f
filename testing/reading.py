"""A topic as a reader sees it, from its first record to the end that it has when reading begins."""

import asyncio
from typing import Final

from fencepost.client import Consumer, ConsumerRecord, TopicPartition
from fencepost.cluster.target import Target

POLL_MS: Final = 100
FETCH_WAIT_MS: Final = 50


async def read_topic(brokers: Target, topic: str, isolation: str, timeout_s: float) -> list[ConsumerRecord]:
    """The records, by partition and offset.

    Raises TimeoutError if an end is not reached: for read_committed, a transaction is open before it. Raises
    UnknownTopic, Refused, NotReachable.
    """
    until_s = asyncio.get_running_loop().time() + timeout_s
    try:
        async with asyncio.timeout_at(until_s), Consumer(brokers.name, tls=brokers.tls) as outer:
            partitions = [TopicPartition(topic, each) for each in await outer.partitions_for(topic)]
            ends = await outer.end_offsets(partitions)
    except TimeoutError:
        raise TimeoutError(f"after {timeout_s:.0f} s no broker said where {topic} ends") from None
    found: list[ConsumerRecord] = []
    async with Consumer(
        brokers.name,
        tls=brokers.tls,
        isolation_level=isolation,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=FETCH_WAIT_MS,
    ) as consumer:
        consumer.assign(partitions)
        behind = set(partitions)
        try:
            async with asyncio.timeout_at(until_s):
                while behind:
                    behind = {each for each in behind if await consumer.position(each) < ends[each]}
                    if behind:
                        found += await consumer.poll(timeout_ms=POLL_MS)
        except TimeoutError:
            where = ", ".join(f"{each} (end {ends[each]})" for each in sorted(behind))
            raise TimeoutError(
                f"after {timeout_s:.0f} s not read to the end with {isolation}: {where}; "
                f"if a transaction is open there, explain it: fencepost explain {min(behind)}"
            ) from None
    wanted = (each for each in found if each.offset < ends[TopicPartition(each.topic, each.partition)])
    return sorted(wanted, key=lambda each: (each.partition, each.offset))
