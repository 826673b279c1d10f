"""The file ``<offset, 20 digits>.snapshot``: the state of every producer before that offset.

Layout   version i16 = 1 | crc u32 | count i32 | count x (producerId i64 | epoch i16 | lastSequence i32 |
         lastOffset i64 | offsetDelta i32 | timestamp i64 | coordinatorEpoch i32 | transactionFirst i64);
         that is Kafka's. After it, ours: magic u32 | count i32 | count x (producerId i64 |
         marker version u64 | seen i64 | batches u8 | batches x (lastSequence i32 | lastOffset i64 |
         offsetDelta i32 | timestamp i64)). Big-endian.
CRC      CRC-32C of everything after it, ours included. Kafka's reader ignores bytes after its own.
Why      Kafka forgets all but the last batch of a producer at a restart; here duplicates of all five are
         still known, and so are the markers, when the log is opened again.
Source   Kafka ProducerSnapshot v1, ProducerStateManager; docs/kafka-notes.md C5.
"""

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from crc32c import crc32c

from fencepost.broker.log.producer_state import CACHED_BATCHES_MAX, CachedBatch, Producer
from fencepost.broker.log.shapes import NO_OFFSET, NO_SEQUENCE
from fencepost.records.end_marker import NO_VERSION
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ImageVersion, Offset, ProducerId

VERSION: Final = 1
SNAPSHOT_SUFFIX: Final = ".snapshot"

_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})\.snapshot")
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_OURS: Final = struct.Struct(">Ii")
_OURS_MAGIC: Final = 0x46504F53
_MEMORY: Final = struct.Struct(">qQqB")
_BATCH: Final = struct.Struct(">iqiq")


def snapshot_path(directory: Path, offset: Offset) -> Path:
    """The producer snapshot of everything before ``offset``."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshots_in(directory: Path) -> list[Offset]:
    """The offsets of a log's producer snapshots, ascending."""
    names = (_SNAPSHOT_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(Offset(int(matched[1])) for matched in names if matched is not None)


def encode_producers(table: Mapping[ProducerId, Producer]) -> bytes:
    """The content of the file. Inverse: ``decode_producers``.

    It runs beside the owner of the log, so no single call in it is a long one: they hold the interpreter.
    """
    entries = bytearray(_HEAD.size)
    entries += _COUNT.pack(len(table))
    memories = bytearray(_OURS.pack(_OURS_MAGIC, len(table)))
    for producer_id, state in table.items():
        last = state.batches[-1] if state.batches else _NO_BATCH
        entries += _ENTRY.pack(
            producer_id, state.epoch, last.last_sequence, last.last_offset, last.offset_delta,
            state.last_timestamp_ms, state.coordinator_epoch, state.transaction_first,
        )  # fmt: skip
        memories += _MEMORY.pack(producer_id, state.marker_version, state.seen_ms, len(state.batches))
        for batch in state.batches:
            memories += _BATCH.pack(
                batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp_ms
            )
    entries += memories
    _HEAD.pack_into(entries, 0, VERSION, crc32c(memoryview(entries)[_HEAD.size :]))
    return bytes(entries)


def decode_producers(content: bytes) -> dict[ProducerId, Producer]:
    """Inverse of ``encode_producers``; a file that Kafka wrote is read as well.

    Raises   CorruptData.
    """
    if len(content) < _HEAD.size:
        raise CorruptData(f"{len(content)} bytes, expected at least {_HEAD.size}")
    version, crc = _HEAD.unpack_from(content)
    computed = crc32c(memoryview(content)[_HEAD.size :])
    if version != VERSION or crc != computed:
        raise CorruptData(f"version {version} and CRC {crc:#010x}, expected {VERSION} and {computed:#010x}")
    try:
        table, position = _decode_entries(content)
        if position < len(content):
            position = _decode_memories(content, position, table)
    except struct.error as error:
        raise CorruptData(f"cut short: {error}") from error
    if position != len(content):
        raise CorruptData(f"{len(content) - position} bytes after the last producer")
    return table


def _decode_entries(content: bytes) -> tuple[dict[ProducerId, Producer], int]:
    table: dict[ProducerId, Producer] = {}
    position = _HEAD.size
    (count,) = _COUNT.unpack_from(content, position)
    position += _COUNT.size
    for _ in range(count):
        (producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch,
         transaction_first) = _ENTRY.unpack_from(content, position)  # fmt: skip
        position += _ENTRY.size
        batches = (CachedBatch(last_sequence, Offset(last_offset), delta, timestamp_ms),)
        table[ProducerId(producer_id)] = Producer(
            epoch,
            batches if last_offset >= 0 else (),
            coordinator_epoch,
            timestamp_ms,
            Offset(transaction_first),
            NO_VERSION,
            timestamp_ms,
        )
    return table, position


def _decode_memories(content: bytes, position: int, table: dict[ProducerId, Producer]) -> int:
    magic, count = _OURS.unpack_from(content, position)
    position += _OURS.size
    if magic != _OURS_MAGIC or count != len(table):
        raise CorruptData(f"magic {magic:#x} and {count} memories of {len(table)} producers")
    for _ in range(count):
        producer_id, marker_version, seen_ms, batch_count = _MEMORY.unpack_from(content, position)
        position += _MEMORY.size
        state = table.get(producer_id)
        if state is None or batch_count > CACHED_BATCHES_MAX:
            raise CorruptData(f"{batch_count} batches of producer {producer_id}")
        batches = []
        for _ in range(batch_count):
            last_sequence, last_offset, delta, timestamp_ms = _BATCH.unpack_from(content, position)
            batches.append(CachedBatch(last_sequence, Offset(last_offset), delta, timestamp_ms))
            position += _BATCH.size
        table[producer_id] = msgspec.structs.replace(
            state, batches=tuple(batches), marker_version=ImageVersion(marker_version), seen_ms=seen_ms
        )
    return position


_NO_BATCH: Final = CachedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
