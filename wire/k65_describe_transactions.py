"""DescribeTransactions, API key 65, version 0: all that the coordinator knows of these ids (KIP-664)."""

from typing import Any, Final

from controller.errors import ApiError
from controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsAnswer,
)
from records.transaction_log import TopicPartitions
from wire.dispatch import Api
from wire.errors import code_of
from wire.schema import ANSWER_ELEMENTS_MAX, Buffer, Message

_REQUEST: Final = Message(65, "request")
_RESPONSE: Final = Message(65, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> DescribeTransactions:
    return DescribeTransactions(_REQUEST.decode(version, body)["transactional_ids"])


def _encode_request(version: int, request: DescribeTransactions) -> bytes:
    return _REQUEST.encode(version, {"transactional_ids": request.transactional_ids})


def _encode_response(version: int, answer: DescribeTransactionsAnswer, throttle_ms: int) -> bytes:
    states = tuple(_row(each) for each in answer.transactions)
    return _RESPONSE.encode(version, {"throttle_time_ms": throttle_ms, "transaction_states": states})


def _row(described: DescribedTransaction) -> dict[str, Any]:
    return {
        "error_code": described.error_code,
        "transactional_id": described.transactional_id,
        "transaction_state": described.state,
        "transaction_timeout_ms": described.transaction_timeout_ms,
        "transaction_start_time_ms": described.started_ms,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "topics": tuple(
            {"topic": each.topic, "partitions": each.partition_ids} for each in described.partitions
        ),
    }


def _refusal(version: int, request: DescribeTransactions | None, error: ApiError, throttle_ms: int) -> bytes:
    asked = request.transactional_ids if request is not None else ()
    rows = tuple(DescribedTransaction(each, error.code, started_ms=0) for each in asked)
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
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
