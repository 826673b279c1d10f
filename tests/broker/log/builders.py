"""What the tests of partition logs are written with."""

import gzip
import struct
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import cramjam
import msgspec
from crc32c import crc32c

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.producer_state import Producer
from fencepost.broker.log.shapes import Appended, LogConfig, MarkerOutcome
from fencepost.records.batch import encode_batch, iter_batches
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.end_marker import EndMarker
from fencepost.records.types import ImageVersion, Offset, ProducerId, Term

NOW_MS = 1_763_600_000_000
EPOCH = Term(0)
SMALL = LogConfig(verification=False, segment_bytes=1000, index_interval_bytes=100)
UNVERIFIED = LogConfig(verification=False)
"""Transactions open without a guard: for tests of what comes after."""


def batch(
    producer: int = -1,
    sequence: int = -1,
    *,
    epoch: int | None = None,
    count: int = 1,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
    value: bytes = b"value",
) -> bytes:
    """A producer's batch of ``count`` records."""
    return encode_batch(
        [(None, value, ())] * count,
        timestamp_ms=timestamp_ms,
        producer_id=producer,
        producer_epoch=(-1 if producer < 0 else 0) if epoch is None else epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def resealed(raw: bytes) -> bytes:
    """The batch with its length and CRC made right."""
    raw = raw[:8] + struct.pack(">i", len(raw) - 12) + raw[12:]
    return raw[:17] + struct.pack(">I", crc32c(raw[21:])) + raw[21:]


def patched(raw: bytes, position: int, content: bytes) -> bytes:
    """The batch with other bytes somewhere, and a right CRC."""
    return resealed(raw[:position] + content + raw[position + len(content) :])


def xerial(blocks: Sequence[bytes]) -> bytes:
    """Snappy as Java's clients frame it."""
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    raw = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return head + b"".join(struct.pack(">i", len(block)) + block for block in raw)


def compress(codec: str, content: bytes) -> tuple[int, bytes]:
    """Kafka's number of a codec, and what its clients make of ``content``."""
    halves = (content[: len(content) // 2], content[len(content) // 2 :])
    gzipped = partial(gzip.compress, compresslevel=1)  # a bomb's bytes take a fifth of the time
    makers: dict[str, Callable[[], tuple[int, bytes]]] = {
        "gzip": lambda: (1, gzipped(content)),
        "gzip in two members": lambda: (1, b"".join(map(gzipped, halves))),
        "snappy in xerial's frames": lambda: (2, xerial(halves)),
        "bare snappy": lambda: (2, bytes(cramjam.snappy.compress_raw(content))),
        "lz4": lambda: (3, bytes(cramjam.lz4.compress(content))),
        "zstd": lambda: (4, bytes(cramjam.zstd.compress(content))),
    }
    return makers[codec]()


CODECS = ("gzip", "gzip in two members", "snappy in xerial's frames", "bare snappy", "lz4", "zstd")


def compressed(raw: bytes, codec: str) -> bytes:
    """The batch with its records compressed."""
    number, body = compress(codec, raw[HEADER_BYTES:])
    attributes = struct.unpack_from(">h", raw, 21)[0] | number
    return resealed(raw[:21] + struct.pack(">h", attributes) + raw[23:HEADER_BYTES] + body)


def open_log(directory: Path, config: LogConfig = UNVERIFIED, now_ms: int = NOW_MS) -> PartitionLog:
    """The log of a directory below a test's own."""
    return PartitionLog.open(directory / "topic-0", config, now_ms)


def append(log: PartitionLog, *batches: bytes, now_ms: int = NOW_MS) -> Appended:
    """Append one batch after the other; the outcome of the last."""
    outcomes = [log.append(raw, now_ms, EPOCH) for raw in batches]
    return outcomes[-1]


def end_transaction(
    log: PartitionLog,
    producer: int,
    *,
    committed: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 1,
    version: int = 0,
    bumps_epoch: bool = False,
    forced: bool = False,
    now_ms: int = NOW_MS,
) -> MarkerOutcome:
    """Append a marker."""
    marker = EndMarker(
        producer_id=ProducerId(producer),
        producer_epoch=epoch,
        committed=committed,
        coordinator_epoch=coordinator_epoch,
        version=ImageVersion(version),
        bumps_epoch=bumps_epoch,
    )
    return log.append_marker(marker, now_ms, forced=forced)


def crash(log: PartitionLog, directory: Path) -> Path:
    """What a killed process leaves of a log: a copy of its directory as it is now, below ``directory``."""
    copy = directory / "topic-0"
    copy.mkdir(parents=True)
    for path in log.directory.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return directory


def memory(log: PartitionLog) -> dict[ProducerId, Producer]:
    """Everything that is known of the producers, but when they were seen, and what no snapshot says."""
    return {
        producer: msgspec.structs.replace(
            state,
            seen_ms=0,
            batches=tuple(msgspec.structs.replace(each, is_transactional=None) for each in state.batches),
        )
        for producer, state in log._states.table.items()
    }


def contents(log: PartitionLog) -> tuple[object, ...]:
    """Everything that must be the same after a crash and after a clean restart."""
    end = log.end
    return (
        log.start,
        end,
        log.last_stable_offset,
        log.aborted(log.start, end),
        memory(log),
        log.epoch_at(Offset(log.end - 1)),
        read_all(log),
    )


def read_all(log: PartitionLog, bytes_max: int = 1_000_000) -> bytes:
    """Every batch, as a consumer reads on."""
    pieces = []
    offset = log.start
    while offset < log.end:
        piece = log.read(offset, bytes_max, log.high_watermark)
        pieces.append(piece)
        offset = end_of(piece)
    return b"".join(pieces)


def end_of(batches: bytes) -> Offset:
    """The offset after the last of some batches."""
    position = 0
    end = 0
    while position < len(batches):
        base, length = struct.unpack_from(">qi", batches, position)
        end = base + struct.unpack_from(">i", batches, position + 23)[0] + 1
        position += 12 + length
    assert position == len(batches), "the last batch is cut short"
    return Offset(end)


def offsets(batches: bytes) -> list[int]:
    """The base offset of each batch."""
    return [one.base_offset for one in iter_batches(batches)]


def filled(directory: Path, config: LogConfig = SMALL, count: int = 60) -> PartitionLog:
    """A log of ``count`` batches of two records, in several segments, one millisecond apart."""
    log = open_log(directory, config)
    for number in range(count):
        append(log, batch(7, number * 2, count=2, timestamp_ms=NOW_MS + number))
    return log
