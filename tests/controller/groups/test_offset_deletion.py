"""DeleteGroups and OffsetDelete: what may be forgotten, and what is left."""

import struct
from typing import Any

import pytest

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.group_errors import GroupIdNotFound, InvalidGroupId, NonEmptyGroup
from fencepost.controller.groups import offset_deletion, offset_tables, offsets, subscriptions, tables
from fencepost.controller.groups.offset_messages import DeleteOffsets
from fencepost.controller.groups.tables import GROUP_ID_BYTES_MAX
from fencepost.records.group_metadata import GroupForgotten
from fencepost.records.logged import ENTRY_COST_MAX, cost_of, encode_record
from fencepost.records.offset_commit import OffsetForgotten
from tests.controller.groups.offset_worlds import GroupCoordinator
from tests.controller.groups.worlds import GROUP, group, member
from tests.controller.transactions.worlds import AUDIT, ORDERS
from tests.together import table

CODE = ErrorCode


def subscription(*topics: str, version: int = 1) -> bytes:
    """A consumer's metadata: its topics, then user data and what later versions add."""
    named = [struct.pack(">h", len(each)) + each.encode() for each in topics]
    return struct.pack(">hi", version, len(topics)) + b"".join(named) + struct.pack(">i", -1)


def reader(member_id: str, *topics: str) -> Any:
    return member(member_id, protocols=(("range", subscription(*topics)),))


READERS = group(reader("alice-1", ORDERS), reader("bob-2", "t"))


@table(
    ("metadata", "topics"),
    [
        pytest.param(subscription(), frozenset(), id="none"),
        pytest.param(subscription("a", "b"), frozenset({"a", "b"}), id="two"),
        pytest.param(subscription("a", version=3), frozenset({"a"}), id="a-later-version"),
        pytest.param(b"", None, id="no-bytes"),
        pytest.param(b"\x00\x01\x7f\xff\xff\xff", None, id="more-than-there-are"),
        pytest.param(b"\x00\x01\xff\xff\xff\xff", None, id="fewer-than-none"),
        pytest.param(subscription("a")[:8], None, id="cut"),
        pytest.param(b"\x00\x01\x00\x00\x00\x01\x00\x01\xff", None, id="not-utf-8"),
        pytest.param(b"\x00\x01\x00\x00\x00\x01\xff\xff", None, id="a-null-name"),
    ],
)
def test_what_a_consumer_reads(metadata: bytes, topics: frozenset[str] | None) -> None:
    assert subscriptions.topics_in(metadata) == topics


DELETES = [
    pytest.param((), "another", GroupIdNotFound, id="unknown"),
    pytest.param((), "g" * (GROUP_ID_BYTES_MAX + 1), InvalidGroupId, id="too-long-a-name"),
    pytest.param((READERS,), GROUP, NonEmptyGroup, id="with-members"),
    pytest.param((group(),), GROUP, None, id="empty"),
]


@pytest.mark.parametrize(("groups", "group_id", "refusal"), DELETES)
def test_which_groups_are_deleted(groups: Any, group_id: str, refusal: type[ApiError] | None) -> None:
    world = GroupCoordinator(*groups)
    if refusal is None:
        assert not world.applied(offset_deletion.decide_delete_group(world.view, group_id)).more
        assert offsets.find(world.view, group_id) is None
        return
    with pytest.raises(refusal):
        offset_deletion.decide_delete_group(world.view, group_id)


def test_a_groups_offsets_go_before_it_in_several_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_deletion, "TOMBSTONES_MAX", 2)
    world = GroupCoordinator(group())
    world.commit(7, group_id="another")
    for partition in range(4):
        world.commit(partition, partition=partition)
    world.written.clear()
    assert world.applied(offset_deletion.decide_delete_group(world.view, GROUP)).more
    assert [type(each) for each in world.written] == [OffsetForgotten] * 2
    assert tables.get(world.view, GROUP) is not None
    assert not world.applied(offset_deletion.decide_delete_group(world.view, GROUP)).more
    assert [type(each) for each in world.written[2:]] == [OffsetForgotten, OffsetForgotten, GroupForgotten]
    assert offsets.find(world.view, GROUP) is None
    assert world.offset(group_id="another") == 7


def test_the_last_partition_that_can_be_has_a_key() -> None:
    assert offset_tables.key_of(GROUP, ORDERS, 2**31 - 1) is not None
    assert offset_tables.key_of(GROUP, ORDERS, 2**31) is None


