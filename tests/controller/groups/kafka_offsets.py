"""What a broker of Apache Kafka makes of ``__consumer_offsets-0``: its rules, written down on their own.

Of OffsetMetadataManager: an offset without a producer counts at once; one with a producer is pending; a
tombstone removes both; COMMIT applies a pending offset only if its record lies behind the committed one's;
ABORT drops. Keys and values are read here by struct alone: nothing is shared with what wrote them but the
layout of a record batch.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from fencepost.records.batch import decode_batch

Key = tuple[str, str, int]


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int


def _text(raw: bytes, at: int) -> tuple[str, int]:
    size = struct.unpack_from(">h", raw, at)[0]
    return raw[at + 2 : at + 2 + size].decode(), at + 2 + size


def _key(raw: bytes) -> Key | None:
    if struct.unpack_from(">h", raw)[0] not in (0, 1):
        return None
    group_id, at = _text(raw, 2)
    topic, at = _text(raw, at)
    return group_id, topic, struct.unpack_from(">i", raw, at)[0]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def _value(raw: bytes) -> Committed:
    version, offset, leader_epoch = struct.unpack_from(">hqi", raw)
    assert version == 4
    size, at = _varint(raw, 14)
    metadata = raw[at : at + size - 1].decode()
    return Committed(offset, leader_epoch, metadata, struct.unpack_from(">q", raw, at + size - 1)[0])


class KafkaOffsets:
    """``committed`` and ``pending`` (by producer) after the batches that were read."""

    def __init__(self) -> None:
        self.committed: dict[Key, tuple[int, Committed]] = {}
        self.pending: dict[int, dict[Key, tuple[int, Committed]]] = {}

    def read(self, batches: Iterable[bytes], first: int = 0) -> None:
        for raw in batches:
            batch, _ = decode_batch(raw)
            for number, record in enumerate(batch.records):
                key, at = record.key or b"", first + number
                if batch.is_control:
                    self.end(batch.producer_id, committed=struct.unpack(">hh", key) == (0, 1))
                elif (name := _key(key)) is not None:
                    value = None if record.value is None else _value(record.value)
                    self.take(at, name, value, batch.producer_id)
            first += len(batch.records)

    def take(self, at: int, name: Key, value: Committed | None, producer_id: int) -> None:
        """The record at this offset: an offset, or a tombstone."""
        if value is None:
            self.committed.pop(name, None)
            for pending in self.pending.values():
                pending.pop(name, None)
        elif producer_id < 0:
            self.committed[name] = (at, value)
        else:
            self.pending.setdefault(producer_id, {})[name] = (at, value)

    def end(self, producer_id: int, *, committed: bool) -> None:
        """The control record of a producer."""
        for name, (at, value) in self.pending.pop(producer_id, {}).items():
            there = self.committed.get(name)
            if committed and (there is None or there[0] < at):
                self.committed[name] = (at, value)
