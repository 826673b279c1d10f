"""The end of a join phase, SyncGroup, Heartbeat, LeaveGroup and replacement: their rules and records."""

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.controller.errors import ApiError, UnknownServerError
from fencepost.controller.group_errors import (
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)
from fencepost.controller.groups import completing, heartbeat, leaving, replacing, syncing, tables
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import GROUP_BYTES_MAX, JoinGroup
from fencepost.controller.groups.leaving import Leaver
from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.syncing import EMPTY_ASSIGNMENT, SyncGroup, SyncGroupAnswer
from fencepost.controller.groups.tables import Group
from fencepost.records.group_metadata import GroupMember, GroupState
from tests.controller.groups.worlds import GROUP, NOW_MS, RANGE, group, image, member
from tests.together import table

ALICE = member("alice", assignment=b"a")
BOB = member("bob", assignment=b"b")
STATIC = member("i-1", instance_id="i", assignment=b"i")
STABLE, COMPLETING = GroupState.STABLE, GroupState.COMPLETING_REBALANCE
PREPARING, EMPTY = GroupState.PREPARING_REBALANCE, GroupState.EMPTY


def row_of(*members: GroupMember, **changes: Any) -> Group:
    row = tables.get(image(group(*members, **changes)), GROUP)
    assert row is not None
    return row


# -- the end of a join phase -------------------------------------------------------------------------------


def test_who_did_not_join_again_is_gone_unless_static() -> None:
    staying = completing.staying(Membership((ALICE, BOB, STATIC)), {"bob"})
    assert [each.member_id for each in staying] == ["bob", "i-1"]


LEADERS = [
    pytest.param(row_of(ALICE, BOB), {"alice", "bob"}, "alice", id="the-leader-goes-on"),
    pytest.param(row_of(ALICE, BOB), {"bob"}, "bob", id="the-first-that-is-back"),
    pytest.param(row_of(ALICE, BOB), set(), None, id="none-is-back"),
    pytest.param(None, {"bob", "alice"}, "alice", id="the-first-that-joined"),
]


@pytest.mark.parametrize(("row", "parked", "leader"), LEADERS)
def test_the_leader_of_the_next_generation(row: Group | None, parked: set[str], leader: str | None) -> None:
    assert completing.leader_of(row, Membership((ALICE, BOB)), parked) == leader


def test_the_next_generation_is_decided_with_its_members_and_without_assignments() -> None:
    record = completing.next_generation(
        GROUP, row_of(ALICE), "consumer", Membership((ALICE, BOB)), "bob", now_ms=NOW_MS
    )
    assert (record.generation, record.state, record.leader, record.protocol) == (
        4,
        COMPLETING,
        "bob",
        "range",
    )
    assert record.members == (replace(ALICE, assignment=b""), replace(BOB, assignment=b""))


def test_a_generation_without_members_is_empty() -> None:
    record = completing.next_generation(GROUP, row_of(ALICE), "consumer", Membership(), None, now_ms=NOW_MS)
    assert (record.generation, record.state, record.leader, record.protocol) == (4, EMPTY, None, None)


def test_the_first_generation_is_1() -> None:
    record = completing.next_generation(GROUP, None, "consumer", Membership((ALICE,)), "alice", now_ms=NOW_MS)
    assert record.generation == 1


# -- SyncGroup ---------------------------------------------------------------------------------------------

SYNCS = [
    pytest.param(SyncGroup(GROUP, 3, "alice"), None, id="a-member"),
    pytest.param(SyncGroup(GROUP, 3, "alice", None, "consumer", "range"), None, id="with-its-protocol"),
    pytest.param(SyncGroup("other", 3, "alice"), UnknownMemberId, id="unknown-group"),
    pytest.param(SyncGroup(GROUP, 3, "carol"), UnknownMemberId, id="unknown-member"),
    pytest.param(SyncGroup(GROUP, 3, "alice", "j"), UnknownMemberId, id="unknown-instance"),
    pytest.param(SyncGroup(GROUP, 2, "i-0", "i"), FencedInstanceId, id="fence-before-generation"),
    pytest.param(SyncGroup(GROUP, 2, "alice"), IllegalGeneration, id="old-generation"),
    pytest.param(
        SyncGroup(GROUP, 2, "alice", None, "connect"), IllegalGeneration, id="generation-before-protocol"
    ),
    pytest.param(
        SyncGroup(GROUP, 3, "alice", None, "connect"), InconsistentGroupProtocol, id="other-protocol-type"
    ),
    pytest.param(
        SyncGroup(GROUP, 3, "alice", None, None, "sticky"), InconsistentGroupProtocol, id="other-protocol"
    ),
]


