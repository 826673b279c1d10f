"""The marker that ends a transaction in a partition's log: a control batch of one record.

Key      version i16 = 0 | type i16: 0 abort, 1 commit.
Value    version i16 = 0 | coordinator epoch i32.
Header   ``fencepost.image.version``, u64: the image version of the decision that the marker belongs to, so
         that a partition that lost all but its log still knows a late duplicate. Absent: none is known.
         Kafka's readers do not look at the headers of a marker.
Source   Kafka EndTransactionMarker; docs/kafka-notes.md C3.
"""

import struct
from dataclasses import dataclass
from typing import Final

from fencepost.records.batch import Batch, Header, encode_batch
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term

VERSION_HEADER: Final = b"fencepost.image.version"
NO_VERSION: Final = ImageVersion(0)
IMAGE_VERSION_MAX: Final = ImageVersion(2**53)
"""No coordinator comes to a higher one: that takes 285 years at a million entries a second."""

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = struct.Struct(">Q")
_ABORT: Final = 0
_COMMIT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """How a producer's transaction ended, and which coordinator epoch decided it.

    ``bumps_epoch``   its epoch is above that of the transaction's batches, which a client of transactions V2
                      sent (KIP-890). Not in the log: what is there was taken.
    """

    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: ImageVersion = NO_VERSION
    bumps_epoch: bool = False


def encode_end_marker(marker: EndMarker, *, base_offset: Offset, leader_epoch: Term, now_ms: int) -> bytes:
    """The control batch. Inverse: ``end_marker(decode_batch(...))``."""
    return encode_batch(
        (marker_parts(marker),),
        timestamp_ms=now_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        control=True,
        transactional=True,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )


def marker_parts(marker: EndMarker) -> tuple[bytes, bytes, tuple[Header, ...]]:
    """Key, value and headers of the record in the control batch."""
    version = marker.version
    headers = ((VERSION_HEADER, _VERSION.pack(version)),) if version != NO_VERSION else ()
    key = _KEY.pack(0, _COMMIT if marker.committed else _ABORT)
    return key, _VALUE.pack(0, marker.coordinator_epoch), headers


def end_marker(batch: Batch) -> EndMarker | None:
    """What a control batch says; None if it is of another type.

    Raises   CorruptData if it has no record, or a key or value that is too short.
    """
    if not batch.records:
        raise CorruptData(f"the control batch at offset {batch.base_offset} has no record")
    record = batch.records[0]
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        raise CorruptData(f"the key of a control record is {record.key!r}, expected {_KEY.size} bytes")
    _, kind = _KEY.unpack_from(key)
    if kind not in {_ABORT, _COMMIT}:
        return None
    if len(value) < _VALUE.size:
        raise CorruptData(f"the value of a marker is {record.value!r}, expected {_VALUE.size} bytes")
    version = dict(record.headers).get(VERSION_HEADER)
    return EndMarker(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        committed=kind == _COMMIT,
        coordinator_epoch=_VALUE.unpack_from(value)[1],
        version=ImageVersion(_VERSION.unpack(version)[0]) if version and len(version) == 8 else NO_VERSION,
    )
