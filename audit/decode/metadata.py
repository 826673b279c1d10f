"""``__cluster_metadata``: producer-id blocks, brokers, topics, partitions, voters, directories, by records.

Kinds     the log of a real Kafka holds many that the audit has no use for: they are skipped by their key.
Versions  the older ones are read too. A newer one is read as far as it is known: Kafka adds at the end, or in
          tags. If that does not fit it is a fault, "version".
Fast      a batch of one ProducerIdsRecord in the shape that Kafka and fencepost write, 92 bytes, is read by
          columns: in a log of nothing else, by far the largest there can be, it is the only shape.
Source    Kafka metadata/src/main/resources/common/metadata/*.json, MetadataRecordSerde; records/frame.py.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from fencepost.audit.decode.batches import Where, repeated
from fencepost.audit.decode.chunks import Chunk
from fencepost.audit.decode.classic import UnknownVersion
from fencepost.audit.decode.columns import PRODUCER_ID_BLOCKS
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.rows import Named, Rows, readable_rows, records_of, rows_of_table
from fencepost.records.batch_layout import COMPRESSION, HEADER_BYTES
from fencepost.records.control import LeaderChange, Voters, decode_control
from fencepost.records.frame import FRAME_VERSION
from fencepost.records.invariant import CorruptData
from fencepost.records.kafka_metadata import (
    PARTITION_0,
    READ,
    REGISTER_0,
    REGISTER_1,
    Fence,
    PartitionChange,
    Unfence,
    Unregister,
)
from fencepost.records.message import read_message
from fencepost.records.schema import (
    AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from fencepost.records.varint import read_unsigned

TOPIC: Final = "__cluster_metadata"
_TOPIC_RESOURCE: Final = 2
_ONE: Final = 1
_AS_BEFORE: Final = -2

# A batch of one block, after its header: record length, attributes, time delta, offset delta, null key, value
# of 24 bytes; frame version, key 15, version 0, broker i32, epoch i64, end i64, no tags; no headers.
_BLOCK_BYTES: Final = HEADER_BYTES + 31
_SHAPE: Final = {0: 60, 1: 0, 2: 0, 3: 0, 4: 1, 5: 48, 6: 1, 7: 15, 8: 0, 29: 0, 30: 0}
_BROKER_AT, _EPOCH_AT, _END_AT = 9, 13, 21


class At(NamedTuple):
    """Where a metadata record was read; ``source`` is "log" or "snapshot"."""

    position: int
    source: str
    offset: int
    leader_epoch: int
    timestamp_ms: int


@dataclass(slots=True)
class MetadataRows:
    """The tables that metadata records become rows of."""

    blocks: Rows
    brokers: Rows
    topics: Rows
    partitions: Rows
    voters: Rows
    directories: Rows
    faults: Rows

    @classmethod
    def of(cls, where: Where) -> "MetadataRows":
        """Tables without rows."""
        return cls(
            Rows("producer_id_blocks", where),
            Rows("brokers", where),
            Rows("topics", where),
            Rows("partitions", where),
            Rows("voters", where),
            Rows("directories", where),
            Rows("record_faults", where),
        )

    def add(self, at: At, value: bytes | None) -> None:
        """What a record says, or why it cannot be read."""
        try:
            record = read_frame(value)
            if record is not None:
                _ADD[type(record)](self, at, record)
        except CorruptData as error:
            kind = "version" if isinstance(error, UnknownVersion) else "record"
            self.faults.add(at.position, at.offset, kind, str(error))

    def add_control_records(self, where: Where, chunk: Chunk) -> None:
        """Who votes, where control records say it. That one cannot be read is said of its batch."""
        unread = Rows("record_faults", where)
        for found in records_of(chunk, np.flatnonzero(chunk.is_sound & chunk.is_control), unread):
            try:
                said = decode_control(found.record.key, found.record.value)
            except CorruptData:
                continue
            if isinstance(said, LeaderChange | Voters):
                for voter in said.voters:
                    self.voters.add(found.position, found.record.offset, found.leader_epoch, voter.voter_id)

    def others(self) -> tuple[Rows, ...]:
        """All tables but the blocks'."""
        return (self.brokers, self.topics, self.partitions, self.voters, self.directories, self.faults)

    def batches(self) -> Named:
        """Every table that has rows, with its name."""
        for rows in (self.blocks, *self.others()):
            yield from rows.batches()


