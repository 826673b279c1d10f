"""Requests about one id go to the node that coordinates it now, also if a row has the refusal."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencepost.client import Admin, Refused, TopicPartition
from fencepost.controller.groups.describe import DescribedGroup, DescribeGroupsAnswer
from fencepost.controller.groups.offset_messages import DeleteGroupsAnswer, PartitionCode, PartitionCodes
from fencepost.controller.transactions.describe import DescribedTransaction, DescribeTransactionsAnswer
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k42_delete_groups import DELETE_GROUPS
from fencepost.wire.k47_offset_delete import OFFSET_DELETE
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.requests import ErrorCode
from tests.client.explained_cluster import ExplainedCluster
from tests.together import table

ANSWERS: dict[Any, Callable[[ErrorCode], Any]] = {
    DESCRIBE_GROUPS: lambda code: DescribeGroupsAnswer((DescribedGroup("it", code),)),
    DELETE_GROUPS: lambda code: DeleteGroupsAnswer((("it", code),)),
    OFFSET_DELETE: lambda code: PartitionCodes((PartitionCode("t", 0, code),)),
    DESCRIBE_TRANSACTIONS: lambda code: DescribeTransactionsAnswer((DescribedTransaction("it", code),)),
}
CALLS: dict[Any, Callable[[Admin], Coroutine[Any, Any, Any]]] = {
    DESCRIBE_GROUPS: lambda admin: admin.describe_group("it"),
    DELETE_GROUPS: lambda admin: admin.delete_group("it"),
    OFFSET_DELETE: lambda admin: admin.delete_group_offsets("it", [TopicPartition("t", 0)]),
    DESCRIBE_TRANSACTIONS: lambda admin: admin.describe_transaction("it"),
}
MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def called(api: Any, *codes: ErrorCode) -> int:
    """How many requests a call sends to which these codes are the answers, in their order."""
    cluster = ExplainedCluster()
    left = list(codes)
    cluster.rules |= {each: lambda _request, _node, each=each: ANSWERS[each](left.pop(0)) for each in ANSWERS}

    async def play() -> None:
        async with cluster.serving() as bootstrap, Admin(bootstrap) as admin:
            await CALLS[api](admin)

    asyncio.run(play())
    return len(cluster.seen[api.key])


@table("api", tuple(ANSWERS))
def test_a_row_that_names_another_coordinator_is_requested_again(api: Any) -> None:
    assert called(api, *MOVED, ErrorCode.NONE) == 4


@table("api", tuple(ANSWERS))
def test_another_refusal_of_a_row_is_raised_at_once(api: Any) -> None:
    with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
        called(api, ErrorCode.GROUP_AUTHORIZATION_FAILED)
