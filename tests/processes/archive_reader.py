"""The archive read by other code than the product's: kio for batches, the byte layout of Kafka's frames.

Layout   segment files of record batches v2, one after the other; a metadata frame is frame version 1, record
         key and record version as unsigned varints, then its fields (docs/kafka-notes.md G1, A2, G2).
"""

import json
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import kio.schema.leader_change_message.v0 as leader_change_v0
import kio.schema.leader_change_message.v1 as leader_change_v1
from kio.records.readers import read_batch
from kio.serial import entity_reader
from kio.serial.readers import read_unsigned_varint

LOG = Path("archive") / "__cluster_metadata-0"
CONTROL = 0x20  # attributes: a control batch
LEADER_CHANGE = 2  # type of a control record's key
PRODUCER_IDS = 15  # key of AllocateProducerIdsRecord, Kafka's ProducerIdsRecord
HOLES = "holes.json"

_HEADER = struct.Struct(">qiibIh i")  # base offset, length, leader epoch, magic, CRC, attributes, last delta
_PRODUCER_IDS = struct.Struct(">iqqB")  # broker id, broker epoch, first id that nobody has, no tagged fields
_READ_LEADER_CHANGE = (
    entity_reader(leader_change_v0.LeaderChangeMessage),
    entity_reader(leader_change_v1.LeaderChangeMessage),
)


class Batch(NamedTuple):
    """The bytes of one batch and what its header says; ``end`` is exclusive."""

    first: int
    end: int
    epoch: int
    is_control: bool
    content: bytes


class Allocation(NamedTuple):
    """One AllocateProducerIdsRecord."""

    offset: int
    epoch: int
    timestamp_ms: int
    broker_id: int
    broker_epoch: int
    end: int


class LeaderChange(NamedTuple):
    """Who led from this offset on."""

    offset: int
    epoch: int
    leader_id: int
    version: int  # of the record


def batches(home: Path, since: int = 0) -> Iterator[Batch]:
    """A node's archived batches from an offset on, in order."""
    for segment in sorted((home / LOG).glob("*.log")):
        yield from (batch for batch in batches_of(segment) if batch.first >= since)


def batches_of(file: Path) -> Iterator[Batch]:
    """The batches of one file. A last one may be half written."""
    content = file.read_bytes()
    position = 0
    while position + _HEADER.size <= len(content):
        first, length, epoch, magic, _, attributes, delta = _HEADER.unpack_from(content, position)
        end = position + 12 + length
        if end > len(content):
            break
        assert magic == 2, f"{file}, position {position}: magic {magic}"
        yield Batch(first, first + delta + 1, epoch, bool(attributes & CONTROL), content[position:end])
        position = end


def end_offset(home: Path) -> int:
    """Where a node's archive ends now: after its last batch, or after a hole with nothing behind it yet."""
    return max([0, *(end for _, end in holes(home)), *(batch.end for batch in batches(home))])


def holes(home: Path) -> list[tuple[int, int]]:
    """What the node's own file names as missing, half-open."""
    file = home / LOG / HOLES
    return [tuple(hole) for hole in json.loads(file.read_text())["holes"]] if file.exists() else []


def merged(homes: list[Path], since: int = 0) -> list[Batch]:
    """The log as all archives together hold it. Fails where two disagree, or where all lack something."""
    by_offset: dict[int, Batch] = {}
    for home in homes:
        expected = None
        gaps = holes(home)
        for batch in batches(home, since):
            known = by_offset.setdefault(batch.first, batch)
            assert known == batch, f"archives disagree at offset {batch.first}: {home}"
            if expected is not None and batch.first != expected:
                assert (expected, batch.first) in gaps, (
                    f"{home}: {expected} to {batch.first} is missing, unnamed"
                )
            expected = batch.end
    log = [by_offset[first] for first in sorted(by_offset)]
    for before, after in pairwise(log):
        assert before.end == after.first, f"nobody has the records from {before.end} to {after.first}"
        assert before.epoch <= after.epoch, f"the epoch went back at offset {after.first}"
    return log


def allocations(log: list[Batch]) -> Iterator[Allocation]:
    """Every block that the log gives out."""
    for batch in log:
        if batch.is_control:
            continue
        read, size = read_batch(batch.content, 0)
        assert size == len(batch.content)
        assert read.base_offset == batch.first
        for record in read.records:
            assert record.key is None
            assert not record.headers
            version, key, schema, body = split_frame(record.value or b"")
            assert version == 1
            if key == PRODUCER_IDS:
                assert schema == 0
                broker_id, broker_epoch, end, tags = _PRODUCER_IDS.unpack(body)
                assert tags == 0
                yield Allocation(
                    int(record.offset), batch.epoch, _timestamp_ms(batch), broker_id, broker_epoch, end
                )


def leader_changes(log: list[Batch]) -> Iterator[LeaderChange]:
    """The first record of every epoch."""
    for batch in log:
        if batch.is_control:
            read, _ = read_batch(batch.content, 0)
            for record in read.records:
                _, kind = struct.unpack(">hh", record.key or b"")
                if kind == LEADER_CHANGE:
                    value = record.value or b""
                    (version,) = struct.unpack_from(">h", value)
                    message, size = _READ_LEADER_CHANGE[version](value, 0)
                    assert size == len(value), f"{len(value) - size} bytes too many at {record.offset}"
                    yield LeaderChange(int(record.offset), batch.epoch, int(message.leader_id), version)


def split_frame(value: bytes) -> tuple[int, int, int, bytes]:
    """(frame version, record key, record version, fields)."""
    version, position = read_unsigned_varint(value, 0)
    key, size = read_unsigned_varint(value, position)
    position += size
    schema, size = read_unsigned_varint(value, position)
    return version, key, schema, value[position + size :]


def _timestamp_ms(batch: Batch) -> int:
    """Of the batch's records: all were decided at one moment (kio cuts milliseconds off)."""
    base, latest = struct.unpack_from(">qq", batch.content, 27)
    assert base == latest
    return int(base)
