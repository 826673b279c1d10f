"""How OffsetCommit and TxnOffsetCommit lie in bytes where they are alike: offsets, then codes, by topic."""

import struct
from collections.abc import Iterable
from typing import Final

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.offset_messages import OffsetToCommit, PartitionCode
from fencepost.wire.cursor import Reader, Writer, grouped
from fencepost.wire.errors import code_of

_OFFSET: Final = struct.Struct(">iq")  # partition | offset
_OFFSET_WITH_EPOCH: Final = struct.Struct(">iqi")  # and the leader epoch
_CODE: Final = struct.Struct(">ih")  # partition | error


def read_offsets(reader: Reader, *, epochs: bool) -> tuple[OffsetToCommit, ...]:
    """The offsets of a request. ``epochs``: its version has the leader epoch."""
    found: list[OffsetToCommit] = []
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            if epochs:
                partition, offset, leader_epoch = reader.fields(_OFFSET_WITH_EPOCH)
            else:
                (partition, offset), leader_epoch = reader.fields(_OFFSET), -1
            metadata = reader.nullable_string()
            reader.skip_tags()
            found.append(OffsetToCommit(topic, partition, offset, leader_epoch, metadata))
        reader.skip_tags()
    return tuple(found)


def write_offsets(writer: Writer, offsets: Iterable[OffsetToCommit], *, epochs: bool) -> None:
    """Inverse of ``read_offsets``."""
    topics = grouped(offsets, lambda each: each.topic)
    writer.count(len(topics))
    for topic, rows in topics.items():
        writer.string(topic)
        writer.count(len(rows))
        for each in rows:
            if epochs:
                writer.pack(_OFFSET_WITH_EPOCH, each.partition, each.offset, each.leader_epoch)
            else:
                writer.pack(_OFFSET, each.partition, each.offset)
            writer.string(each.metadata)
            writer.no_tags()
        writer.no_tags()


def read_codes(reader: Reader) -> tuple[PartitionCode, ...]:
    """The codes of an answer."""
    found: list[PartitionCode] = []
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            partition, code = reader.fields(_CODE)
            reader.skip_tags()
            found.append(PartitionCode(topic, partition, code_of(code)))
        reader.skip_tags()
    return tuple(found)


def write_codes(writer: Writer, rows: Iterable[PartitionCode]) -> None:
    """Inverse of ``read_codes``."""
    topics = grouped(rows, lambda each: each.topic)
    writer.count(len(topics))
    for topic, codes in topics.items():
        writer.string(topic)
        writer.count(len(codes))
        for each in codes:
            writer.pack(_CODE, each.partition, each.code)
            writer.no_tags()
        writer.no_tags()


def same_for_all(offsets: Iterable[OffsetToCommit], code: ErrorCode) -> tuple[PartitionCode, ...]:
    """``code`` for each partition of a request."""
    return tuple([PartitionCode(each.topic, each.partition, code) for each in offsets])
