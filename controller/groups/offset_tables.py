"""Offsets of groups: what is committed and what is pending, and the only ways it changes.

Invariant   an offset that a transaction committed is pending until the control record of its producer, which
            makes it the committed one or drops it.
Order       a pending offset becomes the committed one only if its own record lies behind the committed one's:
            a plain commit in between wins, as for Kafka's readers of the same log.
Log         all tables are of ``__consumer_offsets``: replay reads and writes no other log's.
Indexes     follow the rows, so that nothing scans: a transaction's offsets by producer id, the producers with
            a pending offset by partition, what may expire by the time of the commit, offsets by topic id.
Committer   stays with the offset when a plain commit replaces it: see ``KeptOffset``.
Source      Kafka OffsetMetadataManager.replay, .replayEndTransactionMarker; KAFKA-19160, -19164;
            docs/kafka-notes.md D.
"""

import struct
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from fencepost.controller.groups.tables import GROUP_ID_BYTES_MAX, decode_group_key, encode_group_key
from fencepost.controller.topics import TOPIC_NAME_CHARACTERS_MAX
from fencepost.controller.view import MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.end_marker import EndMarker
from fencepost.records.offset_commit import NO_PRODUCER, OffsetCommitRecord, OffsetForgotten
from fencepost.records.types import Log, Offset, ProducerId

TIMES_BUCKET_MS: Final = 600_000
"""The index by commit time has the time in these steps: a row moves in it rarely, not with each commit."""

OffsetKey: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""

_PARTITION: Final = struct.Struct(">I")
_PARTITION_MAX: Final = 2**31 - 1


class KeptOffset(msgspec.Struct, frozen=True, array_like=True):
    """An offset, committed or pending. ``record_offset``: of its own record in ``__consumer_offsets-0``.

    ``committer``   the producer that committed it in a transaction, when the group was at ``generation``;
                    ``is_identified``: it presented that generation. A plain commit keeps the three.
    """

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int
    topic_id: UUID
    record_offset: Offset
    committer: ProducerId = NO_PRODUCER
    generation: int = -1
    is_identified: bool = False


class OpenOffsets(msgspec.Struct, frozen=True, array_like=True):
    """What an open transaction has committed: its offsets, each once, and their groups.

    An offset whose row is gone was forgotten meanwhile. Its group is open until the transaction ends.
    """

    keys: tuple[OffsetKey, ...] = ()
    group_ids: tuple[str, ...] = ()


class OffsetCounts(msgspec.Struct, frozen=True, array_like=True):
    """How many offsets a group has, and how many open transactions have committed some of it."""

    committed: int = 0
    pending: int = 0
    transactions: int = 0


def _encode_topic_partition(topic: str, partition: int) -> bytes:
    return encode_group_key(topic) + _PARTITION.pack(partition)


def _decode_topic_partition(key: bytes) -> tuple[str, int]:
    topic, rest = decode_group_key(key)
    return topic, _PARTITION.unpack(rest)[0]


def _encode_offset_key(key: OffsetKey) -> bytes:
    return encode_group_key(key[0]) + _encode_topic_partition(key[1], key[2])


def _decode_offset_key(key: bytes) -> OffsetKey:
    group_id, rest = decode_group_key(key)
    return group_id, *_decode_topic_partition(rest)


def _encode_numbered_key(key: tuple[int, OffsetKey]) -> bytes:
    return encode_int_key(key[0]) + _encode_offset_key(key[1])


def _decode_numbered_key(key: bytes) -> tuple[int, OffsetKey]:
    return decode_int_key(key[:8]), _decode_offset_key(key[8:])


def _encode_by_topic_key(key: tuple[UUID, str, int]) -> bytes:
    return key[0].bytes + encode_group_key(key[1]) + _PARTITION.pack(key[2])


def _decode_by_topic_key(key: bytes) -> tuple[UUID, str, int]:
    group_id, rest = decode_group_key(key[16:])
    return UUID(bytes=key[:16]), group_id, _PARTITION.unpack(rest)[0]


