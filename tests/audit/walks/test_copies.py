"""One log out of its copies: what is found, what is unknown, and what is left alone."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit.walks.columns import FLAG_UNCOMMITTED
from tests.audit.walks.copies import Directory, judged, log_of, offsets
from tests.audit.walks.feed import in_order, said

Made = list[Directory]
CASES: dict[str, tuple[Callable[[], Made], list[str]]] = {}


def case(*expected: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    def add(make: Callable[[], Made]) -> Callable[[], Made]:
        CASES[make.__name__.replace("_", "-")] = (make, sorted(expected))
        return make

    return add


def three(batches: int = 10, **columns: int) -> Made:
    first = Directory(1).fill(batches, **columns)
    for item in ("stopped", "metadata"):
        first.fact(item)
    first.fact("high-watermark", first.end)
    for node in (1, 2, 3):
        first.fact("replica", node)
    return [first, first.on(2), first.on(3)]


@case()
def one_copy_without_any_fact() -> Made:
    return [Directory().fill(5)]


@case()
def three_equal_copies() -> Made:
    return three()


@case()
def a_copy_that_has_not_got_the_end_yet() -> Made:
    made = three()
    del made[2].batches[8:]
    made[2].facts = [each for each in made[2].facts if each["item"] != "high-watermark"]
    return made


@case("note offsets.start")
def each_copy_has_its_own_start() -> Made:
    made = three()
    for directory, start in zip(made, (20, 30, 50), strict=True):
        directory.fact("log-start", start)
        directory.batches = [row for row in directory.batches if row["base_offset"] >= start - 20]
    return made


@case("?offsets.start")
def a_tiered_topic_begins_in_the_remote_storage() -> Made:
    directory = Directory().fill(5)
    directory.fact("log-start", 20)
    directory.fact("tiered")
    return [directory]


@case("note replicas.tail")
def a_dead_leaders_tail_that_nobody_took() -> Made:
    made = three()
    old = made[0]
    for row in old.batches[7:]:
        row["crc"] += 1
    for other in made[1:]:
        for row in other.batches[7:]:
            row["leader_epoch"] = 2
    for fact in old.facts:
        if fact["item"] == "high-watermark":
            fact["first"] = 70
    return made


@case("?replicas.unclean", "note replicas.unclean")
def what_an_unclean_election_cut() -> Made:
    made = three()
    for row in made[0].batches[7:]:
        row["crc"] += 1
    for other in made[1:]:
        for row in other.batches[7:]:
            row["leader_epoch"] = 2
    for each in made:
        each.fact("unclean", 2)
    return made


@case("replicas.diverged")
def committed_batches_that_no_unclean_election_cut() -> Made:
    made = three()
    for row in made[0].batches[7:]:
        row["crc"] += 1
    for other in made[1:]:
        for row in other.batches[7:]:
            row["leader_epoch"] = 2
    return made


@case("?replicas.uncommitted")
def a_tail_above_every_checkpoint() -> Made:
    made = three()[:2]
    for each in made:
        for fact in each.facts:
            if fact["item"] == "high-watermark":
                fact["first"] = 80
    return made


@case()
def what_all_replicas_hold_is_committed() -> Made:
    made = three()
    for each in made:
        for fact in each.facts:
            if fact["item"] == "high-watermark":
                fact["first"] = 80
    return made


@case("?replicas.short")
def a_checkpoint_that_was_copied_after_its_log() -> Made:
    made = three()
    del made[1].batches[7:]
    made[1].facts = [each for each in made[1].facts if each["item"] != "stopped"]
    return made


@case("replicas.short")
def a_stopped_copy_that_lost_its_end() -> Made:
    made = three()
    del made[1].batches[7:]
    return made


@case("note integrity.torn", "?replicas.short")
def a_running_copys_last_batch_is_torn() -> Made:
    made = three()
    made[1].facts = [each for each in made[1].facts if each["item"] != "stopped"]
    made[1].fact("torn", 900, 1, made[1].path)
    del made[1].batches[9:]
    return made


@case("replicas.diverged")
def one_batch_of_one_copy_is_another() -> Made:
    made = three()
    made[1].batches[4]["crc"] = 99
    return made


@case("replicas.diverged")
def the_leader_epoch_of_one_batch_of_one_copy_is_another() -> Made:
    made = three()
    made[1].batches[4]["leader_epoch"] = 3
    return made


@case("replicas.diverged")
def a_run_of_three_batches_of_one_copy_is_another() -> Made:
    made = three()
    for row in made[2].batches[3:6]:
        row["crc"] += 1
    return made


@case("replicas.diverged")
def one_copy_lacks_two_batches() -> Made:
    made = three()
    del made[2].batches[4:6]
    return made


@case("replicas.diverged")
def one_copy_has_a_batch_twice() -> Made:
    made = three()
    twice = dict(made[0].batches[3])
    for row in made[0].batches[4:]:
        row["position"] += 100
    twice["position"] += 100
    made[0].batches.insert(4, twice)
    return made


@case()
def a_copy_lacks_what_it_says_that_it_lacks() -> Made:
    made = three()
    del made[2].batches[4:6]
    made[2].fact("hole", 40, 60)
    return made


@case("integrity.crc")
def a_flipped_byte_in_one_copy() -> Made:
    made = three()
    made[0].batches[4] |= {"fault": "crc", "reason": "the checksum is wrong"}
    return made


@case("integrity.unreadable")
def bytes_of_one_copy_that_are_no_batch() -> Made:
    made = three()
    row = made[0].batches[4]
    kept = ("topic", "partition", "copy", "rank", "path", "position", "node", "size")
    made[0].batches[4] = {name: row[name] for name in kept} | {"fault": "unreadable", "reason": "no batch"}
    return made


@case("integrity.crc", "integrity.crc", "integrity.crc")
def a_flipped_byte_in_every_copy() -> Made:
    made = three()
    for each in made:
        each.batches[4] |= {"fault": "crc", "reason": "the checksum is wrong"}
    return made


@case("offsets.hole")
def every_copy_lacks_a_batch() -> Made:
    made = three()
    for each in made:
        del each.batches[4]
    return made


@case("?offsets.hole")
def a_hole_and_nothing_says_whether_the_topic_is_compacted() -> Made:
    directory = Directory().fill(9)
    directory.fact("untold")
    del directory.batches[4]
    return [directory]


@case()
def a_compacted_log_is_cleaned_by_each_broker() -> Made:
    first, second, third = three()
    for each in (first, second, third):
        each.fact("compacted")
        for row in each.batches[7:]:  # the last segment is left alone by the log cleaner
            row["path"] = row["path"].replace("0" * 20, f"{70:020}")
    del first.batches[1:4]
    second.batches[2] |= {"record_count": 3, "crc": 5, "size": 40}
    for each, crc in ((second, 8), (third, 9)):  # emptied in other passes: its time differs
        each.batches[3] |= {"record_count": 0, "crc": crc, "size": 61}
    third.batches[2] |= {"record_count": 7, "crc": 6, "size": 60, "attributes": 0x40}
    del third.batches[5]
    return [first, second, third]


@case()
def a_log_cleaner_was_there_and_no_metadata_says_that_the_topic_is_compacted() -> Made:
    directory = Directory().fill(9)
    directory.fact("untold")
    directory.fact("cleaned", 90)
    directory.batches[4]["record_count"] = 3
    return [directory]


@case("offsets.hole")
def a_compacted_log_lacks_a_batch_in_its_last_segment() -> Made:
    directory = Directory().fill(9)
    directory.fact("compacted")
    directory.fact("stopped")
    del directory.batches[4]
    return [directory]


@case()
def a_compacted_log_was_cleaned_while_it_was_copied() -> Made:
    directory = Directory().fill(9)
    directory.fact("compacted")
    directory.add(at=40, crc=directory.batches[4]["crc"])
    del directory.batches[6]
    return [directory]


@case("note offsets.start")
def a_dead_copy_ends_where_the_others_no_longer_keep_anything() -> Made:
    dead, live = Directory(1).fill(4), Directory(2).fill(12)
    del live.batches[:7]
    live.fact("log-start", 70)
    return [dead, live]


@case("replicas.diverged")
def a_batch_of_a_compacted_log_is_another_with_as_many_records() -> Made:
    made = three()
    for each in made:
        each.fact("compacted")
    made[1].batches[4]["crc"] = 5
    return made


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_in_the_copies_of_a_log(name: str) -> None:
    make, expected = CASES[name]
    assert said(judged(*make())) == expected


@given(name=st.sampled_from(sorted(CASES)), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5))
@settings(deadline=None, max_examples=25)
def test_what_is_found_does_not_depend_on_how_rows_come(name: str, sizes: list[int]) -> None:
    make, _ = CASES[name]
    assert in_order(judged(*make(), sizes=tuple(sizes))) == in_order(judged(*make()))


def test_below_the_latest_start_of_any_copy_nothing_is_kept() -> None:
    dead, live = Directory(1).fill(4), Directory(2)
    live.fact("segment", 40)
    live.fact("log-start", 40)
    assert log_of(judged(dead, live))["offset"] == 40


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets"])
def test_a_log_of_which_nothing_is_kept_begins_and_ends_where_its_copies_do(topic: str) -> None:
    copies = [Directory(node, topic=topic) for node in (1, 2, 3)]
    for each in copies[:2]:
        each.fact("segment", 189, 0)
    copies[2].end = 160
    copies[2].fill(2).fact("log-start", 180)
    if topic != "orders":
        copies[0].fact("compacted")
    row = log_of(judged(*copies))
    assert [row[name] for name in ("offset", "end_offset", "log_end", "unbroken_offset")] == [189] * 4


def test_what_one_copy_lacks_another_shows() -> None:
    first, second, third = three()
    del first.batches[2]
    del second.batches[5]
    third.batches[7] |= {"fault": "crc", "reason": "the checksum is wrong"}
    rows = judged(first, second, third)
    assert offsets(rows) == list(range(0, 100, 10))
    assert all(row["flags"] == 0 for row in rows if row["kind"] == "batch")


def test_rows_above_what_is_known_to_be_committed_are_marked() -> None:
    rows = judged(*a_tail_above_every_checkpoint())
    marked = [
        row["base_offset"] for row in rows if row["kind"] == "batch" and row["flags"] & FLAG_UNCOMMITTED
    ]
    assert marked == [80, 90]
    assert (log_of(rows)["end_offset"], log_of(rows)["log_end"]) == (80, 100)


@pytest.mark.parametrize(
    ("ends", "known"),
    [
        pytest.param({1: 100, 2: 100, 3: 80}, 100, id="two-of-three-voters-hold-it"),
        pytest.param({1: 100, 2: 70, 3: 60}, 70, id="the-leader-alone-holds-the-end"),
        pytest.param({1: 100, 2: 70}, 70, id="two-directories-of-three-voters"),
        pytest.param({1: 100}, 100, id="one-directory-of-three-voters-counts-to-its-end"),
        pytest.param({1: 50, 2: 50, 9: 100}, 50, id="an-observer-has-no-vote"),
    ],
)
def test_of_the_metadata_what_a_majority_of_voters_holds_is_committed(
    ends: dict[int, int], known: int
) -> None:
    directories = []
    for node, end in ends.items():
        directory = Directory(node, topic="__cluster_metadata").fill(end // 10)
        for voter in (1, 2, 3):
            directory.fact("voter", voter)
        directories.append(directory)
    assert log_of(judged(*directories))["end_offset"] == known


@pytest.mark.parametrize(
    ("change", "unbroken"),
    [
        pytest.param(lambda d: None, 0, id="from-its-beginning"),
        pytest.param(lambda d: d.batches.pop(3), 40, id="after-what-compaction-took"),
        pytest.param(lambda d: d.batches[5].update(record_count=4), 60, id="after-a-batch-that-was-emptied"),
        pytest.param(lambda d: d.batches[2].update(fault="crc"), 30, id="after-what-cannot-be-read"),
        pytest.param(lambda d: d.fact("log-start", 50), 50, id="from-its-start-on"),
    ],
)
def test_from_which_offset_on_a_log_is_unbroken(change: Callable[[Directory], object], unbroken: int) -> None:
    directory = Directory(topic="__transaction_state").fill(10)
    directory.fact("compacted")
    for row in directory.batches[8:]:
        row["path"] = row["path"].replace("0" * 20, f"{80:020}")
    change(directory)
    assert log_of(judged(directory))["unbroken_offset"] == unbroken
