"""Record batches that cost a broker most to check, for ``fencepost bench stalls``."""

import time
from collections.abc import Iterator

import cramjam
from crc32c import crc32c

from fencepost.records.batch import encode_batch
from fencepost.records.batch_layout import (
    CHECKED_AT,
    CRC_AT,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_COUNTS_FROM,
    field,
)
from fencepost.records.compression import ZSTD


def batch(count: int, *, headers: int = 0, value: bytes | None = b"") -> bytes:
    """A batch of so many equal records, each with so many empty headers."""
    records = [(None, value, ((b"", None),) * headers)] * count
    return encode_batch(records, timestamp_ms=int(time.time() * 1000))


def packed(raw: bytes) -> bytes:
    """The batch with its records compressed, its length and CRC made right."""
    attributes = field("attributes").pack(ZSTD)
    kept = raw[CHECKED_AT + len(attributes) : HEADER_BYTES]
    checked = attributes + kept + bytes(cramjam.zstd.compress(raw[HEADER_BYTES:]))
    length = field("length").pack(CHECKED_AT + len(checked) - LENGTH_COUNTS_FROM)
    start = raw[:LENGTH_AT] + length + raw[LEADER_EPOCH_AT:CRC_AT]
    return start + field("crc").pack(crc32c(checked)) + checked


def records_cases(partitions: int) -> Iterator[tuple[str, list[bytes]]]:
    """What a Produce brings, and the batches of each partition, from the first on."""
    yield "of 100,000 records, zstd", [packed(batch(100_000))]
    yield "of 20 such batches in one partition", [packed(batch(100_000)) * 20]
    yield "of 100,000 records in each partition", [packed(batch(100_000))] * partitions
    yield "of 3,900 records of 1,024 headers", [packed(batch(3_900, headers=1024, value=None))]
    yield "of a bomb", [packed(batch(1)[:HEADER_BYTES] + bytes(64 * 1024 * 1024))]
    yield "of 64 MB", [batch(1, value=bytes(1_000_000)) * 8] * partitions
    yield "of 1 MB in records of 10 bytes", [batch(60_000, value=b"0123456789")]