OFFSETS: Final[Table[OffsetKey, KeptOffset]] = Table(
    "offsets", KeptOffset, _encode_offset_key, _decode_offset_key, log=Log.CONSUMER_OFFSETS
)
"""What is committed, by group, topic and partition."""
PENDING: Final[Table[tuple[int, OffsetKey], KeptOffset]] = Table(
    "offsets_pending", KeptOffset, _encode_numbered_key, _decode_numbered_key, log=Log.CONSUMER_OFFSETS
)
"""What an open transaction has committed, by producer id."""
OPEN: Final[Table[int, OpenOffsets]] = Table(
    "offsets_open", OpenOffsets, encode_int_key, decode_int_key, log=Log.CONSUMER_OFFSETS
)
"""By producer id."""
WAITING: Final[Table[OffsetKey, tuple[int, ...]]] = Table(
    "offsets_waiting", tuple[int, ...], _encode_offset_key, _decode_offset_key, log=Log.CONSUMER_OFFSETS
)
"""The producers that have a pending offset for a partition, in the order in which they began to."""
COUNTS: Final[Table[str, OffsetCounts]] = Table(
    "offset_counts",
    OffsetCounts,
    encode_group_key,
    lambda key: decode_group_key(key)[0],
    log=Log.CONSUMER_OFFSETS,
)
"""By group: a group without a row of its own exists while it has offsets."""
TIMES: Final[Table[tuple[int, OffsetKey], bool]] = Table(
    "offset_times", bool, _encode_numbered_key, _decode_numbered_key, log=Log.CONSUMER_OFFSETS
)
"""Committed offsets by when they were committed, in steps of TIMES_BUCKET_MS."""
EXPIRIES: Final[Table[tuple[int, OffsetKey], bool]] = Table(
    "offset_expiries", bool, _encode_numbered_key, _decode_numbered_key, log=Log.CONSUMER_OFFSETS
)
"""Those whose client said how long they are kept, by the time at which they expire."""
BY_TOPIC: Final[Table[tuple[UUID, str, int], str]] = Table(
    "offsets_by_topic", str, _encode_by_topic_key, _decode_by_topic_key, log=Log.CONSUMER_OFFSETS
)
"""Committed offsets by topic id, group and partition; the value is the topic's name."""
PRODUCERS: Final[Table[int, str]] = Table(
    "offsets_producers", str, encode_int_key, decode_int_key, log=Log.CONSUMER_OFFSETS
)
"""The transactional id of each producer in OPEN, if its records name it (log level 5)."""
OFFSET_TABLES: Final = (OFFSETS, PENDING, OPEN, WAITING, COUNTS, TIMES, EXPIRIES, BY_TOPIC, PRODUCERS)

_NO_COUNTS: Final = OffsetCounts()
_NOTHING_OPEN: Final = OpenOffsets()


# -- reading ---------------------------------------------------------------------------------------------


def key_of(group_id: str, topic: str, partition: int) -> OffsetKey | None:
    """The key of an offset's row; None for what can be none. Any text and number may be given."""
    if len(topic) > TOPIC_NAME_CHARACTERS_MAX or not topic.isascii() or not 0 <= partition <= _PARTITION_MAX:
        return None
    return (group_id, topic, partition) if is_group_id(group_id) else None


def is_group_id(group_id: str) -> bool:
    """Offsets may be committed for it: GROUP_ID_BYTES_MAX bytes of UTF-8; none, too, as Kafka allows."""
    if len(group_id) > GROUP_ID_BYTES_MAX:
        return False
    try:
        return len(group_id.encode()) <= GROUP_ID_BYTES_MAX
    except UnicodeEncodeError:
        return False


def counts_of(view: View, group_id: str) -> OffsetCounts:
    """How many offsets a group has. Any text may be given."""
    return (view.get(COUNTS, group_id) if is_group_id(group_id) else None) or _NO_COUNTS


def open_offsets(view: View, producer_id: int) -> OpenOffsets:
    """What the open transaction of a producer has committed."""
    return (view.get(OPEN, producer_id) if producer_id >= 0 else None) or _NOTHING_OPEN


# -- replay ----------------------------------------------------------------------------------------------


def replay(view: MutableView, record: OffsetCommitRecord, at: Offset) -> None:
    """Total. ``at``: the record's own offset."""
    key = (record.group_id, record.topic, record.partition)
    row = KeptOffset(
        record.offset,
        record.leader_epoch,
        record.metadata,
        record.committed_ms,
        record.expires_ms,
        record.topic_id,
        at,
        record.committer,
        record.generation,
        record.is_identified,
    )
    if record.producer_id == NO_PRODUCER:
        _commit(view, key, view.get(OFFSETS, key), row)
    else:
        _add_pending(view, record.producer_id, key, row)
        if record.transactional_id:
            view.put(PRODUCERS, record.producer_id, record.transactional_id)


def replay_forgotten(view: MutableView, record: OffsetForgotten, at: Offset) -> None:
    """Total. What is committed and what is pending goes; what was never there may be forgotten."""
    key = (record.group_id, record.topic, record.partition)
    committed, pending = 0, 0
    row = view.get(OFFSETS, key)
    if row is not None:
        _unindex(view, key, row)
        view.delete(OFFSETS, key)
        committed = -1
    for producer_id in view.get(WAITING, key) or ():
        view.delete(PENDING, (producer_id, key))
        pending -= 1
    if pending:
        view.delete(WAITING, key)
    _count(view, key[0], committed=committed, pending=pending)


