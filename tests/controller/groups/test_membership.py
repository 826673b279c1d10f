"""The members of a group: which instance is whose, what all of them support, and how they vote."""

from fencepost.controller.groups import tables
from fencepost.controller.groups.membership import Membership
from fencepost.records.group_metadata import GroupMember
from tests.controller.groups.worlds import member
from tests.together import table

ALICE = member("alice", protocols=(("range", b"r"), ("sticky", b"s")))
BOB = member(
    "bob", protocols=(("sticky", b"s"), ("range", b"r")), instance_id="b", rebalance_timeout_ms=70_000
)
CAROL = member("carol", protocols=(("range", b"r"),))


def test_an_instance_is_the_last_members_that_came_with_it() -> None:
    found = Membership((ALICE, BOB))
    assert (found.holder_of("b"), found.holder_of("x")) == ("bob", None)
    again = member("bob-2", instance_id="b")
    found.put(again)
    found.remove("bob")
    assert found.holder_of("b") == "bob-2"
    found.remove("alice")
    assert found.holder_of("b") == "bob-2"
    found.remove("bob-2")
    assert found.holder_of("b") is None
    found.remove("bob-2")
    assert (len(found), found.bytes) == (0, 0)


def test_a_member_that_changes_keeps_its_place() -> None:
    found = Membership((ALICE, BOB, CAROL))
    changed = member("alice", protocols=(("range", b"longer"),))
    found.put(changed)
    assert list(found) == [changed, BOB, CAROL]
    assert found.bytes == sum(map(tables.size_of, (changed, BOB, CAROL)))
    other = member("dave", instance_id="b")
    found.replace("bob", other)
    assert list(found) == [changed, other, CAROL]
    assert (found.holder_of("b"), "bob" in found, "dave" in found) == ("dave", False, True)
    assert (found.get("bob"), found.get("dave")) == (None, other)


def test_what_all_of_them_support() -> None:
    found = Membership((ALICE, BOB))
    assert found.supported() == {"range", "sticky"}
    found.put(CAROL)
    assert found.supported() == {"range"}
    found.remove("carol")
    assert found.supported() == {"range", "sticky"}


@table(
    ("members", "leader", "voted"),
    [
        ((), None, None),
        ((ALICE,), "alice", "range"),
        ((ALICE, BOB), "alice", "range"),  # one vote each
        ((ALICE, BOB), "bob", "sticky"),
        ((ALICE, BOB), None, "range"),
        ((ALICE, BOB), "eve", "range"),
        ((ALICE, BOB, member("d", protocols=BOB.protocols)), "alice", "sticky"),
        ((ALICE, BOB, CAROL), "bob", "range"),
        ((CAROL, member("d", protocols=(("sticky", b""),))), "carol", None),
    ],
)
def test_a_vote(members: tuple[GroupMember, ...], leader: str | None, voted: str | None) -> None:
    assert Membership(members).vote(leader) == voted


def test_the_longest_time_to_rejoin_counts() -> None:
    assert Membership().rebalance_timeout_ms() == 0
    assert Membership((ALICE, BOB, CAROL)).rebalance_timeout_ms() == 70_000
