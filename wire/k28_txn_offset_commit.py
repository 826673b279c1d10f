"""TxnOffsetCommit, API key 28, versions 0-5: a transaction commits how far it has read.

2   leader epoch of each offset, and COORDINATOR_LOAD_IN_PROGRESS; below, COORDINATOR_NOT_AVAILABLE says it
3   flexible; generation, member and instance of the consumer (KIP-447)
4   may be answered with TRANSACTION_ABORTABLE; below, INVALID_TXN_STATE says it
5   adds the log of groups to the transaction by itself (KIP-890)
A fenced producer is answered INVALID_PRODUCER_EPOCH in every version, as by Kafka: librdkafka would only
abort on PRODUCER_FENCED. The code stands at each partition.
"""

import struct
from typing import Final

from msgspec.structs import replace

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import (
    NO_IDENTITY,
    CommitTransactionOffsets,
    PartitionCode,
    PartitionCodes,
)
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import code_of, gated
from fencepost.wire.offset_rows import read_codes, read_offsets, same_for_all, write_codes, write_offsets
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer

_EPOCHS_FROM: Final = 2
_LOADING_FROM: Final = 2
_FLEXIBLE_FROM: Final = 3
_ABORTABLE_FROM: Final = 4
_ADDING_FROM: Final = 5
_FENCED_NEVER: Final = 1 << 15
_PRODUCER: Final = struct.Struct(">qh")  # producer id | producer epoch


def _decode_request(version: int, body: Buffer) -> CommitTransactionOffsets:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"TxnOffsetCommit v{version}", reader, lambda reader: _read_request(version, reader))


def _read_request(version: int, reader: Reader) -> CommitTransactionOffsets:
    transactional_id = reader.string()
    group_id = reader.string()
    producer_id, producer_epoch = reader.fields(_PRODUCER)
    identity = NO_IDENTITY
    if version >= _FLEXIBLE_FROM:
        generation = reader.int32()
        member_id = reader.string()
        identity = Identity(member_id, reader.nullable_string(), generation)
    offsets = read_offsets(reader, epochs=version >= _EPOCHS_FROM)
    reader.skip_tags()
    return CommitTransactionOffsets(
        transactional_id,
        group_id,
        producer_id,
        producer_epoch,
        offsets,
        identity,
        knows_abortable=version >= _ABORTABLE_FROM,
        adds_offsets=version >= _ADDING_FROM,
    )


def _newest_for(request: CommitTransactionOffsets) -> int:
    return _ADDING_FROM if request.adds_offsets else _ADDING_FROM - 1


def _encode_request(version: int, request: CommitTransactionOffsets) -> bytes:
    if request.adds_offsets and version < _ADDING_FROM:
        raise UnsupportedVersion(f"a TxnOffsetCommit that adds offsets needs version {_ADDING_FROM}")
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.transactional_id)
    writer.string(request.group_id)
    writer.pack(_PRODUCER, request.producer_id, request.producer_epoch)
    if version >= _FLEXIBLE_FROM:
        writer.int32(request.identity.generation)
        writer.string(request.identity.member_id)
        writer.string(request.identity.instance_id)
    write_offsets(writer, request.offsets, epochs=version >= _EPOCHS_FROM)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: PartitionCodes, throttle_ms: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    write_codes(writer, [_gated(version, each) for each in answer.rows])
    writer.no_tags()
    return writer.message()


def _gated(version: int, row: PartitionCode) -> PartitionCode:
    if row.code == ErrorCode.NONE:
        return row
    code = gated(row.code, version, fenced_from=_FENCED_NEVER, abortable_from=_ABORTABLE_FROM)
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return replace(row, code=code_of(code))


def _refusal(
    version: int, request: CommitTransactionOffsets | None, error: ApiError, throttle_ms: int
) -> bytes:
    offsets = request.offsets if request is not None else ()
    return _encode_response(version, PartitionCodes(same_for_all(offsets, error.code)), throttle_ms)


def _decode_response(version: int, body: Buffer) -> PartitionCodes:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"TxnOffsetCommit answer v{version}", reader, _read_response)


def _read_response(reader: Reader) -> PartitionCodes:
    reader.int32()
    rows = read_codes(reader)
    reader.skip_tags()
    reader.finish()
    return PartitionCodes(rows)


TXN_OFFSET_COMMIT: Final[Api[CommitTransactionOffsets, PartitionCodes]] = Api(
    key=28,
    name="TxnOffsetCommit",
    versions=range(6),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    newest_for=_newest_for,
)
