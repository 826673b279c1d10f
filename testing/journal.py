"""What clients requested of transactions and committed offsets, as the proxy before each node saw it.

Kept      ``WATCHED``, of Produce only what belongs to a transaction; the last ``REQUESTS_MAX`` of them.
          Frames pass as they came: reading them changes nothing, and one that cannot be read is not kept.
Threads   the proxy's writes, the test's reads; an entry only ever gains what its answer says.
"""

import enum
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from fencepost.records.batch import batch_header
from fencepost.records.invariant import CorruptData
from fencepost.wire.dispatch import Api
from fencepost.wire.frame import parse_request_header
from fencepost.wire.k00_produce import PRODUCE, Produce, ProduceAnswer
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.requests import (
    AddOffsets,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    ApiError,
    CommitOffsets,
    CommitTransactionOffsets,
    EndTxn,
    EndTxnAnswer,
    InitProducerId,
    InitProducerIdAnswer,
    PartitionCodes,
)

REQUESTS_MAX: Final = 20_000  # some 10 MB; a test's last minutes, where it is a load
PARTITIONS_MAX: Final = 20  # kept of one request
NO_PRODUCER: Final = -1
_WATCHED: Final[tuple[Api[Any, Any], ...]] = (
    PRODUCE,
    OFFSET_COMMIT,
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
)
WATCHED: Final = {api.key: api for api in _WATCHED}

Pair = tuple[int, int]
"""Producer id and epoch."""


class Answer(enum.Enum):
    """What became of an answer, as far as the client knows."""

    WAITING = "no answer yet"
    GIVEN = "answered"
    DROPPED = "its answer was dropped by the test's fault"
    LOST = "its connection ended before an answer"
    REFUSED = "answered by the test's fault; the node never saw it"
    CLOSED = "the test's fault closed its connection; the node never saw it"


@dataclass(slots=True, eq=False)
class Request:
    """A client's request. ``code``: the node's answer, also one that the client never got."""

    api: str
    at_s: float
    node: int
    client_id: str = ""
    transactional_id: str | None = None
    group: str | None = None
    pair: Pair | None = None
    committed: bool | None = None  # of EndTxn
    partitions: tuple[tuple[str, int], ...] = ()
    delayed_ms: float = 0
    answer: Answer = Answer.WAITING
    code: int | None = None
    given: Pair | None = None  # the pair of the answer, from here on the client's
    answered_s: float | None = None

    @property
    def is_done(self) -> bool:
        """The client was answered, without an error."""
        return self.answer is Answer.GIVEN and self.code == 0


class Journal:
    """Requests in the order in which they came, over all nodes."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque(maxlen=REQUESTS_MAX)

    def since(self, at_s: float) -> list[Request]:
        """Those that came at that time (of ``time.time``) or later."""
        return [each for each in tuple(self._requests) if each.at_s >= at_s]

    def add(self, node: int, frame: bytes) -> Request | None:
        """Keep a request, if it is one of those."""
        api = WATCHED.get(int.from_bytes(frame[:2], "big"))
        version = int.from_bytes(frame[2:4], "big")
        if api is None or version not in api.versions:
            return None
        try:
            header, start = parse_request_header(frame, flexible=version >= api.flexible_from)
            body = api.decode_request(version, memoryview(frame)[start:])
        except (CorruptData, ApiError):
            return None
        request = Request(api.name, time.time(), node, header.client_id or "")
        if not _fill(request, body):
            return None
        self._requests.append(request)
        return request


def answered(request: Request, version: int, frame: bytes, answer: Answer) -> None:
    """A request's answer came from the node; the client has it, or not: ``answer``."""
    api = next(each for each in WATCHED.values() if each.name == request.api)
    header_bytes = 5 if api.has_tagged_response_header(version) else 4
    try:
        said = api.decode_response(version, memoryview(frame)[header_bytes:])
    except ApiError as error:
        request.code = int(error.code)
    except CorruptData:
        request.code = None
    else:
        request.code = next((code for code in _codes(said) if code), 0)
        if isinstance(said, InitProducerIdAnswer | EndTxnAnswer) and said.producer_id != NO_PRODUCER:
            request.given = (int(said.producer_id), said.producer_epoch)
    request.answered_s = time.time()
    request.answer = answer


def _fill(request: Request, body: Any) -> bool:
    """What the body says; False: it is nothing of a transaction, nor an offset."""
    if isinstance(body, Produce):
        request.transactional_id = body.transactional_id
        request.partitions = _some((each.topic, each.index) for each in body.partitions)
        request.pair = _pair_of(body)
    elif isinstance(body, AddPartitionsToTxn):
        if body.batched or not body.transactions:  # from a broker
            return False
        (one,) = body.transactions
        request.transactional_id, request.pair = one.transactional_id, (one.producer_id, one.producer_epoch)
        request.partitions = _some((each.topic, index) for each in one.topics for index in each.partition_ids)
    elif isinstance(body, InitProducerId | EndTxn | AddOffsets | CommitTransactionOffsets):
        request.transactional_id = body.transactional_id
        request.pair = (int(body.producer_id), body.producer_epoch)
    if isinstance(body, CommitOffsets | CommitTransactionOffsets):
        request.partitions = _some((each.topic, each.partition) for each in body.offsets)
    if isinstance(body, CommitOffsets | CommitTransactionOffsets | AddOffsets):
        request.group = body.group_id
    if isinstance(body, EndTxn):
        request.committed = body.committed
    return request.transactional_id is not None or request.group is not None


def _some(partitions: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(partitions)[:PARTITIONS_MAX]


def _pair_of(produce: Produce) -> Pair | None:
    for each in produce.partitions:
        if each.records is not None:
            try:
                header = batch_header(each.records)
            except CorruptData:
                return None
            return int(header.producer_id), header.producer_epoch
    return None


def _codes(said: Any) -> Iterator[int]:
    if isinstance(said, ProduceAnswer):
        return (int(each.error_code) for each in said.partitions)
    if isinstance(said, PartitionCodes):
        return (int(each.code) for each in said.rows)
    if isinstance(said, AddPartitionsToTxnAnswer):
        return chain.from_iterable(_partition_codes(answer) for _, answer in said.results)
    return iter(())


def _partition_codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, int):
        return iter((int(answer),))
    return (int(code) for _, rows in answer.errors for _, code in rows)
