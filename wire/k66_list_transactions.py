"""ListTransactions, API key 66, versions 0-2: the coordinator's transactional ids (KIP-664).

1   duration_filter (KIP-994)      2   transactional_id_pattern, an RE2 expression (KIP-1152)

Ours   tagged field 1000, empty: this node coordinates nothing. Admin clients ask every broker and take an
       error of one for that of all: NOT_COORDINATOR is an empty list to them. Our commands tell them apart.
       In a row: 1000 ``two_phase_ms``, i64: a transaction of two-phase commit (KIP-939), open for so long.
       1001, empty: a new instance keeps what another one left open. Kafka's list says neither; its
       DescribeTransactions has 2^31 - 1 as the timeout.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fencepost.controller.errors import ApiError, ErrorCode, NotCoordinator
from fencepost.controller.transactions.describe import (
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.records.types import ProducerId
from fencepost.records.varint import unsigned
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, Buffer, Message

_REQUEST: Final = Message(66, "request")

_NO_COORDINATOR_TAG: Final = 1000
_NO_COORDINATOR: Final = b"".join((b"\1", unsigned(_NO_COORDINATOR_TAG), b"\0"))
_NO_TAGS: Final = b"\0"
_THROTTLE_BYTES: Final = 4
_TWO_PHASE_TAG: Final = 1000  # of a row
_KEPT_TAG: Final = 1001
_ROW_TAGS: Final[Mapping[int, Callable[[Reader], Any]]] = {
    _TWO_PHASE_TAG: Reader.int64,
    _KEPT_TAG: lambda _: True,
}


def _decode_request(version: int, body: Buffer) -> ListTransactions:
    message = _REQUEST.decode(version, body)
    return ListTransactions(
        message["state_filters"],
        message["producer_id_filters"],
        message.get("duration_filter", -1),
        message.get("transactional_id_pattern"),
    )


def _encode_request(version: int, request: ListTransactions) -> bytes:
    return _REQUEST.encode(
        version,
        {
            "state_filters": request.state_filters,
            "producer_id_filters": request.producer_id_filters,
            "duration_filter": request.duration_ms,
            "transactional_id_pattern": request.pattern,
        },
    )


class EncodedList(msgspec.Struct, frozen=True):
    """An answer whose ``count`` rows are bytes already, as ``encode_rows`` makes them.

    A million of them take seconds: they are made in slices, the loop free between them.
    """

    unknown_state_filters: tuple[str, ...]
    count: int
    rows: tuple[bytes, ...]


def encode_rows(transactions: tuple[ListedTransaction, ...]) -> bytes:
    """TransactionStates without their count: the same in every version. A microsecond each."""
    writer = Writer(flexible=True)
    for each in transactions:
        writer.string(each.transactional_id)
        writer.int64(each.producer_id)
        writer.string(each.state)
        if each.two_phase_ms < 0 and not each.is_kept:
            writer.no_tags()
        else:
            writer.parts.append(_tags_of(each))
    return writer.message()


def _tags_of(row: ListedTransaction) -> bytes:
    tags = []
    if row.two_phase_ms >= 0:
        tags.append(unsigned(_TWO_PHASE_TAG) + b"\x08" + row.two_phase_ms.to_bytes(8, "big"))
    if row.is_kept:
        tags.append(unsigned(_KEPT_TAG) + b"\0")
    return unsigned(len(tags)) + b"".join(tags)


def _encode_response(version: int, answer: ListTransactionsAnswer | EncodedList, throttle_ms: int) -> bytes:
    if isinstance(answer, ListTransactionsAnswer):
        rows = (encode_rows(answer.transactions),)
        answer = EncodedList(answer.unknown_state_filters, len(answer.transactions), rows)
    return _encode(answer, throttle_ms, error_code=0)


def _refusal(version: int, request: ListTransactions | None, error: ApiError, throttle_ms: int) -> bytes:
    if error.code == ErrorCode.NOT_COORDINATOR:
        return _encode(_NOTHING, throttle_ms, error_code=0, tags=_NO_COORDINATOR)
    return _encode(_NOTHING, throttle_ms, error_code=error.code)


def _encode(answer: EncodedList, throttle_ms: int, *, error_code: int, tags: bytes = _NO_TAGS) -> bytes:
    writer = Writer(flexible=True)
    writer.int32(throttle_ms)
    writer.int16(error_code)
    writer.count(len(answer.unknown_state_filters))
    for name in answer.unknown_state_filters:
        writer.string(name)
    writer.count(answer.count)
    writer.parts += (*answer.rows, tags)
    return writer.message()


_NOTHING: Final = EncodedList((), 0, ())
_NOT_HERE: Final = _encode(_NOTHING, 0, error_code=0, tags=_NO_COORDINATOR)[_THROTTLE_BYTES:]


def _decode_response(version: int, body: Buffer) -> ListTransactionsAnswer:
    if body[_THROTTLE_BYTES:] == _NOT_HERE:
        raise NotCoordinator("this broker coordinates no transactions")
    reader = Reader(body, flexible=True, elements_max=ANSWER_ELEMENTS_MAX)
    return read(f"ListTransactions answer v{version}", reader, _read_answer)


def _read_answer(reader: Reader) -> ListTransactionsAnswer:
    reader.int32()
    raise_for(reader.int16())
    unknown = tuple(reader.string() for _ in range(reader.count()))
    listed = tuple(_read_row(reader) for _ in range(reader.count()))
    reader.skip_tags()
    reader.finish()
    return ListTransactionsAnswer(unknown, listed)


def _read_row(reader: Reader) -> ListedTransaction:
    transactional_id, producer_id, state = reader.string(), ProducerId(reader.int64()), reader.string()
    tags = reader.tags(_ROW_TAGS)
    return ListedTransaction(
        transactional_id, producer_id, state, tags.get(_TWO_PHASE_TAG, -1), _KEPT_TAG in tags
    )


LIST_TRANSACTIONS: Final[Api[ListTransactions, ListTransactionsAnswer | EncodedList]] = Api(
    key=66,
    name="ListTransactions",
    versions=range(3),
    flexible_from=0,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=4 * SMALL,  # ELEMENTS_MAX producer ids, states, a pattern
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
