"""What is broken on purpose in sums of the bytes that were meant, and in what is put back by them."""

from typing import Final

from tests.mutants.mutant import Mutant

MEANT: Final = "tests/broker/log/test_meant_bytes.py::"
ACTIVE: Final = MEANT + "test_in_the_segment_that_is_appended_to"
FULL: Final = MEANT + "test_in_full_segments"
INDEX: Final = MEANT + "test_in_an_index"
LOST: Final = MEANT + "test_where_the_newest_snapshot_is_lost_what_it_summed_counts_unless_it_is_cut"
CLEANER: Final = "tests/broker/log/test_cleaner_reads.py::"
PUT_BACK: Final = "tests/broker/log/test_put_back.py::"
FOREIGN: Final = "tests/broker/log/test_foreign_segments.py::"
BEGIN: Final = "tests/broker/log/test_lost_begin.py::"
UNPROVEN: Final = PUT_BACK + "test_what_is_not_proven_is_not_put_back"
ANEW: Final = (
    "tests/broker/log/test_active_segment.py::"
    "test_sums_of_other_bytes_are_made_anew_and_take_no_partition_offline"
)
BY_COMMAND: Final = "tests/cli/test_storage_repair.py::test_a_leader_epoch_that_alone_changed_is_put_back"

MEANT_LOGS: Final = (
    Mutant(
        "sums-of-what-the-disk-has",
        "the sum that is saved is of the batches that were meant, not of those that are read again",
        "broker/log/segment_sums.py",
        "    batches, *indexes = extent.sums\n",
        "    batches, *indexes = extent.sums\n    batches = read_sum(segment, before.batches, size)\n",
        (ACTIVE, FULL, MEANT + "test_in_what_a_cleaner_wrote"),
    ),
    Mutant(
        "sums-of-indexes-as-the-disk-has-them",
        "the sum of an index is of the entries that were meant",
        "broker/log/segment_sums.py",
        "        written if written.size == size else read_sum",
        "        written if not size else read_sum",
        (INDEX,),
    ),
    Mutant(
        "sums-of-indexes-made-again-as-the-disk-has-them",
        "also of one that was made again at a start",
        "broker/log/segment_sums.py",
        "    save_sums(segment, written._replace(batches=load_sums(segment).batches), durable=True)\n",
        "    paths = [segment.with_suffix(suffix) for suffix in INDEX_SUFFIXES]\n"
        "    indexes = [read_sum(path, NOT_SUMMED, path.stat().st_size) for path in paths]\n"
        "    save_sums(segment, SegmentSums(load_sums(segment).batches, *indexes), durable=True)\n",
        (MEANT + "test_in_an_index_that_was_made_again",),
    ),
    Mutant(
        "sums-without-what-a-start-read",
        "what a start reads behind the recovery point, each batch checked, counts for the sum",
        "broker/log/recovery.py",
        "                segment.add_to_sum(batch[: header.size], position)\n",
        "",
        (FULL,),
    ),
    Mutant(
        "sums-begun-anew-at-a-start",
        "what lies before the recovery point counts as it was summed",
        "broker/log/segment.py",
        "            self.sum = saved if saved.size <= self.size else NOT_SUMMED\n",
        "            self.sum = NOT_SUMMED\n",
        (FULL,),
    ),
    Mutant(
        "sums-of-before-at-a-second-reading",
        "a segment that is read again from its begin has the sum of what is read",
        "broker/log/segment.py",
        "        elif self.sum.size != position:\n",
        "        else:\n",
        (ANEW,),
    ),
    Mutant(
        "sums-with-a-gap",
        "what is summed already does not count twice",
        "broker/log/segment.py",
        "        if self.sum.size == position:\n",
        "        if True:\n",
        (LOST,),
    ),
    Mutant(
        "sums-of-what-was-cut",
        "what was cut away is not in the sum",
        "broker/log/segment.py",
        "        if self.sum.size > position:\n",
        "        if False:\n",
        (LOST,),
    ),
    Mutant(
        "sums-of-cleaned-segments-lost",
        "a cleaner's segment has the sum of what the cleaner wrote",
        "broker/log/cleanable.py",
        "        self._segments[number].take_sums(group.sums)\n",
        "",
        (MEANT + "test_in_what_a_cleaner_wrote",),
    ),
    Mutant(
        "sums-of-replaced-segments-due",
        "a flush saves no sums of a segment that a cleaner replaced since they were requested",
        "broker/log/cleanable.py",
        "        self._durability.deleted(self._segments[first:after])\n",
        "",
        (MEANT + "test_sums_that_were_due_when_a_cleaner_came_are_not_those_of_its_segment",),
    ),
    Mutant(
        "sums-of-the-scrub-lost",
        "the sum of a segment that the scrub read is of the bytes that it checked",
        "broker/log/scrub.py",
        "            part.segment.sum = found\n",
        "            pass\n",
        (FULL,),
    ),
    Mutant(
        "full-segments-without-a-sum-not-read",
        "a full segment that has no sum is read by the next round",
        "broker/log/scrub.py",
        "segment.unchecked_end if is_waiting else segment.size)",
        "segment.unchecked_end)",
        (MEANT + "test_what_is_appended_while_the_scrub_reads_has_no_sum_until_the_segment_is_full",),
    ),
    Mutant(
        "active-segments-without-a-sum-read-in-each-round",
        "a segment that is appended to, and has no sum, is read once and when it is full",
        "broker/log/scrub.py",
        "segment.is_summed or segment is self._segments[-1]",
        "segment.is_summed",
        (MEANT + "test_what_is_appended_while_the_scrub_reads_has_no_sum_until_the_segment_is_full",),
    ),
    Mutant(
        "put-back-without-proof",
        "a field is put back only where the segment's sum proves it",
        "broker/log/put_back.py",
        "        if read_sum(path, mended, known.size) == known:\n",
        "        if True:\n",
        (UNPROVEN,),
    ),
    Mutant(
        "put-back-of-unsummed-bytes",
        "without a sum nothing is proven",
        "broker/log/put_back.py",
        "known.size < position + HEADER_BYTES or",
        "False or",
        (UNPROVEN, PUT_BACK + "test_behind_the_sum_nothing_is_proven"),
    ),
    Mutant(
        "put-back-without-neighbours",
        "the batch before it says of which epoch a batch may be",
        "broker/log/put_back.py",
        "            found.add(placed.leader_epoch)\n",
        "            pass\n",
        (PUT_BACK + "test_without_the_file_of_epochs_a_neighbour_says_which_it_was",),
    ),
    Mutant(
        "put-back-without-the-batch-behind",
        "so does the batch behind it",
        "broker/log/put_back.py",
        "    if 0 < end <= len(raw) - HEADER_BYTES:\n",
        "    if False:\n",
        (PUT_BACK + "test_without_the_file_of_epochs_a_neighbour_says_which_it_was",),
    ),
    Mutant(
        "cut-what-can-be-put-back",
        "nothing is cut where a field can be put back",
        "cli/storage_repair.py",
        "_Allowed(restore=restore or accept_data_loss, cut=accept_data_loss)",
        "_Allowed(restore=restore, cut=accept_data_loss)",
        (BY_COMMAND,),
    ),
    Mutant(
        "put-back-cuts",
        "--restore cuts nothing",
        "cli/storage_repair.py",
        "cut=accept_data_loss)",
        "cut=restore or accept_data_loss)",
        (BY_COMMAND,),
    ),
    Mutant(
        "cleaner-believes-offsets-and-epochs",
        "a cleaner reads no batch as sound of which an offset or a leader epoch changed",
        "broker/log/cleaner.py",
        "            header = sound_header(view, 0, expected, known)\n",
        "            header = batch_header(view)\n",
        (CLEANER + "test_changed_bytes_end_a_pass_and_nothing_is_replaced",),
    ),
    Mutant(
        "cleaner-passes-over-the-sum",
        "where offsets may be missing, the segment's sum tells that one changed",
        "broker/log/cleaner.py",
        "        if saved.size == found.size and saved != found and",
        "        if saved.size != found.size and saved != found and",
        (CLEANER + "test_a_changed_offset_where_some_may_be_missing_ends_the_next_pass",),
    ),
    Mutant(
        "cleaner-passes-over-the-end",
        "no batch of a full segment ends behind it",
        "broker/log/cleaner.py",
        "            if header.end > end:\n",
        "            if header.end < 0:\n",
        (CLEANER + "test_a_changed_offset_where_some_may_be_missing_ends_the_next_pass",),
    ),
    Mutant(
        "foreign-segments-taken",
        "another partition's whole segment takes the log offline",
        "broker/log/foreign.py",
        "        if is_as_summed(segment.path, said.sums.batches):\n",
        "        if False:\n",
        (FOREIGN + "test_a_segment_of_another_partition_takes_the_log_offline",),
    ),
    Mutant(
        "nameless-logs-not-inspected",
        "a log whose partition.metadata says nothing is inspected all the same",
        "broker/log/repair.py",
        "    except CorruptData:  # the broker mends the file, or takes the log offline for it\n",
        "    except NotADirectoryError:\n",
        (FOREIGN + "test_a_log_whose_partition_file_says_nothing_is_inspected_all_the_same",),
    ),
    Mutant(
        "foreign-by-sums-alone",
        "a file of sums that is another's takes no log offline by itself",
        "broker/log/foreign.py",
        "        if is_as_summed(segment.path, said.sums.batches):\n",
        "        if True:\n",
        (FOREIGN + "test_sums_alone_of_another_partition_take_nothing_offline",),
    ),
    Mutant(
        "owners-of-cleaned-segments-lost",
        "a cleaner's segment is whose the one was that it replaces",
        "broker/log/swaps.py",
        "Content(sums, owner), durable=True)",
        "Content(sums), durable=True)",
        (FOREIGN + "test_a_cleaned_segment_keeps_its_owner",),
    ),
    Mutant(
        "owners-lost-with-new-sums",
        "sums that are written again say what was known of the owner and of the newest snapshot",
        "broker/log/segment_sums.py",
        "    summed = content._replace(sums=sums, owner=owner or content.owner)\n",
        "    summed = Content(sums, owner)\n",
        (FOREIGN + "test_sums_that_are_written_again_keep_what_else_the_file_says",),
    ),
    Mutant(
        "older-snapshots-taken",
        "an older snapshot under the newest one's name is not taken",
        "broker/log/segment_sums.py",
        "    return bool(noted) and (offset, crc32c(raw)) not in noted\n",
        "    return False\n",
        (FOREIGN + "test_an_older_snapshots_producers_under_the_newest_name_are_not_taken",),
    ),
    Mutant(
        "lost-begins-unsaid",
        "offsets of first segments that are gone, and were not deleted, are named",
        "broker/log/damage.py",
        "    if begins and segments and begins[0] < segments[0].base:\n",
        "    if False:\n",
        (BEGIN + "test_offsets_of_first_segments_that_are_lost_are_named_once",),
    ),
    Mutant(
        "deleted-before-the-epochs-say-so",
        "what retention deletes is not called lost, wherever it is killed",
        "broker/log/partition_log.py",
        "        self._epochs.forget_before(self.start)\n        self._epochs.save()",
        "        for segment in gone:\n            segment.delete()\n"
        "        self._epochs.forget_before(self.start)\n        self._epochs.save()",
        (BEGIN + "test_killed_while_segments_are_deleted_nothing_is_called_lost",),
    ),
    Mutant(
        "empty-though-all-segments-are-lost",
        "a log that had batches, and has no segment, is not opened as an empty one",
        "broker/log/recovery.py",
        " or (log.epochs.begins and not log.machine_went_down):\n",
        ":\n",
        (BEGIN + "test_a_log_whose_segments_are_all_gone_is_not_an_empty_one",),
    ),
)
