"""Which of the three logs a record belongs to, and how it lies in a batch there.

METADATA            key null, value = Kafka's metadata frame.
TRANSACTION_STATE   key = TransactionLogKey, value = TransactionLogValue, or null for a tombstone.
CONSUMER_OFFSETS    see records/group_log.py: what a record is, the header of its batch says with it.

One entry may hold records of several logs: they apply together or not at all.
"""

from typing import Final, TypeAlias, cast

from fencepost.records.batch import RecordParts
from fencepost.records.frame import decode_frame, encode_frame
from fencepost.records.group_log import ENCODERS, GroupRecord, encode_group_record
from fencepost.records.group_metadata import GroupMetadata
from fencepost.records.invariant import CorruptData
from fencepost.records.partition_report import REPORT_BYTES
from fencepost.records.schema import BrokerRegistrationChangeRecord, MetadataRecord
from fencepost.records.transaction_log import (
    TransactionForgotten,
    TransactionStateRecord,
    decode_transaction,
    encode_transaction,
)
from fencepost.records.types import Log

ENTRY_COST_MAX: Final = 1024 * 1024
"""Of the records that share an entry, see ``cost_of``. Every node applies an entry in one step of its
loop: at about 20 ns a unit that takes some 20 ms."""

RECORD_COST: Final = 1024
TOPIC_COST: Final = 256
MEMBER_COST: Final = 512  # of a member of a group: two rows of the image, and one before that goes
ROW_COST: Final = 128  # of a row of the image that a record deletes or writes besides its own

StateRecord: TypeAlias = MetadataRecord | TransactionStateRecord | TransactionForgotten | GroupRecord
"""What a decision may write."""


_METADATA: Final = Log.METADATA  # a global is found sooner than a member of an enumeration


def encode_record(record: StateRecord) -> tuple[Log, RecordParts]:
    """The record's log, and its key, value and headers there."""
    kind = type(record)
    if kind is TransactionStateRecord or kind is TransactionForgotten:
        key, value = encode_transaction(record)  # type: ignore[arg-type]  # a cast makes a type each time
        return Log.TRANSACTION_STATE, (key, value, ())
    if kind in ENCODERS:
        return Log.CONSUMER_OFFSETS, encode_group_record(cast(GroupRecord, record))
    return _METADATA, (None, encode_frame(record), ())  # type: ignore[arg-type]  # it is none of those above


def cost_of(record: StateRecord, parts: RecordParts) -> int:
    """What the record takes of an entry: its bytes, and what decoding and replaying it takes, as bytes."""
    return bytes_of(parts) + cost_beside_bytes(record)


def cost_beside_bytes(record: StateRecord) -> int:
    """Measured: 20 us for a record, 5 us for a topic of a transaction, 10 us for a member of a group."""
    if type(record) is TransactionStateRecord:
        return RECORD_COST + TOPIC_COST * len(record.partitions or ())
    if type(record) is GroupMetadata:
        return RECORD_COST + MEMBER_COST * len(record.members)
    if type(record) is BrokerRegistrationChangeRecord:
        return RECORD_COST + len(record.partition_reports) // REPORT_BYTES * ROW_COST
    return RECORD_COST


def bytes_of(parts: RecordParts) -> int:
    """Key and value, without what a batch adds to each record (at most ``RECORD_OVERHEAD_BYTES_MAX``)."""
    key, value, _ = parts
    return (len(key) if key else 0) + (len(value) if value else 0)


def decode_metadata(value: bytes | None) -> MetadataRecord:
    """A record of the metadata log, whose key is not looked at. Raises CorruptData."""
    if value is None:
        raise CorruptData("a metadata record without a value")
    return decode_frame(value)


def decode_record(log: Log, key: bytes | None, value: bytes | None) -> StateRecord:
    """Inverse of ``encode_record``. Raises CorruptData."""
    if log is _METADATA:
        return decode_metadata(value)
    if log is Log.TRANSACTION_STATE:
        record = decode_transaction(key, value)
        if record is None:
            raise CorruptData("a transaction record of a key version that this version does not know")
        return record
    raise CorruptData(f"a record of {log.directory} is decoded with its batch")
