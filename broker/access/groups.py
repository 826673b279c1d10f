"""Guards of requests about consumer groups and their offsets."""

from typing import Any, Final

from msgspec.structs import replace

from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import Guard, mapped, remembered, split
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.describe import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsAnswer,
    ListGroups,
    ListGroupsAnswer,
)
from fencepost.controller.groups.offset_messages import (
    NO_OFFSET,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteGroupsAnswer,
    DeleteOffsets,
    FetchedGroup,
    FetchedOffset,
    FetchOffsets,
    FetchOffsetsAnswer,
    GroupQuery,
    PartitionCode,
    PartitionCodes,
)
from fencepost.wire.dispatch import Context, Endpoint, Reply

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


def needs(operation: Operation) -> Guard:
    """The operation on the one group that the request names."""

    def guard(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        door.require_group(context, operation, request.group_id)
        endpoint(request, context, reply)

    return guard


def commit(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: CommitOffsets | CommitTransactionOffsets,
    context: Context,
    reply: Reply[PartitionCodes],
) -> None:
    """READ on the group, and on each topic; of a transaction WRITE on its id before."""
    if isinstance(request, CommitTransactionOffsets):
        door.require_transactional_id(context, Operation.WRITE, request.transactional_id)
    door.require_group(context, Operation.READ, request.group_id)
    may_read = remembered(door, context, Operation.READ)
    allowed, denied = split(request.offsets, lambda each: may_read(each.topic))
    if not denied:
        endpoint(request, context, reply)
        return
    refused = tuple(PartitionCode(each.topic, each.partition, DENIED) for each in denied)
    if not allowed:
        reply(PartitionCodes(refused))
        return
    with_refused = mapped(reply, lambda answer: PartitionCodes(answer.rows + refused))
    endpoint(replace(request, offsets=allowed), context, with_refused)


def delete_offsets(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DeleteOffsets,
    context: Context,
    reply: Reply[PartitionCodes],
) -> None:
    """DELETE on the group, and READ on each topic."""
    door.require_group(context, Operation.DELETE, request.group_id)
    may_read = remembered(door, context, Operation.READ)
    allowed, denied = split(request.partitions, lambda each: may_read(each[0]))
    refused = tuple(PartitionCode(topic, partition, DENIED) for topic, partition in denied)
    if denied and not allowed:
        reply(PartitionCodes(refused))
        return
    with_refused = mapped(reply, lambda answer: PartitionCodes(answer.rows + refused))
    endpoint(replace(request, partitions=allowed), context, with_refused)


def fetch_offsets(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: FetchOffsets,
    context: Context,
    reply: Reply[FetchOffsetsAnswer],
) -> None:
    """DESCRIBE on each group, and on each topic; of all topics those that may be described are shown."""
    may_see = remembered(door, context, Operation.DESCRIBE)
    wanted: list[GroupQuery] = []
    refused: dict[int, FetchedGroup] = {}  # by the place of a group in the request
    unseen: dict[int, tuple[FetchedOffset, ...]] = {}
    for place, each in enumerate(request.groups):
        if not door.allows(context, Operation.DESCRIBE, ResourceType.GROUP, each.group_id):
            refused[place] = FetchedGroup(each.group_id, (), GROUP_DENIED)
            continue
        if each.partitions is None:
            wanted.append(each)
            continue
        allowed, denied = split(each.partitions, lambda partition: may_see(partition[0]))
        unseen[place] = tuple(FetchedOffset(topic, index, NO_OFFSET, code=DENIED) for topic, index in denied)
        wanted.append(replace(each, partitions=allowed))
    if refused and not wanted:
        reply(FetchOffsetsAnswer(tuple(refused.values())))
        return

    def shown(answer: FetchOffsetsAnswer) -> FetchOffsetsAnswer:
        found = iter(answer.groups)
        groups = []
        for place in range(len(request.groups)):
            if place in refused:
                groups.append(refused[place])
                continue
            group = next(found)
            if place in unseen:
                offsets = group.offsets + unseen[place]
            else:
                offsets = tuple(each for each in group.offsets if may_see(each.topic))
            groups.append(replace(group, offsets=offsets))
        return FetchOffsetsAnswer(tuple(groups))

    endpoint(replace(request, groups=tuple(wanted)), context, mapped(reply, shown))


def describe(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DescribeGroups,
    context: Context,
    reply: Reply[DescribeGroupsAnswer],
) -> None:
    """DESCRIBE on each group."""
    allowed, denied = split(
        request.group_ids, lambda each: door.allows(context, Operation.DESCRIBE, ResourceType.GROUP, each)
    )
    refused = tuple(DescribedGroup(each, GROUP_DENIED) for each in denied)
    if denied and not allowed:
        reply(DescribeGroupsAnswer(refused))
        return

    def shown(answer: DescribeGroupsAnswer) -> DescribeGroupsAnswer:
        groups = answer.groups
        if request.include_authorized_operations:
            groups = tuple(
                replace(
                    each,
                    authorized_operations=door.operations(context, ResourceType.GROUP, each.group_id),
                )
                for each in groups
            )
        return DescribeGroupsAnswer(groups + refused)

    endpoint(replace(request, group_ids=allowed), context, mapped(reply, shown))


def list_(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: ListGroups,
    context: Context,
    reply: Reply[ListGroupsAnswer],
) -> None:
    """DESCRIBE on the cluster shows all groups; else those are shown that may be described."""
    if door.allows_cluster(context, Operation.DESCRIBE):
        endpoint(request, context, reply)
        return

    def shown(answer: ListGroupsAnswer) -> ListGroupsAnswer:
        return ListGroupsAnswer(
            tuple(
                each
                for each in answer.groups
                if door.allows(context, Operation.DESCRIBE, ResourceType.GROUP, each.group_id)
            )
        )

    endpoint(request, context, mapped(reply, shown))


def delete(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DeleteGroups,
    context: Context,
    reply: Reply[DeleteGroupsAnswer],
) -> None:
    """DELETE on each group."""
    allowed, denied = split(
        request.group_ids, lambda each: door.allows(context, Operation.DELETE, ResourceType.GROUP, each)
    )
    refused = tuple((each, GROUP_DENIED) for each in denied)
    if denied and not allowed:
        reply(DeleteGroupsAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: DeleteGroupsAnswer(answer.results + refused))
    endpoint(replace(request, group_ids=allowed), context, with_refused)