@table(("request_", "refusal"), SYNCS)
def test_whose_sync_it_is(request_: SyncGroup, refusal: type[ApiError] | None) -> None:
    view = image(group(ALICE, STATIC))
    if refusal is None:
        assert syncing.require_sync(view, request_)[1] == ALICE
        return
    with pytest.raises(refusal):
        syncing.require_sync(view, request_)


def test_an_empty_group_has_no_one_to_sync() -> None:
    with pytest.raises(UnknownMemberId):
        syncing.require_sync(image(group()), SyncGroup(GROUP, 3, "alice"))


def test_assignments_go_to_members_and_to_no_one_else() -> None:
    record = syncing.assigned(
        GROUP, row_of(ALICE, state=COMPLETING), (ALICE, BOB), {"alice": b"x", "carol": b"y"}, now_ms=NOW_MS
    )
    assert record.state is STABLE
    assert [each.assignment for each in record.members] == [b"x", b""]


@pytest.mark.parametrize("more", [0, 1])
def test_assignments_are_bounded_with_the_members(more: int) -> None:
    row = row_of(ALICE, state=COMPLETING)
    fits = GROUP_BYTES_MAX - tables.size_of(replace(ALICE, assignment=b""))
    given = {"alice": bytes(fits + more)}
    if more:
        with pytest.raises(UnknownServerError):
            syncing.assigned(GROUP, row, (ALICE,), given, now_ms=NOW_MS)
    else:
        syncing.assigned(GROUP, row, (ALICE,), given, now_ms=NOW_MS)


@pytest.mark.parametrize(("protocol_type", "assignment"), [("consumer", EMPTY_ASSIGNMENT), ("connect", b"")])
def test_no_assignment_is_an_empty_one_to_a_consumer(protocol_type: str, assignment: bytes) -> None:
    row = row_of(ALICE, protocol_type=protocol_type)
    assert syncing.answer_of(row, member("bob")) == SyncGroupAnswer(protocol_type, "range", assignment)


# -- Heartbeat ---------------------------------------------------------------------------------------------

ALIVE = HeartbeatGroup(GROUP, 3, "alice")
HEARTBEATS = [
    pytest.param(STABLE, ALIVE, False, None, id="stable"),
    pytest.param(COMPLETING, ALIVE, False, None, id="completing"),
    pytest.param(PREPARING, ALIVE, False, RebalanceInProgress, id="preparing-in-the-log"),
    pytest.param(STABLE, ALIVE, True, RebalanceInProgress, id="preparing-at-this-coordinator"),
    pytest.param(STABLE, replace(ALIVE, generation=2), True, IllegalGeneration, id="generation-first"),
    pytest.param(
        STABLE, replace(ALIVE, member_id="x", generation=2), False, UnknownMemberId, id="member-first"
    ),
    pytest.param(STABLE, replace(ALIVE, instance_id="j"), False, UnknownMemberId, id="unknown-instance"),
    pytest.param(
        STABLE, HeartbeatGroup(GROUP, 2, "i-0", "i"), False, FencedInstanceId, id="a-member-that-was-replaced"
    ),
    pytest.param(STABLE, replace(ALIVE, group_id="other"), False, UnknownMemberId, id="unknown-group"),
]


@table(("state", "request_", "is_preparing", "refusal"), HEARTBEATS)
def test_heartbeats(
    state: GroupState, request_: HeartbeatGroup, is_preparing: bool, refusal: type[ApiError] | None
) -> None:
    view = image(group(ALICE, STATIC, state=state))
    if refusal is None:
        heartbeat.require_alive(view, request_, is_preparing=is_preparing)
        return
    with pytest.raises(refusal):
        heartbeat.require_alive(view, request_, is_preparing=is_preparing)


# -- members that go ---------------------------------------------------------------------------------------

