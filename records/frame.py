"""Metadata record frames: the value of every record in ``__cluster_metadata-0``.

Layout   frame version varint = 1 | record key varint | record version varint | message (flexible).
Rejects  frame version 0, an unknown key or version, trailing bytes: as Kafka's MetadataRecordSerde.

AllocateProducerIdsRecord, by far the most frequent record, has a hand-written codec: its 24 bytes are
fixed. It is tested equal to the general one.
"""

import struct
from typing import Final

from records.invariant import CorruptData, InvariantViolation
from records.message import read_message, read_unsigned_varint, write_message
from records.schema import METADATA_RECORDS, AllocateProducerIdsRecord, MetadataRecord, allocated

FRAME_VERSION: Final = 1

_ALLOCATE: Final = struct.Struct(">BBBiqqB")  # frame version, key, version, three fields, no tags
_ALLOCATE_PREFIX: Final = bytes((FRAME_VERSION, AllocateProducerIdsRecord.record_key, 0))


def encode_frame(record: MetadataRecord) -> bytes:
    """Frame a metadata record. Inverse: ``decode_frame``.

    Raises   InvariantViolation if a field does not fit its Kafka type: whoever decided it is wrong.
    """
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


def decode_frame(frame: bytes) -> MetadataRecord:
    """Inverse of ``encode_frame``. Raises CorruptData."""
    if len(frame) == _ALLOCATE.size and frame[:3] == _ALLOCATE_PREFIX and frame[-1] == 0:
        _, _, _, broker_id, broker_epoch, producer_id_end, _ = _ALLOCATE.unpack(frame)
        return allocated(broker_id, broker_epoch, producer_id_end)
    return decode_frame_generally(frame)


def decode_frame_generally(frame: bytes) -> MetadataRecord:
    """What ``decode_frame`` does for every record without a codec of its own."""
    frame_version, position = read_unsigned_varint(frame, 0)
    if frame_version != FRAME_VERSION:
        raise CorruptData(f"metadata frame version {frame_version}, expected {FRAME_VERSION}")
    key, position = read_unsigned_varint(frame, position)
    version, position = read_unsigned_varint(frame, position)
    record_type = METADATA_RECORDS.get(key)
    if record_type is None:
        raise CorruptData(f"unknown metadata record key {key}")
    if version != record_type.__version__:
        raise CorruptData(f"{record_type.__name__} version {version}, expected {record_type.__version__}")
    record, end = read_message(record_type, frame, position)
    if end != len(frame):
        raise CorruptData(f"{len(frame) - end} bytes after {record_type.__name__}")
    return record
