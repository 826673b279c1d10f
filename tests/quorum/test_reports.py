"""Who differs from whom, and whom a majority confirms."""

from typing import Any

import pytest

from fencepost.quorum.reports import REPORTS_MAX, Reports
from fencepost.records.types import NodeId
from tests.together import table

OWN = NodeId(1)


def reports(voters: int, *said: tuple[int, int, bytes]) -> Reports:
    found = Reports(OWN, frozenset(NodeId(node) for node in range(1, voters + 1)))
    for node, version, digest in said:
        found.add(NodeId(node), version, digest)
    return found


CASES: list[Any] = [
    pytest.param(3, "a--", (False, False), id="alone"),
    pytest.param(3, "ab-", (False, True), id="two-of-three-differ"),
    pytest.param(3, "abb", (True, False), id="both-others-agree"),
    pytest.param(3, "abc", (False, True), id="all-three-differ"),
    pytest.param(3, "aab", (False, False), id="another-one-differs"),
    pytest.param(3, "-bb", (False, False), id="no-digest-of-its-own"),
    pytest.param(5, "abb--", (False, True), id="two-of-five-are-no-majority"),
    pytest.param(5, "abbb-", (True, False), id="three-of-five-are-one"),
    pytest.param(5, "aabbc", (False, True), id="two-and-two"),
]


@table("voters, digests, expected", CASES)
def test_refuted_or_split(voters: int, digests: str, expected: tuple[bool, bool]) -> None:
    said = [(at + 1, 64, each.encode()) for at, each in enumerate(digests) if each != "-"]
    found = reports(voters, *said)
    assert (found.refutes(64), found.is_split(64)) == expected


def test_confirmed_is_who_agrees_with_a_majority_at_the_last_version_that_has_one() -> None:
    found = reports(3, (2, 64, b"a"), (3, 64, b"a"), (2, 128, b"b"))
    assert found.confirmed(NodeId(2)) == 64, "the third is not that far yet"
    assert found.confirmed(OWN) is None
    found.add(NodeId(3), 128, b"c")
    assert found.confirmed(NodeId(2)) == 64
    found.add(OWN, 128, b"c")
    assert found.confirmed(NodeId(2)) is None
    assert found.confirmed(NodeId(3)) == 128


def test_reports_are_bounded_and_forgotten() -> None:
    found = reports(3)
    for version in range(REPORTS_MAX + 1):
        assert found.add(NodeId(2), version, b"a")
        assert not found.add(NodeId(2), version, b"a")
    assert found.at(0) == {}
    assert found.at(1) == {NodeId(2): b"a"}
    assert found.newest() == [(2, REPORTS_MAX, b"a")]
    assert not found.add(NodeId(2), 0, b"a"), "older than all that is kept"
    assert found.at(1) == {NodeId(2): b"a"}
    assert not found.add(NodeId(9), 1, b"a"), "no voter"
    found.forget(NodeId(2))
    assert found.last(NodeId(2)) is None


def test_the_last_report_is_that_of_the_highest_version() -> None:
    found = reports(3, (2, 64, b"a"), (2, 192, b"c"), (2, 128, b"b"))
    assert found.last(NodeId(2)) == (192, b"c")
    assert found.newer(NodeId(2), 64, 9) == [(128, b"b"), (192, b"c")]
    assert found.newer(NodeId(2), 0, 2) == [(128, b"b"), (192, b"c")]
    assert found.newer(NodeId(2), 192, 9) == []


def test_a_node_that_applies_entries_again_has_not_reported_the_later_ones() -> None:
    found = reports(3, (2, 64, b"a"), (2, 128, b"b"), (2, 192, b"c"))
    assert found.add(NodeId(2), 128, b"x")
    assert found.newer(NodeId(2), 0, 9) == [(64, b"a"), (128, b"x")]
