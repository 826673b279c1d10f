"""One directory's copy by itself: batches out of their place, headers, leader epochs."""

from collections.abc import Callable

import pytest

from tests.audit.walks.copies import Directory, judged, log_of
from tests.audit.walks.feed import said

Made = list[Directory]
CASES: dict[str, tuple[Callable[[], Made], list[str]]] = {}


def case(*expected: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    def add(make: Callable[[], Made]) -> Callable[[], Made]:
        CASES[make.__name__.replace("_", "-")] = (make, sorted(expected))
        return make

    return add


@case("offsets.overlap")
def a_batch_is_there_twice() -> Made:
    directory = Directory().fill(4)
    directory.add(at=20, crc=directory.batches[2]["crc"])
    return [directory.fill(3)]


@case("offsets.overlap")
def a_batch_says_other_offsets_than_its_place() -> Made:
    directory = Directory().fill(9)
    directory.batches[4]["base_offset"] += 4096
    directory.batches[4]["last_offset"] += 4096
    return [directory]


@case("offsets.overlap")
def a_strange_batch_between_two_that_are_contiguous() -> Made:
    directory = Directory().fill(4)
    directory.add(3, at=40, crc=1)
    return [directory.fill(4)]


@case("offsets.overlap")
def a_strange_batch_after_one_of_its_offset() -> Made:
    directory = Directory().fill(4)
    directory.add(3, at=30, crc=1)
    return [directory.fill(4)]


@case("offsets.overlap")
def a_batch_has_the_offset_of_the_one_before_it() -> Made:
    directory = Directory().fill(4)
    directory.add(1)
    moved = directory.add(6)
    directory.fill(4)
    moved["base_offset"] -= 1
    moved["last_offset"] -= 1
    return [directory]


@case("note offsets.start", "offsets.hole")
def the_first_batch_of_a_log_is_gone() -> Made:
    directory = Directory().fill(4)
    del directory.batches[0]
    return [directory]


@case("note offsets.start")
def a_log_that_begins_with_its_segment() -> Made:
    directory = Directory()
    directory.end = 30
    directory.roll()
    return [directory.fill(4)]


@case("note offsets.start")
def a_log_whose_records_were_deleted_up_to_its_second_batch() -> Made:
    directory = Directory().fill(4)
    del directory.batches[0]
    directory.fact("log-start", 10)
    return [directory]


@case("integrity.leader_epoch")
def the_leader_epoch_goes_back() -> Made:
    directory = Directory().fill(4, leader_epoch=3).fill(1, leader_epoch=2).fill(4, leader_epoch=3)
    return [directory]


@case("integrity.leader_epoch")
def the_leader_epoch_of_one_batch_is_ahead() -> Made:
    return [Directory().fill(4).fill(1, leader_epoch=9).fill(4)]


@case("integrity.leader_epoch")
def the_leader_epoch_stays_back_up_to_the_end() -> Made:
    return [Directory().fill(4, leader_epoch=3).fill(4, leader_epoch=2)]


@case("integrity.codec")
def a_codec_that_is_none() -> Made:
    directory = Directory().fill(9)
    directory.batches[4]["attributes"] = 7
    return [directory]


@case("integrity.count")
def the_header_counts_a_record_too_many() -> Made:
    directory = Directory().fill(9)
    directory.batches[4]["record_count"] = 11
    return [directory]


@case("integrity.count")
def the_header_counts_a_record_too_few() -> Made:
    directory = Directory().fill(9)
    directory.batches[4]["record_count"] = 9
    return [directory]


def with_epoch_file(*lines: tuple[int, int]) -> Directory:
    directory = Directory().fill(4, leader_epoch=1).fill(4, leader_epoch=3)
    for epoch, start in lines:
        directory.fact("leader-epoch", epoch, start, f"{directory.name}/leader-epoch-checkpoint")
    return directory


@case()
def a_leader_epoch_file_as_the_log_has_it() -> Made:
    return [with_epoch_file((1, 0), (2, 40), (3, 40))]


@case("integrity.leader_epochs")
def a_leader_epoch_file_that_lacks_the_newest_after_a_clean_end() -> Made:
    directory = with_epoch_file((1, 0))
    directory.fact("stopped", 1)
    return [directory]


@case()
def a_leader_epoch_file_that_was_copied_before_the_log() -> Made:
    return [with_epoch_file((1, 0))]


@case()
def a_leader_epoch_file_that_was_copied_after_the_log() -> Made:
    return [with_epoch_file((1, 0), (3, 40), (4, 80))]


@case("integrity.leader_epochs")
def a_leader_epoch_file_with_another_epoch() -> Made:
    return [with_epoch_file((1, 0), (2, 40), (4, 50))]


@case("integrity.leader_epochs")
def a_leader_epoch_file_with_another_start() -> Made:
    return [with_epoch_file((1, 0), (3, 30))]


@case("integrity.leader_epochs")
def a_leader_epoch_file_that_begins_behind_the_log() -> Made:
    directory = with_epoch_file((1, 10), (3, 40))
    directory.fact("stopped", 1)
    return [directory]


@case("?integrity.leader_epochs")
def a_leader_epoch_file_that_begins_behind_the_log_of_a_broker_that_ran() -> Made:
    return [with_epoch_file((1, 10), (3, 40))]


@case()
def a_leader_epoch_file_of_the_metadata_log_that_a_snapshot_made_shorter() -> Made:
    directory = Directory(topic="__cluster_metadata").fill(4)
    directory.fact("leader-epoch", 1, 10, f"{directory.name}/leader-epoch-checkpoint")
    directory.fact("stopped", 1)
    return [directory]


@case("note offsets.start")
def a_leader_epoch_file_whose_log_was_cut_at_its_start_by_another_copys_word() -> Made:
    directory = with_epoch_file((1, 10), (3, 40))
    other = directory.on(2)
    other.fact("log-start", 10)
    return [directory, other]


@case("integrity.leader_epochs")
def a_leader_epoch_file_that_begins_behind_the_log_and_has_another_epoch() -> Made:
    return [with_epoch_file((1, 10), (2, 40), (4, 50))]


@case("integrity.leader_epochs")
def a_leader_epoch_begins_beyond_the_end() -> Made:
    directory = with_epoch_file((1, 0), (3, 40), (4, 800))
    directory.fact("stopped", 1)
    return [directory]


@case("?integrity.leader_epochs")
def a_leader_epoch_begins_beyond_the_end_that_a_crash_left() -> Made:
    directory = with_epoch_file((1, 0), (3, 40), (4, 800))
    directory.fact("stopped")
    return [directory]


@case("replicas.start")
def a_copy_begins_beyond_its_end() -> Made:
    directory = Directory().fill(4)
    directory.fact("log-start", 90)
    directory.fact("stopped", 1)
    return [directory]


@case("integrity.torn")
def a_segment_in_the_middle_ends_in_a_torn_batch() -> Made:
    directory = Directory().fill(4)
    torn = directory.path
    directory.end = 50
    directory.roll()
    directory.fill(4)
    directory.fact("torn", 400, 0, torn)
    return [directory]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", [(1_000_000,), (1,), (3, 1)])
def test_what_is_found_in_a_copy(name: str, sizes: tuple[int, ...]) -> None:
    make, expected = CASES[name]
    assert said(judged(*make(), sizes=sizes)) == expected


def test_a_batch_with_a_wrong_checksum_says_no_time() -> None:
    """Nothing else seems to be open for hours."""
    directory = Directory().fill(4, attributes=0x20)
    row = directory.batches[2]
    row |= {"fault": "crc", "reason": "the checksum is wrong"}
    row["max_timestamp_ms"] += 2**25
    assert log_of(judged(directory))["at_ms"] == directory.batches[3]["max_timestamp_ms"]
