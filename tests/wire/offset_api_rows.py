"""Rows of the APIs about offsets of groups."""

from typing import Any

from msgspec.structs import replace

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups import offset_messages as m
from fencepost.controller.groups.identity import Identity
from fencepost.records.types import ProducerId
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.k42_delete_groups import DELETE_GROUPS
from fencepost.wire.k47_offset_delete import OFFSET_DELETE
from tests.wire.row import Row, ms

OFFSETS = (
    m.OffsetToCommit("orders", 0, 42, 3, "half way"),
    m.OffsetToCommit("orders", 1, 2**62, -1, ""),
    m.OffsetToCommit("payments", 9, 0, 7, None),
)
CODES = m.PartitionCodes(
    (
        m.PartitionCode("orders", 0),
        m.PartitionCode("orders", 1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        m.PartitionCode("payments", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
)


def _offsets(said: tuple[m.OffsetToCommit, ...], epochs: bool) -> tuple[m.OffsetToCommit, ...]:
    return said if epochs else tuple(replace(each, leader_epoch=-1) for each in said)


def _flat_offsets(entity: Any) -> tuple[m.OffsetToCommit, ...]:
    return tuple(
        m.OffsetToCommit(
            topic.name,
            each.partition_index,
            each.committed_offset,
            getattr(each, "committed_leader_epoch", -1),
            each.committed_metadata,
        )
        for topic in entity.topics
        for each in topic.partitions
    )


def _flat_codes(version: int, entity: Any) -> m.PartitionCodes:
    return m.PartitionCodes(
        tuple(
            m.PartitionCode(topic.name, each.partition_index, ErrorCode(each.error_code.value))
            for topic in entity.topics
            for each in topic.partitions
        )
    )


def _visible_commit(version: int, said: m.CommitOffsets) -> m.CommitOffsets:
    return replace(
        said,
        identity=said.identity if version >= 7 else replace(said.identity, instance_id=None),
        offsets=_offsets(said.offsets, version >= 6),
        says_not_found=version >= 9,
    )


def _flat_commit(version: int, entity: Any) -> m.CommitOffsets:
    generation = entity.generation_id_or_member_epoch
    identity = Identity(entity.member_id, getattr(entity, "group_instance_id", None), generation)
    retention = ms(entity.retention_time) if hasattr(entity, "retention_time") else -1
    return m.CommitOffsets(entity.group_id, _flat_offsets(entity), identity, retention, version >= 9)


COMMIT = Row(
    OFFSET_COMMIT,
    m.CommitOffsets("bill", OFFSETS, Identity("member-1", "pod-1", 5)),
    CODES,
    _visible_commit,
    flat_request=_flat_commit,
    flat_response=_flat_codes,
)


def _visible_txn_commit(version: int, said: m.CommitTransactionOffsets) -> m.CommitTransactionOffsets:
    return replace(
        said,
        identity=said.identity if version >= 3 else m.NO_IDENTITY,
        offsets=_offsets(said.offsets, version >= 2),
        knows_abortable=version >= 4,
        adds_offsets=version >= 5,
    )


def _flat_txn_commit(version: int, entity: Any) -> m.CommitTransactionOffsets:
    identity = m.NO_IDENTITY
    if version >= 3:
        identity = Identity(entity.member_id, entity.group_instance_id, entity.generation_id)
    return m.CommitTransactionOffsets(
        entity.transactional_id,
        entity.group_id,
        entity.producer_id,
        entity.producer_epoch,
        _flat_offsets(entity),
        identity,
        version >= 4,
        version >= 5,
    )


TXN_COMMIT = Row(
    TXN_OFFSET_COMMIT,
    m.CommitTransactionOffsets(
        "transfers", "bill", ProducerId(7), 3, OFFSETS, Identity("member-1", "pod-1", 5)
    ),
    CODES,
    _visible_txn_commit,
    flat_request=_flat_txn_commit,
    flat_response=_flat_codes,
)

ADD = Row(ADD_OFFSETS_TO_TXN, m.AddOffsets("transfers", ProducerId(7), 3, "bill"), None)


def _visible_fetch(version: int, said: m.FetchOffsets) -> m.FetchOffsets:
    groups = said.groups
    if version < 9:
        groups = tuple(replace(each, member_id=None, member_epoch=-1) for each in groups)
    return replace(said, groups=groups, waits=version >= 7)


def _wanted(topics: Any) -> tuple[tuple[str, int], ...] | None:
    if topics is None:
        return None
    return tuple((topic.name, index) for topic in topics for index in topic.partition_indexes)


def _flat_fetch(version: int, entity: Any) -> m.FetchOffsets:
    if version >= 8:
        groups = tuple(
            m.GroupQuery(
                each.group_id,
                _wanted(each.topics),
                getattr(each, "member_id", None),
                getattr(each, "member_epoch", -1),
            )
            for each in entity.groups
        )
    else:
        groups = (m.GroupQuery(entity.group_id, _wanted(entity.topics)),)
    return m.FetchOffsets(groups, getattr(entity, "require_stable", False), version >= 7)


def _visible_fetched(version: int, said: m.FetchOffsetsAnswer) -> m.FetchOffsetsAnswer:
    (group,) = said.groups
    offsets = group.offsets
    if version < 5:
        offsets = tuple(replace(each, leader_epoch=-1) for each in offsets)
    return m.FetchOffsetsAnswer(
        (replace(group, group_id=group.group_id if version >= 8 else "", offsets=offsets),)
    )


def _flat_rows(topics: Any) -> tuple[m.FetchedOffset, ...]:
    return tuple(
        m.FetchedOffset(
            topic.name,
            each.partition_index,
            each.committed_offset,
            getattr(each, "committed_leader_epoch", -1),
            each.metadata,
            ErrorCode(each.error_code.value),
        )
        for topic in topics
        for each in topic.partitions
    )


def _flat_fetched(version: int, entity: Any) -> m.FetchOffsetsAnswer:
    if version < 8:
        code = ErrorCode(entity.error_code.value) if version >= 2 else ErrorCode.NONE
        return m.FetchOffsetsAnswer((m.FetchedGroup("", _flat_rows(entity.topics), code),))
    return m.FetchOffsetsAnswer(
        tuple(
            m.FetchedGroup(each.group_id, _flat_rows(each.topics), ErrorCode(each.error_code.value))
            for each in entity.groups
        )
    )


FETCH = Row(
    OFFSET_FETCH,
    m.FetchOffsets((m.GroupQuery("bill", (("orders", 0), ("orders", 1), ("payments", 9)), "member-1", 5),)),
    m.FetchOffsetsAnswer(
        (
            m.FetchedGroup(
                "bill",
                (
                    m.FetchedOffset("orders", 0, 42, 3, "half way"),
                    m.FetchedOffset("orders", 1, code=ErrorCode.UNSTABLE_OFFSET_COMMIT),
                    m.FetchedOffset("payments", 9),
                ),
            ),
        )
    ),
    _visible_fetch,
    _visible_fetched,
    _flat_fetch,
    _flat_fetched,
)


def _flat_deleted(version: int, entity: Any) -> m.DeleteGroupsAnswer:
    return m.DeleteGroupsAnswer(
        tuple((each.group_id, ErrorCode(each.error_code.value)) for each in entity.results)
    )


DELETE = Row(
    DELETE_GROUPS,
    m.DeleteGroups(("bill", "audit")),
    m.DeleteGroupsAnswer((("bill", ErrorCode.NONE), ("audit", ErrorCode.NON_EMPTY_GROUP))),
    flat_request=lambda version, entity: m.DeleteGroups(entity.groups_names),
    flat_response=_flat_deleted,
)


def _flat_delete(version: int, entity: Any) -> m.DeleteOffsets:
    partitions = tuple(
        (topic.name, each.partition_index) for topic in entity.topics for each in topic.partitions
    )
    return m.DeleteOffsets(entity.group_id, partitions)


DELETE_OFFSETS = Row(
    OFFSET_DELETE,
    m.DeleteOffsets("bill", (("orders", 0), ("orders", 1), ("payments", 9))),
    CODES,
    flat_request=_flat_delete,
    flat_response=_flat_codes,
)

OFFSET_ROWS = (COMMIT, TXN_COMMIT, ADD, FETCH, DELETE, DELETE_OFFSETS)
