"""DescribeTransactions, API key 65, version 0: all that the coordinator knows of these ids (KIP-664)."""

import struct
from typing import Any, Final

from fencepost.controller.errors import ApiError
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsAnswer,
)
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import code_of
from fencepost.wire.request_limits import TRANSACTION_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX, Buffer, Message

_TIMES: Final = struct.Struct(">iqqh")  # timeout ms | start ms | producer id | epoch
_REQUEST: Final = Message(65, "request", elements_max=2 * LOOKED_UP_ELEMENTS_MAX)  # a refusal names each
_RESPONSE: Final = Message(65, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> DescribeTransactions:
    return DescribeTransactions(_REQUEST.decode(version, body)["transactional_ids"])


def _encode_request(version: int, request: DescribeTransactions) -> bytes:
    return _REQUEST.encode(version, {"transactional_ids": request.transactional_ids})


def _encode_response(version: int, answer: DescribeTransactionsAnswer, throttle_ms: int) -> bytes:
    """By hand: there may be thousands of rows, and of partitions."""
    writer = Writer(flexible=True)
    writer.int32(throttle_ms)
    writer.count(len(answer.transactions))
    for each in answer.transactions:
        _write_row(writer, each)
    writer.no_tags()
    return writer.message()


def _write_row(writer: Writer, described: DescribedTransaction) -> None:
    writer.int16(described.error_code)
    writer.string(described.transactional_id)
    writer.string(described.state)
    writer.pack(
        _TIMES,
        described.transaction_timeout_ms,
        described.started_ms,
        described.producer_id,
        described.producer_epoch,
    )
    writer.count(len(described.partitions))
    for each in described.partitions:
        writer.string(each.topic)
        writer.int32s(each.partition_ids)
        writer.no_tags()
    writer.no_tags()


def _refusal(version: int, request: DescribeTransactions | None, error: ApiError, throttle_ms: int) -> bytes:
    requested = request.transactional_ids if request is not None else ()
    rows = tuple(DescribedTransaction(each, error.code, started_ms=0) for each in requested)
    return _encode_response(version, DescribeTransactionsAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DescribeTransactionsAnswer:
    states = _RESPONSE.decode(version, body)["transaction_states"]
    return DescribeTransactionsAnswer(tuple(_described(each) for each in states))


def _described(row: dict[str, Any]) -> DescribedTransaction:
    return DescribedTransaction(
        row["transactional_id"],
        code_of(row["error_code"]),
        row["transaction_state"],
        row["transaction_timeout_ms"],
        row["transaction_start_time_ms"],
        row["producer_id"],
        row["producer_epoch"],
        tuple(TopicPartitions(each["topic"], each["partitions"]) for each in row["topics"]),
    )


DESCRIBE_TRANSACTIONS: Final[Api[DescribeTransactions, DescribeTransactionsAnswer]] = Api(
    key=65,
    name="DescribeTransactions",
    versions=range(1),
    flexible_from=0,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TRANSACTION_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
