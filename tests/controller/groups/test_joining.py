"""JoinGroup, row by row: what a join leads to in each state of a group."""

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.controller.group_errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    UnknownMemberId,
)
from fencepost.controller.groups import joining, tables
from fencepost.controller.groups.joining import (
    GROUP_BYTES_MAX,
    MEMBERS_MAX,
    PROTOCOLS_MAX,
    AnswerNow,
    GroupLimits,
    JoinedMember,
    JoinGroup,
    JoinGroupAnswer,
    Park,
    Phase,
    Replace,
    Sender,
    join_step,
)
from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.tables import Group
from fencepost.records.group_metadata import GroupMember, GroupState
from tests.controller.groups.worlds import GROUP, RANGE, member
from tests.together import table

ALICE, BOB = member("alice"), member("bob")
STATIC = member("i-1", instance_id="i")
EMPTY, STABLE = GroupState.EMPTY, GroupState.STABLE
COMPLETING, PREPARING = GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE
OTHER = (("sticky", b"s"),)
OPEN = Phase(is_open=True, protocol_type="consumer")


def row(state: GroupState, leader: str = "alice") -> Group:
    return Group("consumer", 3, state, "range", leader)


def ask(member_id: str = "", **changes: Any) -> JoinGroup:
    return replace(JoinGroup(GROUP, 10_000, 60_000, member_id, "consumer", RANGE), **changes)


NEW = Park(member("c-new"), is_new=True)
ROWS = [  # group, members, phase, request, outcome
    pytest.param(None, (), Phase(), ask("x"), UnknownMemberId, id="4-missing-and-an-id"),
    pytest.param(
        None, (), Phase(), ask("x", protocols=()), UnknownMemberId, id="4-that-before-what-it-supports"
    ),
    pytest.param(None, (), Phase(), ask(), MemberIdRequired, id="5-missing-and-no-id"),
    pytest.param(
        row(STABLE), (ALICE, BOB), Phase(), ask(knows_required_ids=False), GroupMaxSizeReached, id="6-full"
    ),
    pytest.param(row(STABLE), (ALICE, BOB), Phase(), ask("bob"), AnswerNow, id="6-full-and-a-member"),
    pytest.param(
        row(STABLE), (ALICE, STATIC), Phase(), ask(instance_id="i"), Replace, id="6-full-and-a-static-rejoin"
    ),
    pytest.param(
        row(STABLE),
        (ALICE, BOB),
        replace(OPEN, parked=("alice", "bob")),
        ask("carol"),
        GroupMaxSizeReached,
        id="6-full-of-parked-joins",
    ),
    pytest.param(
        row(STABLE),
        (ALICE, BOB, member("carol")),
        replace(OPEN, parked=("alice", "bob")),
        ask("bob"),
        Park,
        id="6-parked-already",
    ),
    pytest.param(
        row(STABLE),
        (ALICE, BOB, member("carol")),
        replace(OPEN, parked=("alice", "bob")),
        ask("carol"),
        GroupMaxSizeReached,
        id="6-the-last-of-a-group-that-is-too-large",
    ),
    pytest.param(
        row(EMPTY), (), Phase(), ask(protocol_type=""), InconsistentGroupProtocol, id="8-empty-and-no-type"
    ),
    pytest.param(
        row(EMPTY), (), Phase(), ask(protocols=()), InconsistentGroupProtocol, id="8-empty-and-no-protocol"
    ),
    pytest.param(
        row(EMPTY),
        (),
        Phase(),
        ask(protocol_type="connect", knows_required_ids=False),
        Park,
        id="8-empty-takes-another-type",
    ),
    pytest.param(
        row(STABLE),
        (ALICE,),
        Phase(),
        ask(protocol_type="connect"),
        InconsistentGroupProtocol,
        id="8-other-type",
    ),
    pytest.param(
        row(STABLE), (ALICE,), Phase(), ask(protocols=OTHER), InconsistentGroupProtocol, id="8-none-in-common"
    ),
    pytest.param(
        row(STABLE),
        (member("alice", protocols=RANGE + OTHER), BOB),
        Phase(),
        ask("alice", protocols=OTHER),
        InconsistentGroupProtocol,
        id="8-supported-by-one-of-two",
    ),
    pytest.param(
        row(STABLE),
        (STATIC,),
        Phase(),
        ask(instance_id="i"),
        Replace("i-1", member("i-new", instance_id="i")),
        id="9-known-instance",
    ),
    pytest.param(
        row(STABLE),
        (ALICE,),
        Phase(),
        ask(instance_id="j"),
        Park(member("j-new", instance_id="j"), is_new=True),
        id="10-new-instance",
    ),
    pytest.param(row(STABLE), (ALICE,), Phase(), ask(), MemberIdRequired, id="11-dynamic-from-version-4"),
    pytest.param(row(STABLE), (ALICE,), Phase(), ask(knows_required_ids=False), NEW, id="12-dynamic-below"),
    pytest.param(
        row(STABLE),
        (ALICE,),
        Phase(pending=("c-new",)),
        ask("c-new"),
        NEW,
        id="13-a-pending-id",
    ),
    pytest.param(
        row(STABLE),
        (ALICE,),
        Phase(),
        ask("alice", instance_id="i"),
        UnknownMemberId,
        id="14-unknown-instance",
    ),
    pytest.param(
        row(STABLE), (STATIC,), Phase(), ask("i-0", instance_id="i"), FencedInstanceId, id="14-replaced"
    ),
    pytest.param(row(STABLE), (ALICE,), Phase(), ask("carol"), UnknownMemberId, id="14-unknown-id"),
    pytest.param(
        row(STABLE), (ALICE,), OPEN, ask("alice"), Park(ALICE, is_new=False), id="15-known-in-a-phase"
    ),
    pytest.param(
        row(PREPARING), (ALICE,), OPEN, ask("alice"), Park(ALICE, is_new=False), id="15-known-and-preparing"
    ),
    pytest.param(row(COMPLETING), (ALICE,), Phase(), ask("alice"), AnswerNow(ALICE), id="16-a-lost-answer"),
    pytest.param(
        row(COMPLETING),
        (ALICE,),
        Phase(),
        ask("alice", protocols=(("range", b"new"),)),
        Park(member("alice", protocols=(("range", b"new"),)), is_new=False),
        id="17-changed-while-completing",
    ),
    pytest.param(row(STABLE), (ALICE,), Phase(), ask("alice"), Park(ALICE, is_new=False), id="18-the-leader"),
    pytest.param(
        row(STABLE, "bob"),
        (ALICE,),
        Phase(),
        ask("alice", protocols=(("range", b"new"),)),
        Park(member("alice", protocols=(("range", b"new"),)), is_new=False),
        id="18-a-follower-that-changed",
    ),
    pytest.param(row(STABLE, "bob"), (ALICE,), Phase(), ask("alice"), AnswerNow(ALICE), id="19-a-follower"),
    pytest.param(row(EMPTY), (), Phase(), ask("alice"), UnknownMemberId, id="20-known-once-now-empty"),
]


