"""What is broken on purpose in partition logs: what their files say, flushes, deletion, repair."""

from typing import Final

from tests.mutants.damage import REMEMBERED
from tests.mutants.mutant import Mutant

CHANGED: Final = "tests/broker/log/test_changed_files.py::"
SUMS: Final = "tests/broker/log/test_segment_sums.py::"
STALE: Final = "tests/broker/log/test_stale_sums.py::"
FLUSHES: Final = "tests/broker/log/test_log_flushes.py::"
POWER_CUT: Final = "tests/broker/log/test_power_cut.py::test_what_was_flushed_survives_a_power_cut"

PARTITION_LOGS: Final = (
    Mutant(
        "log-epoch-goes-back",
        "a leader epoch below the one before it is damage, whatever file is gone",
        "broker/log/recovery.py",
        '        raise CorruptData(f"a batch of epoch {header.leader_epoch} follows {due}")\n',
        "        pass\n",
        (CHANGED + "test_an_epoch_that_goes_back_is_damage_where_no_file_says_which_is_right",),
    ),
    Mutant(
        "log-settled-epoch-believed",
        "an epoch that was written down before a later one is not taken from a batch that changed",
        "broker/log/checkpoints.py",
        "not (is_written or self.is_settled(offset))",
        "not is_written",
        (CHANGED + "test_an_epoch_that_the_file_settles_is_not_taken_from_the_batch",),
    ),
    Mutant(
        "log-half-a-line-of-epochs",
        "a file of epochs that ends inside a line says nothing",
        "broker/log/checkpoints.py",
        '    if not text.endswith("\\n"):\n',
        "    if False:\n",
        (CHANGED + "test_a_number_that_is_cut_short_is_no_offset",),
    ),
    Mutant(
        "log-cut-epochs-come-back",
        "an epoch that was cut off is gone from the disk before its offsets are written again",
        "broker/log/recovery.py",
        "    log.epochs.save(durable=log.epochs.forget_after(log.end))\n",
        "    log.epochs.forget_after(log.end)\n    log.epochs.save()\n",
        (CHANGED + "test_an_epoch_that_was_cut_off_does_not_come_back",),
    ),
    Mutant(
        "log-last-segment-gone-unseen",
        "indexes without batches behind the last segment are a lost segment",
        "broker/log/recovery.py",
        "    if lost is not None and not log.machine_went_down:\n",
        "    if False:\n",
        (CHANGED + "test_a_last_segment_that_is_gone_is_named",),
    ),
    Mutant(
        "log-batches-deleted-first",
        "a deletion that is killed leaves no index without its batches",
        "broker/log/segment.py",
        "(*reversed(self.files), sums_path(self.path))",
        "(*self.files, sums_path(self.path))",
        (CHANGED + "test_a_deletion_that_is_killed_leaves_no_index_without_its_batches",),
    ),
    Mutant(
        "log-time-index-empty",
        "the time index of a full segment has an entry",
        "broker/log/recovery.py",
        "    if is_full and segment.size and not times.count:\n",
        "    if False:\n",
        (CHANGED + "test_a_full_segment_without_a_time_is_indexed_again",),
    ),
    Mutant(
        "log-epoch-after-its-batch",
        "a killed append leaves no batch of an epoch that the file does not have",
        "broker/log/partition_log.py",
        "            self._epochs.assign(leader_epoch, self._end)"
        "  # first: else a crash leaves what looks damaged\n"
        "            position = active.append(batches)\n",
        "            position = active.append(batches)\n"
        "            self._epochs.assign(leader_epoch, self._end)\n",
        (CHANGED + "test_a_killed_append_leaves_no_epoch_that_looks_like_damage",),
    ),
    Mutant(
        "log-producers-restored-unsorted",
        "the last stable offset is that of the oldest open transaction, after a restart, too",
        "broker/log/producer_state.py",
        "        opened = sorted(\n            (state.transaction_first, producer_id)\n"
        "            for producer_id, state in table.items()\n"
        "            if state.transaction_first != NO_OFFSET\n        )\n",
        "        opened = [\n            (state.transaction_first, producer_id)\n"
        "            for producer_id, state in table.items()\n"
        "            if state.transaction_first != NO_OFFSET\n        ]\n",
        (CHANGED + "test_open_transactions_are_restored_in_the_order_of_their_offsets",),
    ),
    Mutant(
        "log-producers-without-a-checksum",
        "a producer snapshot with a changed byte is not believed",
        "broker/log/producer_snapshot.py",
        "    if version != VERSION or crc != computed:\n",
        "    if version != VERSION:\n",
        (
            "tests/broker/log/test_broken_snapshots.py::test_without_a_file_of_sums_its_own_checksum_says_that_it_changed",
        ),
    ),
    Mutant(
        "log-snapshots-at-bases-pruned",
        "each segment keeps the producer snapshot at its base",
        "broker/log/durability.py",
        "if offset not in newest | bases]",
        "if offset not in newest]",
        (CHANGED + "test_each_segment_keeps_the_snapshot_that_its_indexes_are_made_again_from",),
    ),
    Mutant(
        "log-names-not-flushed",
        "a flush covers the names of new segments",
        "broker/log/durability.py",
        "        if names_changed:\n            sync_path",
        "        if False:\n            sync_path",
        (POWER_CUT,),
    ),
    Mutant(
        "log-failed-flush-forgotten",
        "after a failed flush no later one succeeds",
        "broker/log/durability.py",
        "                self._failed = not is_exhausted(error)  # without",
        "                pass  # without",
        (FLUSHES + "test_a_failed_flush_fails_for_good",),
    ),
    Mutant(
        "log-half-a-write-stays",
        "a write that fails is undone",
        "broker/log/segment.py",
        "            os.ftruncate(self._open(), position)\n            named",
        "            named",
        (FLUSHES + "test_a_failed_write_is_undone_and_the_log_takes_no_more",),
    ),
    Mutant(
        "log-unknown-boot-is-the-same-one",
        "a machine that does not say when it was started counts as one that went down",
        "broker/log/log_directory.py",
        "not self._boot_id or written != self._boot_id",
        "written != self._boot_id",
        (REMEMBERED,),
    ),
    Mutant(
        "log-changed-bytes-fail-the-whole-fetch",
        "bytes that changed take their partition offline, and no other one",
        "broker/fetch.py",
        "            except (OSError, CorruptData) as error:\n",
        "            except OSError as error:\n",
        ("tests/broker/test_fetch.py::test_bytes_that_changed_take_their_partition_offline_and_no_other",),
    ),
    Mutant(
        "repair-keeps-later-snapshots",
        "a cut removes the producer snapshots behind it",
        "broker/log/repair.py",
        "        if offset > damage.offset:\n",
        "        if False:\n",
        ("tests/broker/log/test_damage.py::test_what_no_crash_leaves_is_kept_and_repaired_on_demand",),
    ),
    Mutant(
        "repair-lost-segment-unseen",
        "a repair sees the segment that is gone, as an opening does",
        "broker/log/repair.py",
        "    lost = None if machine_went_down else lost_segment(directory)\n",
        "    lost = None\n",
        (CHANGED + "test_a_last_segment_that_is_gone_is_repaired_on_demand",),
    ),
    Mutant(
        "sums-of-indexes-not-compared",
        "an index that is not as it was summed is made again before it is used",
        "broker/log/recovery.py",
        '    return None if suffix is None else f"{suffix} is not as it was written"\n',
        "    return None\n",
        (SUMS + "test_an_index_that_changed_is_made_again_before_it_is_used",),
    ),
    Mutant(
        "sums-not-marked-while-indexes-are-made",
        "killed while indexes are made again, they are made once more",
        "broker/log/recovery.py",
        "            segment_sums.begin_indexes(segment.path)\n",
        "            pass\n",
        (SUMS + "test_killed_while_indexes_are_made_again_they_are_not_believed",),
    ),
    Mutant(
        "sums-shorter-segment-unseen",
        "a full segment with fewer bytes than were summed, before a gap, is damage",
        "broker/log/recovery.py",
        "        if short is not None:\n",
        "        if False:\n",
        (SUMS + "test_a_full_segment_that_shrank_is_damage_and_repaired_on_demand",),
    ),
    Mutant(
        "sums-alone-are-believed",
        "a segment that ends where the next one begins is sound, whatever old sums say",
        "broker/log/damage.py",
        "    if end >= following and position == segment.size:\n",
        "    if False:\n",
        (
            STALE + "test_no_file_of_sums_takes_a_sound_partition_offline",
            STALE + "test_a_log_that_an_earlier_version_cut_and_filled_opens",
        ),
    ),
    Mutant(
        "sums-outlive-a-cut",
        "what was cut on demand is not missed afterwards",
        "broker/log/repair.py",
        "        forget_sums(damage.segment)\n",
        "",
        (SUMS + "test_a_full_segment_that_shrank_is_damage_and_repaired_on_demand",),
    ),
    Mutant(
        "sums-forgotten-after-the-cut",
        "no crash leaves sums of bytes that were cut",
        "snapshots/checksums.py",
        "        sync_path(segment.parent)\n",
        "        pass\n",
        (
            SUMS + "test_a_cut_forgets_sums_durably_before_it_cuts",
            SUMS + "test_the_sums_of_a_replaced_segment_are_forgotten_first_and_made_anew",
        ),
    ),
    Mutant(
        "sums-beside-a-deletion-stay",
        "sums that a flush writes beside a deletion go, too",
        "broker/log/segment_sums.py",
        "    if not segment.exists():  # deleted meanwhile; its owner deletes the sums last\n",
        "    if False:\n",
        (SUMS + "test_sums_that_are_written_beside_a_deletion_do_not_stay",),
    ),
    Mutant(
        "sums-of-a-deleted-segment-fail-the-flush",
        "a segment that is deleted before it is summed takes no partition offline",
        "broker/log/durability.py",
        "            except FileNotFoundError:  # deleted meanwhile, as its time was over\n",
        "            except ZeroDivisionError:\n",
        (SUMS + "test_an_old_segment_is_deleted_while_its_sums_are_due",),
    ),
    Mutant(
        "sums-not-written",
        "a segment's sums are saved with the next snapshot of the producers",
        "broker/log/segment_sums.py",
        "        save_sums(segment, SegmentSums(batches, *indexes), owner)\n    except",
        "        pass\n    except",
        (
            SUMS + "test_a_log_with_sums_opens_without_a_repair",
            SUMS + "test_a_directory_of_an_earlier_version_opens_and_is_summed_with_the_next_snapshots",
        ),
    ),
    Mutant(
        "sums-left-when-the-newest-snapshot-is-lost",
        "indexes that were written again are summed again",
        "broker/log/recovery.py",
        "        if segment_sums.changed_index(segment.path, checksums.load_sums(segment.path)):",
        "        if False:",
        (STALE + "test_a_newest_snapshot_that_is_lost_leaves_no_stale_sums",),
    ),
    Mutant(
        "sums-of-batches-not-verified",
        "bytes that no batch's checksum covers are named by a look at all",
        "broker/log/repair.py",
        "    return is_as_summed(segment.path, load_sums(segment.path).batches)\n",
        "    return True\n",
        (SUMS + "test_bytes_that_no_batch_checks_are_named_by_a_look_at_all",),
    ),
    Mutant(
        "deleted-segment-still-flushed",
        "a segment that retention deleted waits for no flush",
        "broker/log/partition_log.py",
        "        self._durability.deleted(gone)\n",
        "",
        (
            FLUSHES + "test_what_retention_deletes_before_a_flush_needs_none",
            FLUSHES + "test_a_segment_that_goes_while_it_is_flushed_needs_no_flush",
        ),
    ),
    Mutant(
        "missing-segment-passed-over",
        "a flush fails if a segment's file is gone that was not deleted",
        "broker/log/durability.py",
        "                if path in self._unflushed or path in self._unflushed_indexes:\n",
        "                if False:\n",
        (FLUSHES + "test_a_segment_that_was_not_deleted_and_is_gone_fails_the_flush",),
    ),
    Mutant(
        "special-timestamp-of-any-version",
        "a special timestamp that a request's version does not have is refused",
        "broker/offsets.py",
        "query.timestamp_ms < request.special_lowest",
        "query.timestamp_ms < -6",
        ("tests/broker/test_fetch.py::test_offsets_are_found",),
    ),
)
