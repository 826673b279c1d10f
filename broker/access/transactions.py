"""Guards of requests about producer ids, transactional ids and transactions."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from fencepost.broker.access.door import Door
from fencepost.broker.access.guard import Guard, mapped, remembered, split
from fencepost.controller.acl_errors import ClusterOperationDenied
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.offset_messages import AddOffsets
from fencepost.controller.transactions.add_partitions import (
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsAnswer,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.wire.dispatch import Context, Endpoint, Reply
from fencepost.wire.k10_find_coordinator import (
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinator,
    FindCoordinatorAnswer,
)

_WRITE, _TOPIC, _ID = Operation.WRITE, ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID  # see data.py
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OF_KEY_TYPE: Final = {
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (ResourceType.TRANSACTIONAL_ID, ID_DENIED),
}


def needs(operation: Operation) -> Guard:
    """The operation on the one transactional id that the request names."""

    def guard(
        door: Door, endpoint: Endpoint[Any, Any], request: Any, context: Context, reply: Reply[Any]
    ) -> None:
        door.require_transactional_id(context, operation, request.transactional_id)
        endpoint(request, context, reply)

    return guard


def may_write(door: Door, request: Any, context: Context) -> bool:
    """Of ``needs(WRITE)``: see ``guard.Sure``."""
    return door.is_remembered(context, _WRITE, _ID, request.transactional_id)


def find_coordinator(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: FindCoordinator,
    context: Context,
    reply: Reply[FindCoordinatorAnswer],
) -> None:
    """DESCRIBE on each group or transactional id; ours, by groups: on the groups."""
    key_type = GROUP if request.by_group else request.key_type
    if key_type not in OF_KEY_TYPE:
        endpoint(request, context, reply)  # it refuses other types
        return
    of, code = OF_KEY_TYPE[key_type]
    allowed, denied = split(request.keys, lambda each: door.allows(context, Operation.DESCRIBE, of, each))
    refused = tuple(Coordinator(each, error_code=code) for each in denied)
    if denied and not allowed:
        reply(FindCoordinatorAnswer(refused))
        return
    with_refused = mapped(reply, lambda answer: FindCoordinatorAnswer(answer.coordinators + refused))
    kept = FindCoordinator(request.key_type, allowed, request.by_group)
    endpoint(kept, context, with_refused)


def init_producer_id(
    door: Door, endpoint: Endpoint[Any, Any], request: InitProducerId, context: Context, reply: Reply[Any]
) -> None:
    """WRITE on the transactional id, for two-phase commit that, too; without an id as KIP-679 says.

    Ours: READ on the group of a member.
    """
    if request.transactional_id is not None:
        door.require_transactional_id(context, Operation.WRITE, request.transactional_id)
        if request.enables_two_phase:
            door.require_transactional_id(context, Operation.TWO_PHASE_COMMIT, request.transactional_id)
    elif not (
        door.allows_cluster(context, Operation.IDEMPOTENT_WRITE)
        or door.allows_some_topic(context, Operation.WRITE)
    ):
        raise ClusterOperationDenied(
            f"{context.principal} lacks WRITE on every topic, and IDEMPOTENT_WRITE on the cluster"
        )
    if request.member is not None:
        door.require_group(context, Operation.READ, request.member.group_id)
    endpoint(request, context, reply)


def add_partitions(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: AddPartitionsToTxn,
    context: Context,
    reply: Reply[AddPartitionsToTxnAnswer],
) -> None:
    """WRITE on the transactional id and on every topic, or none is added; from a broker CLUSTER_ACTION."""
    if request.batched:
        door.require_cluster(context, Operation.CLUSTER_ACTION)
        endpoint(request, context, reply)
        return
    may_write = remembered(door, context, Operation.WRITE)
    results: list[tuple[str, AddPartitionsAnswer]] = []
    for each in request.transactions:
        door.require_transactional_id(context, Operation.WRITE, each.transactional_id)
        if all(may_write(topic.topic) for topic in each.topics):
            continue
        errors = tuple(
            (topic.topic, tuple((index, _code(may_write, topic.topic)) for index in topic.partition_ids))
            for topic in each.topics
        )
        results.append((each.transactional_id, AddPartitionsAnswer(errors)))
    if results:
        reply(AddPartitionsToTxnAnswer(tuple(results)))
    else:
        endpoint(request, context, reply)


def may_add_partitions(door: Door, request: AddPartitionsToTxn, context: Context) -> bool:
    """Of ``add_partitions``, of a client: see ``guard.Sure``."""
    if request.batched:
        return False
    for each in request.transactions:
        if not may_write(door, each, context):
            return False
        for topic in each.topics:
            if not door.is_remembered(context, _WRITE, _TOPIC, topic.topic):
                return False
    return True


def _code(may_write: Callable[[str], bool], topic: str) -> ErrorCode:
    return ErrorCode.OPERATION_NOT_ATTEMPTED if may_write(topic) else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def add_offsets(
    door: Door, endpoint: Endpoint[Any, Any], request: AddOffsets, context: Context, reply: Reply[Any]
) -> None:
    """WRITE on the transactional id, READ on the group."""
    door.require_transactional_id(context, Operation.WRITE, request.transactional_id)
    door.require_group(context, Operation.READ, request.group_id)
    endpoint(request, context, reply)


def describe(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: DescribeTransactions,
    context: Context,
    reply: Reply[DescribeTransactionsAnswer],
) -> None:
    """DESCRIBE on each transactional id; of its topics those are shown that may be described."""
    of = ResourceType.TRANSACTIONAL_ID
    allowed, denied = split(
        request.transactional_ids, lambda each: door.allows(context, Operation.DESCRIBE, of, each)
    )
    refused = tuple(DescribedTransaction(each, ID_DENIED) for each in denied)
    if denied and not allowed:
        reply(DescribeTransactionsAnswer(refused))
        return
    may_see = remembered(door, context, Operation.DESCRIBE)

    def shown(answer: DescribeTransactionsAnswer) -> DescribeTransactionsAnswer:
        found = tuple(
            replace(each, partitions=tuple(topic for topic in each.partitions if may_see(topic.topic)))
            for each in answer.transactions
        )
        return DescribeTransactionsAnswer(found + refused)

    endpoint(DescribeTransactions(allowed), context, mapped(reply, shown))


def list_(
    door: Door,
    endpoint: Endpoint[Any, Any],
    request: ListTransactions,
    context: Context,
    reply: Reply[ListTransactionsAnswer],
) -> None:
    """Those are listed that may be described: the list is filtered as it is read, on a thread, in bytes."""
    may_see = door.checker(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    endpoint(replace(request, may_see=may_see), context, reply)
