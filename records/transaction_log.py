"""Transaction records: the vocabulary of ``__transaction_state-0``, as Kafka spells it.

Key      i16 version 0, then the transactional id as an i16 length and UTF-8 (TransactionLogKey v0).
Value    i16 version 1, then a flexible message (TransactionLogValue v1), or null: a tombstone.
Tags     0-3 are Kafka's. 3 is NextProducerEpoch: the proposal's own number for it, 2, is
         ClientTransactionVersion in what shipped. From 1000 on they are ours, Kafka's readers skip them:
         what lets a retry and a producer that timed out go on after a failover, which Kafka forgets; and the
         generation and partitions of each group that a group-aware InitProducerId was given (KIP-447).
Source   Kafka TransactionLogKey.json, TransactionLogValue.json; KIP-360, KIP-447, KIP-588, KIP-939;
         docs/kafka-notes.md B10.
"""

import struct
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final

import msgspec
from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.message import read_message, write_message
from fencepost.records.schema import BOOL, INT8, INT16, INT32, INT64
from fencepost.records.transaction_bytes import read_value, write_value
from fencepost.records.transaction_parts import (
    FENCED_BY_CHARACTERS_MAX,
    NO_TIMEOUT,
    Fence,
    GroupAssignment,
    TopicPartitions,
)
from fencepost.records.types import Log, ProducerId

__all__ = [
    "FENCED_BY_CHARACTERS_MAX",
    "FENCES_MAX",
    "NO_EPOCH",
    "NO_PRODUCER_ID",
    "NO_TIMEOUT",
    "Fence",
    "GroupAssignment",
    "TopicPartitions",
    "TransactionForgotten",
    "TransactionStateRecord",
    "TransactionValue",
    "decode_transaction",
    "encode_transaction",
    "read_value_generally",
    "write_value_generally",
]

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1
FENCES_MAX: Final = 8  # kept for one transactional id; the oldest goes first
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_EPOCH: Final = -1

