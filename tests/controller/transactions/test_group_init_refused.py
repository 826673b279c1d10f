"""Group-aware InitProducerId: what is refused, with nothing written and nothing aborted (KIP-447)."""

import struct
from typing import Any

import pytest

from fencepost.controller.errors import (
    ApiError,
    InvalidRequest,
    InvalidTransactionTimeout,
    UnsupportedVersion,
)
from fencepost.controller.group_errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMemberId,
)
from fencepost.controller.groups.assigned_partitions import READ_BYTES_MAX, READ_TOPICS_MAX
from fencepost.controller.transactions.group_init import (
    ASSIGNED_MAX,
    SEARCHED_BYTES_MAX,
    SEARCHED_TOPICS_MAX,
    MemberAssignment,
    RivalsEnding,
)
from fencepost.records.group_metadata import GroupState
from fencepost.records.levels import TWO_PHASE_COMMIT
from tests.controller.groups.worlds import GROUP, group, member
from tests.controller.transactions.group_worlds import (
    GENERATION,
    PRODUCER_A,
    PRODUCER_B,
    A,
    B,
    LoopCoordinator,
    assignment,
    moved,
)
from tests.controller.transactions.worlds import ORDERS, partitions
from tests.together import table

Change = dict[str, Any]
LONG = tuple(range(ASSIGNED_MAX + 1))


@pytest.mark.row("447.8")
@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        pytest.param({"group_id": "unknown"}, GroupIdNotFound, id="an-unknown-group"),
        pytest.param({"group_id": ""}, InvalidGroupId, id="no-group-id"),
        pytest.param({"group_id": "g" * 191}, InvalidGroupId, id="a-group-id-that-is-too-long"),
        pytest.param({"group_id": "\ud800"}, InvalidGroupId, id="a-group-id-that-is-no-text"),
        pytest.param({"generation": GENERATION}, IllegalGeneration, id="an-old-generation"),
        pytest.param({"generation": GENERATION + 2}, IllegalGeneration, id="a-later-generation"),
        pytest.param({"generation": -1}, IllegalGeneration, id="no-generation"),
        pytest.param({"member_id": "stranger"}, UnknownMemberId, id="an-unknown-member"),
        pytest.param({"instance_id": "i"}, UnknownMemberId, id="an-unknown-instance"),
        pytest.param(
            {"partitions": (partitions(ORDERS, 0),)}, InvalidRequest, id="another-members-partition"
        ),
        pytest.param({"partitions": (partitions(ORDERS, 1, 3),)}, InvalidRequest, id="one-of-no-member"),
        pytest.param({"partitions": (partitions("audit", 1),)}, InvalidRequest, id="another-topic"),
        pytest.param({"partitions": (partitions(ORDERS, -1),)}, InvalidRequest, id="a-negative-partition"),
        pytest.param({"partitions": (partitions("t" * 250, 1),)}, InvalidRequest, id="no-topics-name"),
        pytest.param({"partitions": (partitions(ORDERS, *LONG),)}, InvalidRequest, id="too-many"),
        pytest.param(
            {"partitions": (partitions(ORDERS, 0, 1),), "member_id": ""}, InvalidRequest, id="of-two-members"
        ),
    ],
)
def test_what_is_not_so_is_refused_and_aborts_nothing(change: Change, refusal: type[ApiError]) -> None:
    world, pair = moved()
    before = (list(world.written), world.row(PRODUCER_A), list(world.claimed))
    said = {"group_id": GROUP, "generation": GENERATION + 1, "member_id": B, **change}
    said.setdefault("partitions", (partitions(ORDERS, 1),))
    for whose in (PRODUCER_B, None, PRODUCER_A):
        with pytest.raises(refusal) as refused:
            world.init_for(MemberAssignment(**said), of=whose)
        assert type(refused.value) is refusal
    assert before == (list(world.written), world.row(PRODUCER_A), list(world.claimed))
    world.add(*pair, of=PRODUCER_A)


@pytest.mark.row("447.8")
@pytest.mark.parametrize(
    ("bytes_", "accepted"),
    [
        pytest.param(b"", False, id="left-out-by-the-leader"),
        pytest.param(b"\0", False, id="one-byte"),
        pytest.param(assignment(1)[:-8], False, id="cut-short"),
        pytest.param(b"\0\0\xff\xff\xff\xff", False, id="a-negative-count"),
        pytest.param(b"\0\0\x7f\xff\xff\xff" + bytes(20), False, id="more-topics-than-bytes"),
        pytest.param(assignment(1).replace(b"orders", b"\xff\xff\xff\xff\xff\xff"), False, id="no-utf-8"),
        pytest.param(b"\xff\xff" + assignment(1)[2:], False, id="a-negative-version"),
        pytest.param(b"\0\x09" + assignment(1)[2:] + b"more", True, id="a-later-version"),
        pytest.param(assignment(1)[:-4], True, id="without-user-data"),
    ],
)
@pytest.mark.parametrize("who", [B, ""], ids=["member", "any-member"])
def test_an_assignment_that_cannot_be_read_is_refused(bytes_: bytes, accepted: bool, who: str) -> None:
    world, _ = moved()
    world.generation += 1
    world.write(group(member(B, assignment=bytes_), generation=world.generation))
    before = list(world.written)
    if accepted:
        with pytest.raises(RivalsEnding):
            world.init_for(world.said(1, by=who), of=PRODUCER_B)
        return
    with pytest.raises(InvalidRequest):
        world.init_for(world.said(1, by=who), of=PRODUCER_B)
    assert world.written == before


def _of_topics(*topics: bytes) -> bytes:
    """A consumer's assignment of partition 0 of each."""
    named = [struct.pack(">h", len(each)) + each + struct.pack(">ii", 1, 0) for each in topics]
    return struct.pack(">hi", 0, len(topics)) + b"".join(named)