LEAVERS = [
    pytest.param(Leaver("alice"), (), "alice", id="by-member-id"),
    pytest.param(Leaver("", "i"), (), "i-1", id="an-administrator-by-instance"),
    pytest.param(Leaver("i-1", "i"), (), "i-1", id="by-both"),
    pytest.param(Leaver(""), (), UnknownMemberId, id="by-nothing"),
    pytest.param(Leaver("carol"), (), UnknownMemberId, id="unknown"),
    pytest.param(Leaver("", "j"), (), UnknownMemberId, id="unknown-instance"),
    pytest.param(Leaver("i-0", "i"), (), FencedInstanceId, id="replaced"),
    pytest.param(Leaver("alice"), ("alice",), UnknownMemberId, id="twice"),
    pytest.param(Leaver("", "i"), ("i-1",), UnknownMemberId, id="twice-by-instance"),
]


@table(("leaver", "gone", "expected"), LEAVERS)
def test_who_leaves(leaver: Leaver, gone: tuple[str, ...], expected: Any) -> None:
    members = Membership((ALICE, STATIC))
    if isinstance(expected, str):
        assert leaving.require_leaver(members, leaver, gone) == expected
        return
    with pytest.raises(expected):
        leaving.require_leaver(members, leaver, gone)


def test_those_that_stay_are_logged_as_about_to_join_again() -> None:
    record = leaving.without(image(group(ALICE, BOB)), GROUP, {"alice"}, now_ms=NOW_MS + 1)
    assert record is not None
    assert (record.generation, record.state, record.leader, record.members) == (3, PREPARING, "bob", (BOB,))
    assert record.state_ms == NOW_MS + 1


def test_the_last_leave_an_empty_group_of_the_next_generation() -> None:
    record = leaving.without(image(group(ALICE, BOB)), GROUP, {"alice", "bob"}, now_ms=NOW_MS)
    assert record is not None
    assert (record.generation, record.state, record.leader, record.protocol) == (4, EMPTY, None, None)


@pytest.mark.parametrize("gone", [set(), {"carol"}])
def test_nothing_is_written_of_those_that_the_log_does_not_know(gone: set[str]) -> None:
    assert leaving.without(image(group(ALICE)), GROUP, gone, now_ms=NOW_MS) is None


# -- static members that come back -------------------------------------------------------------------------

HEIR = replacing.inherited(STATIC, member("i-2", instance_id="i"))
CHANGED = replace(HEIR, protocols=(("range", b"more"),))
GOES_ON = [
    pytest.param(STABLE, HEIR, True, id="stable-and-the-same"),
    pytest.param(STABLE, CHANGED, False, id="another-subscription"),
    pytest.param(STABLE, replace(HEIR, protocols=(("sticky", b""), *RANGE)), True, id="the-same-vote"),
    pytest.param(COMPLETING, HEIR, False, id="completing"),
    pytest.param(PREPARING, HEIR, False, id="preparing"),
]


@table(("state", "heir", "expected"), GOES_ON)
def test_a_group_that_needs_no_rebalance(state: GroupState, heir: GroupMember, expected: bool) -> None:
    row = row_of(ALICE, STATIC, state=state)
    assert replacing.goes_on(row, STATIC, Membership((ALICE, heir)), "alice") is expected


def test_the_heir_has_the_assignment_the_place_and_the_leadership() -> None:
    row = row_of(STATIC, ALICE)
    for goes_on, state in ((True, STABLE), (False, PREPARING)):
        record = replacing.replaced(
            GROUP, row, "i-1", Membership((HEIR, ALICE)), "i-2", goes_on=goes_on, now_ms=NOW_MS
        )
        assert (record.generation, record.state, record.leader) == (3, state, "i-2")
        assert record.members == (HEIR, ALICE)
    assert HEIR.assignment == STATIC.assignment


@pytest.mark.parametrize(
    ("skips", "leader", "skip_assignment", "listed"), [(True, "i-2", True, 2), (False, "i-1", False, 0)]
)
def test_a_leader_that_goes_on_does_not_assign(
    skips: bool, leader: str, skip_assignment: bool, listed: int
) -> None:
    before = row_of(STATIC, ALICE)
    after = replace(before, leader="i-2")
    request = JoinGroup(GROUP, 10_000, 60_000, "", "consumer", RANGE, "i", skips_assignment=skips)
    answer = replacing.answer_of(request, before, after, Membership((HEIR, ALICE)), "i-2")
    assert (answer.leader, answer.skip_assignment, len(answer.members)) == (leader, skip_assignment, listed)
