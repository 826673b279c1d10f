"""Offsets that a group has committed: read and written by one of its consumers."""

from collections.abc import Iterable, Mapping

from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import CommitFailed, number_of, refused
from fencepost.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.requests import (
    ApiError,
    CommitOffsets,
    ErrorCode,
    FetchOffsets,
    FetchOffsetsAnswer,
    GroupQuery,
    Identity,
    OffsetToCommit,
    PartitionCodes,
)

_NOT_A_MEMBER = frozenset(
    (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    )
)


async def commit(
    coordinator: Coordinator,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupMetadata,
    *,
    timeout_s: float,
) -> None:
    """Commit the next offsets to read. Raises CommitFailed (the group moved on), Refused, RequestTimedOut."""
    rows = tuple(
        OffsetToCommit(*partition, offset.offset, offset.leader_epoch, offset.metadata)
        for partition, offset in sorted(offsets.items())
    )
    identity = Identity(group.member_id, group.instance_id, group.generation)
    request = CommitOffsets(group.group_id, rows, identity)
    try:
        await coordinator.call(OFFSET_COMMIT, request, timeout_s=timeout_s, code_of=_commit_code)
    except ApiError as error:
        code = number_of(error)
        if code in _NOT_A_MEMBER:
            raise CommitFailed(f"group {group.group_id!r}: {error}", code) from error
        raise refused(code, f"commit of group {group.group_id!r}: {error}") from error


async def committed(
    coordinator: Coordinator, group_id: str, partitions: Iterable[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The committed offsets; a partition without one is not in it. Waits for transactions to end.

    Raises Refused, NotReachable, RequestTimedOut.
    """
    wanted = tuple((each.topic, each.partition) for each in sorted(set(partitions)))
    request = FetchOffsets((GroupQuery(group_id, wanted),), require_stable=True)
    try:
        answer = await coordinator.call(OFFSET_FETCH, request, timeout_s=timeout_s, code_of=_fetch_code)
    except ApiError as error:
        raise refused(number_of(error), f"offsets of group {group_id!r}: {error}") from error
    return {
        TopicPartition(row.topic, row.partition): OffsetAndMetadata(
            row.offset, row.metadata or "", row.leader_epoch
        )
        for row in answer.groups[0].offsets
        if row.offset >= 0
    }


def _commit_code(answer: PartitionCodes) -> int:
    return next((each.code for each in answer.rows if each.code != ErrorCode.NONE), ErrorCode.NONE)


def _fetch_code(answer: FetchOffsetsAnswer) -> int:
    (group,) = answer.groups
    if group.code != ErrorCode.NONE:
        return group.code
    return next((each.code for each in group.offsets if each.code != ErrorCode.NONE), ErrorCode.NONE)
