"""Verification of a transactional producer with the coordinator before its batch is appended (KIP-890).

Why         a late batch, after its transaction has ended, would open one that never ends; and a producer
            that is unknown here may be fenced (KIP-360, row 360.6). The coordinator knows.
Rounds      one AddPartitionsToTxn v5, VerifyOnly, at a time; what comes meanwhile shares the next.
Codes       become those that the client of a Produce may get (docs/kafka-notes.md B3, E3): see ``verdict``.
No verdict  is ever remembered: the next transaction's first batch is verified anew.
Source      Kafka AddPartitionsToTxnManager; rows 360.6, 588.4.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, TypeAlias

from structlog.typing import FilteringBoundLogger

from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.client import ControllerClient
from fencepost.wire.k00_produce import Produce
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN

CALL_TIMEOUT_S: Final = 2.0
"""Of one round, finding the coordinator included. After it the client gets a code that it retries."""

QUESTIONS_MAX: Final = 10_000  # waiting for a round; one more is refused, and retried
TRANSACTIONS_MAX: Final = 500  # in one round: its answer depends on one entry of the log
Reply: TypeAlias = Callable[[ErrorCode], None]

_LATER: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.SASL_AUTHENTICATION_FAILED,  # this node's password or secret, until it is set right
    )
)


def verdict(code: ErrorCode, request: Produce) -> ErrorCode:
    """What the coordinator's ``code`` about a partition means to the client that sent ``request``.

    Source   Kafka AddPartitionsToTxnManager, KafkaApis; a partition leader never answers 90 (row 588.4).
    """
    if code in _LATER:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # retried by every client without a search for the leader
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.UNKNOWN_PRODUCER_ID and request.knows_abortable:
        return ErrorCode.TRANSACTION_ABORTABLE
    if code == ErrorCode.UNKNOWN_PRODUCER_ID and not request.knows_timed_out:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return ErrorCode.INVALID_TXN_STATE
    return code


class Producer(NamedTuple):
    """The producer to verify, and its transactional id."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int


class _Question(NamedTuple):
    producer: Producer
    topic: str
    partition: int
    reply: Reply


class Verifier:
    """The questions that wait, and the coordinator that they go to."""

    def __init__(
        self,
        coordinator: ControllerClient,
        *,
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        self._coordinator = coordinator
        self._retry = Retry("verify a transaction", rng=rng, log=log)
        self._questions: deque[_Question] = deque()
        self._wake = asyncio.Event()

    def ask(self, producer: Producer, topic: str, index: int, reply: Reply) -> None:
        """Call ``reply`` with the coordinator's code for that partition; NONE: it is in the transaction."""
        if len(self._questions) >= QUESTIONS_MAX:
            reply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._questions.append(_Question(producer, topic, index, reply))
        self._wake.set()

    async def run(self) -> None:
        """Ask, one round after the other; forever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._questions:
                await self._round(self._take())

    def _take(self) -> list[_Question]:
        """The questions of the next round: of a transactional id only those about one producer and epoch."""
        taken: list[_Question] = []
        left: list[_Question] = []
        producers: dict[str, Producer] = {}
        while self._questions:
            question = self._questions.popleft()
            producer = question.producer
            known = producers.get(producer.transactional_id)
            if known == producer or (known is None and len(producers) < TRANSACTIONS_MAX):
                producers[producer.transactional_id] = producer
                taken.append(question)
            else:
                left.append(question)
        self._questions.extend(left)
        return taken

    async def _round(self, questions: list[_Question]) -> None:
        codes: dict[tuple[str, str, int], ErrorCode] = {}
        missing = ErrorCode.REQUEST_TIMED_OUT
        try:
            answer = await self._coordinator.call(
                ADD_PARTITIONS_TO_TXN, _request(questions), timeout_s=CALL_TIMEOUT_S
            )
        except CALL_FAILURES as error:
            if isinstance(error, ApiError):
                missing = error.code
            self._retry.failed(error)
        else:
            self._retry.succeeded()
            codes = _codes(answer)
        for each in questions:
            each.reply(codes.get((each.producer.transactional_id, each.topic, each.partition), missing))


def _request(questions: list[_Question]) -> AddPartitionsToTxn:
    requested: dict[Producer, dict[str, dict[int, None]]] = {}
    for each in questions:
        requested.setdefault(each.producer, {}).setdefault(each.topic, {})[each.partition] = None
    return AddPartitionsToTxn(
        tuple(
            AddPartitions(
                producer.transactional_id,
                producer.producer_id,
                producer.producer_epoch,
                tuple(TopicPartitions(topic, tuple(indexes)) for topic, indexes in topics.items()),
                verify_only=True,
            )
            for producer, topics in requested.items()
        ),
        batched=True,
    )


def _codes(answer: AddPartitionsToTxnAnswer) -> dict[tuple[str, str, int], ErrorCode]:
    return {
        (transactional_id, topic, index): code
        for transactional_id, result in answer.results
        if isinstance(result, AddPartitionsAnswer)
        for topic, partitions in result.errors
        for index, code in partitions
    }
