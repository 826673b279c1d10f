"""OffsetCommit and OffsetFetch: what a group has read, from one consumer to the next.

Simple      a group without a row of its own exists while it has offsets: ``assign()`` needs no member.
Topic id    an offset belongs to a topic id: if its topic is deleted, or created again, none is committed.
Unknown     nothing committed is the offset -1 without an error, of an unknown group, too. librdkafka's
            ``assign()`` depends on it.
Stable      a client that knows UNSTABLE_OFFSET_COMMIT waits for the end of a transaction with a pending
            offset. One that does not reads the last committed offset, as from Kafka, or with
            ``parks_old_clients`` COORDINATOR_LOAD_IN_PROGRESS at the partition, and asks again (KIP-447).
Deviation   a request for all partitions names those that are only pending: Kafka leaves them out, and a
            reader takes them for never committed.
Deviation   the offset beside UNSTABLE_OFFSET_COMMIT is -1000, not -1. librdkafka (2.16) takes -1 there for
            "none committed" if its assignment has changed since it asked, and starts by auto.offset.reset: a
            duplicate of all. -1000 is its own "ask for the committed one". Other clients look at the code.
Source      Kafka OffsetMetadataManager.commitOffset, .fetchOffsets, .fetchAllOffsets; docs/kafka-notes.md D.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec

from fencepost.controller import levels, topics
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.group_errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
)
from fencepost.controller.groups import offset_tables, tables
from fencepost.controller.groups.identity import Identity, require_committer
from fencepost.controller.groups.offset_messages import (
    NO_OFFSET,
    NO_RETENTION,
    UNSTABLE_OFFSET,
    CommitOffsets,
    FetchedGroup,
    FetchedOffset,
    GroupQuery,
    OffsetToCommit,
    PartitionCode,
    PartitionCodes,
)
from fencepost.controller.groups.offset_tables import OFFSETS, PENDING, WAITING, KeptOffset, OffsetKey
from fencepost.controller.groups.tables import Group
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupState
from fencepost.records.offset_commit import NO_TOPIC_ID, OffsetCommitRecord

METADATA_CHARACTERS_MAX: Final = 4096  # offset.metadata.max.bytes, which Kafka counts in characters

_LAST_MS: Final = 2**63 - 1

SIMPLE: Final = Group("", 0, GroupState.EMPTY)
"""What a group is that exists by its offsets alone."""


class OffsetRules(msgspec.Struct, frozen=True):
    """The settings of offsets that decisions read."""

    metadata_characters_max: int = METADATA_CHARACTERS_MAX
    parks_old_clients: bool = False
    refuses_all_without_identity: bool = False


# -- commit ----------------------------------------------------------------------------------------------


def decide_commit(
    view: View, request: CommitOffsets, rules: OffsetRules, *, now_ms: int
) -> Decision[PartitionCodes]:
    """Write each offset that may be written; a row for each partition, in the order of the request.

    Raises   UnsupportedVersion: the log level is too low.
    """
    levels.require_group_log(view)
    refusals, known = known_partitions(view, request.offsets)
    if not known:
        return Decision((), answered(request.offsets, refusals))
    try:
        require_group_id(request.group_id)
        group = find(view, request.group_id)
        if group is not None:
            require_committer(view, request.group_id, group, request.identity, transactional=False)
        elif request.identity.generation >= 0:
            raise _missing(request.group_id, request.says_not_found)
    except ApiError as refusal:
        return Decision((), answered(request.offsets, refusals, refusal.code))
    expires_ms = _expires_ms(request.retention_ms, now_ms)
    records = offset_records(request.group_id, known, refusals, rules, now_ms=now_ms, expires_ms=expires_ms)
    return Decision(tuple(records), answered(request.offsets, refusals))


def offset_records(
    group_id: str,
    known: Iterable[tuple[OffsetToCommit, UUID]],
    refusals: dict[tuple[str, int], ErrorCode],
    rules: OffsetRules,
    *,
    now_ms: int,
    expires_ms: int = -1,
) -> list[OffsetCommitRecord]:
    """The records of ``known``. A partition whose metadata is too long gets its code in ``refusals``."""
    records = []
    for each, topic_id in known:
        if len(each.metadata or "") > rules.metadata_characters_max:
            refusals[each.topic, each.partition] = OffsetMetadataTooLarge.code
            continue
        records.append(
            OffsetCommitRecord(
                group_id=group_id,
                topic=each.topic,
                partition=each.partition,
                offset=each.offset,
                leader_epoch=each.leader_epoch,
                metadata=each.metadata or "",
                committed_ms=now_ms,
                expires_ms=expires_ms,
                topic_id=topic_id,
            )
        )
    return records


def find(view: View, group_id: str) -> Group | None:
    """The group, one that exists by its offsets alone included. Any text may be given."""
    group = tables.get(view, group_id)
    if group is not None:
        return group
    counts = offset_tables.counts_of(view, group_id)
    return SIMPLE if counts.committed or counts.pending else None


def require_group_id(group_id: str) -> None:
    """Raises InvalidGroupId (24) for one that cannot be a key of the image."""
    if not offset_tables.is_group_id(group_id):
        raise InvalidGroupId(
            f"a group id of {len(group_id)} characters; expected at most {tables.GROUP_ID_BYTES_MAX} bytes"
        )


def known_partitions(
    view: View, offsets: Iterable[OffsetToCommit]
) -> tuple[dict[tuple[str, int], ErrorCode], list[tuple[OffsetToCommit, UUID]]]:
    """The codes of partitions that do not exist, and the others with their topic ids."""
    refusals: dict[tuple[str, int], ErrorCode] = {}
    known: list[tuple[OffsetToCommit, UUID]] = []
    for each in offsets:
        topic = topics.find(view, each.topic)
        if topic is None or not 0 <= each.partition < topic.partition_count:
            refusals[each.topic, each.partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            known.append((each, topic.topic_id))
    return refusals, known


def answered(
    offsets: Iterable[OffsetToCommit],
    refusals: dict[tuple[str, int], ErrorCode],
    code: ErrorCode = ErrorCode.NONE,
) -> PartitionCodes:
    """A row for each of these; ``code`` for those that have none in ``refusals``."""
    return PartitionCodes(
        tuple(
            [
                PartitionCode(each.topic, each.partition, refusals.get((each.topic, each.partition), code))
                for each in offsets
            ]
        )
    )


def _expires_ms(retention_ms: int, now_ms: int) -> int:
    """When the client wants the offset forgotten, -1 if it does not say; any number may be given."""
    return -1 if retention_ms <= NO_RETENTION else min(now_ms + retention_ms, _LAST_MS)


def _missing(group_id: str, says_not_found: bool) -> ApiError:
    said = f"nothing is known of group {group_id!r}, so it has no generation"
    return GroupIdNotFound(said) if says_not_found else IllegalGeneration(said)


# -- fetch -----------------------------------------------------------------------------------------------


def fetch(
    view: View, query: GroupQuery, rules: OffsetRules, *, require_stable: bool, waits: bool
) -> FetchedGroup:
    """What the group has committed of the partitions of the query, each once, in their order.

    ``waits``   the client knows UNSTABLE_OFFSET_COMMIT.
    """
    code = ErrorCode.NONE
    if require_stable:
        code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    elif rules.parks_old_clients and not waits:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rows = [
        _fetched(view, query.group_id, topic, partition, code)
        for topic, partition in dict.fromkeys(query.partitions or ())
    ]
    return FetchedGroup(query.group_id, tuple(rows))


class Place(msgspec.Struct, frozen=True):
    """Where a walk over a group's offsets goes on."""

    key: OffsetKey
    is_pending: bool


