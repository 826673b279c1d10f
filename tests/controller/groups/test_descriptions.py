"""What an administrator is shown of groups: by their state, with their members, page by page."""

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.describe import (
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    describe_group,
    list_simple_slice,
    list_slice,
)
from fencepost.records.group_metadata import GroupState
from tests.controller.groups.offset_worlds import GroupCoordinator
from tests.controller.groups.worlds import GROUP, group, image, member
from tests.together import table

ALICE = member("alice-1", assignment=b"a", protocols=(("range", b"r"), ("sticky", b"s")))
BOB = member("bob-2", instance_id="bob", assignment=b"b")


@table(
    ("state", "is_preparing", "shown", "is_shown_whole"),
    [
        (GroupState.STABLE, False, "Stable", True),
        (GroupState.STABLE, True, "PreparingRebalance", False),
        (GroupState.COMPLETING_REBALANCE, False, "CompletingRebalance", False),
    ],
)
def test_protocol_metadata_and_assignments_are_shown_of_a_stable_group(
    state: GroupState, is_preparing: bool, shown: str, is_shown_whole: bool
) -> None:
    found = describe_group(image(group(ALICE, BOB, state=state)), GROUP, is_preparing=is_preparing)
    one = DescribedMember("alice-1", None, "client", "/127.0.0.1")
    other = DescribedMember("bob-2", "bob", "client", "/127.0.0.1")
    if is_shown_whole:
        one = DescribedMember("alice-1", None, "client", "/127.0.0.1", b"r", b"a")
        other = DescribedMember("bob-2", "bob", "client", "/127.0.0.1", b"r", b"b")
    protocol = "range" if is_shown_whole else ""
    assert found == DescribedGroup(
        GROUP, state=shown, protocol_type="consumer", protocol=protocol, members=(one, other)
    )


def test_a_group_that_is_not_known_is_dead_or_about_to_be_one() -> None:
    view = image()
    assert describe_group(view, GROUP, is_preparing=True) == DescribedGroup(GROUP, state="PreparingRebalance")
    found = describe_group(view, GROUP, is_preparing=False)
    assert (found.error_code, found.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert found.error_message == f"Group {GROUP} not found."


def test_a_group_of_offsets_alone_is_empty() -> None:
    world = GroupCoordinator()
    world.commit(5)
    assert describe_group(world.view, GROUP, is_preparing=False) == DescribedGroup(GROUP, state="Empty")


def test_lists_go_on_where_a_page_ends() -> None:
    view = image(*(group(member("m"), group_id=group_id) for group_id in "abc"))
    listed, after = list_slice(view, None, 2, lambda group_id: group_id == "b")
    assert listed == [
        ListedGroup("a", "consumer", "Stable"),
        ListedGroup("b", "consumer", "PreparingRebalance"),
    ]
    assert after == "b"
    listed, after = list_slice(view, after, 2, lambda _: False)
    assert ([each.group_id for each in listed], after) == (["c"], None)
    listed, after = list_slice(view, None, 3, lambda _: False)
    assert (len(listed), after) == (3, "c")
    assert list_slice(view, after, 3, lambda _: False) == ([], None)


def test_groups_of_offsets_alone_are_listed_apart() -> None:
    world = GroupCoordinator(group(group_id="b"))
    for group_id in "abcd":
        world.commit(5, group_id=group_id)
    listed, after = list_simple_slice(world.view, None, 2)
    assert (listed, after) == ([ListedGroup("a", "", "Empty")], "b")
    listed, after = list_simple_slice(world.view, after, 3)
    assert ([each.group_id for each in listed], after) == (["c", "d"], None)
