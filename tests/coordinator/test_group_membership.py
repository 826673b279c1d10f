"""The group coordinator's endpoints: who is parked, who is answered what, and with which record."""

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups import tables
from fencepost.controller.groups.describe import DescribedGroup, DescribeGroups, ListGroups
from fencepost.controller.groups.joining import JoinGroup
from fencepost.controller.groups.leaving import Leaver
from fencepost.coordinator.groups import group_operations, group_server, join_phases
from fencepost.records.group_metadata import GroupState
from tests.coordinator.group_bench import GROUP, RANGE, Groups
from tests.node.conftest import MakeStage


@pytest.fixture
def groups(make_stage: MakeStage) -> Groups:
    """A coordinator that leads, with an initial delay of 0."""
    return Groups(make_stage()).lead()


def test_a_group_of_one(groups: Groups) -> None:
    joined = groups.join(client="alice").answered()
    assert (joined.generation, joined.protocol, joined.leader) == (1, "range", joined.member_id)
    assert joined.member_id.startswith("alice-")
    assert [each.member_id for each in joined.members] == [joined.member_id]
    assert groups.state() is GroupState.COMPLETING_REBALANCE
    assert groups.heartbeat(joined.member_id, 1) is None
    synced = groups.sync(joined.member_id, 1, {joined.member_id: b"all"}).answered()
    assert (synced.assignment, synced.protocol_type, synced.protocol) == (b"all", "consumer", "range")
    assert groups.state() is GroupState.STABLE
    assert groups.heartbeat(joined.member_id, 1) is None


def test_a_dynamic_member_is_asked_to_join_again_with_its_id(groups: Groups) -> None:
    first = groups.join(client="alice", knows_required_ids=True)
    assert first.answered() == ErrorCode.MEMBER_ID_REQUIRED
    member_id = first.outcomes[0].member_id
    assert groups.join(member_id, knows_required_ids=True).answered().member_id == member_id


