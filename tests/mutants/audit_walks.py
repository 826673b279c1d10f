"""What is broken on purpose in the walks of the audit."""

from typing import Final

from tests.mutants.mutant import Mutant

WALKS: Final = "tests/audit/walks/"
COPIES: Final = WALKS + "test_copies.py::test_what_is_found_in_the_copies_of_a_log"
MAJORITY: Final = WALKS + "test_copies.py::test_of_the_metadata_what_a_majority_of_voters_holds_is_committed"
ONE_COPY: Final = WALKS + "test_one_copy.py::test_what_is_found_in_a_copy"
TWO_OFFSETS: Final = WALKS + "test_control.py::test_a_marker_whose_batch_has_two_offsets_is_named"
INDEXES: Final = WALKS + "test_indexes.py::test_what_is_found_in_the_files_beside_a_log"
LAST_MARKER: Final = (
    WALKS
    + "test_markers.py::test_the_last_marker_ends_the_last_transaction_if_it_is_no_earlier_than_its_decision"
)
MARKERS: Final = WALKS + "test_markers.py::test_what_is_found_of_markers"
LOG: Final = WALKS + "test_log.py::test_what_is_found_in_a_log"
STORY: Final = WALKS + "test_story.py::test_what_is_found_in_a_coordinators_log"
SNAPSHOTS: Final = WALKS + "test_snapshots.py::test_what_is_found_in_a_producer_snapshot"
PAIRS: Final = WALKS + "test_pairs.py::test_what_is_found_in_a_partition_and_its_coordinators_log"
SIDE_FILES: Final = "tests/audit/decode/test_side_files.py::test_what_is_not_as_it_was_written_is_a_fault"
CASES: Final = "tests/audit/checks/test_cases.py::test_one_fault_is_one_finding"
FAULTS: Final = WALKS + "test_faults.py::test_a_fault_is_one_finding"

