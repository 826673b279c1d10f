"""Metadata record frames: the value of every record in ``__cluster_metadata-0``.

Layout   frame version varint = 1 | record key varint | record version varint | message (flexible).
Rejects  frame version 0, an unknown key or version, trailing bytes: as Kafka's MetadataRecordSerde.

AllocateProducerIdsRecord, by far the most frequent record, has a hand-written codec: its 24 bytes are
fixed. So has a PartitionRecord of one replica, of which one request may make ten thousand: 65 bytes.
Both are tested equal to the general one.
"""

import functools
import struct
from typing import Final
from uuid import UUID

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.message import read_message, write_message
from fencepost.records.schema import (
    METADATA_RECORDS,
    AllocateProducerIdsRecord,
    MetadataRecord,
    PartitionRecord,
    allocated,
)
from fencepost.records.varint import read_unsigned

FRAME_VERSION: Final = 1

_ALLOCATE: Final = struct.Struct(">BBBiqqB")  # frame version, key, version, three fields, no tags
_ALLOCATE_PREFIX: Final = bytes((FRAME_VERSION, AllocateProducerIdsRecord.record_key, 0))

# Frame version, key, version | partition | topic | 1 replica | 1 in sync | none removed, none added | leader,
# leader epoch, partition epoch | 1 directory | no tags. An array's length is written plus one.
_PARTITION: Final = struct.Struct(">3si16sBiBiBBiiiB16sB")
_PARTITION_PREFIX: Final = bytes((FRAME_VERSION, PartitionRecord.record_key, 1))
_PARTITION_SHAPE: Final = (2, 2, 1, 1, 2, 0)


def encode_frame(record: MetadataRecord) -> bytes:
    """Frame a metadata record. Inverse: ``decode_frame``.

    Raises   InvariantViolation if a field does not fit its Kafka type: a bug of the code that decided it.
    """
    if type(record) is PartitionRecord:
        return _encode_partition(record)
    if type(record) is not AllocateProducerIdsRecord:
        return encode_frame_generally(record)
    try:
        return _ALLOCATE.pack(
            FRAME_VERSION, 15, 0, record.broker_id, record.broker_epoch, record.producer_id_end, 0
        )
    except struct.error as error:
        raise InvariantViolation(f"a record cannot be written: {error}: {record!r}") from error


def encode_frame_generally(record: MetadataRecord) -> bytes:
    """What ``encode_frame`` does for every record without a codec of its own."""
    # Every key and version is below 128: one byte each.
    return bytes((FRAME_VERSION, record.record_key, record.__version__)) + write_message(record)


def _encode_partition(record: PartitionRecord) -> bytes:
    alone = len(record.replicas) == len(record.isr) == len(record.directories) == 1
    if not alone or record.removing_replicas or record.adding_replicas or record.leader_recovery_state:
        return encode_frame_generally(record)
    try:
        return _PARTITION.pack(
            _PARTITION_PREFIX,
            record.partition_id,
            record.topic_id.bytes,
            2,
            record.replicas[0],
            2,
            record.isr[0],
            1,
            1,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            2,
            record.directories[0].bytes,
            0,
        )
    except struct.error as error:
        raise InvariantViolation(f"a record cannot be written: {error}: {record!r}") from error


@functools.lru_cache(maxsize=1024)
def _uuid(raw: bytes) -> UUID:
    """A topic's partitions name it, and a broker its directory, again and again."""
    return UUID(bytes=raw)


def _decode_partition(frame: bytes) -> PartitionRecord | None:
    """None: the 65 bytes are of another shape."""
    (
        _,
        partition_id,
        topic_id,
        replicas,
        replica,
        in_sync,
        isr,
        removing,
        adding,
        leader,
        leader_epoch,
        partition_epoch,
        directories,
        directory,
        tags,
    ) = _PARTITION.unpack(frame)
    if (replicas, in_sync, removing, adding, directories, tags) != _PARTITION_SHAPE:
        return None
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=_uuid(topic_id),
        replicas=(replica,),
        isr=(isr,),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=(_uuid(directory),),
    )


def decode_frame(frame: bytes) -> MetadataRecord:
    """Inverse of ``encode_frame``. Raises CorruptData."""
    if len(frame) == _ALLOCATE.size and frame[:3] == _ALLOCATE_PREFIX and frame[-1] == 0:
        _, _, _, broker_id, broker_epoch, producer_id_end, _ = _ALLOCATE.unpack(frame)
        return allocated(broker_id, broker_epoch, producer_id_end)
    if len(frame) == _PARTITION.size and frame[:3] == _PARTITION_PREFIX:
        return _decode_partition(frame) or decode_frame_generally(frame)
    return decode_frame_generally(frame)


def decode_frame_generally(frame: bytes) -> MetadataRecord:
    """What ``decode_frame`` does for every record without a codec of its own."""
    frame_version, position = read_unsigned(frame, 0)
    if frame_version != FRAME_VERSION:
        raise CorruptData(f"metadata frame version {frame_version}, expected {FRAME_VERSION}")
    key, position = read_unsigned(frame, position)
    version, position = read_unsigned(frame, position)
    record_type = METADATA_RECORDS.get(key)
    if record_type is None:
        raise CorruptData(f"unknown metadata record key {key}")
    if version != record_type.__version__:
        raise CorruptData(f"{record_type.__name__} version {version}, expected {record_type.__version__}")
    record, end = read_message(record_type, frame, position)
    if end != len(frame):
        raise CorruptData(f"{len(frame) - end} bytes after {record_type.__name__}")
    return record
