"""What is broken on purpose where entries hold several batches of ``__consumer_offsets``."""

from typing import Final

from tests.mutants.mutant import Mutant

LAW: Final = "tests/quorum/test_one_image.py::test_one_image_whoever_replays_it"
VOTERS: Final = "tests/quorum/test_group_records.py::"
BATCHES: Final = "tests/records/test_group_log.py::"
ENTRY: Final = "tests/records/test_entry.py::"
OWN: Final = "tests/controller/test_own_log.py::test_replay_of_a_record_stays_in_its_own_log"

GROUP_LOG: Final = (
    Mutant(
        "offset-from-the-log-end",
        "replay is given the record's own offset, not where its log ends",
        "controller/replay.py",
        "        replay_at(view, record, Offset(first))\n",
        "        replay_at(view, record, Offset(view.header.log_ends[2]))\n",
        (LAW, VOTERS + "test_one_entry_holds_several_batches_in_the_order_of_the_decisions"),
    ),
    Mutant(
        "one-offset-for-a-batch",
        "each record of a batch is given its own offset",
        "controller/replay.py",
        "        first += 1\n",
        "        first += 0\n",
        (VOTERS + "test_one_entry_holds_several_batches_in_the_order_of_the_decisions",),
    ),
    Mutant(
        "each-batch-from-the-entrys-start",
        "a follower replays the second batch of a log behind the first",
        "controller/replay.py",
        "            replay_records(view, batch.records, ends[batch.log])\n",
        "            replay_records(view, batch.records, before.log_ends[batch.log])\n",
        (LAW, VOTERS + "test_one_entry_holds_several_batches_in_the_order_of_the_decisions"),
    ),
    Mutant(
        "overlay-without-the-offsets-before",
        "the overlay counts the records of the decisions before this one",
        "quorum/draft.py",
        "            replay_records(overlay, records, self._ends[_GROUPS])\n",
        "            replay_records(overlay, records, self._image.header.log_ends[_GROUPS])\n",
        (LAW, VOTERS + "test_one_entry_holds_several_batches_in_the_order_of_the_decisions"),
    ),
    Mutant(
        "batches-merged-across-producers",
        "a batch holds the records of one producer id and epoch",
        "records/group_log.py",
        "        if before is not None and (kind != before or before[0]):\n",
        "        if before is not None and (kind[0] != before[0] or before[0]):\n",
        (
            LAW,
            BATCHES + "test_a_batch_ends_where_producer_epoch_or_control_changes",
            BATCHES + "test_what_is_written_is_read_in_its_order",
        ),
    ),
    Mutant(
        "markers-share-a-batch",
        "each marker is alone in its control batch, as in Kafka",
        "records/group_log.py",
        "        if before is not None and (kind != before or before[0]):\n",
        "        if before is not None and kind != before:\n",
        (BATCHES + "test_a_batch_ends_where_producer_epoch_or_control_changes",),
    ),
    Mutant(
        "second-batch-not-stamped",
        "each batch of a log is stamped with the offset behind the one before it",
        "records/entry.py",
        "        base = end if log == last else log_ends[log]\n",
        "        base = log_ends[log]\n",
        (
            LAW,
            ENTRY + "test_batches_of_groups_get_consecutive_offsets[2]",
            VOTERS + "test_one_entry_holds_several_batches_in_the_order_of_the_decisions",
        ),
    ),
    Mutant(
        "group-log-level-ignored",
        "no record of groups is written below the log level that has them",
        "quorum/draft.py",
        "                levels.require_group_log(overlay)\n",
        "                pass\n",
        (
            VOTERS + "test_below_its_level_the_log_of_groups_is_not_written[0]",
            VOTERS + "test_below_its_level_the_log_of_groups_is_not_written[1]",
        ),
    ),
    Mutant(
        "group-batches-cost-nothing",
        "the batches that records of groups may need for themselves count in an entry's size",
        "quorum/draft.py",
        "                        size += BATCH_OVERHEAD_BYTES_MAX\n",
        "                        size += 0\n",
        (VOTERS + "test_batches_of_their_own_count_in_the_size_of_a_decision[one-past-it]",),
    ),
    Mutant(
        "replay-reads-another-logs-table",
        "replay of a record reads and writes only its own log's tables",
        "controller/transactions/states.py",
        '    """Total. Only legal transitions are in the log, and no pair comes back."""\n',
        "    from fencepost.controller.topics import TOPICS\n\n"
        "    for topic in record.partitions or ():\n        view.get(TOPICS, topic.topic)\n",
        (OWN + "[TransactionStateRecord1]",),
    ),
    Mutant(
        "replay-writes-another-logs-table",
        "replay of a record reads and writes only its own log's tables",
        "controller/features.py",
        "        view.put(FEATURES, record.name, FeatureLevel(record.feature_level))\n",
        "        view.put(FEATURES, record.name, FeatureLevel(record.feature_level))\n"
        "    from fencepost.controller.transactions.states import PREPARED\n\n"
        '    view.delete(PREPARED, "x")\n',
        (OWN + "[FeatureLevelRecord]",),
    ),
    Mutant(
        "later-layout-of-any-level",
        "an entry whose layout came with a later level is not read as one of level 2",
        "records/entry.py",
        "        if level > LEVEL_MAX:\n",
        "        if False:\n",
        (
            ENTRY + "test_an_entry_of_a_later_level_is_no_damage",
            "tests/quorum/test_log_levels.py::test_an_entry_of_a_later_layout_stops_who_would_lead_on_it",
        ),
    ),
    Mutant(
        "archive-cut-above-the-snapshot",
        "retention keeps what the newest snapshot does not have",
        "snapshots/archive.py",
        "not segment.sealed or following.base > below:\n",
        "not segment.sealed:\n",
        (VOTERS + "test_the_archive_of_groups_is_bounded_by_its_own_setting[0-True]",),
    ),
    Mutant(
        "one-retention-for-every-archive",
        "the archive of groups has a setting of its own",
        "quorum/archiver.py",
        "                of_groups = log is Log.CONSUMER_OFFSETS\n",
        "                of_groups = True\n",
        (VOTERS + "test_the_archive_of_groups_is_bounded_by_its_own_setting[0-True]",),
    ),
    Mutant(
        "any-control-batch-changes-the-leader",
        "an entry that begins with a marker is no LeaderChange, also when its records are left out",
        "controller/replay.py",
        "    return bool(records) and isinstance(records[0], LeaderChange)\n",
        "    return isinstance(records[0], LeaderChange)\n",
        (VOTERS + "test_an_entry_of_markers_is_refilled[alone]",),
    ),
    Mutant(
        "unknown-group-records-pass-silently",
        "a record of a key type that this version does not know is named",
        "quorum/replica.py",
        "                warn_of_skipped(batches, self.log)\n",
        "                pass\n",
        (VOTERS + "test_a_record_of_an_unknown_key_type_is_skipped_with_a_warning",),
    ),
    Mutant(
        "no-hole-in-the-log-of-groups",
        "what a snapshot took the place of is a hole in the archive of each log",
        "quorum/archiver.py",
        "                archive.start_at(header.log_end(log))\n        self._set_mark(index, header)\n",
        "                if log is not Log.CONSUMER_OFFSETS:\n"
        "                    archive.start_at(header.log_end(log))\n        self._set_mark(index, header)\n",
        (VOTERS + "test_who_installed_a_snapshot_goes_on_at_its_offsets",),
    ),
)
