"""AddPartitionsToTxn, API key 24, versions 0-5: what a transaction is about to write to.

0-3  one transaction, from a client; 4 and 5 many, from a broker, each perhaps only to be verified
2    may be answered with PRODUCER_FENCED; below, INVALID_PRODUCER_EPOCH says it
3    flexible
5    may be answered with TRANSACTION_ABORTABLE; below, INVALID_TXN_STATE says it
The code stands at each partition. An answer of versions 0-3 does not name its transaction: its id is read
as "".
"""

import struct
from collections.abc import Iterable
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    same_for_all,
)
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import code_of, gated, raise_for
from fencepost.wire.request_limits import TRANSACTION_LISTS
from fencepost.wire.schema import NAMED_ELEMENTS_MAX, Buffer

_FLEXIBLE_FROM: Final = 3
_BATCHED_FROM: Final = 4
_TOPICS_MAX: Final = NAMED_ELEMENTS_MAX  # of one transaction
_FENCED_FROM: Final = 2
_ABORTABLE_FROM: Final = 5
_PRODUCER: Final = struct.Struct(">qh")  # producer id | producer epoch
_PRODUCER_VERIFIED: Final = struct.Struct(">qh?")  # and whether only to verify
_RESULT: Final = struct.Struct(">ih")  # partition index | error


def _decode_request(version: int, body: Buffer) -> AddPartitionsToTxn:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"AddPartitionsToTxn v{version}", reader, lambda reader: _read_request(version, reader))


def _read_request(version: int, reader: Reader) -> AddPartitionsToTxn:
    if version < _BATCHED_FROM:
        return AddPartitionsToTxn((_read_transaction(version, reader),), batched=False)
    transactions = tuple(_read_transaction(version, reader) for _ in range(reader.count()))
    reader.skip_tags()
    return AddPartitionsToTxn(transactions, batched=True)


def _read_transaction(version: int, reader: Reader) -> AddPartitions:
    transactional_id = reader.string()
    verify_only = False
    if version < _BATCHED_FROM:
        producer_id, producer_epoch = reader.fields(_PRODUCER)
    else:
        producer_id, producer_epoch, verify_only = reader.fields(_PRODUCER_VERIFIED)
    topics: list[TopicPartitions] = []
    count = reader.count()
    if count > _TOPICS_MAX:
        raise CorruptData(f"more than {_TOPICS_MAX} topics in one transaction")
    for _ in range(count):
        topics.append(TopicPartitions(reader.string(), reader.int32s()))
        reader.skip_tags()
    reader.skip_tags()
    adds = version >= _BATCHED_FROM and not verify_only
    return AddPartitions(transactional_id, producer_id, producer_epoch, tuple(topics), verify_only, adds)


def _encode_request(version: int, request: AddPartitionsToTxn) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _BATCHED_FROM:
        writer.count(len(request.transactions))
    elif len(request.transactions) != 1 or request.transactions[0].verify_only:
        raise UnsupportedVersion(f"many transactions, and verifying, need version {_BATCHED_FROM}")
    for each in request.transactions:
        writer.string(each.transactional_id)
        if version < _BATCHED_FROM:
            writer.pack(_PRODUCER, each.producer_id, each.producer_epoch)
        else:
            writer.pack(_PRODUCER_VERIFIED, each.producer_id, each.producer_epoch, each.verify_only)
        writer.count(len(each.topics))
        for topic in each.topics:
            writer.string(topic.topic)
            writer.int32s(topic.partition_ids)
            writer.no_tags()
        writer.no_tags()
    if version >= _BATCHED_FROM:
        writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: AddPartitionsToTxnAnswer, throttle_ms: int) -> bytes:
    """A refusal of one whole transaction has no place of its own: in an answer to many it is said of all."""
    refused = [result for _, result in answer.results if isinstance(result, ErrorCode)]
    invariant(
        not refused or version >= _BATCHED_FROM, "an answer to one transaction has a code per partition"
    )
    return _encode(version, answer, throttle_ms, error_code=refused[0] if refused else ErrorCode.NONE)


def _encode(version: int, answer: AddPartitionsToTxnAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    if version >= _BATCHED_FROM:
        writer.int16(_gated(version, error_code))
        writer.count(len(answer.results))
    for transactional_id, result in answer.results:
        if version >= _BATCHED_FROM:
            writer.string(transactional_id)
        _write_topics(version, writer, () if isinstance(result, ErrorCode) else result.errors)
        writer.no_tags()
    if version >= _BATCHED_FROM:
        writer.no_tags()
    return writer.message()


def _write_topics(
    version: int, writer: Writer, topics: tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...]
) -> None:
    writer.count(len(topics))
    for topic, results in topics:
        writer.string(topic)
        writer.count(len(results))
        for index, error_code in results:
            writer.pack(_RESULT, index, _gated(version, error_code))
            writer.no_tags()
        writer.no_tags()


def _gated(version: int, error_code: int) -> int:
    return gated(error_code, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM)


def _refusal(version: int, request: AddPartitionsToTxn | None, error: ApiError, throttle_ms: int) -> bytes:
    transactions = request.transactions if request is not None else ()
    if version >= _BATCHED_FROM:
        return _encode(version, AddPartitionsToTxnAnswer(()), throttle_ms, error_code=error.code)
    if not transactions:  # it was not read: the error has no partition to stand at
        transactions = (AddPartitions("", NO_PRODUCER_ID, NO_EPOCH, ()),)
    results = tuple((each.transactional_id, same_for_all(each, error.code)) for each in transactions)
    return _encode_response(version, AddPartitionsToTxnAnswer(results), throttle_ms)


def _decode_response(version: int, body: Buffer) -> AddPartitionsToTxnAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    name = f"AddPartitionsToTxn answer v{version}"
    error_code, answer = read(name, reader, lambda reader: _read_response(version, reader))
    raise_for(error_code)
    return answer


def _read_response(version: int, reader: Reader) -> tuple[int, AddPartitionsToTxnAnswer]:
    reader.int32()
    error_code = 0
    if version < _BATCHED_FROM:
        results = [("", AddPartitionsAnswer(tuple(_read_topics(reader))))]
    else:
        error_code = reader.int16()
        results = []
        for _ in range(reader.count()):
            results.append((reader.string(), AddPartitionsAnswer(tuple(_read_topics(reader)))))
            reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return error_code, AddPartitionsToTxnAnswer(tuple(results))


def _read_topics(reader: Reader) -> Iterable[tuple[str, tuple[tuple[int, ErrorCode], ...]]]:
    for _ in range(reader.count()):
        topic = reader.string()
        results: list[tuple[int, ErrorCode]] = []
        for _ in range(reader.count()):
            index, error_code = reader.fields(_RESULT)
            results.append((index, code_of(error_code)))
            reader.skip_tags()
        reader.skip_tags()
        yield topic, tuple(results)


ADD_PARTITIONS_TO_TXN: Final[Api[AddPartitionsToTxn, AddPartitionsToTxnAnswer]] = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions=range(6),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TRANSACTION_LISTS,  # up to 5,000 transactions of a broker's, each with topics
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
