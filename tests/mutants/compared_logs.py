"""What is broken on purpose in what a start compares of partition logs: sums, the file of epochs."""

from typing import Final

from tests.mutants.mutant import Mutant

UNSAVED: Final = (
    "tests/broker/test_partitions.py::test_checksums_that_cannot_be_saved_are_said_and_harm_nothing"
)
EPOCHS: Final = "tests/broker/log/test_epoch_check.py::"
BROKEN: Final = "tests/broker/log/test_broken_snapshots.py::"
VERIFY: Final = "tests/cli/test_storage_verify.py::"
ACTIVE: Final = "tests/broker/log/test_active_segment.py::"
CHANGED: Final = "tests/broker/log/test_changed_files.py::"

COMPARED_LOGS: Final = (
    Mutant(
        "active-segment-not-compared",
        "a start compares the batches before the recovery point with their sum",
        "broker/log/recovery.py",
        "    is_changed = held.base < point and segment_sums.are_batches_changed(held.path)\n",
        "    is_changed = False\n",
        (ACTIVE + "test_below_the_recovery_point_every_flipped_bit_is_named_and_kept",),
    ),
    Mutant(
        "active-segment-without-epochs",
        "before the recovery point the file of epochs says of which each batch is, after a crash, too",
        "broker/log/recovery.py",
        "    is_written = is_durable or not log.machine_went_down\n",
        "    is_written = not log.machine_went_down\n",
        (ACTIVE + "test_below_the_recovery_point_every_flipped_bit_is_named_and_kept",),
    ),
    Mutant(
        "epochs-of-deleted-records-missed",
        "a log that begins inside a segment is read again from the segment's first batch",
        "broker/log/checkpoints.py",
        "        if due in (epoch, NO_EPOCH) or not",
        "        if due == epoch or not",
        (CHANGED + "test_records_that_were_deleted_are_of_no_epoch_that_is_known",),
    ),
    Mutant(
        "epochs-not-repaired",
        "a repair finds what an opening finds by the file of epochs",
        "broker/log/repair.py",
        "                if why is not None:\n",
        "                if False:\n",
        (ACTIVE + "test_below_the_recovery_point_every_flipped_bit_is_named_and_kept",),
    ),
    Mutant(
        "epochs-file-believed",
        "the file of epochs is held against the batches before it answers",
        "broker/log/recovery.py",
        "    _check_epochs(log, point)\n",
        "",
        (EPOCHS + "test_whichever_bit_of_the_file_flips_epochs_are_those_of_the_batches",),
    ),
    Mutant(
        "epochs-file-believed-behind-the-recovery-point",
        "two batches that the file of epochs contradicts outnumber it",
        "broker/log/epoch_check.py",
        "    return next(behind, None) and next(behind, None)\n",
        "    return None\n",
        (EPOCHS + "test_whichever_bit_flips_of_the_file_of_a_log_that_was_killed",),
    ),
    Mutant(
        "epochs-that-begin-inside-a-batch",
        "an epoch that begins inside a batch is none",
        "broker/log/epoch_check.py",
        "                if epochs.begins_inside(base, placed.end):\n",
        "                if False:\n",
        (EPOCHS + "test_whichever_bit_flips_of_the_file_of_a_log_that_was_killed",),
    ),
    Mutant(
        "epochs-of-a-lost-machine-believed",
        "after a crash of the machine, too, no batch is of an epoch before that of its line",
        "broker/log/epoch_check.py",
        "is_written or epoch < epochs.at(base)",
        "is_written",
        (EPOCHS + "test_whichever_bit_flips_of_the_file_of_a_log_that_was_killed",),
    ),
    Mutant(
        "epochs-of-one-batch-believed",
        "one batch behind the recovery point does not outnumber the file of epochs",
        "broker/log/epoch_check.py",
        "    return next(behind, None) and next(behind, None)\n",
        "    return next(behind, None)\n",
        (CHANGED + "test_an_epoch_that_the_file_settles_is_not_taken_from_the_batch",),
    ),
    Mutant(
        "epochs-of-changed-batches",
        "the file of epochs counts where the batches are not as they were summed",
        "broker/log/epoch_check.py",
        "self.is_unknown or is_as_summed(self.segment.path, load_sums(self.segment.path).batches)\n",
        "True\n",
        (EPOCHS + "test_a_batch_that_changed_is_not_taken_for_a_file_that_did",),
    ),
    Mutant(
        "epochs-file-believed-by-a-repair",
        "a repair cuts nothing that the next start mends by itself",
        "broker/log/repair.py",
        "    return None if found is not None and found.is_of_the_file else epochs\n",
        "    return epochs\n",
        (EPOCHS + "test_whichever_bit_of_the_file_flips_epochs_are_those_of_the_batches",),
    ),
    Mutant(
        "epochs-file-checked-without-bound",
        "a start checks so many lines of the file of epochs",
        "broker/log/epoch_check.py",
        "epochs.begins[-LINES_MAX:]",
        "epochs.begins",
        (EPOCHS + "test_a_start_looks_at_so_many_lines",),
    ),
    Mutant(
        "sums-fail-without-a-word",
        "checksums that cannot be saved are said",
        "broker/log/durability.py",
        "                self._sums_failure = failure or self._sums_failure\n",
        "",
        (UNSAVED,),
    ),
    Mutant(
        "sums-fail-at-the-end-without-a-word",
        "checksums that the last flush cannot save are said, too",
        "broker/partitions.py",
        "                    self.flushed(partition)\n",
        "                    pass\n",
        (UNSAVED,),
    ),
    Mutant(
        "sums-fail-and-are-said-for-ever",
        "a failure to save checksums is said once",
        "broker/log/durability.py",
        "        failure, self._sums_failure = self._sums_failure, None\n",
        "        failure = self._sums_failure\n",
        (UNSAVED,),
    ),
    Mutant(
        "active-segment-read-at-every-start",
        "sums that were of other bytes are made anew",
        "broker/log/recovery.py",
        "            segment_sums.forget_batches(held.path)",
        "            pass",
        (ACTIVE + "test_sums_of_other_bytes_are_made_anew_and_take_no_partition_offline",),
    ),
    Mutant(
        "active-segment-compared-without-bound",
        "a start compares no more bytes than it reads after a crash",
        "broker/log/segment_sums.py",
        "    return known.size <= COMPARED_BYTES_MAX and not",
        "    return not",
        (ACTIVE + "test_a_start_compares_no_more_than_it_reads_after_a_crash",),
    ),
    Mutant(
        "broken-snapshots-say-nothing",
        "nothing is cut before the place of a snapshot that is broken",
        "broker/log/recovery.py",
        "    log.flushed_end = max(log.snapshots, default=LOG_START)\n",
        "",
        (BROKEN + "test_a_start_cuts_nothing_that_was_on_the_disk",),
    ),
    Mutant(
        "broken-snapshots-removed-first",
        "a broken snapshot is there until the log is open",
        "broker/log/recovery.py",
        "            log.broken_snapshots.append(path)\n",
        "            path.unlink()\n",
        (BROKEN + "test_a_start_cuts_nothing_that_was_on_the_disk",),
    ),
    Mutant(
        "broken-snapshots-stay",
        "a broken snapshot goes once the log is open",
        "broker/log/recovery.py",
        "    for path in log.broken_snapshots:",
        "    for path in ():",
        (BROKEN + "test_a_whole_log_opens_and_the_broken_one_goes",),
    ),
    Mutant(
        "torn-sums-unsaid",
        "files of sums that are torn after a crash of the machine are said",
        "broker/log/repair.py",
        "torn_sums(each.path for each in segments) if machine_went_down else None",
        "None",
        (VERIFY + "test_without_a_lock_it_is_said_what_a_torn_end_may_be",),
    ),
    Mutant(
        "no-lock-unsaid",
        "what a directory without .lock leaves unknown is said",
        "cli/storage_verify.py",
        "                if lock is None and folders:\n",
        "                if False:\n",
        (VERIFY + "test_without_a_lock_it_is_said_what_a_torn_end_may_be",),
    ),
)
