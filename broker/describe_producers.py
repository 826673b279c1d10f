"""DescribeProducers: which producers a partition remembers, and who has a transaction open (KIP-664).

A partition may remember a hundred thousand. They are listed in slices, the loop free between them: each row
is true at its moment, and a producer that is forgotten meanwhile is left out.
"""

from collections.abc import Iterator
from typing import Final

from fencepost.broker.partitions import Partitions
from fencepost.broker.unknown_partitions import UnknownPartitions
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k61_describe_producers import (
    DescribeProducers,
    EncodedAnswer,
    EncodedPartition,
    encode_producers,
)
from fencepost.wire.slices import Slices
from fencepost.wire.stalls import Stalls

SLICE_PRODUCERS_MAX: Final = 2_000
"""Of one partition, listed in one step of the loop. Two steps may run in a row: some 4 ms."""

PARTITION_COST: Final = 10  # of a partition, in producers


class DescribeProducersEndpoint:
    """The endpoint of DescribeProducers (API key 61)."""

    def __init__(self, partitions: Partitions, unknown: UnknownPartitions, *, stalls: Stalls) -> None:
        self._partitions = partitions
        self._stalls = stalls
        self._unknown = unknown

    def describe(self, request: DescribeProducers, context: Context, reply: Reply[EncodedAnswer]) -> None:
        """Serve DescribeProducers: one row for each producer of each partition in the request."""

        def answer() -> None:
            Slices("DescribeProducers", self._steps(request, reply), reply, self._stalls).start()

        self._unknown.look_up_first([TopicQuery(topic) for topic, _ in request.topics], answer)

    def _steps(self, request: DescribeProducers, reply: Reply[EncodedAnswer]) -> Iterator[None]:
        """Yields where something else may run: partitions share a slice."""
        rows: list[EncodedPartition] = []
        done = 0  # producers, and what partitions cost beside, since something else ran
        for topic, index in ((topic, index) for topic, indexes in request.topics for index in indexes):
            if done >= SLICE_PRODUCERS_MAX:
                yield
                done = 0
            done += PARTITION_COST
            partition = self._partitions.find(topic, index)
            if partition is None:
                code = self._unknown.code(topic, index)
                rows.append(EncodedPartition(topic, index, code, f"{topic}-{index} is not hosted here"))
                continue
            log = partition.log
            producer_ids = log.producer_ids()
            count = 0
            encoded: list[bytes] = []
            for start in range(0, len(producer_ids), SLICE_PRODUCERS_MAX):
                if start:
                    yield
                    done = 0
                wanted = producer_ids[start : start + SLICE_PRODUCERS_MAX]
                states = log.producers(wanted)
                encoded.append(encode_producers(states))
                count += len(states)
                done += len(wanted)
            rows.append(EncodedPartition(topic, index, count=count, producers=tuple(encoded)))
        reply(EncodedAnswer(tuple(rows)))
