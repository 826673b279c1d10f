"""Where a transaction coordinator is found by the id of a group (KIP-447)."""

import pytest

from fencepost.controller.errors import CoordinatorNotAvailable, ErrorCode
from fencepost.wire.k10_find_coordinator import (
    FIND_COORDINATOR,
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinator,
)
from fencepost.wire.k60_describe_cluster import ClusterNode
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import Stage, stage

BY_GROUP = FindCoordinator(TRANSACTION, ("bill", "", "g" * 191), by_group=True)


async def _answers(on: Stage, request: FindCoordinator) -> tuple[Coordinator, ...]:
    """Those of a broker that knows the active controller."""
    while True:
        found = (await on.call(FIND_COORDINATOR, request)).coordinators
        if found[0].error_code != CoordinatorNotAvailable.code:
            return tuple(found)


@pytest.mark.row("447.4")
def test_the_coordinator_of_a_groups_transactions_is_that_of_all_others() -> None:
    async def story() -> None:
        controller = FakeController(node_id=2)
        controller.brokers = (ClusterNode(2, "127.0.0.1", 4242),)
        async with stage(controller) as on:
            found, *refused = await _answers(on, BY_GROUP)
            assert (found.key, found.node_id, found.port, found.error_code) == ("bill", 2, 4242, 0)
            assert [(each.error_code, each.port) for each in refused] == [
                (ErrorCode.INVALID_GROUP_ID, -1)
            ] * 2

    play(story)


@pytest.mark.row("447.4")
def test_other_key_types_have_no_transactions_of_groups() -> None:
    async def story() -> None:
        controller = FakeController(node_id=2)
        controller.brokers = (ClusterNode(2, "127.0.0.1", 4242),)
        async with stage(controller) as on:
            (row,) = await _answers(on, FindCoordinator(GROUP, ("bill",), by_group=True))
            assert row.error_code == ErrorCode.INVALID_REQUEST

    play(story)
