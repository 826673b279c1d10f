"""Group records: the vocabulary of ``__consumer_offsets-0``, as Kafka spells it.

Key       i16 key type, then what that type's own file says: records/offset_commit.py (0 and 1),
          records/group_metadata.py (2).
Producer  a record that belongs to a transaction names its producer, which Kafka writes in the header of the
          batch. So a batch holds records of one producer, and a marker (COMMIT or ABORT) lies in one alone.
Order     ``encode_group_batches`` keeps it: Kafka's readers apply the batches one after the other.
Sequence  of a transactional batch 0, of any other none (-1), as Kafka's coordinator writes them.
Source    Kafka GroupMetadataManager, CoordinatorRuntime, MemoryRecords.writeEndTransactionalMarker.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from fencepost.records.batch import Batch, RecordParts, encode_batch
from fencepost.records.end_marker import NO_VERSION, EndMarker, end_marker, marker_parts
from fencepost.records.group_metadata import KEY_VERSION as GROUP_KEY
from fencepost.records.group_metadata import GroupForgotten, GroupMetadata, decode_group, encode_group
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.offset_commit import (
    KEY_VERSIONS,
    OffsetCommitRecord,
    OffsetForgotten,
    decode_offset,
    encode_offset,
)
from fencepost.records.types import ProducerId

NO_SEQUENCE: Final = -1
NO_PRODUCER: Final = (ProducerId(-1), -1)
"""Producer id and epoch of a batch that belongs to no transaction."""

_KEY_TYPE: Final = struct.Struct(">h")


class UnknownGroupRecord(msgspec.Struct, frozen=True):
    """A record of a key type that this version does not know. It takes its offset and changes nothing."""

    producer_id: ClassVar[ProducerId] = NO_PRODUCER[0]
    producer_epoch: ClassVar[int] = NO_PRODUCER[1]

    key_type: int


GroupRecord: TypeAlias = EndMarker | OffsetCommitRecord | OffsetForgotten | GroupMetadata | GroupForgotten
"""What a decision may write to this log. Each has ``producer_id`` and ``producer_epoch``; -1 is none."""

LoggedGroupRecord: TypeAlias = GroupRecord | UnknownGroupRecord

Encode: TypeAlias = Callable[[Any], tuple[bytes, bytes | None]]
"""Key and value of a record; the value of a tombstone is None."""

Decode: TypeAlias = Callable[[bytes, bytes | None, ProducerId, int], GroupRecord]
"""The record of a key (its type included) and a value, of this producer id and epoch. Raises CorruptData."""


def _encode_marker(marker: EndMarker) -> tuple[bytes, bytes | None]:
    """Without the image version: a marker here is applied with the decision that wrote it."""
    if marker.version != NO_VERSION:
        raise InvariantViolation(f"a marker of the group log has no image version: {marker}")
    key, value, _ = marker_parts(marker)
    return key, value


def _decode_group(
    key: bytes, value: bytes | None, _producer_id: ProducerId, _producer_epoch: int
) -> GroupMetadata | GroupForgotten:
    return decode_group(key, value)


ENCODERS: Final[dict[type, Encode]] = {
    EndMarker: _encode_marker,
    GroupMetadata: encode_group,
    GroupForgotten: encode_group,
    OffsetCommitRecord: encode_offset,
    OffsetForgotten: encode_offset,
}
DECODERS: Final[dict[int, Decode]] = {GROUP_KEY: _decode_group, **dict.fromkeys(KEY_VERSIONS, decode_offset)}
"""By key type. A marker has none: its batch is a control batch."""


def encode_group_record(record: GroupRecord) -> RecordParts:
    """Key, value and headers of a record. Raises InvariantViolation if a field does not fit its type."""
    key, value = ENCODERS[type(record)](record)
    return key, value, ()


def encode_group_batches(
    records: Sequence[GroupRecord], parts: Sequence[RecordParts], timestamp_ms: int
) -> list[bytes]:
    """The batches that hold the records in their order. ``parts``: of each, see ``encode_group_record``.

    Inverse  ``decode_group_batch`` of each.
    """
    return [
        encode_batch(
            parts[first:end],
            timestamp_ms=timestamp_ms,
            control=control,
            transactional=(producer_id, producer_epoch) != NO_PRODUCER,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=NO_SEQUENCE if control or producer_id == NO_PRODUCER[0] else 0,
        )
        for first, end, control, producer_id, producer_epoch in batch_bounds(records)
    ]


def batch_bounds(records: Sequence[GroupRecord]) -> list[tuple[int, int, bool, ProducerId, int]]:
    """How the records lie in batches: [first, end), control, producer id and epoch of each batch."""
    bounds: list[tuple[int, int, bool, ProducerId, int]] = []
    first, before = 0, None
    for number, record in enumerate(records):
        kind = (type(record) is EndMarker, record.producer_id, record.producer_epoch)
        if before is not None and (kind != before or before[0]):
            bounds.append((first, number, *before))
            first = number
        before = kind
    if before is not None:
        bounds.append((first, len(records), *before))
    return bounds


def decode_group_batch(batch: Batch) -> tuple[LoggedGroupRecord, ...]:
    """A record for each offset of a batch as ``encode_group_batches`` writes it. Raises CorruptData."""
    producer_id, producer_epoch = batch.producer_id, batch.producer_epoch
    if batch.is_transactional != ((producer_id, producer_epoch) != NO_PRODUCER) or producer_id < -1:
        raise CorruptData(
            f"a batch of producer id {producer_id}, epoch {producer_epoch}, whose transactional bit is "
            f"{batch.is_transactional}"
        )
    if batch.is_control:
        if len(batch.records) != 1 or not batch.is_transactional:
            raise CorruptData(f"{len(batch.records)} markers in a batch of producer id {producer_id}")
        marker = end_marker(batch)
        return (UnknownGroupRecord(-1) if marker is None else marker,)
    return tuple([_decode(key, value, producer_id, producer_epoch) for _, _, key, value, _ in batch.records])


def _decode(
    key: bytes | None, value: bytes | None, producer_id: ProducerId, producer_epoch: int
) -> LoggedGroupRecord:
    if key is None or len(key) < _KEY_TYPE.size:
        raise CorruptData(f"a group record with key {key!r}, expected a key type and what it names")
    key_type: int = _KEY_TYPE.unpack_from(key)[0]
    decode = DECODERS.get(key_type)
    return UnknownGroupRecord(key_type) if decode is None else decode(key, value, producer_id, producer_epoch)
