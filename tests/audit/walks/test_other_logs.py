"""A copy that holds another log's batches is one finding, wherever its batches begin and end."""

import pytest

from tests.audit.walks.copies import Directory, judged, offsets
from tests.audit.walks.feed import Row
from tests.audit.walks.test_copies import three


def of_another_log(*places: int, count: int = 1) -> list[Directory]:
    """In the second copy, up to the log's end: batches at these offsets in place of those of ten records."""
    made = three()
    made[1].batches.clear()
    for place in (*places, 100 - count):
        made[1].add(count, at=place, crc=place + 1_000_000)
    return made


def found_in(made: list[Directory], size: int = 1_000_000) -> list[Row]:
    rows = judged(*made, sizes=(size,))
    assert offsets(rows) == list(range(0, 100, 10))
    return [row for row in rows if row["kind"] == "finding"]


@pytest.mark.parametrize("size", [1, 2, 7, 1000], ids="{}-rows-at-a-time".format)
@pytest.mark.parametrize(
    ("places", "count", "first"),
    [
        pytest.param((3, 4, 7), 1, 3, id="within-the-first-batch-of-the-log"),
        pytest.param((0, 3, 10, 12, 30), 1, 0, id="some-begin-where-the-logs-do"),
        pytest.param((13, 22), 1, 13, id="behind-some-that-all-others-have"),
        pytest.param((0, 25, 50), 25, 0, id="longer-ones"),
    ],
)
def test_a_copy_with_another_logs_batches_is_one_finding(
    places: tuple[int, ...], count: int, first: int, size: int
) -> None:
    (row,) = found_in(of_another_log(*places, count=count), size)
    assert (row["check"], row["rule"], row["node"]) == ("replicas", "diverged", 2)
    assert (row["offset"], row["end_offset"]) == (first, 100)


def test_a_batch_that_differs_and_one_that_lacks_behind_it_are_one_finding() -> None:
    made = three()
    made[1].batches[4]["crc"] += 1
    del made[1].batches[5]
    (row,) = found_in(made)
    assert (row["rule"], row["offset"], row["end_offset"]) == ("diverged", 40, 60)


def test_a_batch_that_lacks_and_one_that_differs_further_on_are_two() -> None:
    made = three()
    made[1].batches[7]["crc"] += 1
    del made[1].batches[5]
    assert [(row["offset"], row["end_offset"]) for row in found_in(made)] == [(50, 60), (70, 80)]


def test_a_lack_that_cannot_be_read_takes_no_difference_with_it() -> None:
    made = three()
    made[1].batches[4]["crc"] += 1
    made[1].batches[5] |= {"fault": "crc", "reason": "the checksum is wrong"}
    found = found_in(made)
    assert {(row["check"], row["rule"], row["offset"]) for row in found} == {
        ("replicas", "diverged", 40),
        ("integrity", "crc", 50),
    }


def test_what_an_old_leader_cuts_ends_where_its_copy_does() -> None:
    made = three()
    for directory in made:
        directory.batches.pop()
        directory.facts = [each for each in directory.facts if each["item"] != "high-watermark"]
        directory.fact("high-watermark", 90 if directory.node == 2 else 100)
        is_old = directory.node == 2
        directory.add(5 if is_old else 10, at=90, leader_epoch=1 if is_old else 2, crc=int(is_old))
    (row,) = [row for row in judged(*made) if row["rule"] == "tail"]
    assert (row["kind"], row["offset"], row["end_offset"]) == ("note", 90, 95)


def compacted(*differing: int) -> list[Directory]:
    """The second copy has another batch at each of these offsets."""
    made = three()
    for directory in made:
        directory.fact("compacted")
        for row in directory.batches[7:]:  # the last segment is left alone by the log cleaner
            row["path"] = row["path"].replace("0" * 20, f"{70:020}")
    for place in differing:
        made[1].batches[place // 10]["crc"] += 1
    return made


@pytest.mark.parametrize("size", [1, 2, 1000], ids="{}-rows-at-a-time".format)
@pytest.mark.parametrize("cleaned", [(1, 2, 3), (2,)], ids=["by-all", "by-that-copy"])
def test_what_compaction_took_between_two_differences_does_not_divide_them(
    cleaned: tuple[int, ...], size: int
) -> None:
    made = compacted(20, 50)
    for directory in made:
        if directory.node in cleaned:
            del directory.batches[3:5]
    rows = judged(*made, sizes=(size,))
    (row,) = [row for row in rows if row["kind"] == "finding"]
    assert (row["rule"], row["node"], row["offset"], row["end_offset"]) == ("diverged", 2, 20, 60)


@pytest.mark.parametrize("size", [1, 2, 7, 1000], ids="{}-rows-at-a-time".format)
@pytest.mark.parametrize("others", [(), (3, 4)], ids=["all", "two-of-three"])
def test_what_copies_agree_on_between_two_differences_in_a_compacted_log_divides_them(
    others: tuple[int, ...], size: int
) -> None:
    made = compacted(20, 50)
    for at in others:
        made[2].batches[at]["crc"] += 1
    rows = judged(*made, sizes=(size,))
    found = [(row["node"], row["offset"], row["end_offset"]) for row in rows if row["kind"] == "finding"]
    assert [each for each in found if each[0] == 2] == [(2, 20, 30), (2, 50, 60)]
