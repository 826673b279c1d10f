"""Asks the coordinator about a transactional producer before its batch is appended (KIP-890).

Verified    of a client that adds its partitions itself. A late batch, after its transaction has ended, would
            open one that never ends; and a producer that is unknown here may be fenced (KIP-360, row 360.6).
Added       of a client that uses transactions V2: the partition becomes part of its transaction now.
Rounds      of AddPartitionsToTxn v5, one at a time on each connection, and at most one begins each ROUND_S:
            what comes meanwhile shares the next. The questions about one transactional id are answered in
            their order, so it is in one round at a time.
Speed       a round takes a task only where the coordinator must be found (again).
51          to an addition: the last transaction's markers are being written. The coordinator makes it as soon
            as they are, and announces it (coordinator/early_additions.py): that is the answer. What is lost
            on the way is asked again, for ADD_RETRY_S_MAX; then the client retries.
Order       an addition that is made answers every batch of the pair that waits for this partition, in their
            order: the first one opens the transaction, and who comes then is appended without a question.
Codes       become those that the client of a Produce may get (docs/kafka-notes.md B3, E3): see ``verdict``.
No verdict  is ever remembered: the next transaction's first batch is verified anew.
Source      Kafka AddPartitionsToTxnManager; rows 360.6, 588.4.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
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
from fencepost.wire.client import MOVED, ControllerClient
from fencepost.wire.errors import ERROR_MESSAGE_CHARS_MAX, sendable
from fencepost.wire.k00_produce import Produce
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN

CALL_TIMEOUT_S: Final = 2.0
"""Of one round, finding the coordinator included. After it the client gets a code that it retries."""

QUESTIONS_MAX: Final = 10_000  # waiting for a round; one more is refused, and retried
TRANSACTIONS_MAX: Final = 500  # in one round: its answer depends on one entry of the log
ROUND_S: Final = 0.002
"""From the begin of one round to that of the next. A round costs its two nodes some 0.2 ms of CPU, whatever
it holds. The questions of a lone producer are further apart than this, so they do not wait."""
ADD_RETRY_S: Final = (0.05, 0.1)
"""Pauses between tries: the first, longer than markers take on a busy machine, and the longest. Announcements
end them: a try is for one that was lost."""
ADD_RETRY_SHARE: Final = 0.25  # a try waits for this share of the time since the first one
ADD_RETRY_S_MAX: Final = 1.0
"""Kafka's is 0.1 (add.partitions.to.txn.retry.backoff.max.ms); then clients wait 0.1 s, and send it again."""
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
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # another partition of the round is gone
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.SASL_AUTHENTICATION_FAILED,  # this node's password or secret, until it is set right
    )
)


def verdict(code: ErrorCode, request: Produce) -> ErrorCode:
    """What the coordinator's ``code`` about a partition means to the client that sent ``request``.

    Source   Kafka AddPartitionsToTxnManager, KafkaApis; a partition leader never answers 90 (row 588.4).
    """
    if code == ErrorCode.CONCURRENT_TRANSACTIONS and request.adds_partitions:
        return code  # who uses transactions V2 retries it
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

    def refused(self, code: ErrorCode) -> str:
        """The coordinator's ``code`` in a sentence, in the words of ``fencepost explain``."""
        what = _WHAT.get(code, f"is refused with {code.name}")
        who = f"producer {self.producer_id}, epoch {self.producer_epoch} of {self.transactional_id!r}"
        return sendable(f"{who} {what}, says its transaction coordinator"[:ERROR_MESSAGE_CHARS_MAX])


_WHAT: Final = {
    ErrorCode.PRODUCER_FENCED: "was fenced by a new instance",
    ErrorCode.UNKNOWN_PRODUCER_ID: "was fenced when its transaction timed out",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "is not, and is not known to have been, a producer of this id",
    ErrorCode.INVALID_TXN_STATE: "has no transaction open with this partition",
    ErrorCode.TRANSACTION_ABORTABLE: "has a transaction that can only be aborted",
}


