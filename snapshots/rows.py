"""How the image's rows lie in LMDB: which tables there are, their keys, and walking them in order.

Key     generation u32 | length of the table's name u8 | name | the row's own key, which keeps its order.
"""

import struct
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from fencepost.controller import (
    acls,
    broker_configs,
    brokers,
    cluster_version,
    features,
    migration_phase,
    producer_ids,
    scram,
    topics,
    voters,
)
from fencepost.controller.groups.offset_tables import OFFSET_TABLES
from fencepost.controller.groups.tables import MEMBERSHIP_TABLES
from fencepost.controller.transactions.states import TRANSACTION_TABLES
from fencepost.controller.view import ImageHeader, Table
from fencepost.records.invariant import InvariantViolation

_TABLES: Final[tuple[Table[Any, Any], ...]] = (
    *acls.ACL_TABLES,
    broker_configs.BROKER_CONFIGS,
    brokers.BROKERS,
    cluster_version.CLUSTER_VERSION,
    features.FEATURES,
    migration_phase.MIGRATION,
    producer_ids.PRODUCER_IDS,
    *scram.SCRAM_TABLES,
    topics.COLLIDING,
    topics.HOSTED,
    topics.OFFLINE_PARTITIONS,
    topics.PARTITIONS,
    topics.PARTITION_ENDS,
    topics.STARTED_AT,
    topics.TOPICS,
    topics.TOPIC_NAMES,
    voters.QUORUM,
    *MEMBERSHIP_TABLES,
    *OFFSET_TABLES,
    *TRANSACTION_TABLES,
)
TABLES: Final[dict[str, Table[Any, Any]]] = {table.name: table for table in _TABLES}

Row = tuple[str, bytes, bytes]  # table name, encoded key, encoded value
Generation = Annotated[int, msgspec.Meta(ge=0, lt=2**32 - 1)]  # the next one is a u32, too

_GENERATION: Final = struct.Struct(">I")
_PREFIX: Final = struct.Struct(">IB")  # generation, length of the table's name


def scan_rows(txn: Any, db: Any, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """The rows below a prefix, beyond the row key ``after``, without the prefix; ``txn`` is lmdb's."""
    cursor = txn.cursor(db=db)
    found = cursor.set_range(prefix if after is None else prefix + after)
    if found and after is not None and bytes(cursor.key()) == prefix + after:
        found = cursor.next()
    if not found:
        return
    size = len(prefix)
    for key, value in cursor.iternext():
        if key[:size] != prefix:
            return
        yield bytes(key[size:]), bytes(value)


def scan_generation(txn: Any, db: Any, generation: int) -> Iterator[tuple[tuple[str, bytes], bytes]]:
    """((table name, encoded key), encoded value) of every row of a generation; ``txn`` is lmdb's."""
    for key, value in scan_rows(txn, db, _GENERATION.pack(generation)):
        end = 1 + key[0]  # of the table's name
        yield (key[1:end].decode(), key[end:]), value


def as_bytes(found: bytes | memoryview | None) -> bytes | None:
    """What lmdb returns, when its buffers are off: bytes or None."""
    return None if found is None else bytes(found)


def table_prefix(generation: int, name: str) -> bytes:
    """What the keys of a table's rows begin with."""
    encoded = name.encode()
    return _PREFIX.pack(generation, len(encoded)) + encoded


def row_key(generation: int, name: str, key: bytes) -> bytes:
    """The key of one row."""
    return table_prefix(generation, name) + key


def decode_generation(raw: bytes | None) -> int:
    """The generation as it is stored; the first one where that is none, or no number that one can have."""
    try:
        return 0 if raw is None else msgspec.msgpack.decode(raw, type=Generation)
    except msgspec.DecodeError:
        return 0  # the image's sum does not fit then


def decode_header(raw: bytes | None) -> ImageHeader:
    """The header as it is stored; that of the empty image if none is."""
    if raw is None:
        return ImageHeader()
    try:
        return msgspec.msgpack.decode(raw, type=ImageHeader)
    except msgspec.DecodeError as error:
        raise InvariantViolation(f"the image header does not decode: {error}") from error
