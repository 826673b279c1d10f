"""The header of a record batch: each field where Kafka has it, for all who read it."""

import struct

import numpy as np
import pytest

from fencepost.audit.decode import chunks
from fencepost.records import batch_layout as layout
from fencepost.records.batch import batch_header, encode_batch
from fencepost.records.batch_layout import AT, FIELDS, HEADER, HEADER_BYTES, field, fields_of, size_at
from fencepost.records.types import Offset, ProducerId, Term
from tests.together import table

KAFKAS = [  # DefaultRecordBatch: *_OFFSET, *_LENGTH
    ("base_offset", 0, 8),
    ("length", 8, 4),
    ("leader_epoch", 12, 4),
    ("magic", 16, 1),
    ("crc", 17, 4),
    ("attributes", 21, 2),
    ("last_offset_delta", 23, 4),
    ("base_timestamp_ms", 27, 8),
    ("max_timestamp_ms", 35, 8),
    ("producer_id", 43, 8),
    ("producer_epoch", 51, 2),
    ("base_sequence", 53, 4),
    ("record_count", 57, 4),
]
BATCH = encode_batch(
    [(None, b"value", ())],
    base_offset=Offset(7),
    leader_epoch=Term(3),
    timestamp_ms=1_700_000_000_000,
    producer_id=ProducerId(42),
    producer_epoch=5,
    base_sequence=9,
)
SAID = {
    "base_offset": 7,
    "length": len(BATCH) - 12,
    "leader_epoch": 3,
    "magic": 2,
    "attributes": 0,
    "last_offset_delta": 0,
    "base_timestamp_ms": 1_700_000_000_000,
    "max_timestamp_ms": 1_700_000_000_000,
    "producer_id": 42,
    "producer_epoch": 5,
    "base_sequence": 9,
    "record_count": 1,
}


def test_the_fields_are_kafkas() -> None:
    assert [(name, AT[name], field(name).size) for name, _ in FIELDS] == KAFKAS
    assert HEADER_BYTES == HEADER.size == 61
    assert layout.CHECKED_AT == layout.UNCHECKED.size == 21
    assert layout.CHECKED.size == HEADER_BYTES - 21
    assert (layout.MAGIC_AT, layout.LENGTH_COUNTS_FROM) == (16, 12)


@table(("name", "at", "size"), KAFKAS, ids=[name for name, *_ in KAFKAS])
def test_a_field_is_read_alone_where_it_lies(name: str, at: int, size: int) -> None:
    raw = bytearray(b"\xee" * 3 + bytes(HEADER_BYTES))
    number = int.from_bytes(bytes(range(1, size + 1)))
    field(name).pack_into(raw, 3 + at, number)
    assert raw[3 + at : 3 + at + size] == bytes(range(1, size + 1)), "big-endian"
    assert fields_of(name).unpack_from(raw, 3) == (number,)


def test_some_fields_are_read_together() -> None:
    assert fields_of("length", "producer_id", "base_sequence").unpack_from(BATCH) == (len(BATCH) - 12, 42, 9)
    assert fields_of(*AT).unpack_from(BATCH) == HEADER.unpack_from(BATCH)
    assert fields_of("base_offset", "record_count").size == HEADER_BYTES
    with pytest.raises(KeyError):
        fields_of("count")


def test_fields_out_of_order_cannot_be_read() -> None:
    with pytest.raises(struct.error):
        fields_of("producer_id", "length")


def test_every_reader_agrees() -> None:
    header = batch_header(BATCH)
    read = dict(zip(AT, HEADER.unpack_from(BATCH), strict=True))
    assert {name: read[name] for name in SAID} == SAID
    for name in set(SAID) - {"length", "magic"}:
        assert getattr(header, name) == SAID[name]
    columns = np.frombuffer(BATCH[:HEADER_BYTES], chunks.HEADER)[0]
    assert {name: columns[name] for name in AT} == read
    assert chunks.HEADER.itemsize == HEADER_BYTES


def test_the_size_counts_what_stands_before_the_length() -> None:
    assert size_at(b"x" + BATCH, 1) == len(BATCH)
    with pytest.raises(struct.error):
        size_at(BATCH[:11], 0)
