"""Which of the three logs a record belongs to, and how it lies in a batch there.

METADATA            key null, value = Kafka's metadata frame.
TRANSACTION_STATE   key = TransactionLogKey, value = TransactionLogValue, or null for a tombstone.

One entry may hold records of several logs: they apply together or not at all.
"""

from typing import TypeAlias, cast

from records.batch import RecordParts
from records.frame import decode_frame, encode_frame
from records.invariant import CorruptData
from records.schema import MetadataRecord
from records.transaction_log import (
    TransactionForgotten,
    TransactionStateRecord,
    decode_transaction,
    encode_transaction,
)
from records.types import Log

StateRecord: TypeAlias = MetadataRecord | TransactionStateRecord | TransactionForgotten
"""What a decision may write."""


def encode_record(record: StateRecord) -> tuple[Log, RecordParts]:
    """The record's log, and its key, value and headers there."""
    kind = type(record)
    if kind is TransactionStateRecord or kind is TransactionForgotten:
        key, value = encode_transaction(cast(TransactionStateRecord | TransactionForgotten, record))
        return Log.TRANSACTION_STATE, (key, value, ())
    return Log.METADATA, (None, encode_frame(cast(MetadataRecord, record)), ())


def decode_record(log: Log, key: bytes | None, value: bytes | None) -> StateRecord:
    """Inverse of ``encode_record``. Raises CorruptData."""
    if log is Log.METADATA:
        if value is None:
            raise CorruptData("a metadata record without a value")
        return decode_frame(value)
    if log is Log.TRANSACTION_STATE:
        record = decode_transaction(key, value)
        if record is None:
            raise CorruptData("a transaction record of a key version that this version does not know")
        return record
    raise CorruptData(f"no record of {log.directory} is known to this version")
