"""Copies of a compacted log, one of which ends before what the others were cleaned of."""

from tests.audit.walks.chain import Chain, audited
from tests.audit.walks.feed import Row, said
from tests.audit.walks.test_pairs import kafka

CLEANED = 4  # of five transactions the third's data, and its marker behind it: of a row each


def merged(*, ends_early: bool, lost: int | None = None) -> list[Row]:
    """Two copies. One was cleaned of the third transaction; the other ends with its data, or has everything.

    lost   a row that neither has.
    """
    chain = Chain(kafka(*["Commit"] * 5, bumps=True), copies=2)
    first, second = chain.data(1), chain.data(2)
    for copy in {row["copy"] for row in (*first, *second)}:
        chain.fact(copy, "compacted")
    gone = second[CLEANED : CLEANED + 2] + (first[CLEANED + 1 :] if ends_early else [])
    gone += [] if lost is None else [first[lost], second[lost]]
    chain.batches = [row for row in chain.batches if row not in gone]
    return audited(chain)


def test_a_marker_behind_the_end_of_the_one_copy_with_data_may_be_gone() -> None:
    assert said(merged(ends_early=True)) == ["?markers.missing"]


def test_what_one_copy_was_cleaned_of_the_other_shows() -> None:
    assert said(merged(ends_early=False)) == []


def test_a_marker_that_no_copy_has_before_the_first_end_is_missing() -> None:
    found = [row for row in merged(ends_early=True, lost=1) if row["kind"] == "finding"]
    assert [(each["rule"], each["offset"]) for each in found] == [("late", 0)]