AUDIT_WALKS: Final = (
    Mutant(
        "any-begin-came-to-nothing",
        "a transaction of several begins that is not ended has lost its end",
        "audit/walks/story.py",
        '        return row["state"] == "Empty" and is_next and each.begun == 1\n',
        '        return row["state"] == "Empty" and is_next\n',
        (STORY,),
    ),
    Mutant(
        "failed-begin-is-a-fault",
        "a begin of Kafka's whose append failed is no fault",
        "audit/walks/story.py",
        '        return row["state"] == "Empty" and is_next and each.begun == 1\n',
        "        return False\n",
        (STORY,),
    ),
    Mutant(
        "copies-counted-to-their-end",
        "what no checkpoint reaches is not known to be committed",
        "audit/walks/length.py",
        "    known = min(max(checkpoints), longest)\n",
        "    known = longest\n",
        (
            COPIES + "[a-tail-above-every-checkpoint]",
            WALKS + "test_copies.py::test_rows_above_what_is_known_to_be_committed_are_marked",
        ),
    ),
    Mutant(
        "any-voter-is-a-majority",
        "of the metadata what a majority of voters holds is committed",
        "audit/walks/length.py",
        "        majority = len(log.voters) // 2 + 1\n",
        "        majority = 1\n",
        (MAJORITY + "[the-leader-alone-holds-the-end]",),
    ),
    Mutant(
        "unclean-election-unasked",
        "committed batches that no unclean election cut are a finding",
        "audit/walks/differing.py",
        "        if not unclean and self._log.knows_elections and not is_unseen:\n",
        "        if False:\n",
        (COPIES + "[committed-batches-that-no-unclean-election-cut]",),
    ),
    Mutant(
        "cleaned-copies-compared",
        "brokers clean a compacted log each for itself",
        "audit/walks/differing.py",
        "        return row.records == best.records and row.last == best.last and not is_cleaned\n",
        "        return True\n",
        (COPIES + "[a-compacted-log-is-cleaned-by-each-broker]",),
    ),
    Mutant(
        "torn-while-it-ran-is-short",
        "a checkpoint may have been copied after its log",
        "audit/walks/length.py",
        '            kind = "finding" if copy.is_stopped and not is_cut else UNKNOWN\n',
        '            kind = UNKNOWN if is_cut else "finding"\n',
        (COPIES + "[a-checkpoint-that-was-copied-after-its-log]",),
    ),
    Mutant(
        "leader-epoch-may-go-back",
        "the leader epochs of a log never go back",
        "audit/walks/copy.py",
        "    if epoch < state.epoch or state.epoch <= ahead < epoch:\n",
        "    if False:\n",
        (ONE_COPY + "[sizes0-the-leader-epoch-goes-back]", FAULTS + "[a-leader-epoch-goes-back-v1]"),
    ),
    Mutant(
        "header-count-unread",
        "a header counts the records of its offsets",
        "audit/walks/copy.py",
        "    if count != length:\n",
        "    if False:\n",
        (ONE_COPY + "[sizes0-the-header-counts-a-record-too-many]",),
    ),
    Mutant(
        "hole-excuses-all",
        "a gap that is longer than what is missing is no hole's",
        "audit/walks/log.py",
        "            is_explained = 0 < step <= self._missing - producer.missing\n",
        "            is_explained = self._missing > producer.missing\n",
        (LOG + "[a-hole-that-is-shorter-than-the-gap]",),
    ),
    Mutant(
        "zombie-unseen",
        "data of an epoch that was over is a zombie's",
        "audit/walks/log.py",
        "        elif 0 <= epoch < producer.epoch:\n",
        "        elif False:\n",
        (LOG + "[data-of-an-epoch-after-a-higher-one]",),
    ),
    Mutant(
        "coordinator-epoch-unread",
        "a marker's coordinator epoch is 0 or more, and never goes back",
        "audit/walks/log.py",
        "        if known and (coordinator_epoch < 0 or goes_back):\n",
        "        if False:\n",
        (LOG + "[a-coordinator-epoch-below-0]", LOG + "[a-coordinator-epoch-that-goes-back]"),
    ),
    Mutant(
        "plain-data-unseen",
        "data of a transactional producer is in a transaction",
        "audit/walks/judge.py",
        '            if turn["plain_offset"] is not None and not turn["flags"] & FLAG_UNCOMMITTED:\n',
        "            if False:\n",
        (PAIRS + "[the-transactional-bit-of-a-batch-is-cleared]",),
    ),
    Mutant(
        "outcomes-counted",
        "each marker has the outcome of its own transaction, not one of as many",
        "audit/walks/pairs.py",
        '    differs = ints("outcome", outcomes) != kinds\n',
        "    differs = np.zeros(len(turns), np.bool_)\n",
        (
            MARKERS + "[a-commit-and-the-abort-after-it-change-places-sizes0]",
            MARKERS + "[a-commit-is-an-abort-in-the-log-sizes0]",
        ),
    ),
    Mutant(
        "versions-unread",
        "our markers stand in the order of their versions",
        "audit/walks/judge.py",
        "        if versions != ordered:\n",
        "        if False:\n",
        (MARKERS + "[two-of-our-markers-of-one-outcome-change-places-sizes0]",),
    ),
    Mutant(
        "our-retry-is-a-note",
        "a marker of ours is written once",
        "audit/walks/judge.py",
        "            elif version in seen:\n",
        "            elif False:\n",
        (PAIRS + "[our-marker-is-written-again-within-the-next-transaction]",),
    ),
    Mutant(
        "kafkas-retry-is-a-finding",
        "Kafka writes markers at least once",
        "audit/walks/align.py",
        "        if _is_again(sides, turn_at):\n",
        "        if False:\n",
        (PAIRS + "[an-abort-marker-is-written-again-twice-after-a-failover]",),
    ),
    Mutant(
        "trimmed-data-is-late",
        "a marker at the start of a trimmed log ends data that the log no longer has",
        "audit/walks/judge.py",
        '        if (turn["since_offset"] or 0) < self._context.kept_from:',
        "        if False:",
        (PAIRS + "[a-marker-at-the-start-of-a-trimmed-log-is-not-early]",),
    ),
    Mutant(
        "uncommitted-data-takes-a-decision",
        "what is not known to be committed explains nothing, and is explained by nothing",
        "audit/walks/align.py",
        '    if turn["flags"] & FLAG_UNCOMMITTED:\n        return EXTRA, 0\n',
        '    if turn["flags"] & FLAG_UNCOMMITTED:\n        return EXTRA, 500\n',
        (PAIRS + "[open-data-that-is-not-known-to-be-committed-takes-no-markers-decision]",),
    ),
    Mutant(
        "failed-append-is-a-missing-record",
        "a decision of Kafka's whose append failed came to nothing",
        "audit/walks/story.py",
        "and self._came_to_nothing(each, row, pair):\n",
        "and state is None:\n",
        (STORY + "[a-decision-whose-append-failed-came-to-nothing]",),
    ),
    Mutant(
        "order-of-copying-accused",
        "which log was copied first is not known",
        "audit/walks/judge.py",
        '        if self._fact["stopped"]:\n',
        "        if True:\n",
        (
            PAIRS + "[open-data-in-a-copy-of-a-running-broker]",
            PAIRS + "[a-marker-that-was-written-after-the-coordinators-log-was-copied]",
        ),
    ),
    Mutant(
        "later-decision-proves-nothing",
        "a marker further on that was decided later proves that one before it is missing",
        "audit/walks/pairs.py",
        "        if context.decided.get(partition, -1) > completed:\n",
        "        if False:\n",
        (MARKERS + "[a-last-marker-that-a-later-decision-of-another-producer-proves-missing-sizes0]",),
    ),
    Mutant(
        "cleaned-records-are-a-story",
        "of what compaction was at only the last record of an id counts",
        "audit/walks/story.py",
        "        if each is None or each.is_cleaned:\n",
        "        if each is None:\n",
        (STORY + "[what-two-brokers-that-cleaned-apart-left]",),
    ),
    Mutant(
        "timeout-without-grace",
        "a coordinator has until its next sweep to abort",
        "audit/walks/story.py",
        "        if own_ms > since + SWEEP_GRACE_MS or",
        "        if own_ms > since or",
        (STORY + "[a-transaction-that-the-next-sweep-may-abort]",),
    ),
    Mutant(
        "shared-producer-unseen",
        "a producer id is of one transactional id",
        "audit/walks/story.py",
        "        if owner == each.name:\n",
        "        if True:\n",
        (STORY + "[a-record-has-the-producer-id-of-another-id]",),
    ),
    Mutant(
        "ends-of-copies-not-marked",
        "behind the end of one copy of a compacted log the others may be cleaned of the marker of its data",
        "audit/walks/copies.py",
        "    flags[candidates[firsts[passed]]] |= FLAG_AFTER_END\n",
        "",
        (
            WALKS
            + "test_cleaned_copies.py::test_a_marker_behind_the_end_of_the_one_copy_with_data_may_be_gone",
        ),
    ),
    Mutant(
        "all-behind-the-first-end-unjudged",
        "before the end of the first copy of a compacted log a marker that none has is missing",
        "audit/walks/copies.py",
        "[candidates], ends)\n",
        "[candidates], [0] * len(ends))\n",
        (WALKS + "test_cleaned_copies.py::test_a_marker_that_no_copy_has_before_the_first_end_is_missing",),
    ),
    Mutant(
        "empty-logs-begin-at-none",
        "a log of which retention kept nothing begins where its copies do: what was before it is not missing",
        "audit/walks/unbroken.py",
        "            begins = [copy.first for copy in copies if not copy.is_beyond_itself]\n",
        "            begins = [0]\n",
        (WALKS + "test_copies.py::test_a_log_of_which_nothing_is_kept_begins_and_ends_where_its_copies_do",),
    ),
    Mutant(
        "empty-logs-begin-at-a-wrong-checkpoint",
        "a checkpoint that says that a log begins behind its end is wrong, and no start of the log",
        "audit/walks/unbroken.py",
        " if not copy.is_beyond_itself]\n",
        "]\n",
        (WALKS + "test_one_copy.py::test_what_is_found_in_a_copy[sizes0-a-copy-begins-beyond-its-end]",),
    ),
    Mutant(
        "times-beside-a-hole",
        "a hole in the log is where its marker is missing, if all before it are older than their decisions",
        "audit/walks/align.py",
        "        sides = sides._replace(untimely=_UNTIMELY_WHERE_SOME_ARE_GONE)\n",
        "        pass\n",
        (MARKERS + "[a-marker-is-missing-where-the-log-has-a-hole-sizes0]",),
    ),
    Mutant(
        "last-marker-by-order-alone",
        "the last marker is not of a transaction before the last, if it is younger than the last decision",
        "audit/walks/align.py",
        "_last_in_time(sides, steps) if sides.is_stopped",
        "_last_in_time(sides, steps) if False",
        (LAST_MARKER,),
    ),
    Mutant(
        "last-marker-at-any-time",
        "a marker that is older than the last decision is not that transaction's",
        "audit/walks/align.py",
        " or at_ms < decided_ms:",
        ":",
        (WALKS + "test_markers.py::test_of_equal_transactions_the_one_that_lost_its_marker_is_named",),
    ),
    Mutant(
        "index-entries-believed",
        "an entry of a transaction index is an abort in the log",
        "audit/walks/indexes.py",
        "        if turn is None or (",
        "        if turn is None:\n            return\n        if (",
        (INDEXES + "[an-index-has-an-abort-that-is-none]",),
    ),
    Mutant(
        "short-log-unnamed",
        "a coordinator's log that lost its end is one finding",
        "audit/walks/causes.py",
        '        if len({row["producer_id"] for row in rows}) < PRODUCERS_MIN:\n',
        "        if True:\n",
        (FAULTS + "[the-coordinators-log-lost-its-last-third-v2]",),
    ),
    Mutant(
        "snapshot-checksum-unread",
        "a producer snapshot with a wrong checksum is a fault",
        "audit/decode/side_files.py",
        "    if crc32c(content[_CRC_FROM:]) != crc:\n",
        "    if False:\n",
        (SIDE_FILES + "[a-wrong-checksum]",),
    ),
    Mutant(
        "control-types-unread",
        "a producer's control record is an end of a transaction",
        "audit/walks/control.py",
        "    if kind in ENDS or (kind == UNREADABLE and flags & FLAG_EMPTIED):\n",
        "    if True:\n",
        (WALKS + "test_control.py::test_a_marker_of_another_type_is_named",),
    ),
    Mutant(
        "control-bit-unread",
        "a batch of a marker's size without a sequence was a marker",
        "audit/walks/control.py",
        "        if sequence < 0 and attributes & TRANSACTIONAL and size in MARKER_SIZES:\n",
        "        if False:\n",
        (WALKS + "test_control.py::test_a_marker_without_its_control_bit_is_named",),
    ),
    Mutant(
        "coordinator-epoch-beside-decision-unread",
        "a marker's coordinator epoch is that of a leader of its transaction",
        "audit/walks/marker.py",
        "    if last is not None and epoch > last:\n",
        "    if False:\n",
        (WALKS + "test_control.py::test_a_coordinator_epoch_of_no_leader_is_named",),
    ),
    Mutant(
        "every-abort-an-operators",
        "an abort while the coordinator has a transaction open is no operator's",
        "audit/walks/marker.py",
        '    return bool(0 <= following["started_ms"] <= at_ms < following["prepared_ms"])\n',
        "    return False\n",
        (
            WALKS + "test_control.py::"
            "test_an_abort_marker_in_the_middle_of_the_next_transaction_is_no_operators",
        ),
    ),
    Mutant(
        "snapshots-of-batches-that-are-left",
        "of what the log cleaner has left, the batch that an entry names is held against it",
        "audit/walks/snapshots.py",
        "                said = _contradicts(entry) or",
        "                said =",
        (CASES + "[a-producer-snapshot-has-another-sequence-than-the-batch-a-cleaner-has-left]",),
    ),
    Mutant(
        "snapshots-of-batches-by-offset-alone",
        "a batch that ends at an entry's last offset is its producer's",
        "audit/walks/snapshots.py",
        '    if owner != entry["producer_id"]:\n',
        "    if False:\n",
        (SNAPSHOTS + "[a-batch-that-a-cleaner-has-left-is-of-another-producer-sizes0]",),
    ),
    Mutant(
        "snapshots-have-their-batches-epoch",
        "the marker that gave an entry its later epoch may be cleaned away",
        "audit/walks/snapshots.py",
        '    if entry["producer_epoch"] < epoch:\n',
        '    if entry["producer_epoch"] != epoch:\n',
        (SNAPSHOTS + "[an-epoch-is-above-that-of-a-batch-that-a-cleaner-has-left-sizes0]",),
    ),
    Mutant(
        "second-record-of-a-marker-unread",
        "a marker's batch of two records is no marker: the second record takes effect nowhere",
        "audit/walks/control.py",
        "    if kind in ENDS and offsets > 1 and not flags & FLAG_COUNT:\n",
        "    if False:\n",
        (TWO_OFFSETS + "[counted-0-v2]",),
    ),
    Mutant(
        "miscounted-marker-is-no-marker",
        "a marker whose header says an offset too many is a wrong header, and a marker",
        "audit/walks/control.py",
        "    if kind in ENDS and offsets > 1 and not flags & FLAG_COUNT:\n",
        "    if kind in ENDS and offsets > 1:\n",
        (TWO_OFFSETS + "[not-counted-0-v2]",),
    ),
)