def decode_blocks(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """PRODUCER_ID_BLOCKS of a segment of the log; faults come of ``tables.decode_log``. Raises OSError."""
    return rows_of_table("producer_id_blocks", read_chunk, path, where, start, end, files)


def decode_brokers(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """BROKERS of a segment of the log; faults come of ``tables.decode_log``. Raises OSError."""
    return rows_of_table("brokers", read_chunk, path, where, start, end, files)


def decode_topics(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """TOPICS of a segment of the log; faults come of ``tables.decode_log``. Raises OSError."""
    return rows_of_table("topics", read_chunk, path, where, start, end, files)


def read_chunk(where: Where, chunk: Chunk) -> Named:
    """The tables of ``MetadataRows`` of a chunk of the log."""
    rows = readable_rows(chunk)
    is_block = _is_plain_block(chunk, rows)
    said = MetadataRows.of(where)
    for found in records_of(chunk, rows[~is_block], said.faults):
        record = found.record
        at = At(found.position, "log", record.offset, found.leader_epoch, record.timestamp_ms)
        said.add(at, record.value)
    said.add_control_records(where, chunk)
    yield from _in_order(said.blocks, [_plain_blocks(where, chunk, rows[is_block])] if is_block.any() else [])
    for others in said.others():
        yield from others.batches()


def read_frame(value: bytes | None) -> Any:
    """A metadata record; None: of a kind that the audit does not read.

    Raises   CorruptData; UnknownVersion of a newer one that cannot be read as the newest known.
    """
    if value is None:
        raise CorruptData("a metadata record without a value")
    frame_version, position = read_unsigned(value, 0)
    if frame_version != FRAME_VERSION:
        raise CorruptData(f"metadata frame version {frame_version}, expected {FRAME_VERSION}")
    key, position = read_unsigned(value, position)
    version, position = read_unsigned(value, position)
    versions = READ.get(key)
    if versions is None:
        return None
    record_type = versions[min(version, len(versions) - 1)]
    try:
        record, end = read_message(record_type, value, position)
        if version < len(versions) and end != len(value):
            raise CorruptData(f"{len(value) - end} bytes after {record_type.__name__}")
    except CorruptData as error:
        if version >= len(versions):
            known = len(versions) - 1
            raise UnknownVersion(f"{record_type.__name__} version {version}, known up to {known}") from error
        raise
    return record


def text_of(identifier: UUID) -> str:
    """As Kafka prints a Uuid: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(identifier.bytes).rstrip(b"=").decode()


def _in_order(others: Rows, plain: list[pa.RecordBatch]) -> Named:
    """The blocks of both kinds, each of which are in the order of the file."""
    found = plain + [rows for _, rows in others.batches()]
    if len(found) == 2:
        merged = (
            pa.Table.from_batches(found)
            .sort_by([("position", "ascending"), ("offset", "ascending")])
            .combine_chunks()
        )
        found = merged.to_batches()
    for rows in found:
        yield others.table, rows


def _is_plain_block(chunk: Chunk, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    headers = chunk.headers[rows]
    plain: npt.NDArray[np.bool_] = (headers["record_count"] == 1) & (
        (headers["attributes"] & COMPRESSION) == 0
    )
    plain &= chunk.sizes[rows] == _BLOCK_BYTES
    numbers = np.flatnonzero(plain)
    if len(numbers):
        bodies = sliding_window_view(chunk.buffer, _BLOCK_BYTES)[chunk.positions[rows[numbers]]]
        shape = np.array(list(_SHAPE.values()), np.uint8)
        plain[numbers] = (bodies[:, HEADER_BYTES + np.array(list(_SHAPE))] == shape).all(axis=1)
    return plain


def _plain_blocks(where: Where, chunk: Chunk, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    headers, count = chunk.headers[rows], len(rows)
    bodies = chunk.positions[rows] + HEADER_BYTES

    def field(at: int, kind: str) -> Any:
        size = int(kind[2])
        numbers = sliding_window_view(chunk.buffer, size)[bodies + at].view(kind)[:, 0]
        return pa.array(numbers.astype(kind[1:]))

    columns = {
        **repeated(where, count),
        "position": pa.array(chunk.positions[rows] + chunk.origin),
        "source": pa.repeat(pa.scalar("log", pa.string()), count),
        "offset": pa.array(headers["base_offset"].astype(np.int64)),
        "leader_epoch": pa.array(headers["leader_epoch"].astype(np.int32)),
        "timestamp_ms": pa.array(headers["base_timestamp_ms"].astype(np.int64)),
        "broker_id": field(_BROKER_AT, ">i4"),
        "broker_epoch": field(_EPOCH_AT, ">i8"),
        "block_first": pa.nulls(count, pa.int64()),
        "block_end": field(_END_AT, ">i8"),
    }
    arrays = [columns[name] for name in PRODUCER_ID_BLOCKS.names]
    return pa.RecordBatch.from_arrays(arrays, schema=PRODUCER_ID_BLOCKS)


def _add_block(said: MetadataRows, at: At, record: AllocateProducerIdsRecord) -> None:
    said.blocks.add(*at, record.broker_id, record.broker_epoch, None, record.producer_id_end)


def _broker(said: MetadataRows, at: At, event: str, broker_id: int, broker_epoch: int) -> None:
    said.brokers.add(at.position, at.offset, at.timestamp_ms, event, broker_id, broker_epoch, None, None)


def _add_registered(said: MetadataRows, at: At, record: RegisterBrokerRecord) -> None:
    endpoints = ",".join(f"{each.host}:{each.port}" for each in record.end_points)
    said.brokers.add(
        at.position, at.offset, at.timestamp_ms, "registered", record.broker_id, record.broker_epoch,
        text_of(record.incarnation_id), endpoints,
    )  # fmt: skip
    if not record.fenced:
        _broker(said, at, "unfenced", record.broker_id, record.broker_epoch)
    _directories(said, at, record.broker_id, getattr(record, "log_dirs", ()))


def _directories(said: MetadataRows, at: At, broker_id: int, log_dirs: Iterable[UUID]) -> None:
    for each in log_dirs:
        said.directories.add(at.position, None, "registered", broker_id, text_of(each))


def _add_changed(said: MetadataRows, at: At, record: BrokerRegistrationChangeRecord) -> None:
    if record.fenced:
        event = "fenced" if record.fenced == _ONE else "unfenced"
        _broker(said, at, event, record.broker_id, record.broker_epoch)
    if record.in_controlled_shutdown == _ONE:
        _broker(said, at, "shutdown", record.broker_id, record.broker_epoch)
    _directories(said, at, record.broker_id, record.log_dirs)


def _add_one(said: MetadataRows, at: At, record: Unregister) -> None:
    _broker(said, at, record.event, record.broker_id, record.broker_epoch)


def _topic(
    said: MetadataRows, at: At, event: str, name: str | None, topic_id: str | None,
    key: str | None = None, value: str | None = None,
) -> None:  # fmt: skip
    said.topics.add(at.position, at.offset, at.timestamp_ms, event, name, topic_id, key, value)


def _add_topic(said: MetadataRows, at: At, record: TopicRecord) -> None:
    _topic(said, at, "created", record.name, text_of(record.topic_id))


def _add_removed(said: MetadataRows, at: At, record: RemoveTopicRecord) -> None:
    _topic(said, at, "deleted", None, text_of(record.topic_id))


def _add_partition(said: MetadataRows, at: At, record: PartitionRecord) -> None:
    said.partitions.add(
        at.position, at.offset, at.timestamp_ms, "created", text_of(record.topic_id), record.partition_id,
        list(record.replicas), list(record.isr), record.leader, record.leader_epoch,
        record.leader_recovery_state == _ONE,
    )  # fmt: skip


def _add_partition_change(said: MetadataRows, at: At, record: PartitionChange) -> None:
    said.partitions.add(
        at.position, at.offset, at.timestamp_ms, "changed", text_of(record.topic_id), record.partition_id,
        None if record.replicas is None else list(record.replicas),
        None if record.isr is None else list(record.isr),
        None if record.leader == _AS_BEFORE else record.leader, None,
        None if record.leader_recovery_state < 0 else record.leader_recovery_state == _ONE,
    )  # fmt: skip


def _add_setting(said: MetadataRows, at: At, record: ConfigRecord) -> None:
    if record.resource_type == _TOPIC_RESOURCE:
        _topic(said, at, "configured", record.resource_name, None, record.name, record.value)


_ADD: Final[dict[type[Any], Callable[[MetadataRows, At, Any], None]]] = {
    AllocateProducerIdsRecord: _add_block,
    RegisterBrokerRecord: _add_registered,
    REGISTER_0: _add_registered,
    REGISTER_1: _add_registered,
    BrokerRegistrationChangeRecord: _add_changed,
    Unregister: _add_one,
    Fence: _add_one,
    Unfence: _add_one,
    TopicRecord: _add_topic,
    RemoveTopicRecord: _add_removed,
    ConfigRecord: _add_setting,
    PARTITION_0: _add_partition,
    PartitionRecord: _add_partition,
    PartitionChange: _add_partition_change,
}
