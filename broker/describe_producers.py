"""DescribeProducers: which producers a partition remembers, and who has a transaction open (KIP-664)."""

from broker.absent import Absent
from broker.partitions import Partitions
from wire.dispatch import Context, Reply
from wire.k03_metadata import TopicQuery
from wire.k61_describe_producers import (
    ActiveProducer,
    DescribeProducers,
    DescribeProducersAnswer,
    PartitionProducers,
)


class DescribeProducersEndpoint:
    """API key 61."""

    def __init__(self, partitions: Partitions, absent: Absent) -> None:
        self._partitions = partitions
        self._absent = absent

    def describe(self, request: DescribeProducers, context: Context, reply: Reply) -> None:
        """The endpoint."""

        def answer() -> None:
            rows = (self._describe(topic, index) for topic, indexes in request.topics for index in indexes)
            reply(DescribeProducersAnswer(tuple(rows)))

        self._absent.look_up_first([TopicQuery(topic) for topic, _ in request.topics], answer)

    def _describe(self, topic: str, index: int) -> PartitionProducers:
        partition = self._partitions.find(topic, index)
        if partition is None:
            code = self._absent.code(topic, index)
            return PartitionProducers(topic, index, code, f"{topic}-{index} is not hosted here")
        producers = (
            ActiveProducer(
                row.producer_id,
                row.producer_epoch,
                row.last_sequence,
                row.last_timestamp_ms,
                row.coordinator_epoch,
                row.transaction_first,
            )
            for row in partition.log.producers()
        )
        return PartitionProducers(topic, index, producers=tuple(producers))
