"""A fake cluster with some transactions, for the commands that look at and end them."""

from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.controller.transactions.describe import DescribedTransaction, DescribeTransactionsAnswer
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from fencepost.wire.k61_describe_producers import (
    ActiveProducer,
    DescribeProducers,
    DescribeProducersAnswer,
    PartitionProducers,
)
from fencepost.wire.k20065_explain_transaction import Explanation, FenceExplained
from tests.cli.fake_broker import BROKER_ID, Answer, FakeBroker
from tests.harness.command import Result, contents, here

Capture = pytest.CaptureFixture[str]
NOW_MS = 1_760_000_000_000

OPEN = DescribedTransaction(
    "orders",
    state="Ongoing",
    transaction_timeout_ms=60_000,
    started_ms=NOW_MS - 1500,
    producer_id=ProducerId(42),
    producer_epoch=3,
    partitions=(TopicPartitions("t", (0, 1)), TopicPartitions("u", (0,))),
)
ENDED = DescribedTransaction(
    "orders",
    state="CompleteCommit",
    transaction_timeout_ms=60_000,
    producer_id=ProducerId(42),
    producer_epoch=3,
)
FENCE = FenceExplained(NOW_MS, "a new instance", 42, 2, "orders-2", later_producer_id=42, later_epoch=3)
WHY = Explanation("It is open for 1.5 s.", (FENCE,))
TOPICS = (
    TopicMetadata(
        name="t",
        partitions=tuple(
            PartitionMetadata(partition_index=each, leader_id=BROKER_ID, replica_nodes=(BROKER_ID,))
            for each in range(2)
        ),
    ),
)
PRODUCERS = (
    ActiveProducer(42, 3, 17, NOW_MS - 1_000_000, 5, 100),
    ActiveProducer(43, 0, 0, NOW_MS - 1_000_000, -1, 200),
    ActiveProducer(44, 0, 8, NOW_MS - 1_000_000, 5, -1),
)


class Cluster:
    """Runs commands against a fake broker."""

    def __init__(self, stack: ExitStack, capsys: Capture) -> None:
        self._stack = stack
        self._capsys = capsys
        self.broker = FakeBroker({})
        self.bootstrap = ""

    def answers(
        self, answers: dict[Api[Any, Any], Answer], topics: tuple[TopicMetadata, ...] | None = None
    ) -> None:
        """Start it with these."""
        self.broker = FakeBroker(answers, TOPICS if topics is None else topics)
        self.bootstrap = self._stack.enter_context(self.broker.serving())

    def run(self, *words: object) -> Result:
        """One command."""
        return here(self._capsys, "transactions", *words, "--bootstrap-server", self.bootstrap)

    def document(self, *words: object, status: int = 0) -> Any:
        """Its JSON."""
        said = self.run(*words, "--format", "json")
        assert said.status == status, said.stderr
        return contents(said.stdout)


def described_as(transaction: DescribedTransaction) -> Answer:
    return lambda request: DescribeTransactionsAnswer((transaction,))


def producers(request: DescribeProducers) -> DescribeProducersAnswer:
    """Those of partition 0; partition 1 has none."""
    return DescribeProducersAnswer(
        tuple(
            PartitionProducers(topic, index, producers=PRODUCERS if index == 0 else ())
            for topic, indexes in request.topics
            for index in indexes
        )
    )
