"""The rows of groups: what replay leaves, whatever was there before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.groups import tables
from fencepost.controller.view import KEY_BYTES_MAX, EmptyView, Overlay
from fencepost.records.group_metadata import (
    GroupForgotten,
    GroupMember,
    GroupMetadata,
    GroupState,
    encode_group,
)
from fencepost.records.invariant import CorruptData, InvariantViolation
from tests.controller.groups.worlds import GROUP, group, image, later, member

ALICE = member("alice-1", assignment=b"a")
BOB = member("bob-2", instance_id="bob")


def rows(view: Overlay) -> dict[str, dict[object, object]]:
    return {table.name: dict(view.items(table)) for table in tables.MEMBERSHIP_TABLES}


def test_a_group_and_its_members_are_found() -> None:
    view = image(group(ALICE, BOB))
    row = tables.get(view, GROUP)
    assert row is not None
    assert (row.generation, row.state, row.leader, row.protocol) == (3, GroupState.STABLE, "alice-1", "range")
    assert tables.members(view, GROUP) == (ALICE, BOB)
    assert tables.member(view, GROUP, "bob-2") == BOB
    assert tables.static_member_id(view, GROUP, "bob") == "bob-2"
    assert list(view.items(tables.ROSTERS)) == [(GROUP, ("alice-1", "bob-2"))]


def test_a_record_leaves_nothing_of_the_one_before() -> None:
    first = group(ALICE, BOB)
    again = group(member("bob-3", instance_id="bob"), generation=4)
    assert rows(image(first, again)) == rows(image(again))


def test_an_instance_goes_with_its_member() -> None:
    view = image(group(ALICE, BOB), group(ALICE, generation=4))
    assert tables.static_member_id(view, GROUP, "bob") is None


def test_an_empty_group_is_in_no_roster() -> None:
    view = image(group(ALICE), group(generation=4))
    assert [*view.items(tables.ROSTERS), *view.items(tables.MEMBERS)] == []
    assert tables.members(view, GROUP) == ()


def test_a_forgotten_group_leaves_nothing() -> None:
    view = image(group(ALICE), group(generation=4))
    tables.replay_forgotten(view, GroupForgotten(GROUP))
    assert rows(view) == rows(Overlay(EmptyView()))


def test_a_group_that_is_not_known_may_be_forgotten() -> None:
    view = image(group(ALICE))
    tables.replay_forgotten(view, GroupForgotten("other"))
    assert rows(view) == rows(image(group(ALICE)))


def test_a_group_with_members_is_never_forgotten() -> None:
    with pytest.raises(InvariantViolation):
        tables.replay_forgotten(image(group(ALICE)), GroupForgotten(GROUP))


@pytest.mark.parametrize("generation", [2, 5])
def test_a_generation_neither_goes_back_nor_is_left_out(generation: int) -> None:
    with pytest.raises(InvariantViolation):
        image(group(ALICE), group(ALICE, generation=generation))


def test_groups_whose_ids_begin_alike_share_no_row() -> None:
    view = image(group(ALICE, group_id="a"), group(member("b-1"), group_id="ab"))
    assert tables.member(view, "a", "b-1") is None
    assert tables.member(view, "ab", "alice-1") is None


@pytest.mark.parametrize(("length", "fits"), [(0, False), (1, True), (190, True), (191, False)])
def test_ids_that_can_be_groups(length: int, fits: bool) -> None:
    assert tables.is_key("g" * length) is fits


def test_the_longest_ids_are_keys_of_the_image() -> None:
    group_id, member_id = "g" * tables.GROUP_ID_BYTES_MAX, "m" * tables.MEMBER_ID_BYTES_MAX
    key = (group_id, member_id)
    encoded = tables.MEMBERS.encode_key(key)
    assert len(encoded) <= KEY_BYTES_MAX
    assert tables.MEMBERS.decode_key(encoded) == key


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\5abc"])
def test_a_broken_key_is_corrupt(key: bytes) -> None:
    with pytest.raises(CorruptData):
        tables.decode_group_key(key)


texts = st.text(max_size=8)
contents = st.binary(max_size=300)
some_members = st.builds(
    GroupMember,
    texts,
    st.none() | texts,
    texts,
    texts,
    st.integers(0, 9),
    st.integers(0, 9),
    st.lists(st.tuples(st.sampled_from(["range", "sticky"]), contents), max_size=3).map(tuple),
    contents,
)


@given(some_members, st.sampled_from([None, "range"]))
def test_a_member_is_never_larger_than_its_size(each: GroupMember, protocol: str | None) -> None:
    def bytes_with(*members: GroupMember) -> int:
        record = GroupMetadata(
            group_id="g",
            protocol_type="",
            generation=0,
            protocol=protocol,
            state=GroupState.EMPTY,
            members=members,
        )
        return len(encode_group(record)[1] or b"")

    assert bytes_with(each) - bytes_with() <= tables.size_of(each)


def test_a_record_and_its_row_say_the_same() -> None:
    record = group(ALICE, BOB)
    view = image(record)
    row = tables.get(view, GROUP)
    assert row is not None
    assert tables.record_of(GROUP, row, tables.members(view, GROUP)) == record
    assert later(record, generation=4) != record


def test_the_size_of_a_member_is_what_it_counts_for_on_every_node() -> None:
    """By it a group is full: 64 bytes, each text, each protocol and 12 bytes more."""
    assert tables.size_of(ALICE) == 64 + len(b"a") + len("ranger") + 12 + len("alice-1client/127.0.0.1")
    long = member("\u00fc", instance_id="i" * 10, protocols=(("a", b"12"), ("bc", b"")))
    assert tables.size_of(long) == 64 + (1 + 2 + 12) + (2 + 12) + 2 + 10 + len("client/127.0.0.1")