@table(("group", "members", "phase", "request_", "expected"), ROWS)
def test_what_a_join_leads_to(
    group: Group | None,
    members: tuple[GroupMember, ...],
    phase: Phase,
    request_: JoinGroup,
    expected: Any,
) -> None:
    sender = Sender("c", "/127.0.0.1", "new")

    def step() -> Any:
        return join_step(request_, sender, group, Membership(members), phase, LIMITS)

    if isinstance(expected, type) and issubclass(expected, ApiError):
        with pytest.raises(expected):
            step()
    elif isinstance(expected, type):
        assert isinstance(step(), expected)
    elif isinstance(expected, AnswerNow):
        assert step() == expected
    else:
        found = step()
        assert replace(found, member=replace(found.member, client_id="client")) == expected


LIMITS = GroupLimits(members_max=2)

VALID = [
    pytest.param(ask(), None, id="valid"),
    pytest.param(ask(session_timeout_ms=6_000), None, id="shortest-session"),
    pytest.param(ask(session_timeout_ms=1_800_000), None, id="longest-session"),
    pytest.param(ask(group_id=""), InvalidGroupId, id="no-group-id"),
    pytest.param(ask(group_id="g" * 191), InvalidGroupId, id="group-id-too-long"),
    pytest.param(ask(session_timeout_ms=5_999), InvalidSessionTimeout, id="session-too-short"),
    pytest.param(ask(session_timeout_ms=1_800_001), InvalidSessionTimeout, id="session-too-long"),
    pytest.param(ask(instance_id="i" * 249), None, id="longest-instance-id"),
    pytest.param(ask(instance_id="i" * 250), InvalidRequest, id="instance-id-too-long"),
    pytest.param(ask(instance_id=""), InvalidRequest, id="empty-instance-id"),
    pytest.param(ask(protocols=RANGE * PROTOCOLS_MAX), None, id="most-protocols"),
    pytest.param(ask(protocols=RANGE * (PROTOCOLS_MAX + 1)), InvalidRequest, id="too-many-protocols"),
]


