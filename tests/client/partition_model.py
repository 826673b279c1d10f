"""A partition's log as Kafka's leaders keep it: sequence rules, and the records in their order."""

from collections import deque
from dataclasses import dataclass, field

from fencepost.records import compression
from fencepost.records.batch import batch_header, checked_header, decode_records
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.wire.requests import ErrorCode

DUPLICATE_SEQUENCE_NUMBER = 46
REMEMBERED = 5


@dataclass
class Written:
    """What is known of one producer: its epoch, next sequence, and last batches."""

    epoch: int
    next_sequence: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


def records_of(raw: bytes) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of each record of one batch."""
    header = checked_header(raw)
    body = raw[HEADER_BYTES : header.size]
    if header.compression:
        body = bytes(compression.decompress(header.compression, body))
    found = decode_records(body, 0, header.record_count, 0, header.base_timestamp_ms)
    return [(each.key, each.value) for each in found]


class PartitionModel:
    """The log of one partition. ``append`` answers (error code, base offset)."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self.batches: list[bytes] = []
        self._producers: dict[int, Written] = {}

    @property
    def values(self) -> list[bytes | None]:
        return [value for _, value in self.records]

    def append(self, raw: bytes) -> tuple[int, int]:
        header = batch_header(raw)
        known = self._producers.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if known is None or header.producer_epoch > known.epoch:
            if known is not None and header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            known = self._producers[header.producer_id] = Written(header.producer_epoch, header.base_sequence)
        for sequence, count, offset in known.batches:
            if (sequence, count) == (header.base_sequence, header.record_count):
                return ErrorCode.NONE, offset
        if header.base_sequence < known.next_sequence:
            return DUPLICATE_SEQUENCE_NUMBER, -1
        if header.base_sequence > known.next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.records)
        found = records_of(raw)
        self.records += found
        self.batches.append(raw)
        known.next_sequence += len(found)
        known.batches.append((header.base_sequence, len(found), offset))
        return ErrorCode.NONE, offset