def replay_end(view: MutableView, marker: EndMarker, at: Offset) -> None:
    """Total. The offsets of a producer's transaction are committed, or dropped."""
    ended = view.get(OPEN, marker.producer_id)
    if ended is None:
        return
    for key in ended.keys:
        row = view.get(PENDING, (marker.producer_id, key))
        if row is None:
            continue  # forgotten since
        view.delete(PENDING, (marker.producer_id, key))
        _no_more_waiting(view, key, marker.producer_id)
        _count(view, key[0], pending=-1)
        if marker.committed:
            _commit(view, key, view.get(OFFSETS, key), row)
    for group_id in ended.group_ids:
        _count(view, group_id, transactions=-1)
    view.delete(OPEN, marker.producer_id)
    if view.get(PRODUCERS, marker.producer_id) is not None:
        view.delete(PRODUCERS, marker.producer_id)


def _commit(view: MutableView, key: OffsetKey, before: KeptOffset | None, row: KeptOffset) -> None:
    if before is None:
        view.put(OFFSETS, key, row)
        _index(view, key, row)
        _count(view, key[0], committed=1)
        return
    later = row if row.record_offset > before.record_offset else before
    kept = _committed_by(later, before, row)
    view.put(OFFSETS, key, kept)
    if _places(kept) != _places(before):
        _unindex(view, key, before)
        _index(view, key, kept)


def _committed_by(kept: KeptOffset, before: KeptOffset, row: KeptOffset) -> KeptOffset:
    """``kept``, with the committer of the newer of the two: a producer that presented a generation stays."""
    by = row
    if row.committer == NO_PRODUCER or (
        before.generation == row.generation and before.is_identified and not row.is_identified
    ):
        by = before
    if (kept.committer, kept.generation, kept.is_identified) == (
        by.committer,
        by.generation,
        by.is_identified,
    ):
        return kept
    return msgspec.structs.replace(
        kept, committer=by.committer, generation=by.generation, is_identified=by.is_identified
    )


def _add_pending(view: MutableView, producer_id: ProducerId, key: OffsetKey, row: KeptOffset) -> None:
    is_new = view.get(PENDING, (producer_id, key)) is None
    view.put(PENDING, (producer_id, key), row)
    if not is_new:
        return
    view.put(WAITING, key, (*(view.get(WAITING, key) or ()), producer_id))
    before = view.get(OPEN, producer_id) or _NOTHING_OPEN
    begins = key[0] not in before.group_ids
    group_ids = (*before.group_ids, key[0]) if begins else before.group_ids
    view.put(OPEN, producer_id, OpenOffsets((*before.keys, key), group_ids))
    _count(view, key[0], pending=1, transactions=int(begins))


def _no_more_waiting(view: MutableView, key: OffsetKey, producer_id: int) -> None:
    left = tuple([each for each in view.get(WAITING, key) or () if each != producer_id])
    if left:
        view.put(WAITING, key, left)
    else:
        view.delete(WAITING, key)


def _count(
    view: MutableView, group_id: str, *, committed: int = 0, pending: int = 0, transactions: int = 0
) -> None:
    if not (committed or pending or transactions):
        return
    before = view.get(COUNTS, group_id) or _NO_COUNTS
    after = OffsetCounts(
        before.committed + committed, before.pending + pending, before.transactions + transactions
    )
    if after == _NO_COUNTS:
        view.delete(COUNTS, group_id)
    else:
        view.put(COUNTS, group_id, after)


def _places(row: KeptOffset) -> tuple[int, int, UUID]:
    """Where the indexes have a committed offset."""
    return max(0, row.committed_ms) // TIMES_BUCKET_MS * TIMES_BUCKET_MS, row.expires_ms, row.topic_id


def _index(view: MutableView, key: OffsetKey, row: KeptOffset) -> None:
    bucket_ms, expires_ms, topic_id = _places(row)
    if expires_ms >= 0:
        view.put(EXPIRIES, (expires_ms, key), True)
    else:
        view.put(TIMES, (bucket_ms, key), True)
    if topic_id.int:
        view.put(BY_TOPIC, (topic_id, key[0], key[2]), key[1])


def _unindex(view: MutableView, key: OffsetKey, row: KeptOffset) -> None:
    bucket_ms, expires_ms, topic_id = _places(row)
    if expires_ms >= 0:
        view.delete(EXPIRIES, (expires_ms, key))
    else:
        view.delete(TIMES, (bucket_ms, key))
    if topic_id.int:
        view.delete(BY_TOPIC, (topic_id, key[0], key[2]))
