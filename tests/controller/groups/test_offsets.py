"""OffsetCommit and OffsetFetch: who may commit, what is read, and of which topic."""

from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode, UnsupportedVersion
from fencepost.controller.groups import offsets
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import (
    CommitOffsets,
    FetchedOffset,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.controller.groups.offsets import METADATA_CHARACTERS_MAX, OffsetRules
from fencepost.controller.groups.tables import GROUP_ID_BYTES_MAX
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import find
from fencepost.records.group_metadata import GroupState
from fencepost.records.schema import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.controller.groups.offset_worlds import RULES, GroupCoordinator
from tests.controller.groups.worlds import GROUP, group, member
from tests.controller.transactions.worlds import AUDIT, NOW_MS, ORDERS
from tests.together import table
from tests.wire.row import ID_A

ALICE = member("alice-1")
BOB = member("bob-2", instance_id="bob")
CODE = ErrorCode
STABLE = group(ALICE, BOB)
COMPLETING = group(ALICE, BOB, state=GroupState.COMPLETING_REBALANCE)
PREPARING = group(ALICE, BOB, state=GroupState.PREPARING_REBALANCE)
EMPTY = group()

COMMITS = [  # the group, who commits, the code from version 9 on, and below
    pytest.param(None, Identity(), CODE.NONE, CODE.NONE, id="missing-group-is-created"),
    pytest.param(None, Identity("x", "y"), CODE.NONE, CODE.NONE, id="missing-group-ignores-ids"),
    pytest.param(
        None,
        Identity("x", None, 0),
        CODE.GROUP_ID_NOT_FOUND,
        CODE.ILLEGAL_GENERATION,
        id="missing-generation",
    ),
    pytest.param(EMPTY, Identity(), CODE.NONE, CODE.NONE, id="empty-group"),
    pytest.param(EMPTY, Identity("x", "y"), CODE.NONE, CODE.NONE, id="empty-group-ignores-ids"),
    pytest.param(
        EMPTY, Identity("x", None, 3), CODE.UNKNOWN_MEMBER_ID, CODE.UNKNOWN_MEMBER_ID, id="empty-generation"
    ),
    pytest.param(STABLE, Identity("alice-1", None, 3), CODE.NONE, CODE.NONE, id="member"),
    pytest.param(STABLE, Identity("bob-2", "bob", 3), CODE.NONE, CODE.NONE, id="static-member"),
    pytest.param(PREPARING, Identity("alice-1", None, 3), CODE.NONE, CODE.NONE, id="before-the-rejoin"),
    pytest.param(
        STABLE,
        Identity("alice-1", None, 2),
        CODE.ILLEGAL_GENERATION,
        CODE.ILLEGAL_GENERATION,
        id="generation",
    ),
    pytest.param(
        STABLE, Identity("eve", None, 3), CODE.UNKNOWN_MEMBER_ID, CODE.UNKNOWN_MEMBER_ID, id="unknown-member"
    ),
    pytest.param(
        STABLE, Identity("x", "eve", 3), CODE.UNKNOWN_MEMBER_ID, CODE.UNKNOWN_MEMBER_ID, id="unknown-instance"
    ),
    pytest.param(
        STABLE, Identity("bob-1", "bob", 3), CODE.FENCED_INSTANCE_ID, CODE.FENCED_INSTANCE_ID, id="replaced"
    ),
    pytest.param(STABLE, Identity(), CODE.UNKNOWN_MEMBER_ID, CODE.UNKNOWN_MEMBER_ID, id="no-identity"),
    pytest.param(
        COMPLETING,
        Identity("alice-1", None, 3),
        CODE.REBALANCE_IN_PROGRESS,
        CODE.REBALANCE_IN_PROGRESS,
        id="awaiting-assignments",
    ),
]


@table("says_not_found", [True, False], ids=["v9", "v8"])
@table(("known", "by", "code", "code_below"), COMMITS)
def test_who_may_commit(known: Any, by: Identity, code: int, code_below: int, says_not_found: bool) -> None:
    world = GroupCoordinator(*(() if known is None else (known,)))
    expected = code if says_not_found else code_below
    assert world.commit(5, by=by, says_not_found=says_not_found) == expected
    assert world.offset() == (5 if expected == CODE.NONE else -1)
    assert bool(world.written) == (expected == CODE.NONE)


def test_a_simple_group_is_a_group_by_its_offsets() -> None:
    world = GroupCoordinator()
    assert offsets.find(world.view, GROUP) is None
    world.commit(5)
    assert offsets.find(world.view, GROUP) == offsets.SIMPLE
    assert world.commit(6, by=Identity("x", None, 1)) == CODE.UNKNOWN_MEMBER_ID


@table(
    ("group_id", "code"),
    [
        pytest.param("", CODE.NONE, id="none-as-kafka-allows"),
        pytest.param("g" * GROUP_ID_BYTES_MAX, CODE.NONE, id="the-longest"),
        pytest.param("g" * (GROUP_ID_BYTES_MAX + 1), CODE.INVALID_GROUP_ID, id="one-more"),
        pytest.param("é" * (GROUP_ID_BYTES_MAX // 2 + 1), CODE.INVALID_GROUP_ID, id="one-more-in-bytes"),
        pytest.param("\ud800", CODE.INVALID_GROUP_ID, id="no-text"),
    ],
)
def test_group_ids(group_id: str, code: int) -> None:
    world = GroupCoordinator()
    assert world.commit(5, group_id=group_id) == code
    assert world.offset(group_id=group_id) == (5 if code == CODE.NONE else -1)


def test_each_partition_has_its_own_code() -> None:
    world = GroupCoordinator()
    wanted = (
        OffsetToCommit(ORDERS, 0, 1, 4, "m" * METADATA_CHARACTERS_MAX),
        OffsetToCommit(ORDERS, 1, 2, 4, "m" * (METADATA_CHARACTERS_MAX + 1)),
        OffsetToCommit(ORDERS, 4, 3),
        OffsetToCommit(ORDERS, -1, 3),
        OffsetToCommit("nowhere", 0, 3),
        OffsetToCommit("é" * 300, 0, 3),
        OffsetToCommit(AUDIT, 0, -1, 7, None),
    )
    request = CommitOffsets(GROUP, wanted)
    codes = world.applied(offsets.decide_commit(world.view, request, RULES, now_ms=NOW_MS)).rows
    unknown = CODE.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.code for each in codes] == [
        CODE.NONE, CODE.OFFSET_METADATA_TOO_LARGE, unknown, unknown, unknown, unknown, CODE.NONE,
    ]  # fmt: skip
    assert [(each.topic, each.partition) for each in codes] == [(e.topic, e.partition) for e in wanted]
    assert world.fetched() == FetchedOffset(ORDERS, 0, 1, 4, "m" * METADATA_CHARACTERS_MAX)
    assert world.fetched(partition=1) == FetchedOffset(ORDERS, 1)
    assert world.fetched(topic=AUDIT) == FetchedOffset(AUDIT, 0, -1, 7, "")


def test_an_unknown_topic_is_said_before_what_is_wrong_with_the_group() -> None:
    world = GroupCoordinator(STABLE)
    request = CommitOffsets(GROUP, (OffsetToCommit("nowhere", 0, 3), OffsetToCommit(ORDERS, 0, 3)))
    codes = world.applied(offsets.decide_commit(world.view, request, RULES, now_ms=NOW_MS)).rows
    assert [each.code for each in codes] == [CODE.UNKNOWN_TOPIC_OR_PARTITION, CODE.UNKNOWN_MEMBER_ID]


def test_below_the_log_level_it_says_how_to_raise_it() -> None:
    world = GroupCoordinator(level=1)
    with pytest.raises(UnsupportedVersion, match="features upgrade --log-level 2"):
        world.commit(5)


# -- fetch -----------------------------------------------------------------------------------------------


def test_nothing_committed_is_no_error() -> None:
    """librdkafka's assign() without an offset crashes on an error, and starts by auto.offset.reset on -1."""
    world = GroupCoordinator()
    for partition, topic in ((0, ORDERS), (77, ORDERS), (-5, ORDERS), (0, "nowhere"), (0, "\ud800")):
        assert world.fetched(partition=partition, topic=topic) == FetchedOffset(topic, partition)
    world.commit(5)
    assert world.fetched(group_id="another") == FetchedOffset(ORDERS, 0)
    assert world.fetched(partition=1) == FetchedOffset(ORDERS, 1)


def test_a_partition_is_answered_once() -> None:
    world = GroupCoordinator()
    query = GroupQuery(GROUP, ((ORDERS, 0), (ORDERS, 1), (ORDERS, 0)))
    found = offsets.fetch(world.view, query, RULES, require_stable=True, waits=True)
    assert [each.partition for each in found.offsets] == [0, 1]


@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_all_that_a_group_has(page: int) -> None:
    """Committed ones, and with require_stable those that are only pending: never taken for "none"."""
    world = GroupCoordinator()
    for partition in (0, 2):
        world.commit(partition + 10, partition=partition)
    world.commit(99, group_id="another")
    pair = world.begin()
    world.commit_in(pair, 7, partition=1)
    world.commit_in(pair, 8, partition=2)

    def everything(**said: Any) -> list[tuple[int, int, int]]:
        found: list[FetchedOffset] = []
        after = None
        while True:
            read = offsets.fetch_page(world.view, GroupQuery(GROUP), RULES, after, page, **said)
            found += read.group.offsets
            after = read.after
            if after is None:
                return sorted((each.partition, each.offset, each.code) for each in found)

    assert everything(require_stable=False, waits=True) == [(0, 10, 0), (2, 12, 0)]
    unstable = CODE.UNSTABLE_OFFSET_COMMIT
    waiting = [(0, 10, 0), (1, -1000, unstable), (2, -1000, unstable)]
    assert everything(require_stable=True, waits=True) == waiting


STABILITY = [
    pytest.param(True, True, False, CODE.UNSTABLE_OFFSET_COMMIT, id="require-stable"),
    pytest.param(True, True, True, CODE.UNSTABLE_OFFSET_COMMIT, id="require-stable-with-the-setting"),
    pytest.param(False, True, False, CODE.NONE, id="read-uncommitted"),
    pytest.param(False, True, True, CODE.NONE, id="read-uncommitted-with-the-setting"),
    pytest.param(False, False, False, CODE.NONE, id="old-client-as-from-kafka"),
    pytest.param(False, False, True, CODE.COORDINATOR_LOAD_IN_PROGRESS, id="old-client-with-the-setting"),
]


@pytest.mark.row("447.3")
@pytest.mark.parametrize(("require_stable", "waits", "parks", "code"), STABILITY)
def test_while_a_transaction_has_an_offset(require_stable: bool, waits: bool, parks: bool, code: int) -> None:
    world = GroupCoordinator()
    world.rules = OffsetRules(parks_old_clients=parks)
    said: dict[str, Any] = {"require_stable": require_stable, "waits": waits}
    world.commit(5)
    assert world.fetched(**said) == FetchedOffset(ORDERS, 0, 5)
    pair = world.begin()
    assert world.fetched(**said) == FetchedOffset(ORDERS, 0, 5)
    world.commit_in(pair, 9)
    unstable = FetchedOffset(ORDERS, 0, -1000 if code == CODE.UNSTABLE_OFFSET_COMMIT else -1, code=CODE(code))
    expected = FetchedOffset(ORDERS, 0, 5) if code == CODE.NONE else unstable
    assert world.fetched(**said) == expected
    assert world.fetched(partition=1, **said) == FetchedOffset(ORDERS, 1)
    world.end(*pair, committed=True)
    assert world.fetched(**said) == FetchedOffset(ORDERS, 0, 9)


# -- topics ----------------------------------------------------------------------------------------------


def created_again(world: GroupCoordinator) -> None:
    topic = find(world.view, AUDIT)
    assert topic is not None
    replay_record(world.view, RemoveTopicRecord(topic_id=topic.topic_id))
    replay_record(world.view, TopicRecord(name=AUDIT, topic_id=ID_A))
    record = PartitionRecord(partition_id=0, topic_id=ID_A, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
    replay_record(world.view, record)


def test_an_offset_of_another_topic_id_is_none() -> None:
    world = GroupCoordinator()
    world.commit(5, topic=AUDIT)
    created_again(world)
    assert world.offset(topic=AUDIT) == -1
    world.commit(1, topic=AUDIT)
    assert world.offset(topic=AUDIT) == 1


def test_a_pending_offset_of_another_topic_id_keeps_no_one_waiting() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.commit_in(pair, 5, topic=AUDIT)
    assert world.fetched(topic=AUDIT, require_stable=True).code == CODE.UNSTABLE_OFFSET_COMMIT
    created_again(world)
    assert world.fetched(topic=AUDIT, require_stable=True) == FetchedOffset(AUDIT, 0)
    world.end(*pair, committed=True)
    assert world.fetched(topic=AUDIT, require_stable=True) == FetchedOffset(AUDIT, 0)
