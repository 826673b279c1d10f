"""DescribeProducers: which producers a partition remembers, and who has a transaction open (KIP-664).

A partition may remember a hundred thousand. They are told in slices, the loop free between them: each row is
true at its moment, and a producer that is forgotten meanwhile is left out.
"""

import asyncio
from collections.abc import Generator
from typing import Final

from broker.absent import Absent
from broker.partitions import Partition, Partitions
from wire.dispatch import Context, Reply
from wire.k03_metadata import TopicQuery
from wire.k61_describe_producers import (
    DescribeProducers,
    EncodedAnswer,
    EncodedPartition,
    encode_producers,
)

SLICE_PRODUCERS_MAX: Final = 2_000
"""Told between two looks at anything else: some 2 ms."""


class DescribeProducersEndpoint:
    """API key 61."""

    def __init__(self, partitions: Partitions, absent: Absent) -> None:
        self._partitions = partitions
        self._absent = absent

    def describe(self, request: DescribeProducers, context: Context, reply: Reply) -> None:
        """The endpoint."""

        def answer() -> None:
            rows: list[EncodedPartition] = []
            steps = self._steps(request, rows)

            def step() -> None:
                for _ in steps:
                    asyncio.get_running_loop().call_soon(step)
                    return
                reply(EncodedAnswer(tuple(rows)))

            step()

        self._absent.look_up_first([TopicQuery(topic) for topic, _ in request.topics], answer)

    def _steps(self, request: DescribeProducers, rows: list[EncodedPartition]) -> Generator[None]:
        """Fill ``rows``. Yields where something else may run."""
        for topic, indexes in request.topics:
            for index in indexes:
                partition = self._partitions.find(topic, index)
                if partition is None:
                    code = self._absent.code(topic, index)
                    rows.append(EncodedPartition(topic, index, code, f"{topic}-{index} is not hosted here"))
                else:
                    rows.append((yield from _described(partition, topic, index)))


def _described(partition: Partition, topic: str, index: int) -> Generator[None, None, EncodedPartition]:
    log = partition.log
    producer_ids = log.producer_ids()
    told: list[bytes] = []
    count = 0
    for start in range(0, len(producer_ids), SLICE_PRODUCERS_MAX):
        if start:
            yield
        rows = log.producers(producer_ids[start : start + SLICE_PRODUCERS_MAX])
        told.append(encode_producers(rows))
        count += len(rows)
    return EncodedPartition(topic, index, count=count, producers=tuple(told))
