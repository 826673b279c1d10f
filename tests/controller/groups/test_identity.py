"""Who may act for a group: every order of the checks, a row each."""

import pytest

from fencepost.controller.errors import ApiError
from fencepost.controller.group_errors import (
    FencedInstanceId,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from fencepost.controller.groups import identity, tables
from fencepost.controller.groups.identity import Identity
from fencepost.records.group_metadata import GroupState
from tests.controller.groups.worlds import GROUP, group, image, member
from tests.together import table

ALICE = member("alice-1")
BOB = member("bob-2", instance_id="bob")

MEMBERS = [
    pytest.param("alice-1", None, None, id="a-dynamic-member"),
    pytest.param("bob-2", "bob", None, id="a-static-member"),
    pytest.param("bob-2", None, None, id="a-static-member-that-sends-no-instance-id"),
    pytest.param("carol", None, UnknownMemberId, id="unknown-member"),
    pytest.param("", None, UnknownMemberId, id="no-member-id"),
    pytest.param("m" * 287, None, UnknownMemberId, id="a-member-id-longer-than-any"),
    pytest.param("\ud800", None, UnknownMemberId, id="a-member-id-that-is-no-text"),
    pytest.param("bob-2", "carol", UnknownMemberId, id="unknown-instance-before-the-member"),
    pytest.param("bob-1", "bob", FencedInstanceId, id="a-member-that-was-replaced"),
    pytest.param("alice-1", "bob", FencedInstanceId, id="another-member-s-instance"),
    pytest.param("", "bob", FencedInstanceId, id="an-instance-without-a-member-id"),
]


@table(("member_id", "instance_id", "refusal"), MEMBERS)
def test_the_member_of_a_request(
    member_id: str, instance_id: str | None, refusal: type[ApiError] | None
) -> None:
    view = image(group(ALICE, BOB))
    if refusal is None:
        assert identity.require_member(view, GROUP, member_id, instance_id).member_id == member_id
        return
    with pytest.raises(refusal):
        identity.require_member(view, GROUP, member_id, instance_id)


NO_ONE = Identity()
STABLE, EMPTY, COMPLETING = GroupState.STABLE, GroupState.EMPTY, GroupState.COMPLETING_REBALANCE
PREPARING = GroupState.PREPARING_REBALANCE
COMMITS = [  # state, who, refusal of a plain commit, refusal of a transactional one
    pytest.param(EMPTY, NO_ONE, None, None, id="empty-and-no-identity"),
    pytest.param(EMPTY, Identity("x", "y"), None, None, id="empty-ignores-the-ids-below-generation-0"),
    pytest.param(
        EMPTY, Identity("x", None, 3), UnknownMemberId, UnknownMemberId, id="empty-and-a-generation"
    ),
    pytest.param(STABLE, Identity("alice-1", None, 3), None, None, id="current-member"),
    pytest.param(PREPARING, Identity("alice-1", None, 3), None, None, id="commit-before-the-rejoin"),
    pytest.param(STABLE, NO_ONE, UnknownMemberId, None, id="no-identity-in-a-group-with-members"),
    pytest.param(
        STABLE, Identity("alice-1"), IllegalGeneration, IllegalGeneration, id="member-without-generation"
    ),
    pytest.param(
        STABLE, Identity("", None, 3), UnknownMemberId, UnknownMemberId, id="generation-without-member"
    ),
    pytest.param(STABLE, Identity("", "bob"), FencedInstanceId, FencedInstanceId, id="instance-alone"),
    pytest.param(STABLE, Identity("alice-1", None, 2), IllegalGeneration, IllegalGeneration, id="zombie"),
    pytest.param(STABLE, Identity("alice-1", None, 4), IllegalGeneration, IllegalGeneration, id="from-later"),
    pytest.param(
        STABLE, Identity("carol", None, 2), UnknownMemberId, UnknownMemberId, id="member-before-generation"
    ),
    pytest.param(
        STABLE, Identity("bob-1", "bob", 2), FencedInstanceId, FencedInstanceId, id="fence-before-generation"
    ),
    pytest.param(COMPLETING, Identity("alice-1", None, 3), RebalanceInProgress, None, id="completing"),
    pytest.param(
        COMPLETING,
        Identity("alice-1", None, 2),
        IllegalGeneration,
        IllegalGeneration,
        id="old-and-completing",
    ),
    pytest.param(COMPLETING, NO_ONE, UnknownMemberId, None, id="no-identity-while-completing"),
]


@table(("state", "who", "plain", "transactional"), COMMITS)
def test_who_may_commit(
    state: GroupState, who: Identity, plain: type[ApiError] | None, transactional: type[ApiError] | None
) -> None:
    members = () if state is EMPTY else (ALICE, BOB)
    view = image(group(*members, state=state))
    row = tables.get(view, GROUP)
    assert row is not None
    for is_transactional, refusal in ((False, plain), (True, transactional)):
        if refusal is None:
            identity.require_committer(view, GROUP, row, who, transactional=is_transactional)
            continue
        with pytest.raises(refusal):
            identity.require_committer(view, GROUP, row, who, transactional=is_transactional)