_I16: Final = struct.Struct(">h")
_KEY_PREFIX: Final = struct.Struct(">hh")  # version, length of the id
_KEY_VERSION_PREFIX: Final = _I16.pack(KEY_VERSION)
_VALUE_PREFIX: Final = _I16.pack(VALUE_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """Version 1 of Kafka's TransactionLogValue, for ``fencepost.records.message``."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True

    producer_id: ProducerId = field(metadata=INT64)
    producer_epoch: int = field(metadata=INT16)
    transaction_timeout_ms: int = field(metadata=INT32)
    status: int = field(metadata=INT8)
    partitions: tuple[TopicPartitions, ...] | None
    updated_ms: int = field(metadata=INT64)
    started_ms: int = field(metadata=INT64)
    previous_producer_id: ProducerId = field(default=NO_PRODUCER_ID, metadata={**INT64, "tag": 0})
    next_producer_id: ProducerId = field(default=NO_PRODUCER_ID, metadata={**INT64, "tag": 1})
    client_transaction_version: int = field(default=0, metadata={**INT16, "tag": 2})
    next_producer_epoch: int = field(default=NO_EPOCH, metadata={**INT16, "tag": 3})
    instance_epoch: int = field(default=NO_EPOCH, metadata={**INT16, "tag": 1000})
    last_producer_epoch: int = field(default=NO_EPOCH, metadata={**INT16, "tag": 1001})
    init_version: int = field(default=-1, metadata={**INT16, "tag": 1002})
    fences: tuple[Fence, ...] = field(default=(), metadata={"tag": 1003})
    timed_out: bool = field(default=False, metadata={**BOOL, "tag": 1004})
    next_timeout_ms: int = field(default=NO_TIMEOUT, metadata={**INT32, "tag": 1005})
    assignments: tuple[GroupAssignment, ...] | None = field(default=None, metadata={"tag": 1006})


class TransactionStateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id is in this state since.

    ``status``       a state's id (controller.transactions.states.State).
    ``partitions``   None in Empty, as in Kafka.
    ``started_ms``   of the transaction, -1 where there is none; with ``updated_ms`` the leader's clock.
    """

    log: ClassVar[Log] = Log.TRANSACTION_STATE

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    transaction_timeout_ms: int
    status: int
    partitions: tuple[TopicPartitions, ...] | None = None
    updated_ms: int
    started_ms: int = -1
    previous_producer_id: ProducerId = NO_PRODUCER_ID  # before a rotation: a retry with it is recognised
    next_producer_id: ProducerId = NO_PRODUCER_ID  # the client's, if it is not the transaction's (pairs.py)
    client_transaction_version: int = 0
    next_producer_epoch: int = NO_EPOCH
    instance_epoch: int = NO_EPOCH  # the first epoch of the instance that holds the id (KIP-360)
    last_producer_epoch: int = NO_EPOCH  # the epoch before the last bump, if its instance may go on (KIP-588)
    init_version: int = -1  # of the instance's InitProducerId; -1: no instance holds the current epoch
    fences: tuple[Fence, ...] = ()  # the newest last, at most FENCES_MAX
    timed_out: bool = False  # the last bump was a timeout's: last_producer_epoch may ask for the new one
    next_timeout_ms: int = NO_TIMEOUT  # of the transactions after one that was kept, if it has another
    assignments: tuple[GroupAssignment, ...] | None = None  # by group; None: as before; (): none any more


@dataclass(frozen=True, slots=True)
class TransactionForgotten:
    """A transactional id expired: nothing is known of it any more. A tombstone in Kafka's log."""

    log: ClassVar[Log] = Log.TRANSACTION_STATE

    transactional_id: str


_VALUE_FIELDS: Final = tuple(each.name for each in fields(TransactionValue))


def encode_transaction(
    record: TransactionStateRecord | TransactionForgotten,
) -> tuple[bytes, bytes | None]:
    """The key and value of a record; the value of a tombstone is None. Inverse: ``decode_transaction``.

    Raises   InvariantViolation if a field does not fit its Kafka type: a bug of the code that decided it.
    """
    key = _encode_key(record.transactional_id)
    if isinstance(record, TransactionForgotten):
        return key, None
    return key, _VALUE_PREFIX + (write_value(record) or write_value_generally(record))


def write_value_generally(record: TransactionStateRecord) -> bytes:
    """What ``write_value`` does by hand."""
    return write_message(TransactionValue(**{name: getattr(record, name) for name in _VALUE_FIELDS}))


def decode_transaction(
    key: bytes | None, value: bytes | None
) -> TransactionStateRecord | TransactionForgotten | None:
    """Inverse of ``encode_transaction``; None for a key version that is not known, as Kafka skips it.

    Raises   CorruptData, an unknown version of the value included.
    """
    if key is None or len(key) < _I16.size:
        raise CorruptData(f"a transaction record with key {key!r}, expected a version and an id")
    if not key.startswith(_KEY_VERSION_PREFIX):
        return None
    transactional_id = _decode_key(key)
    if value is None:
        return TransactionForgotten(transactional_id)
    if not value.startswith(_VALUE_PREFIX):
        if len(value) < _I16.size:
            raise CorruptData(f"a transaction value of {len(value)} bytes")
        version = _I16.unpack_from(value)[0]
        raise CorruptData(f"transaction value version {version}, expected {VALUE_VERSION}")
    values = read_value(value, _I16.size) or read_value_generally(value, _I16.size)
    return TransactionStateRecord(transactional_id=transactional_id, **values)


def read_value_generally(value: bytes, position: int) -> dict[str, Any]:
    """What ``read_value`` does by hand. Raises CorruptData."""
    message, end = read_message(TransactionValue, value, position)
    if end != len(value):
        raise CorruptData(f"{len(value) - end} bytes after a transaction value")
    return {name: getattr(message, name) for name in _VALUE_FIELDS}


def _encode_key(transactional_id: str) -> bytes:
    try:
        text = transactional_id.encode()
        return _KEY_PREFIX.pack(KEY_VERSION, len(text)) + text
    except (UnicodeEncodeError, struct.error) as error:
        raise InvariantViolation(f"a transactional id cannot be a key: {error}") from error


def _decode_key(key: bytes) -> str:
    if len(key) < _KEY_PREFIX.size:
        raise CorruptData(f"a transaction key of {len(key)} bytes")
    length = _KEY_PREFIX.unpack_from(key)[1]
    if length != len(key) - _KEY_PREFIX.size:
        raise CorruptData(f"a transactional id of {length} bytes in a key of {len(key)}")
    try:
        return key[_KEY_PREFIX.size :].decode()
    except UnicodeDecodeError as error:
        raise CorruptData(f"a transactional id is not UTF-8: {error}") from error