def test_a_second_member_rebalances_the_first(groups: Groups) -> None:
    alice = groups.stable("alice")[0]
    bob = groups.join(client="bob")
    assert bob.answered() is ..., "alice has not joined again"
    assert groups.heartbeat(alice, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = groups.join(alice)
    assert (again.answered().generation, bob.answered().generation) == (2, 2)
    assert again.answered().leader == alice == bob.answered().leader
    assert [each.member_id for each in again.answered().members] == [alice, bob.answered().member_id]
    assert bob.answered().members == ()
    parked = groups.sync(bob.answered().member_id, 2)
    assert parked.answered() is ...
    groups.sync(alice, 2, {alice: b"a", bob.answered().member_id: b"b"})
    assert parked.answered().assignment == b"b"


@pytest.mark.row("beyond.12")
@pytest.mark.row("beyond.12")
def test_one_record_for_a_join_phase_and_one_for_assignments(groups: Groups) -> None:
    ids = groups.stable("alice", "bob", "carol")
    assert groups.members == sorted(ids, key=groups.members.index)
    generation, entries = groups.row.generation, groups.entries
    answers = [groups.join(each, protocols=(("range", b"new"),)) for each in ids]
    assert [each.answered().generation for each in answers] == [generation + 1] * 3
    assert groups.entries == entries + 1


def test_a_member_that_does_not_join_again_is_gone_when_time_is_up(groups: Groups) -> None:
    alice, bob = groups.stable("alice", "bob", rebalance_timeout_ms=4_000)
    carol = groups.join(client="carol", rebalance_timeout_ms=4_000)
    again = groups.join(alice, rebalance_timeout_ms=4_000)
    groups.wait(3.9)
    assert (again.answered(), carol.answered()) == (..., ...)
    groups.wait(0.2)
    assert [each.member_id for each in again.answered().members] == [alice, carol.answered().member_id]
    assert groups.heartbeat(bob, again.answered().generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_ends_without_heartbeats_and_that_is_logged(groups: Groups) -> None:
    alice, bob = groups.stable("alice", "bob")
    generation = groups.row.generation
    for _ in range(4):
        groups.wait(2.4)
        assert groups.heartbeat(alice, generation) is None
    groups.wait(1.0)
    assert groups.members == [alice]
    assert groups.state() is GroupState.PREPARING_REBALANCE
    assert groups.heartbeat(alice, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.heartbeat(bob, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (groups.server.counts.expired, groups.server.counts.rebalances) == (1, generation)


def test_a_leaver_is_logged_before_it_is_answered(groups: Groups) -> None:
    alice, bob = groups.stable("alice", "bob")
    assert groups.leave(Leaver(bob)) == [ErrorCode.NONE]
    assert groups.members == [alice]
    groups.depose()
    assert groups.heartbeat(alice, groups.row.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.join(alice).answered().generation == 3


def test_the_last_leaver_leaves_an_empty_group(groups: Groups) -> None:
    (alice,) = groups.stable("alice")
    assert groups.leave(Leaver(alice)) == [ErrorCode.NONE]
    assert (groups.state(), groups.row.generation, groups.row.protocol) == (GroupState.EMPTY, 2, None)
    assert groups.join(alice).answered() == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.join(client="bob").answered().generation == 3
    assert GROUP in groups.server.operations.groups


@pytest.mark.row("beyond.12")
@pytest.mark.row("beyond.12")
def test_a_generation_that_was_announced_is_never_given_out_again(groups: Groups) -> None:
    joined = groups.join(client="alice").answered()
    groups.depose()
    assert groups.sync(joined.member_id, 1, {joined.member_id: b"a"}).answered().assignment == b"a"
    bob = groups.join(client="bob")
    groups.join(joined.member_id)
    assert bob.answered().generation == 2


def test_a_member_has_a_whole_session_after_a_take_over(groups: Groups) -> None:
    (alice,) = groups.stable("alice")
    groups.wait(9.0)
    groups.depose()
    groups.wait(9.9)
    assert groups.members == [alice]
    groups.wait(0.3)
    assert groups.members == []


def test_a_node_that_stood_still_expires_no_member_before_it_read_its_heartbeat(groups: Groups) -> None:
    (alice,) = groups.stable("alice")
    groups.stage.now += 60.0
    groups.wait(0.1)
    assert groups.members == [alice]
    assert groups.heartbeat(alice, 1) is None
    groups.wait(9.0)
    assert groups.members == [alice]


def test_members_that_do_not_sync_are_removed(groups: Groups) -> None:
    alice = (
        groups.join(client="alice", session_timeout_ms=6_000, rebalance_timeout_ms=8_000).answered().member_id
    )
    for _ in range(4):
        groups.wait(2.0)
        groups.heartbeat(alice, 1)
    groups.wait(0.2)
    assert groups.members == []


def test_the_initial_delay_is_extended_while_members_come(make_stage: MakeStage) -> None:
    groups = Groups(make_stage(), initial_delay_ms=3_000).lead()
    alice = groups.join(client="alice")
    groups.wait(2.5)
    bob = groups.join(client="bob")
    groups.wait(2.5)
    assert (alice.answered(), bob.answered()) == (..., ...), "bob came: another delay"
    groups.wait(1.1)
    assert (alice.answered().generation, bob.answered().generation) == (1, 1)
    assert len(alice.answered().members) == 2


def test_parked_members_find_the_next_coordinator(groups: Groups) -> None:
    (alice,) = groups.stable("alice")
    bob = groups.join(client="bob")
    groups.depose()
    assert bob.answered() == ErrorCode.NOT_COORDINATOR
    assert groups.heartbeat(alice, 1) is None, "the phase is lost, and nothing else"


def test_heartbeats_share_an_entry(groups: Groups) -> None:
    ids = groups.stable("alice", "bob", "carol")
    generation, entries = groups.row.generation, groups.entries
    from fencepost.controller.groups.heartbeat import HeartbeatGroup

    answers = []
    for each in ids:
        from tests.coordinator.coordinator_node import CLIENT, Answer

        answer = Answer()
        groups.server.heartbeat(HeartbeatGroup(GROUP, generation, each), CLIENT, answer)
        answers.append(answer)
    groups.stage.now += 0.05
    groups.stage.tick(1)
    groups.settle()
    assert [each.answered() for each in answers] == [None, None, None]
    assert groups.entries == entries + 1


def test_a_phase_goes_on_under_the_next_coordinator(groups: Groups) -> None:
    alice, bob, carol = groups.stable("alice", "bob", "carol")
    groups.leave(Leaver(carol))
    groups.depose()
    first = groups.join(bob)
    assert first.answered() is ..., "alice has not joined again"
    assert groups.join(alice).answered().generation == first.answered().generation


def test_a_phase_waits_for_an_id_that_was_given_out(groups: Groups) -> None:
    (alice,) = groups.stable("alice")
    required = groups.join(client="bob", knows_required_ids=True).outcomes[0]
    again = groups.join(alice)
    assert again.answered() is ..., "bob is about to join"
    bob = groups.join(required.member_id)
    assert (again.answered().generation, bob.answered().generation) == (2, 2)


def test_an_id_that_was_given_out_and_never_joins_is_forgotten(groups: Groups) -> None:
    (alice,) = groups.stable("alice")
    groups.join(client="bob", knows_required_ids=True, session_timeout_ms=6_000)
    again = groups.join(alice)
    groups.wait(5.9)
    assert again.answered() is ...
    groups.wait(0.2)
    assert again.answered().generation == 2


# -- static members ----------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_goes_on_with_its_assignment(groups: Groups) -> None:
    (old,) = groups.stable("alice", instance_id="i")
    back = groups.join(client="alice", instance_id="i").answered()
    assert (back.generation, back.skip_assignment, back.leader) == (1, True, back.member_id)
    assert back.member_id != old
    assert groups.members == [back.member_id]
    assert groups.sync(back.member_id, 1, instance_id="i").answered().assignment == old.encode()
    assert groups.heartbeat(old, 1, "i") == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_below_version_9_is_not_made_to_assign(groups: Groups) -> None:
    (old,) = groups.stable("alice", instance_id="i")
    back = groups.join(client="alice", instance_id="i", skips_assignment=False).answered()
    assert (back.leader, back.members) == (old, ())


def test_a_static_member_with_another_subscription_rebalances(groups: Groups) -> None:
    groups.stable("alice", instance_id="i")
    back = groups.join(client="alice", instance_id="i", protocols=(("range", b"more"),)).answered()
    assert back.generation == 2


def test_a_replacement_is_logged_while_the_group_rebalances(groups: Groups) -> None:
    old = groups.join(client="alice", instance_id="i").answered().member_id
    parked = groups.join(client="bob")
    assert parked.answered() is ...
    back = groups.join(client="alice", instance_id="i")
    new = back.answered().member_id
    assert new in groups.members
    assert old not in groups.members
    groups.depose()
    assert groups.heartbeat(new, back.answered().generation, "i") is None


def test_an_administrator_removes_a_static_member(groups: Groups) -> None:
    groups.stable("alice", instance_id="i")
    assert groups.leave(Leaver("", "i")) == [ErrorCode.NONE]
    assert groups.leave(Leaver("", "i")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert groups.members == []


def test_static_members_stay_when_they_do_not_join_again(groups: Groups) -> None:
    (alice,) = groups.stable("alice", instance_id="i", session_timeout_ms=60_000, rebalance_timeout_ms=2_000)
    bob = groups.join(client="bob", rebalance_timeout_ms=2_000)
    groups.wait(2.1)
    assert bob.answered().generation == 2
    assert groups.members == [alice, bob.answered().member_id]
    assert bob.answered().leader == bob.answered().member_id


REFUSALS = [
    pytest.param({"group_id": ""}, ErrorCode.INVALID_GROUP_ID, id="no-group-id"),
    pytest.param({"group_id": "g" * 191}, ErrorCode.INVALID_GROUP_ID, id="group-id-too-long"),
    pytest.param({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT, id="session-too-short"),
    pytest.param({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT, id="session-too-long"),
    pytest.param({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, id="an-id-in-no-group"),
    pytest.param({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, id="no-protocols"),
    pytest.param({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, id="no-protocol-type"),
    pytest.param({"instance_id": "i" * 250}, ErrorCode.INVALID_REQUEST, id="instance-id-too-long"),
]


@pytest.mark.parametrize(("changes", "code"), REFUSALS)
def test_joins_that_are_refused(groups: Groups, changes: dict[str, object], code: ErrorCode) -> None:
    assert groups.join(**changes).answered() == code  # type: ignore[arg-type]
    assert not groups.server.operations.groups


# -- describing --------------------------------------------------------------------------------------------


def described(groups: Groups, group_id: str = GROUP) -> DescribedGroup:
    answer = groups.request(groups.server.describe, DescribeGroups((group_id,), True)).answered()
    row: DescribedGroup = answer.groups[0]
    return row


def listed(groups: Groups, *states: str) -> list[tuple[str, str]]:
    answer = groups.request(groups.server.list_groups, ListGroups(states)).answered()
    return [(each.group_id, each.state) for each in answer.groups]


def test_a_group_is_described_in_each_state(groups: Groups) -> None:
    assert (described(groups).error_code, described(groups).state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    (alice,) = groups.stable("alice")
    row = described(groups)
    assert (row.state, row.protocol_type, row.protocol) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.assignment) for each in row.members] == [(alice, alice.encode())]
    bob = groups.join(client="bob")
    row = described(groups)
    assert (row.state, row.protocol, [each.assignment for each in row.members]) == (
        "PreparingRebalance",
        "",
        [b""],
    )
    groups.join(alice)
    assert described(groups).state == "CompletingRebalance"
    groups.leave(Leaver(alice), Leaver(bob.answered().member_id))
    assert (described(groups).state, described(groups).members) == ("Empty", ())


def test_groups_are_listed_by_state(groups: Groups) -> None:
    groups.stable("alice")
    groups.join(client="bob", group_id="others")
    assert listed(groups) == [("others", "CompletingRebalance"), (GROUP, "Stable")]
    assert listed(groups, " stable ") == [(GROUP, "Stable")]
    assert listed(groups, "unheard-of") == []


# -- what surrounds a group --------------------------------------------------------------------------------


def test_below_its_log_level_a_group_is_refused(make_stage: MakeStage) -> None:
    groups = Groups(make_stage())
    groups.stage.elect(1)
    groups.settle()
    answer = groups.join(client="alice")
    assert answer.answered() == ErrorCode.UNSUPPORTED_VERSION
    assert "fencepost features upgrade --log-level 2" in str(answer.outcomes[0])


def test_a_request_waits_for_an_entry_while_this_node_does_not_coordinate(make_stage: MakeStage) -> None:
    groups = Groups(make_stage()).lead()
    groups.server._active = False
    answer = groups.request(groups.server.join, joining("alice"))
    assert answer.answered() == ErrorCode.NOT_COORDINATOR, (
        "an entry was applied, and this node does not coordinate"
    )
    groups.server._active = True
    assert groups.request(groups.server.join, joining("alice")).answered().generation == 1


def joining(client: str) -> JoinGroup:
    return JoinGroup(GROUP, 10_000, 60_000, "", "consumer", RANGE, knows_required_ids=False)


def test_a_new_leader_meets_every_group_that_has_members(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In slices of two groups, or of one that is large."""
    monkeypatch.setattr(group_server, "WALK_ROWS_MAX", 2)
    monkeypatch.setattr(group_server, "WALK_MEMBERS_MAX", 11)
    names = [f"group-{number}" for number in range(7)]
    for name in names:
        groups.join(client="alice", group_id=name)
    groups.join(client="bob", group_id="group-3")
    groups.depose()
    assert sorted(groups.server.operations.groups) == names
    groups.wait(10.1)
    for name in names:
        assert tables.member_ids(groups.replica.image, name) == ()


@pytest.mark.parametrize(("known", "code"), [(1, None), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
def test_how_many_groups_are_active(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, known: int, code: ErrorCode | None
) -> None:
    """At the bound another group is refused, and those that have members go on."""
    monkeypatch.setattr(group_operations, "SOFT_GROUPS_MAX", 2)
    ids = [groups.join(client="alice", group_id=f"group-{number}").answered() for number in range(known)]
    told = groups.join(client="alice").answered()
    assert (told if code else None) == code
    groups.depose()
    assert groups.join(ids[0].member_id, group_id="group-0").answered().generation == 1


@pytest.mark.parametrize(
    ("given", "code"), [(1, ErrorCode.MEMBER_ID_REQUIRED), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
)
def test_how_many_ids_are_pending(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, given: int, code: ErrorCode
) -> None:
    monkeypatch.setattr(join_phases, "PENDING_MAX", 2)
    for _ in range(given):
        groups.join(knows_required_ids=True)
    assert groups.join(knows_required_ids=True).answered() == code