@table(("request_", "refusal"), VALID)
def test_what_a_request_alone_says(request_: JoinGroup, refusal: type[ApiError] | None) -> None:
    if refusal is None:
        joining.require_valid(request_, GroupLimits())
        return
    with pytest.raises(refusal):
        joining.require_valid(request_, GroupLimits())


def test_a_member_is_bounded_by_the_bytes_of_its_group() -> None:
    """At the bound a join is taken, a byte past it is not; and who does not grow goes on."""
    empty = tables.size_of(member("c-new", protocols=(("range", b""),)))
    used = tables.size_of(ALICE)
    fits = GROUP_BYTES_MAX - used - empty
    sender = Sender("client", "/127.0.0.1", "x")

    def step(size: int) -> Any:
        named = ask("c-new", protocols=(("range", bytes(size)),))
        phase = replace(OPEN, pending=("c-new",))
        return join_step(named, sender, row(STABLE), Membership((ALICE,)), phase, GroupLimits())

    assert isinstance(step(fits), Park)
    with pytest.raises(GroupMaxSizeReached):
        step(fits + 1)
    large = Membership((ALICE, member("bob", protocols=(("range", bytes(GROUP_BYTES_MAX)),))))
    assert isinstance(join_step(ask("alice"), sender, row(STABLE), large, OPEN, GroupLimits()), Park)


@pytest.mark.parametrize(("count", "accepted"), [(MEMBERS_MAX - 1, True), (MEMBERS_MAX, False)])
def test_a_group_has_a_bound_of_members_of_its_own(count: int, accepted: bool) -> None:
    group, members = row(STABLE), Membership(member(f"m{number}") for number in range(count))
    named = ask(knows_required_ids=False)

    def step() -> Any:
        return join_step(named, Sender("c", "/h", "x"), group, members, Phase(), GroupLimits())

    if accepted:
        assert isinstance(step(), Park)
    else:
        with pytest.raises(GroupMaxSizeReached):
            step()


def test_a_new_id_is_bounded_whatever_the_client_calls_itself() -> None:
    step = join_step(
        ask(knows_required_ids=False), Sender("ä" * 400, "/h", "u" * 36), None, Membership(), Phase(), LIMITS
    )
    assert isinstance(step, Park)
    assert len(step.member.member_id.encode()) <= tables.MEMBER_ID_BYTES_MAX


VOTES = [
    pytest.param([("a", "b")], "a", id="its-first"),
    pytest.param([("a", "b"), ("b", "a"), ("b", "a")], "b", id="most-votes"),
    pytest.param([("a", "b"), ("b",)], "b", id="only-what-all-support"),
    pytest.param([("b", "a"), ("a", "b")], "b", id="a-tie-is-the-leader-s"),
    pytest.param([("a",), ("b",)], None, id="nothing-in-common"),
]


@table(("preferences", "winner"), VOTES)
def test_the_vote(preferences: list[tuple[str, ...]], winner: str | None) -> None:
    members = Membership(
        member(f"m{number}", protocols=tuple((name, b"") for name in names))
        for number, names in enumerate(preferences)
    )
    assert members.vote("m0") == winner


@table(("protocol_type", "is_taken"), [("connect", True), ("consumer", False)])
def test_while_members_join_the_first_of_them_said_the_groups_type(
    protocol_type: str, is_taken: bool
) -> None:
    """What the group was before, when it last had members, does not count."""
    phase = Phase(is_open=True, protocol_type="connect", pending=("c-new",))
    request_, sender = ask("c-new", protocol_type=protocol_type), Sender("c", "/127.0.0.1", "new")
    for group in (row(EMPTY), row(STABLE), None):
        if is_taken:
            assert isinstance(join_step(request_, sender, group, Membership((ALICE,)), phase, LIMITS), Park)
        else:
            with pytest.raises(InconsistentGroupProtocol):
                join_step(request_, sender, group, Membership((ALICE,)), phase, LIMITS)


def test_the_leader_alone_is_answered_with_the_members() -> None:
    """Each with what it said of the protocol that was chosen."""
    bob = member("bob", instance_id="b", protocols=(("sticky", b"s"), ("range", b"bob")))
    found = Membership((ALICE, bob))
    answer = joining.answer_of(row(STABLE), found, "alice")
    assert answer == JoinGroupAnswer(
        3,
        "consumer",
        "range",
        "alice",
        "alice",
        (JoinedMember("alice", None, b"r"), JoinedMember("bob", "b", b"bob")),
    )
    assert joining.answer_of(row(STABLE), found, "bob") == replace(answer, member_id="bob", members=())
