"""What is broken on purpose where torn ends of partition logs are told from damage."""

from typing import Final

from tests.mutants.mutant import Mutant

DAMAGE_TESTS: Final = "tests/broker/log/test_damage.py::"
FLIPPED: Final = DAMAGE_TESTS + "test_after_the_death_of_a_process_every_flipped_byte_is_named_and_kept"
CRASHED: Final = DAMAGE_TESTS + "test_after_a_crash_of_the_machine_only_the_last_batch_may_be_torn"
KEPT: Final = DAMAGE_TESTS + "test_what_no_crash_leaves_is_kept_and_repaired_on_demand"
REMEMBERED: Final = (
    "tests/broker/log/test_log_directory.py::"
    "test_what_is_written_after_the_recovery_is_of_this_start_of_the_machine"
)
FOREIGN: Final = "tests/broker/log/test_foreign_segments.py::"
LOST: Final = "tests/broker/log/test_lost_begin.py::"
SHRANK: Final = "test_a_full_segment_that_shrank_is_damage_and_repaired_on_demand"
OLDER: Final = (
    "tests/broker/log/test_older_segments.py::test_a_segment_from_before_a_pass_that_is_back_is_damage"
)

DAMAGE: Final = (
    Mutant(
        "damage-not-searched",
        "whole batches behind a bad place prove that it is no torn end",
        "broker/log/damage.py",
        "        whole = first_whole(content, position, expected)\n",
        "        whole = None\n",
        (CRASHED, DAMAGE_TESTS + "test_a_whole_batch_behind_a_torn_one_is_damage_at_any_distance"),
    ),
    Mutant(
        "damage-search-from-behind",
        "a whole batch at another offset than expected is not cut",
        "broker/log/damage.py",
        "        whole = first_whole(content, position, expected)\n",
        "        whole = first_whole(content, position + 1, expected)\n",
        (CRASHED,),
    ),
    Mutant(
        "damage-full-length-is-torn",
        "after the death of a process alone, a batch of full length with a wrong checksum was changed",
        "broker/log/damage.py",
        "    if size_at(rest, 0) <= there:\n",
        "    if size_at(rest, 0) < there:\n",
        (FLIPPED,),
    ),
    Mutant(
        "damage-length-believed",
        "a length that grew does not make a whole batch look torn",
        "broker/log/damage.py",
        "    if crc32c(memoryview(rest)[CHECKED_AT:]) == _CRC.unpack_from(rest)[0]:\n",
        "    if False:\n",
        (FLIPPED,),
    ),
    Mutant(
        "damage-epoch-believed",
        "a leader epoch that the checkpoint does not have is damage",
        "broker/log/recovery.py",
        "    if error is not None and log.epochs_known:\n",
        "    if False:\n",
        (FLIPPED,),
    ),
    Mutant(
        "damage-later-segments-go",
        "segments with batches behind a bad place are kept",
        "broker/log/recovery.py",
        "    if any(each.size for each in later):\n",
        "    if False:\n",
        (KEPT,),
    ),
    Mutant(
        "damage-short-of-the-recovery-point",
        "a log that ends before its recovery point lost what was on the disk",
        "broker/log/recovery.py",
        "    if is_durable:\n",
        "    if False:\n",
        (DAMAGE_TESTS + "test_what_was_on_the_disk_is_never_torn",),
    ),
    Mutant(
        "damage-boot-remembered-too-early",
        "a start that is killed while it recovers leaves the next one the same excuse",
        "broker/log/log_directory.py",
        "        written = read_bytes(self._path).strip()\n",
        "        written = read_bytes(self._path).strip()\n        self.remember()\n",
        (REMEMBERED,),
    ),
    Mutant(
        "repair-keeps-later-segments",
        "a cut leaves nothing behind the damage",
        "broker/log/repair.py",
        "        if each.base > kept_base:\n",
        "        if False:\n",
        (KEPT, DAMAGE_TESTS + "test_a_repair_that_is_killed_at_any_step_goes_on"),
    ),
    Mutant(
        "cut-ends-before-the-start",
        "a cut in deleted records leaves an empty log that begins where they end",
        "broker/log/repair.py",
        "    if damage.offset < deleted_before:\n",
        "    if False:\n",
        (
            "tests/broker/log/test_damage.py::test_a_log_cut_before_the_offset_it_begins_at_is_empty_from_there_on",
        ),
    ),
    Mutant(
        "end-before-the-start-is-sound",
        "a log that ends before the offset it begins at is damaged",
        "broker/log/repair.py",
        "    if damage is None and end < deleted_before:\n",
        "    if False:\n",
        (
            "tests/broker/log/test_damage.py::test_a_log_cut_before_the_offset_it_begins_at_is_empty_from_there_on",
        ),
    ),
    Mutant(
        "damage-of-another-kind-put-back",
        "only a field that is not as it was written is put back",
        "broker/log/put_back.py",
        "        if layout.unpack_from(raw, AT[name])[0] == value:\n",
        "        if False:\n",
        (FOREIGN + "test_a_segment_of_another_partition_takes_the_log_offline",),
    ),
    Mutant(
        "damage-before-the-end-that-is-said",
        "an inspected log ends where its damage is, also if sound batches lie behind",
        "broker/log/repair.py",
        "    end = end if damage is None else min(end, damage.offset)\n",
        "",
        ("tests/broker/log/test_segment_sums.py::" + SHRANK,),
    ),
    Mutant(
        "damage-of-lost-batches-passed",
        "batches that are gone beside their indexes are damage, also between two segments",
        "broker/log/recovery.py",
        "if stem not in bases)",
        "if stem > max(bases, default=''))",
        (LOST + "test_batches_alone_that_are_lost_are_damage_wherever_they_were",),
    ),
    Mutant(
        "damage-of-an-older-segment-passed",
        "an older segment in the place of a cleaner's, and offsets that none has behind it, are damage",
        "broker/log/damage.py",
        "    elif position == segment.size and not is_as_summed(segment.path, summed):\n",
        "    elif False:\n",
        (OLDER,),
    ),
    Mutant(
        "damage-of-an-older-segment-by-its-index",
        "the index that is left of the newer segment does not hide it",
        "broker/log/damage.py",
        "last is not None and last >= following",
        "(last is None or last >= following)",
        (OLDER,),
    ),
)