def test_an_open_transaction_does_not_bring_a_deleted_group_back() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.commit_in(pair, 9)
    world.applied(offset_deletion.decide_delete_group(world.view, GROUP))
    assert offset_tables.counts_of(world.view, GROUP).transactions == 1
    world.end(*pair, committed=True)
    assert offsets.find(world.view, GROUP) is None
    assert world.offset() == -1


def test_the_largest_slice_fits_an_entry() -> None:
    key = OffsetForgotten("g" * GROUP_ID_BYTES_MAX, "t" * 249, 2**31 - 1)
    cost = cost_of(key, encode_record(key)[1]) + offset_deletion.FORGOTTEN_COST
    assert cost * offset_deletion.TOMBSTONES_MAX < 1.1 * ENTRY_COST_MAX


OFFSET_DELETES = [
    pytest.param(READERS, ORDERS, CODE.GROUP_SUBSCRIBED_TO_TOPIC, id="subscribed"),
    pytest.param(READERS, AUDIT, CODE.NONE, id="not-subscribed"),
    pytest.param(group(), ORDERS, CODE.NONE, id="empty"),
    pytest.param(None, ORDERS, CODE.NONE, id="simple"),
    pytest.param(group(member("alice-1")), AUDIT, CODE.GROUP_SUBSCRIBED_TO_TOPIC, id="subscriptions-unknown"),
]


@table(("known", "topic", "code"), OFFSET_DELETES)
def test_which_offsets_are_deleted(known: Any, topic: str, code: int) -> None:
    world = GroupCoordinator()
    world.commit(5, topic=topic)
    if known is not None:
        world.write(known)
    request = DeleteOffsets(GROUP, ((topic, 0), ("nowhere", 3)))
    rows = world.applied(offset_deletion.decide_delete_offsets(world.view, request)).rows
    assert rows[0].code == code
    assert world.offset(topic=topic) == (5 if code else -1)


def test_offsets_of_partitions_that_do_not_exist_are_refused() -> None:
    """By themselves, and before anything is said of the group if there are no others."""
    world = GroupCoordinator()
    world.commit(7)
    places = ((ORDERS, 0), (ORDERS, 99), ("nowhere", 0), (ORDERS, -1))
    answer = world.applied(offset_deletion.decide_delete_offsets(world.view, DeleteOffsets(GROUP, places)))
    assert [each.code for each in answer.rows] == [0, 3, 3, 3]
    request = DeleteOffsets("no-such-group", places[1:])
    decided = offset_deletion.decide_delete_offsets(world.view, request)
    assert ([each.code for each in decided.response.rows], decided.records) == ([3, 3, 3], ())


def test_offsets_of_other_protocols_are_not_deleted_while_there_are_members() -> None:
    world = GroupCoordinator(group(member("w"), protocol_type="connect"))
    with pytest.raises(NonEmptyGroup):
        offset_deletion.decide_delete_offsets(world.view, DeleteOffsets(GROUP, ((ORDERS, 0),)))
    with pytest.raises(GroupIdNotFound):
        offset_deletion.decide_delete_offsets(world.view, DeleteOffsets("another", ((ORDERS, 0),)))


def test_a_group_of_offsets_alone_ends_with_the_last_of_them() -> None:
    """A reader of the log would have an empty group; one that an open transaction has some of is kept."""
    world = GroupCoordinator()
    for partition in range(2):
        world.commit(7, partition=partition)
    pair = world.begin(group_id="open")
    world.commit_in(pair, 9, group_id="open")
    world.written.clear()
    for group_id, partition in ((GROUP, 0), (GROUP, 1), ("open", 0)):
        request = DeleteOffsets(group_id, ((ORDERS, partition),))
        world.applied(offset_deletion.decide_delete_offsets(world.view, request))
    forgotten = [type(each) for each in world.written]
    assert forgotten == [OffsetForgotten, OffsetForgotten, GroupForgotten, OffsetForgotten]


def test_a_pending_offset_is_deleted_too() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.commit_in(pair, 9)
    request = DeleteOffsets(GROUP, ((ORDERS, 0), (ORDERS, 1)))
    world.applied(offset_deletion.decide_delete_offsets(world.view, request))
    assert [each for each in world.written if isinstance(each, OffsetForgotten)] == [
        OffsetForgotten(GROUP, ORDERS, 0)
    ]
    assert world.fetched(require_stable=True).code == CODE.NONE
    world.end(*pair, committed=True)
    assert world.offset() == -1