class _Question:
    __slots__ = ("adds", "is_answered", "partition", "producer", "reply", "topic", "until_s")

    def __init__(
        self, producer: Producer, topic: str, partition: int, adds: bool, until_s: float, reply: Reply
    ) -> None:
        """``until_s``: an addition that is refused with 51 is asked again until then, by the loop's clock."""
        self.producer = producer
        self.topic = topic
        self.partition = partition
        self.adds = adds
        self.until_s = until_s
        self.reply = reply
        self.is_answered = False

    @property
    def addition(self) -> "_Addition":
        return (self.producer.producer_id, self.producer.producer_epoch, self.topic, self.partition)


_Addition: TypeAlias = tuple[ProducerId, int, str, int]
"""Of a partition to the one transaction that a pair has with transactions V2."""


class _Pause(NamedTuple):
    """Questions about one transactional id that are asked again when the timer ends."""

    timer: asyncio.TimerHandle
    questions: list[_Question]


class Verifier:
    """The questions that wait, and the coordinator that they go to."""

    def __init__(
        self,
        coordinators: Sequence[ControllerClient],
        *,
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        """``coordinators``: connections to the same one."""
        self._free = list(coordinators)
        self._retry = Retry("verify a transaction", rng=rng, log=log)
        self._questions: deque[_Question] = deque()
        self._behind: dict[str, deque[_Question]] = {}  # an id that is in a round, or soon in the next
        self._pauses: dict[str, _Pause] = {}  # of ids in ``_behind``
        self._adding: dict[_Addition, list[_Question]] = {}  # additions that are not answered
        self._count = 0  # of all that are not answered
        self._wake = asyncio.Event()
        self._searches = asyncio.TaskGroup()  # rounds for which the coordinator must be found

    def ask(self, producer: Producer, topic: str, index: int, reply: Reply, *, adds: bool = False) -> None:
        """Call ``reply`` with the coordinator's code for that partition; NONE: it is in the transaction.

        ``adds``: make it so.
        """
        if self._count >= QUESTIONS_MAX:
            reply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        until_s = asyncio.get_running_loop().time() + ADD_RETRY_S_MAX if adds else 0.0
        question = _Question(producer, topic, index, adds, until_s, reply)
        if adds:
            self._adding.setdefault(question.addition, []).append(question)
        self._count += 1
        behind = self._behind.get(producer.transactional_id)
        if behind is not None:
            behind.append(question)
            return
        self._questions.append(question)
        self._wake.set()

    def announced(self, producer_id: ProducerId, producer_epoch: int, topic: str, index: int) -> None:
        """The coordinator says unasked that the partition is in the transaction of this pair."""
        for question in tuple(self._adding.get((producer_id, producer_epoch, topic, index), ())):
            self._answer(question, ErrorCode.NONE)
            transactional_id = question.producer.transactional_id
            pause = self._pauses.get(transactional_id)
            if pause is not None and all(each.is_answered for each in pause.questions):
                pause.timer.cancel()
                self._release(transactional_id, pause.questions)

    async def run(self) -> None:
        """Ask; forever."""
        async with self._searches:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._questions and self._free:
                    if taken := self._take():
                        self._begin(self._free.pop(), taken)
                        await asyncio.sleep(ROUND_S)

    def _take(self) -> list[_Question]:
        """The questions of the next round: of a transactional id only those of one kind about one epoch."""
        taken: list[_Question] = []
        left: list[_Question] = []
        kinds: dict[str, tuple[Producer, bool]] = {}
        while self._questions:
            question = self._questions.popleft()
            if question.is_answered:
                continue
            transactional_id = question.producer.transactional_id
            kind = (question.producer, question.adds)
            known = kinds.get(transactional_id)
            if known is None and transactional_id not in self._behind and len(kinds) < TRANSACTIONS_MAX:
                kinds[transactional_id] = known = kind
                self._behind[transactional_id] = deque()
            if known == kind and not self._behind[transactional_id]:
                taken.append(question)
            elif transactional_id in self._behind:
                self._behind[transactional_id].append(question)
            else:
                left.append(question)
        self._questions.extend(left)
        return taken

    def _begin(self, coordinator: ControllerClient, questions: list[_Question]) -> None:
        """Send a round on the connection that is open, or find the coordinator first."""
        request = _request(questions)
        until_s = asyncio.get_running_loop().time() + CALL_TIMEOUT_S

        def on_outcome(outcome: AddPartitionsToTxnAnswer | Exception) -> None:
            if isinstance(outcome, MOVED):
                search()
            else:
                self._end(coordinator, questions, outcome)

        def search() -> None:
            self._searches.create_task(self._search(coordinator, questions, request, until_s))

        if not coordinator.ask(ADD_PARTITIONS_TO_TXN, request, on_outcome):
            search()

    async def _search(
        self,
        coordinator: ControllerClient,
        questions: list[_Question],
        request: AddPartitionsToTxn,
        until_s: float,
    ) -> None:
        outcome: AddPartitionsToTxnAnswer | Exception
        left_s = until_s - asyncio.get_running_loop().time()
        try:
            outcome = await coordinator.call(ADD_PARTITIONS_TO_TXN, request, timeout_s=left_s)
        except CALL_FAILURES as error:
            outcome = error
        self._end(coordinator, questions, outcome)

    def _end(
        self,
        coordinator: ControllerClient,
        questions: list[_Question],
        outcome: AddPartitionsToTxnAnswer | Exception,
    ) -> None:
        """Give a round's answers, and ask later where that helps."""
        self._free.append(coordinator)
        self._wake.set()
        codes: dict[tuple[str, str, int], ErrorCode] = {}
        missing = ErrorCode.REQUEST_TIMED_OUT
        if isinstance(outcome, Exception):
            if isinstance(outcome, ApiError):
                missing = outcome.code
            self._retry.failed(outcome)
        else:
            self._retry.succeeded()
            codes = _codes(outcome)
        now_s = asyncio.get_running_loop().time()
        again: dict[str, list[_Question]] = {}
        for each in questions:
            transactional_id = each.producer.transactional_id
            again.setdefault(transactional_id, [])
            if each.is_answered:
                continue
            code = codes.get((transactional_id, each.topic, each.partition), missing)
            is_soon = code == ErrorCode.CONCURRENT_TRANSACTIONS and now_s < each.until_s
            if is_soon or again[transactional_id]:
                again[transactional_id].append(each)
            elif code == ErrorCode.NONE and each.adds:
                self._added(each)
            else:
                self._answer(each, code)
        for transactional_id, held_back in again.items():
            if held_back:
                self._pause(transactional_id, held_back)
            else:
                self._release(transactional_id, held_back)

    def _pause(self, transactional_id: str, questions: list[_Question]) -> None:
        loop = asyncio.get_running_loop()
        waited_s = loop.time() - (questions[0].until_s - ADD_RETRY_S_MAX)
        timer = loop.call_later(_pause_s(waited_s), self._release, transactional_id, questions)
        self._pauses[transactional_id] = _Pause(timer, questions)

    def _release(self, transactional_id: str, again: list[_Question]) -> None:
        """The id's next questions may be taken: ``again`` first, then what came behind them."""
        self._pauses.pop(transactional_id, None)
        behind = self._behind.pop(transactional_id)
        self._questions.extend((*again, *behind))
        if self._questions:
            self._wake.set()

    def _added(self, addition: _Question) -> None:
        """It is made: that answers all who wait for the same."""
        for question in tuple(self._adding[addition.addition]):
            if question.producer == addition.producer:
                self._answer(question, ErrorCode.NONE)

    def _answer(self, question: _Question, code: ErrorCode) -> None:
        if question.adds:
            waiting = self._adding[question.addition]
            waiting.remove(question)
            if not waiting:
                del self._adding[question.addition]
        self._count -= 1
        question.is_answered = True
        question.reply(code)


def _pause_s(waited_s: float) -> float:
    """How long after an answer of 51 to ask again, if the first answer is ``waited_s`` old."""
    shortest_s, longest_s = ADD_RETRY_S
    return min(max(waited_s * ADD_RETRY_SHARE, shortest_s), longest_s)


def _request(questions: list[_Question]) -> AddPartitionsToTxn:
    requested: dict[tuple[Producer, bool], dict[str, dict[int, None]]] = {}
    for each in questions:
        requested.setdefault((each.producer, each.adds), {}).setdefault(each.topic, {})[each.partition] = None
    return AddPartitionsToTxn(
        tuple(
            AddPartitions(
                producer.transactional_id,
                producer.producer_id,
                producer.producer_epoch,
                tuple(TopicPartitions(topic, tuple(indexes)) for topic, indexes in topics.items()),
                verify_only=not adds,
                for_client=adds,
            )
            for (producer, adds), topics in requested.items()
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
