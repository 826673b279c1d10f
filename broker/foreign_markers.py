"""Markers that are not the coordinator's own, an admin's or another client's: verified with the coordinator.

Why         such a marker would end a transaction that the coordinator is still to end, maybe otherwise.
Question    which of its open transactions (Ongoing, PrepareCommit, PrepareAbort) are of the producer id, in
            any epoch, and which partitions they still hold: ListTransactions, then DescribeTransactions.
Rounds      one at a time; what comes meanwhile shares the next.
Older       a coordinator of a version without ProveSecret cannot prove that a marker is its own. While such a
            one leads, markers are taken as that version takes them.
Source      Kafka writes such markers as they come (KIP-664); docs/kafka-notes.md B5, H2.
"""

import asyncio
import enum
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from structlog.typing import FilteringBoundLogger

from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.controller.transactions.states import PREPARED_STATES, State
from fencepost.records.invariant import invariant
from fencepost.records.types import ProducerId
from fencepost.wire.client import ControllerClient
from fencepost.wire.errors import raise_for
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20037_prove_secret import PROVE_SECRET

CALL_TIMEOUT_S: Final = 25.0
"""A list of a million ids takes seconds; Kafka's admin client waits for 30. Also of one attempt."""

QUESTIONS_MAX: Final = 10_000  # waiting for a round; one more is answered "try again"
PRODUCERS_MAX: Final = 500  # in one round
REPLIES_SLICE: Final = 100  # markers appended between two turns of the loop
_OPEN_NAMES: Final = tuple(sorted(state.wire_name for state in (State.ONGOING, *PREPARED_STATES)))


class Verdict(enum.Enum):
    """What the coordinator says about a producer id and a partition."""

    OPEN = enum.auto()  # it has a transaction there, and will end it
    FREE = enum.auto()  # it has none: what is open there hangs
    UNKNOWN = enum.auto()  # it did not say in time


Reply = Callable[[Verdict], None]


class _Question(NamedTuple):
    producer_id: ProducerId
    topic: str
    partition: int
    reply: Reply


class ForeignMarkers:
    """The questions that wait, and the coordinator that they go to."""

    def __init__(
        self,
        coordinator: ControllerClient,
        verifying: ControllerClient,
        *,
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        """``verifying``: the client that is connected to the coordinator most of the time."""
        self._coordinator = coordinator
        self._verifying = verifying
        self._retry = Retry("ask about a marker", rng=rng, log=log)
        self._questions: deque[_Question] = deque()
        self._wake = asyncio.Event()

    @property
    def coordinator_cannot_prove(self) -> bool:
        """The coordinator, as far as is known, is of a version that proves nothing."""
        known = (self._coordinator.active_serves, self._verifying.active_serves)
        return any(serves is not None and PROVE_SECRET.key not in serves for serves in known)

    def ask(self, producer_id: ProducerId, topic: str, index: int, reply: Reply) -> None:
        """Call ``reply``, once, with the coordinator's verdict on that partition."""
        if len(self._questions) >= QUESTIONS_MAX:
            reply(Verdict.UNKNOWN)
            return
        self._questions.append(_Question(producer_id, topic, index, reply))
        self._wake.set()

    async def run(self) -> None:
        """Ask, one round after the other; forever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._questions:
                await self._round()

    async def _round(self) -> None:
        questions: list[_Question] = []
        producer_ids: set[ProducerId] = set()
        while self._questions:
            producer_id = self._questions[0].producer_id
            if producer_id not in producer_ids and len(producer_ids) >= PRODUCERS_MAX:
                break
            producer_ids.add(producer_id)
            questions.append(self._questions.popleft())
        try:
            open_there = await self._open_partitions(tuple(sorted(producer_ids)))
        except CALL_FAILURES as error:
            self._retry.failed(error)
            for each in questions:
                each.reply(Verdict.UNKNOWN)
            return
        self._retry.succeeded()
        for number, each in enumerate(questions, start=1):
            if number % REPLIES_SLICE == 0:
                await asyncio.sleep(0)  # each may append a marker
            is_open = (each.producer_id, each.topic, each.partition) in open_there
            each.reply(Verdict.OPEN if is_open else Verdict.FREE)

    async def _open_partitions(self, producer_ids: tuple[ProducerId, ...]) -> set[tuple[int, str, int]]:
        """(producer id, topic, partition) of all that the coordinator has open of these producers."""
        wanted = ListTransactions(_OPEN_NAMES, producer_ids)
        listed = await self._coordinator.call(LIST_TRANSACTIONS, wanted, timeout_s=CALL_TIMEOUT_S)
        invariant(isinstance(listed, ListTransactionsAnswer), "a list that was read is no list")
        ids = tuple(each.transactional_id for each in getattr(listed, "transactions", ()))
        if not ids:
            return set()
        described = await self._coordinator.call(
            DESCRIBE_TRANSACTIONS, DescribeTransactions(ids), timeout_s=CALL_TIMEOUT_S
        )
        return {part for each in described.transactions for part in open_partitions(each)}


def open_partitions(described: DescribedTransaction) -> set[tuple[int, str, int]]:
    """(producer id, topic, partition) of an open transaction. Raises ApiError: the node leads no more."""
    if described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return set()
    raise_for(described.error_code)
    if described.state not in _OPEN_NAMES:
        return set()
    return {
        (described.producer_id, each.topic, index)
        for each in described.partitions
        for index in each.partition_ids
    }