class Page(msgspec.Struct, frozen=True):
    """Some of the offsets of a group; ``after`` None: the last of them."""

    group: FetchedGroup
    after: Place | None


def fetch_page(
    view: View,
    query: GroupQuery,
    rules: OffsetRules,
    after: Place | None,
    rows_max: int,
    *,
    require_stable: bool,
    waits: bool,
) -> Page:
    """Partitions of which the group has committed something, and those only pending if the client waits."""
    places = list(islice(places_of(view, query.group_id, after), rows_max))
    partitions = tuple([(each.key[1], each.key[2]) for each in places])
    some = msgspec.structs.replace(query, partitions=partitions)
    fetched = fetch(view, some, rules, require_stable=require_stable, waits=waits)
    rows = tuple([each for each in fetched.offsets if each.offset != NO_OFFSET or each.code])
    return Page(FetchedGroup(query.group_id, rows), places[-1] if len(places) == rows_max else None)


def places_of(view: View, group_id: str, after: Place | None = None) -> Iterator[Place]:
    """A group's offsets in the order of their keys: those with a committed one, then those only pending."""
    if not offset_tables.is_group_id(group_id):
        return
    before_all = (group_id, "", 0)
    if after is None or not after.is_pending:
        for key, _ in view.scan(OFFSETS, before_all if after is None else after.key):
            if key[0] != group_id:
                break
            yield Place(key, False)
    for key, _ in view.scan(WAITING, after.key if after is not None and after.is_pending else before_all):
        if key[0] != group_id:
            break
        if view.get(OFFSETS, key) is None:
            yield Place(key, True)


def committed_offset(view: View, key: OffsetKey) -> KeptOffset | None:
    """What is committed of a partition of a topic as it is now; nothing of one that had its name before."""
    row = view.get(OFFSETS, key)
    return row if row is not None and _is_of(row, _topic_id(view, key[1])) else None


def is_unstable(view: View, key: OffsetKey) -> bool:
    """An open transaction has an offset of this partition of the topic as it is now."""
    waiting = view.get(WAITING, key)
    if not waiting:
        return False
    topic_id = _topic_id(view, key[1])
    rows = [view.get(PENDING, (producer_id, key)) for producer_id in waiting]
    return any(row is not None and _is_of(row, topic_id) for row in rows)


def _fetched(view: View, group_id: str, topic: str, partition: int, unstable: ErrorCode) -> FetchedOffset:
    key = offset_tables.key_of(group_id, topic, partition)
    if key is None:
        return FetchedOffset(topic, partition)
    if unstable and is_unstable(view, key):
        offset = UNSTABLE_OFFSET if unstable is ErrorCode.UNSTABLE_OFFSET_COMMIT else NO_OFFSET
        return FetchedOffset(topic, partition, offset, code=unstable)
    row = committed_offset(view, key)
    if row is None:
        return FetchedOffset(topic, partition)
    return FetchedOffset(topic, partition, row.offset, row.leader_epoch, row.metadata)


def _topic_id(view: View, name: str) -> UUID | None:
    topic = topics.find(view, name)
    return None if topic is None else topic.topic_id


def _is_of(row: KeptOffset, topic_id: UUID | None) -> bool:
    return row.topic_id in (topic_id, NO_TOPIC_ID)


def is_identified(identity: Identity) -> bool:
    """The request says which member of which generation it is of."""
    return identity.generation >= 0
