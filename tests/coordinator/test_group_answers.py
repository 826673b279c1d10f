"""What a member is answered is in the image by then: no answer leaves before the entry that it is about."""

from collections.abc import Callable

import pytest

from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.records.group_metadata import GroupState
from fencepost.wire.dispatch import Context
from tests.coordinator.coordinator_node import CLIENT, Answer
from tests.coordinator.group_bench import GROUP, Groups
from tests.node.conftest import MakeStage


@pytest.fixture
def groups(make_stage: MakeStage) -> Groups:
    """A coordinator that leads, with an initial delay of 0."""
    return Groups(make_stage()).lead()


class Seen(Answer):
    """What the image has when the answer leaves."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self._look = look
        self.image: object = None

    def __call__(self, outcome: object, throttle_ms: int = 0, /) -> None:
        super().__call__(outcome, throttle_ms)
        self.image = self._look()


def answered(groups: Groups, send: Callable[[Context, Answer], None], look: Callable[[], object]) -> Seen:
    seen = Seen(look)
    send(CLIENT, seen)
    groups.settle()
    assert seen.outcomes, "never answered"
    return seen


def test_an_assignment_is_in_the_log_before_it_is_answered(groups: Groups) -> None:
    member_id = groups.join().answered().member_id
    request = SyncGroup(GROUP, 1, member_id, assignments=((member_id, b"all"),))
    seen = answered(groups, lambda context, reply: groups.server.sync(request, context, reply), groups.state)
    assert (seen.answered().assignment, seen.image) == (b"all", GroupState.STABLE)


def test_a_leaver_is_gone_from_the_log_before_it_is_answered(groups: Groups) -> None:
    alice, bob = groups.stable("alice", "bob")
    request = LeaveGroup(GROUP, (Leaver(bob),))
    seen = answered(
        groups, lambda context, reply: groups.server.leave(request, context, reply), lambda: groups.members
    )
    assert ([each.error_code for each in seen.answered().members], seen.image) == ([0], [alice])
