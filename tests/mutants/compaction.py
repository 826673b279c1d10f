"""The log cleaner: what it may not forget, and the order in which a swap reaches the disk."""

from typing import Final

from tests.mutants.mutant import Mutant

KEPT: Final = "tests/broker/log/test_compaction.py::"
CLEANER: Final = "tests/broker/log/test_cleaner.py::"
BROKER: Final = "tests/broker/test_log_cleaning.py::"
OF_BROKER: Final = "tests/broker/test_partitions.py::"
PACKED: Final = "tests/broker/test_compression_type.py::"
LAW: Final = KEPT + "test_passes_change_nothing_that_a_reader_or_a_producer_relies_on"
KILLED: Final = CLEANER + "test_killed_at_any_step_nothing_is_lost"

COMPACTION: Final = (
    Mutant(
        "cleaner-marker-dropped-with-its-data",
        "a marker stays as long as a batch of its transaction is there",
        "broker/log/compaction.py",
        "        if header.producer_id in self._seen:\n            self._seen.remove",
        "        if False:\n            self._seen.remove",
        (KEPT + "test_a_marker_stays_until_its_data_is_gone_and_for_a_retention_then",),
    ),
    Mutant(
        "cleaner-marker-dropped-before-its-horizon",
        "a marker without data stays for delete.retention.ms",
        "broker/log/compaction.py",
        "header.delete_horizon_ms > self.now_ms or self._is_last_marker(marker)",
        "self._is_last_marker(marker)",
        (KEPT + "test_a_marker_stays_until_its_data_is_gone_and_for_a_retention_then",),
    ),
    Mutant(
        "cleaner-tombstone-dropped-at-once",
        "a tombstone stays for delete.retention.ms",
        "broker/log/compaction.py",
        "horizon_ms is not None and horizon_ms <= self.now_ms",
        "horizon_ms is None or horizon_ms <= self.now_ms",
        (KEPT + "test_a_tombstone_stays_for_its_retention_and_says_when_it_may_go",),
    ),
    Mutant(
        "cleaner-last-batch-of-a-producer-dropped",
        "the last batch of each producer stays, for its sequence",
        "broker/log/compaction.py",
        "        if not self._is_last_of_producer(header):\n",
        "        if True:\n",
        (LAW,),
    ),
    Mutant(
        "cleaner-last-marker-of-a-producer-dropped",
        "the last marker of each producer stays, for its epoch and version",
        "broker/log/compaction.py",
        "header.delete_horizon_ms > self.now_ms or self._is_last_marker(marker)",
        "header.delete_horizon_ms > self.now_ms",
        (LAW,),
    ),
    Mutant(
        "cleaner-aborted-values-count",
        "a value of an aborted transaction hides no committed one",
        "broker/log/compaction.py",
        "        if not (header.is_control or _is_aborted(header, self._aborted)):\n",
        "        if not header.is_control:\n",
        (LAW,),
    ),
    Mutant(
        "cleaner-above-the-last-stable-offset",
        "nothing at or above the last stable offset is cleaned",
        "broker/log/cleanable.py",
        "bound = min(stable, self._durability.newest_snapshot)",
        "bound = self._durability.newest_snapshot",
        (CLEANER + "test_nothing_at_or_above_the_last_stable_offset_is_touched",),
    ),
    Mutant(
        "cleaner-older-snapshots-kept",
        "no snapshot is left that has a transaction open whose marker may go",
        "broker/log/cleanable.py",
        "        self._durability.forget_before(dirt.end)\n",
        "",
        (CLEANER + "test_a_snapshot_that_has_a_transaction_open_whose_marker_is_gone_is_not_used",),
    ),
    Mutant(
        "cleaner-batches-decided-before-their-indexes",
        "the file of batches is renamed last: by it a swap is decided, and done",
        "broker/log/swaps.py",
        "zip(reversed(old), reversed(new), strict=True)",
        "zip(old, new, strict=True)",
        (CLEANER + "test_half_a_rename_decides_nothing",),
    ),
    Mutant(
        "cleaner-swap-not-finished",
        "a start finishes the swap that a killed pass decided",
        "broker/log/swaps.py",
        '    done = []\n    for path in sorted(directory.glob(f"*.log{SWAP}")):\n',
        "    done = []\n    for path in ():\n",
        (KILLED,),
    ),
    Mutant(
        "cleaner-gaps-anywhere",
        "only below cleaned_end may offsets be missing",
        "broker/log/unchecked.py",
        "not expected < header.base_offset < cleaned_end",
        "not expected < header.base_offset",
        (CLEANER + "test_offsets_that_no_cleaner_left_out_are_damage",),
    ),
    Mutant(
        "cleaner-old-sums-stay",
        "after a swap the sums of the old files are gone",
        "broker/log/cleanable.py",
        "            self._durability.replaced(segment_files(self._directory, group.bases[0])[0])\n",
        "            pass\n",
        (CLEANER + "test_sums_that_a_flush_made_of_the_old_files_are_gone",),
    ),
    Mutant(
        "cleaner-deleted-by-the-brokers-own-retention",
        "nothing is deleted before the topic's settings are known",
        "broker/log_maintenance.py",
        " or not partition.is_configured",
        "",
        (BROKER + "test_nothing_is_deleted_before_the_settings_are_known",),
    ),
    Mutant(
        "settings-come-while-a-log-is-opened",
        "settings that come while a log is opened are its settings",
        "broker/partitions.py",
        "        self._settings.apply_to(partition)  # perhaps known only since it is being opened\n",
        "",
        (OF_BROKER + "test_settings_that_come_while_a_log_is_opened_are_its_settings",),
    ),
    Mutant(
        "produced-before-the-settings-are-known",
        "no record is taken before the topic's settings are known",
        "broker/produce.py",
        "partition is not None and partition.is_configured:",
        "partition is not None:",
        (OF_BROKER + "test_nothing_is_taken_before_the_settings_are_known",),
    ),
    Mutant(
        "topic-setting-accepted-and-ignored",
        "a topic setting that is accepted is obeyed",
        "broker/log_settings.py",
        '    "segment.ms": ("segment_ms", int),\n',
        "",
        ("tests/broker/test_changed_topics.py::test_a_setting_of_kafkas_is_obeyed_or_refused_by_name",),
    ),
    Mutant(
        "cleaner-compacted-logs-are-deleted-from",
        "compact alone deletes nothing by age or size",
        "broker/log/retention.py",
        "not config.delete or config.retention_ms == UNLIMITED",
        "config.retention_ms == UNLIMITED",
        (BROKER + "test_compact_alone_deletes_nothing_by_age_or_size",),
    ),
    Mutant(
        "cleaner-topic-deleted-under-its-thread",
        "a log is deleted when the cleaner's thread is out of it",
        "broker/partition.py",
        "while self.flushing or self.cleaning:",
        "while self.flushing:",
        (BROKER + "test_a_topic_that_is_deleted_while_it_is_cleaned_goes_when_the_thread_is_out[begin]",),
    ),
    Mutant(
        "cleaner-leaves-files-open",
        "a pass closes the files of the segment that did not fit into its group",
        "broker/log/cleaner.py",
        "with contextlib.closing(Segment(",
        "with contextlib.nullcontext(Segment(",
        ("tests/broker/log/test_cleaner_reads.py::test_a_pass_leaves_no_file_open_that_is_not_the_logs",),
    ),
    Mutant(
        "compression-type-not-obeyed",
        "batches are stored as the topic's compression.type says",
        "broker/log/validation.py",
        "    if config.codec is not None:\n        produced",
        "    if False:\n        produced",
        (PACKED + "test_what_is_stored_is_compressed_as_the_topic_says[zstd]",),
    ),
    Mutant(
        "compression-type-past-the-size",
        "a batch that compression makes too large is refused",
        "broker/log/validation.py",
        "        _require_batch_size(len(batches[-1]), config)\n",
        "",
        (PACKED + "test_a_batch_that_becomes_too_large_is_refused",),
    ),
    Mutant(
        "cleaner-record-without-a-key-taken",
        "a compacted topic takes no record without a key",
        "records/record_walk.py",
        "(_NO_BYTE, _after_key) if keyed else (_NULL, _after_sized)",
        "(_NULL, _after_sized)",
        (BROKER + "test_a_record_without_a_key_is_refused",),
    ),
)
