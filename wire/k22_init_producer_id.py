"""InitProducerId, API key 22, versions 0-6: a producer requests its producer id and epoch.

2   flexible
3   producer_id and producer_epoch of a producer that goes on (KIP-360); -1 if it is new
4   may be answered with PRODUCER_FENCED; below, INVALID_PRODUCER_EPOCH says it
5   may be answered with TRANSACTION_ABORTABLE; below, INVALID_TXN_STATE says it
6   two-phase commit (KIP-939), and a transaction that is open may be kept; the answer has its pair. Kafka
    serves this version only with ``unstable.api.versions.enable``
Ours    tagged fields of version 6, of a group's member (KIP-447); Kafka's brokers skip them. The request's:
            1000 ``group_id``, string: what the others belong to; without it they are refused
            1001 ``generation``, i32
            1002 ``partitions``, array of (topic string | array of i32 | tags): what the member was assigned
            1003 ``member_id``, string    1004 ``instance_id``, string
        The answer's: 1000 ``transactional_id``, string: of every group-aware request, whether it had one or
        it is made here. An answer without it is of a broker that knows nothing of these tags.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.controller.errors import ApiError, InvalidRequest, UnsupportedVersion
from fencepost.controller.groups.identity import NO_GENERATION, NO_MEMBER
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions
from fencepost.records.varint import unsigned
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import gated, raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import Buffer

__all__ = [
    "INIT_PRODUCER_ID",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "InitProducerId",
    "InitProducerIdAnswer",
    "MemberAssignment",
]

NO_PRODUCER_EPOCH: Final = NO_EPOCH

_FLEXIBLE_FROM: Final = 2
_PAIR_FROM: Final = 3
_FENCED_FROM: Final = 4
_ABORTABLE_FROM: Final = 5
_TWO_PHASE_FROM: Final = 6
_PRODUCER: Final = struct.Struct(">qh")  # producer id | epoch
_HEAD: Final = struct.Struct(">ih")  # throttle ms | error
_GROUP_TAG: Final = 1000
_GENERATION_TAG: Final = 1001
_PARTITIONS_TAG: Final = 1002
_MEMBER_TAG: Final = 1003
_INSTANCE_TAG: Final = 1004
_TRANSACTIONAL_ID_TAG: Final = 1000  # of the answer


def _decode_request(version: int, body: Buffer) -> InitProducerId:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"InitProducerId v{version}", reader, lambda reader: _read(version, reader, body))


def _read(version: int, reader: Reader, body: Buffer) -> InitProducerId:
    transactional_id, timeout_ms = reader.nullable_string(), reader.int32()
    producer_id, epoch = (
        reader.fields(_PRODUCER) if version >= _PAIR_FROM else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    )
    is_newest = version >= _TWO_PHASE_FROM
    two_phase, keeps = (reader.int8() != 0, reader.int8() != 0) if is_newest else (False, False)
    member = None
    if is_newest:
        member = _read_member(reader, body)
    else:
        reader.skip_tags()
    return InitProducerId(
        transactional_id,
        timeout_ms,
        producer_id,
        epoch,
        version,
        enables_two_phase=two_phase,
        keeps_prepared=keeps,
        member=member,
    )


def _read_member(reader: Reader, body: Buffer) -> MemberAssignment | None:
    """Raises InvalidRequest for tags of ours that cannot be read, in a request that is sound otherwise."""
    start = reader.position
    try:
        tags = reader.tags(_TAGS)
    except (struct.error, IndexError, UnicodeDecodeError, CorruptData) as error:
        Reader(body[start:], flexible=True).tags({})
        raise InvalidRequest(f"the assignment of a group's member cannot be read: {error}") from error
    if not tags:
        return None
    if _GROUP_TAG not in tags:
        raise InvalidRequest(f"tags {sorted(tags)} of a group's member, without the group ({_GROUP_TAG})")
    return MemberAssignment(
        tags[_GROUP_TAG],
        tags.get(_GENERATION_TAG, NO_GENERATION),
        tags.get(_PARTITIONS_TAG, ()),
        tags.get(_MEMBER_TAG, NO_MEMBER),
        tags.get(_INSTANCE_TAG),
    )


def _read_partitions(reader: Reader) -> tuple[TopicPartitions, ...]:
    topics = []
    for _ in range(reader.count()):
        topics.append(TopicPartitions(reader.string(), reader.int32s()))
        reader.skip_tags()
    return tuple(topics)


_TAGS: Final[Mapping[int, Callable[[Reader], Any]]] = {
    _GROUP_TAG: Reader.string,
    _GENERATION_TAG: Reader.int32,
    _PARTITIONS_TAG: _read_partitions,
    _MEMBER_TAG: Reader.string,
    _INSTANCE_TAG: Reader.string,
}


def _newest_for(request: InitProducerId) -> int:
    two_phase = request.enables_two_phase or request.keeps_prepared
    return _TWO_PHASE_FROM if two_phase or request.member is not None else _TWO_PHASE_FROM - 1


def _encode_request(version: int, request: InitProducerId) -> bytes:
    if version < _TWO_PHASE_FROM == _newest_for(request):
        raise UnsupportedVersion(
            f"two-phase commit, keeping what is open, and a group's member need version {_TWO_PHASE_FROM}"
        )
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.transactional_id)
    writer.int32(request.transaction_timeout_ms)
    if version >= _PAIR_FROM:
        writer.pack(_PRODUCER, request.producer_id, request.producer_epoch)
    if version >= _TWO_PHASE_FROM:
        writer.int8(request.enables_two_phase)
        writer.int8(request.keeps_prepared)
    if request.member is None:
        writer.no_tags()
    else:
        _write_tags(writer, _tags_of(request.member))
    return writer.message()


def _tags_of(member: MemberAssignment) -> dict[int, Writer]:
    tags = {tag: Writer(flexible=True) for tag in (_GROUP_TAG, _GENERATION_TAG, _PARTITIONS_TAG)}
    tags[_GROUP_TAG].string(member.group_id)
    tags[_GENERATION_TAG].int32(member.generation)
    topics = tags[_PARTITIONS_TAG]
    topics.count(len(member.partitions))
    for each in member.partitions:
        topics.string(each.topic)
        topics.int32s(each.partition_ids)
        topics.no_tags()
    for tag, text in ((_MEMBER_TAG, member.member_id or None), (_INSTANCE_TAG, member.instance_id)):
        if text is not None:
            tags[tag] = Writer(flexible=True)
            tags[tag].string(text)
    return tags


def _write_tags(writer: Writer, tags: Mapping[int, Writer]) -> None:
    """``tags`` in ascending order."""
    writer.parts.append(unsigned(len(tags)))
    for tag, content in tags.items():
        encoded = content.message()
        writer.parts += (unsigned(tag), unsigned(len(encoded)), encoded)


def _encode_response(version: int, answer: InitProducerIdAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0)


def _refusal(version: int, request: InitProducerId | None, error: ApiError, throttle_ms: int) -> bytes:
    none_given = InitProducerIdAnswer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    code = gated(error.code, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM)
    return _encode(version, none_given, throttle_ms, error_code=code)


def _encode(version: int, answer: InitProducerIdAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.pack(_HEAD, throttle_ms, error_code)
    writer.pack(_PRODUCER, answer.producer_id, answer.producer_epoch)
    if version >= _TWO_PHASE_FROM:
        writer.pack(_PRODUCER, answer.ongoing_producer_id, answer.ongoing_producer_epoch)
    if answer.transactional_id is None or version < _TWO_PHASE_FROM:
        writer.no_tags()
    else:
        tag = Writer(flexible=True)
        tag.string(answer.transactional_id)
        _write_tags(writer, {_TRANSACTIONAL_ID_TAG: tag})
    return writer.message()


def _decode_response(version: int, body: Buffer) -> InitProducerIdAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    code, answer = read(f"InitProducerId v{version}", reader, lambda reader: _read_answer(version, reader))
    raise_for(code)
    return answer


def _read_answer(version: int, reader: Reader) -> tuple[int, InitProducerIdAnswer]:
    _, code = reader.fields(_HEAD)
    producer_id, epoch = reader.fields(_PRODUCER)
    ongoing_id, ongoing_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    tags: Mapping[int, Any] = {}
    if version >= _TWO_PHASE_FROM:
        ongoing_id, ongoing_epoch = reader.fields(_PRODUCER)
        tags = reader.tags({_TRANSACTIONAL_ID_TAG: Reader.string})
    else:
        reader.skip_tags()
    reader.finish()
    transactional_id = tags.get(_TRANSACTIONAL_ID_TAG)
    return code, InitProducerIdAnswer(producer_id, epoch, ongoing_id, ongoing_epoch, transactional_id)


INIT_PRODUCER_ID: Final[Api[InitProducerId, InitProducerIdAnswer]] = Api(
    key=22,
    name="InitProducerId",
    versions=range(7),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,  # a member's assigned partitions
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    newest_for=_newest_for,
)