LONGEST = [str(number).encode().rjust(249, b"t") for number in range(ASSIGNED_MAX)]


@pytest.mark.row("447.8")
@table(
    ("mine", "others", "who", "refusal"),
    [
        pytest.param(_of_topics(*LONGEST), b"", B, None, id="the-most-that-one-request-names"),
        pytest.param(_of_topics(*LONGEST), b"", "", None, id="the-same-without-a-member"),
        pytest.param(_of_topics(LONGEST[0]).ljust(READ_BYTES_MAX), b"", B, None, id="the-most-bytes"),
        pytest.param(
            _of_topics(LONGEST[0]).ljust(READ_BYTES_MAX + 1), b"", B, "at most 262144", id="a-byte-more"
        ),
        pytest.param(
            _of_topics(*LONGEST[:1] * READ_TOPICS_MAX)[:READ_BYTES_MAX],
            b"",
            B,
            "no consumer's",
            id="the-most-topics-cut-short",
        ),
        pytest.param(_of_topics(b"t", *[b""] * READ_TOPICS_MAX), b"", B, "10001 topics", id="a-topic-more"),
        pytest.param(
            _of_topics(LONGEST[0]), bytes(SEARCHED_BYTES_MAX), B, None, id="a-member-beside-a-large-one"
        ),
        pytest.param(
            _of_topics(LONGEST[0]),
            bytes(SEARCHED_BYTES_MAX),
            "",
            "name the member id",
            id="too-much-to-search",
        ),
        pytest.param(
            _of_topics(LONGEST[0]),
            struct.pack(">hi", 0, SEARCHED_TOPICS_MAX),
            "",
            "name the member id",
            id="too-many-topics-to-search",
        ),
    ],
)
def test_one_decision_reads_assignments_up_to_a_bound(
    mine: bytes, others: bytes, who: str, refusal: str | None
) -> None:
    world = LoopCoordinator((0,), ())
    world.generation += 1
    members = (member(B, assignment=mine), member(A, assignment=others))
    world.write(group(*members, generation=world.generation))
    count = ASSIGNED_MAX if mine == _of_topics(*LONGEST) else 1
    named = tuple([partitions(each.decode(), 0) for each in LONGEST[:count]])
    said = MemberAssignment(GROUP, world.generation, named, who)
    if refusal is None:
        assert world.init_for(said) == (1000, 0)
        return
    with pytest.raises(InvalidRequest, match=refusal):
        world.init_for(said)
    assert world.written == []


@table(
    ("state", "protocol_type", "refusal"),
    [
        pytest.param(GroupState.COMPLETING_REBALANCE, "consumer", RebalanceInProgress, id="not-assigned-yet"),
        pytest.param(GroupState.STABLE, "connect", InvalidRequest, id="no-consumers"),
        pytest.param(GroupState.PREPARING_REBALANCE, "consumer", None, id="a-member-has-left"),
    ],
)
def test_the_group_has_assigned(
    state: GroupState, protocol_type: str, refusal: type[ApiError] | None
) -> None:
    world = LoopCoordinator((0,), ())
    world.generation += 1
    members = (member(A, assignment=assignment(0)),)
    world.write(group(*members, state=state, generation=world.generation, protocol_type=protocol_type))
    if refusal is None:
        assert world.init_for(world.said(0, by=A)) == (1000, 0)
        return
    with pytest.raises(refusal):
        world.init_for(world.said(0, by=A))
    assert world.written == []


def test_a_group_without_members_has_assigned_nothing() -> None:
    world = LoopCoordinator((0,), ())
    world.generation += 1
    world.write(group(generation=world.generation))
    with pytest.raises(UnknownMemberId):
        world.init_for(world.said(0))
    with pytest.raises(UnknownMemberId):
        world.init_for(world.said())
    assert world.written == []


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    world = LoopCoordinator((0,), ())
    world.generation += 1
    new = member("i-2", instance_id="i", assignment=assignment(0))
    world.write(group(new, generation=world.generation))
    with pytest.raises(FencedInstanceId):
        world.init_for(world.said(0, by="i-1", instance_id="i"))
    assert world.init_for(world.said(0, by="i-2", instance_id="i")) == (1000, 0)


@table(
    ("more", "refusal"),
    [
        pytest.param({"producer_id": 1000, "producer_epoch": 0}, InvalidRequest, id="a-pair"),
        pytest.param({"timeout_ms": 0}, InvalidTransactionTimeout, id="no-time"),
        pytest.param({"of": ""}, InvalidRequest, id="an-empty-id"),
    ],
)
def test_the_ids_own_checks_come_first(more: Change, refusal: type[ApiError]) -> None:
    world = LoopCoordinator((0,), ())
    with pytest.raises(refusal):
        world.init_for(world.said(0, by=A, group_id="unknown"), **more)
    assert world.written == []


def test_below_its_log_level_it_is_refused() -> None:
    world = LoopCoordinator((0,), (), level=TWO_PHASE_COMMIT)
    with pytest.raises(UnsupportedVersion, match="--log-level 5"):
        world.init_for(world.said(0, by=A))
    assert world.written == []


def test_below_its_log_level_no_row_differs_from_what_an_older_node_has() -> None:
    world = LoopCoordinator((0, 1), (), level=TWO_PHASE_COMMIT)
    pair = world.begin(of="plain")
    world.commit_in(pair, 9, of="plain", partition=1, by=world.identity(A))
    assert [each for each in world.written if getattr(each, "transactional_id", "") == "plain"][1:] != []
    assert all(getattr(each, "assignments", None) is None for each in world.written)
    assert [each.transactional_id for _, each in world.log if hasattr(each, "committer")] == [""]
