"""What is broken on purpose in how small files beside partition logs are checked, and which copy counts."""

from typing import Final

from tests.mutants.mutant import Mutant

CLEANED: Final = "tests/broker/log/test_cleaned_end.py::"
EPOCHS: Final = "tests/broker/log/test_epoch_check.py::"
SWAPS: Final = "tests/broker/log/test_changed_swaps.py::"
META: Final = "tests/settings/test_meta_properties.py::"
HOSTED: Final = "tests/broker/test_hosted_logs.py::"
IDS: Final = (
    "tests/broker/test_partition_ids.py::test_a_bit_of_what_is_remembered_flips_and_no_log_is_deleted"
)
STARTS: Final = "tests/broker/log/test_log_starts.py::"
DELETED: Final = "tests/broker/test_delete_records.py::"
BESIDE: Final = "tests/broker/log/test_side_files.py::"
AUDITED: Final = "tests/audit/decode/test_side_files.py::"
BROKEN: Final = "tests/broker/log/test_broken_snapshots.py::"
CHANGED: Final = STARTS + "test_whichever_byte_changes_no_log_begins_elsewhere"
GONE: Final = STARTS + "test_a_file_that_is_gone_empty_or_cut_is_written_from_the_other"

SMALL_FILES: Final = (
    Mutant(
        "verify-without-indexes",
        "an index that is not as it was summed is named while its log is stopped",
        "broker/log/side_files.py",
        "        if suffix is not None:\n",
        "        if False:\n",
        (BESIDE + "test_a_byte_that_changed_is_named_with_its_file[.txnindex]",),
    ),
    Mutant(
        "verify-without-snapshots",
        "a snapshot of the producers that changed is named while its log is stopped",
        "broker/log/side_files.py",
        "    for offset in offsets:\n",
        "    for offset in ():\n",
        (
            BESIDE + "test_a_byte_that_changed_is_named_with_its_file[.snapshot]",
            BESIDE + "test_an_older_snapshot_under_the_newest_name_is_named",
        ),
    ),
    Mutant(
        "snapshot-in-a-batch",
        "a snapshot of the producers whose name is a place in the middle of a batch is not believed",
        "broker/log/sound_snapshot.py",
        "            return placed.base_offset < offset\n",
        "            return False\n",
        (BROKEN + "test_one_with_the_name_of_a_place_in_a_batch_is_not_believed",),
    ),
    Mutant(
        "snapshot-in-a-changed-batch",
        "a snapshot is believed where the batches are not as they were summed",
        "broker/log/sound_snapshot.py",
        " and not are_batches_changed(segments[0].path):\n",
        ":\n",
        (BROKEN + "test_where_the_batches_are_what_changed_it_is_believed",),
    ),
    Mutant(
        "repair-passes-over-the-recovery-point",
        "a repair finds that no batch ends at the recovery point, as a start does",
        "broker/log/repair.py",
        "    return point <= header.base_offset or are_batches_changed(segment.path)\n",
        "    return False\n",
        (
            BROKEN + "test_one_before_a_batch_that_a_cleaner_never_left_so_is_believed",
            BROKEN + "test_where_the_batches_are_what_changed_it_is_believed",
        ),
    ),
    Mutant(
        "damage-behind-the-batch",
        "where no batch ends at the recovery point, the damage begins before the batch that lies across it",
        "broker/log/recovery.py",
        "            if placed.end > offset:\n                break\n",
        "            if placed.end > offset:\n                end = placed.end\n                break\n",
        (BROKEN + "test_one_before_a_batch_that_a_cleaner_never_left_so_is_believed",),
    ),
    Mutant(
        "verify-without-epochs",
        "a changed file of leader epochs is named while its log is stopped",
        "broker/log/side_files.py",
        "    if found is not None and found.is_of_the_file:\n",
        "    if False:\n",
        (BESIDE + "test_a_file_of_epochs_that_changed_is_named",),
    ),
    Mutant(
        "starts-unchecked",
        "a file of log starts whose checksum is wrong does not count",
        "broker/log/log_starts.py",
        "    return content == encode_starts(_starts(content))\n",
        "    return True\n",
        (CHANGED, GONE),
    ),
    Mutant(
        "starts-without-copy",
        "where the file of log starts changed its copy counts",
        "broker/log/log_starts.py",
        "    if copy is not None and _is_checked(copy):\n",
        "    if False:\n",
        (
            CHANGED,
            STARTS + "test_killed_between_the_two_the_copy_counts",
        ),
    ),
    Mutant(
        "starts-of-a-stale-copy",
        "what an earlier version wrote since counts, not a copy from before",
        "broker/log/log_starts.py",
        "    if file is not None and CHECK[:1].encode() not in file:\n",
        "    if False:\n",
        (STARTS + "test_of_an_earlier_versions_file_what_makes_no_sense_is_passed_over",),
    ),
    Mutant(
        "starts-of-either-of-two-changed-files",
        "of two changed files no line counts that only one of them has",
        "broker/log/log_starts.py",
        "    both = {folder: start for folder, start in one.items() if other.get(folder) == start}\n",
        "    both = one | other\n",
        (STARTS + "test_of_two_changed_files_counts_what_both_say",),
    ),
    Mutant(
        "starts-not-written-again",
        "what changed is written again at once: a second change finds both files sound",
        "broker/log/log_starts.py",
        "        elif not found.is_as_written:\n",
        "        elif False:\n",
        (CHANGED, GONE),
    ),
    Mutant(
        "starts-not-scrubbed",
        "a broker that runs finds a changed file of log starts",
        "broker/log_scrub.py",
        "        await self._partitions.scrub_directories()\n",
        "",
        (DELETED + "test_a_changed_start_hides_no_record_and_deletes_none",),
    ),
    Mutant(
        "starts-unsaid",
        "a changed file of log starts is named",
        "broker/log_directories.py",
        "        if wrong:\n",
        "        if False:\n",
        (DELETED + "test_a_changed_start_hides_no_record_and_deletes_none",),
    ),
    Mutant(
        "starts-unverified",
        "storage verify reads the file of log starts",
        "cli/storage_verify.py",
        "    if found.wrong:\n",
        "    if False:\n",
        (
            "tests/cli/test_storage_verify.py::test_a_byte_that_changed_is_found_in_its_part[where-logs-begin]",
        ),
    ),
    Mutant(
        "starts-of-the-audit-unchecked",
        "the audit finds other log starts than were written",
        "audit/decode/side_files.py",
        '    if line != f"{_CHECK}{crc32c(checked)}":\n',
        "    if False:\n",
        (AUDITED + "test_what_is_not_as_it_was_written_is_a_fault[other-log-starts]",),
    ),
    Mutant(
        "hosted-lines-unchecked",
        "a changed line of the remembered logs is passed over",
        "broker/hosted_logs.py",
        '            is_read = not is_checked or following + b"\\n" == _check(line + b"\\n")\n',
        "            is_read = True\n",
        (HOSTED + "test_whichever_byte_changes_no_log_is_taken_for_another", IDS + "[checked]"),
    ),
    Mutant(
        "hosted-lines-unchecked-for-ever",
        "what an earlier version remembered is written again with a check",
        "broker/hosted_logs.py",
        "        self._is_unchecked = unchecked > 0\n",
        "        self._is_unchecked = False\n",
        (HOSTED + "test_what_an_earlier_version_wrote_is_not_checked_until_it_is_written_again",),
    ),
    Mutant(
        "hosted-lines-unproven-believed",
        "no folder is given another topic's id by a line that nothing proves",
        "broker/partition_ids.py",
        "len(ids) == 1 and is_checked and (",
        "len(ids) == 1 and (",
        (IDS + "[of-an-earlier-version]",),
    ),
    Mutant(
        "hosted-lines-not-scrubbed",
        "a broker that runs finds a changed file of remembered logs",
        "broker/hosted_logs.py",
        "        self._is_untidy = found.load() > 0 or found._logs != self._logs\n",
        "        self._is_untidy = False\n",
        (HOSTED + "test_what_changes_in_use_is_written_again",),
    ),
    Mutant(
        "cleaned-end-unchecked",
        "a copy of the cleaned end whose checksum is wrong does not count",
        "broker/log/cleaned_end.py",
        "    return _offset(_OURS, content) if copy == _checked(content) else None\n",
        "    return _offset(_OURS, content)\n",
        (CLEANED + "test_whichever_bit_flips_the_offset_is_the_same[cleaned.metadata.copy]",),
    ),
    Mutant(
        "cleaned-end-without-copy",
        "where the cleaned end changed its copy counts",
        "broker/log/cleaned_end.py",
        "    if checked is not None:\n        return CleanedEnd(checked, f",
        "    if checked is not None and ours is None:\n        return CleanedEnd(checked, f",
        (
            CLEANED + "test_whichever_bit_flips_the_offset_is_the_same[cleaned.metadata]",
            CLEANED + "test_a_sound_log_whose_file_changed_is_opened_and_cleaned[True]",
        ),
    ),
    Mutant(
        "cleaned-end-of-a-stale-copy",
        "what an earlier version cleaned since counts",
        "broker/log/cleaned_end.py",
        "    if earlier is not None and (checked is None or checked <= earlier):\n",
        "    if earlier is not None and checked is None:\n",
        (CLEANED + "test_which_of_the_two_counts",),
    ),
    Mutant(
        "cleaned-end-not-written-again",
        "a start gives the file that an earlier version wrote a copy",
        "broker/log/cleaned_end.py",
        "    if not found.is_as_written:\n",
        "    if False:\n",
        (CLEANED + "test_which_of_the_two_counts",),
    ),
    Mutant(
        "cleaned-end-unsaid",
        "a changed cleaned end is named by storage verify and repair",
        "broker/log/repair.py",
        "    wrong = read_cleaned_end(directory).wrong\n",
        '    wrong = ""\n',
        (CLEANED + "test_a_sound_log_whose_file_changed_is_opened_and_cleaned",),
    ),
    Mutant(
        "epochs-of-a-later-first-line",
        "a file of epochs whose first line begins behind the log's start is made again",
        "broker/log/epoch_check.py",
        "    if unknown is not None:\n",
        "    if False:\n",
        (
            EPOCHS + "test_whichever_bit_of_the_file_flips_epochs_are_those_of_the_batches",
            EPOCHS + "test_the_file_says_of_which_epoch_the_first_record_is_that_is_kept",
        ),
    ),
    Mutant(
        "epochs-of-deleted-records-wanted",
        "where records were deleted the file of epochs may begin there",
        "broker/log/epoch_check.py",
        "    first = _batch_at(segments, start) if begin > start else None\n",
        "    first = _batch_at(segments, start)\n",
        (EPOCHS + "test_the_file_says_of_which_epoch_the_first_record_is_that_is_kept",),
    ),
    Mutant(
        "epochs-made-again-from-the-first-batch",
        "of a cleaned log the first epoch begins where the log does",
        "broker/log/epoch_check.py",
        "                offset = placed.base_offset if begin is None else begin\n",
        "                offset = placed.base_offset\n",
        (EPOCHS + "test_a_cleaned_logs_file_made_again_says_the_epoch_of_what_was_left_out",),
    ),
    Mutant(
        "swaps-believed",
        "a cleaner's segment that changed removes no other",
        "broker/log/swaps.py",
        "    if sums != NOTHING and not is_summed:\n",
        "    if False:\n",
        (SWAPS + "test_no_segment_is_removed_by_what_changed[sums]",),
    ),
    Mutant(
        "swaps-that-end-anywhere",
        "a cleaner's segment ends where another one begins",
        "broker/log/swaps.py",
        "    elif not wrong and end not in _bases(directory):\n",
        "    elif False:\n",
        (SWAPS + "test_no_segment_is_removed_by_what_changed[of-an-earlier-version]",),
    ),
    Mutant(
        "swaps-found-by-a-changed-index",
        "a changed index of a cleaner's segment says nothing of its end",
        "broker/log/swaps.py",
        "        entry = segment.offsets.last if is_as_summed(segment.files[1], sums.offsets) else None\n",
        "        entry = segment.offsets.last\n",
        (SWAPS + "test_an_index_that_changed_is_made_again",),
    ),
    Mutant(
        "swaps-without-sums",
        "a cleaner's segment that took its place at a start has the sums of what was meant",
        "broker/log/swaps.py",
        "        keep_swap_sums(directory, base)\n        sync_path(directory)\n",
        "        sync_path(directory)\n",
        (SWAPS + "test_a_swap_that_ends_well_has_the_sums_of_what_was_meant",),
    ),
    Mutant(
        "meta-properties-unchecked",
        "meta.properties whose checksum is wrong does not count",
        "settings/meta_properties.py",
        "    elif _CHECK.encode() in content:\n",
        "    elif False:\n",
        (META + "test_whichever_byte_changes_the_directory_is_whose_it_was",),
    ),
    Mutant(
        "meta-properties-of-any-copy",
        "a copy of meta.properties that changed does not count",
        "settings/meta_properties.py",
        "        if not _is_checked(copy):\n            raise",
        "        if False:\n            raise",
        (META + "test_changed_by_hand_it_says_what_to_do",),
    ),
    Mutant(
        "meta-properties-copy-not-looked-at",
        "a copy of meta.properties that changed is written again while the file is sound",
        "settings/meta_properties.py",
        "        if not _is_checked(copy):\n            wrong",
        "        if False:\n            wrong",
        (META + "test_a_copy_that_changed_is_written_again_before_the_file_changes_too",),
    ),
    Mutant(
        "meta-properties-not-written-again",
        "a start writes meta.properties again with a checksum",
        "settings/node_identity.py",
        "    if identity.meta_fault or not identity.is_meta_checked:\n",
        "    if False:\n",
        (
            META + "test_whichever_byte_changes_the_directory_is_whose_it_was",
            META + "test_what_an_earlier_version_wrote_is_not_checked_until_it_is_written_again",
        ),
    ),
    Mutant(
        "epochs-of-nothing",
        "a file of epochs without a line is made again",
        "broker/log/epoch_check.py",
        "    begin = epochs.begins[0] if epochs.begins else point\n",
        "    begin = epochs.begins[0] if epochs.begins else start\n",
        (EPOCHS + "test_a_file_without_lines_is_made_again",),
    ),
    Mutant(
        "holes-unsaid",
        "offsets that no segment has are named",
        "broker/log/recovery.py",
        "    log.repairs += missing(log.segments, log.durable_end, log.epochs.begins)\n",
        "",
        ("tests/broker/log/test_recovery.py::test_a_hole_in_the_middle_is_read_over",),
    ),
)
