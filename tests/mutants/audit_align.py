"""What is broken on purpose in how markers are held against decisions where logs were compacted."""

from typing import Final

from tests.mutants.mutant import Mutant

MARKERS: Final = "tests/audit/walks/test_markers.py::test_what_is_found_of_markers"
WITHOUT_A_HOLE: Final = MARKERS + "[a-marker-is-missing-without-a-hole-sizes0]"
NOTHING_WILL_END: Final = MARKERS + "[data-that-nothing-will-end-where-both-logs-were-compacted-sizes0]"
ENDS_BEFORE: Final = MARKERS + "[a-copy-that-ends-before-a-marker-and-the-transaction-behind-it-sizes0]"
BEHIND: Final = MARKERS + "[a-leaders-clock-that-is-behind-sizes0]"
MISSING_BEHIND: Final = MARKERS + "[a-marker-is-missing-under-a-clock-that-is-behind-sizes0]"
EMPTY_BEHIND: Final = MARKERS + "[commits-without-data-of-a-client-whose-clock-is-behind-sizes0]"
WRITTEN_AGAIN: Final = "tests/audit/walks/test_written_again.py::test_"
CAUSES: Final = "tests/audit/walks/test_causes.py::"
STABLE: Final = CAUSES + "test_what_is_open_explains_the_stable_offsets_of_aborts_behind_it[hanging-orphan]"
STABLE_BIT: Final = STABLE.replace("hanging-orphan", "markers-not_transactional")
UNHEARD_OF: Final = (
    "tests/audit/walks/test_snapshots.py::test_what_is_found_in_a_producer_snapshot"
    "[a-producer-of-which-the-log-has-nothing-sizes0]"
)
LACKS_NEWEST: Final = (
    "tests/audit/walks/test_one_copy.py::test_what_is_found_in_a_copy"
    "[sizes0-a-leader-epoch-file-that-lacks-the-newest-after-a-clean-end]"
)
TWICE: Final = "tests/audit/checks/test_directories.py::test_a_partition_in_two_log_dirs_of_a_node"
NO_PRODUCER: Final = "tests/audit/walks/test_log.py::test_what_is_found_in_a_log"

AUDIT_ALIGN: Final = (
    Mutant(
        "times-say-little-where-decisions-are-gone",
        "markers older than their decisions are pairs one off where a coordinator's log is not whole",
        "audit/walks/align.py",
        '    if not sides.is_whole or any(turn["flags"] & FLAG_HOLE for turn in sides.turns):\n',
        '    if any(turn["flags"] & FLAG_HOLE for turn in sides.turns):\n',
        (WITHOUT_A_HOLE,),
    ),
    Mutant(
        "clocks-that-differ-are-pairs-one-off",
        "markers that are all older than their decisions by as much are of another clock",
        "audit/walks/clocks.py",
        "        steps = min((plain, steps, *ways), key=lambda way: _rank(sides, way))\n",
        "",
        (BEHIND,),
    ),
    Mutant(
        "clocks-that-differ-hide-a-missing-marker",
        "pairs that are one off do not agree on by how much clocks differ",
        "audit/walks/clocks.py",
        "        steps = min((plain, steps, *ways), key=lambda way: _rank(sides, way))\n",
        "        steps = plain\n",
        (MISSING_BEHIND, WITHOUT_A_HOLE),
    ),
    Mutant(
        "a-clients-clock-makes-markers-early",
        "data of a client whose clock is behind is not of the transaction before",
        "audit/walks/judge.py",
        'following["data_ms"] - ms) for ms in (0, self._clocks.data_ms)):\n',
        'following["data_ms"] - ms) for ms in (0,)):\n',
        (EMPTY_BEHIND,),
    ),
    Mutant(
        "open-data-may-be-of-before",
        "data that is open is of no transaction that a compacted coordinator's log no longer has",
        "audit/walks/align.py",
        '    if not sides.is_whole and turn["control_type"] is not None and _is_before(sides, at, turn):\n',
        "    if not sides.is_whole and _is_before(sides, at, turn):\n",
        (NOTHING_WILL_END,),
    ),
    Mutant(
        "open-data-reaches-nothing",
        "behind open data no marker is one that compaction took",
        "audit/walks/align.py",
        '    reached = 0 if before is None else (before["marker_offset"] or before["data_last"] or 0)\n',
        '    reached = 0 if before is None else (before["marker_offset"] or 0)\n',
        (NOTHING_WILL_END,),
    ),
    Mutant(
        "open-data-of-a-decision-before-it",
        "data that was written after a decision is not what that one ended",
        "audit/walks/align.py",
        '        is_later = (turn["written_ms"] or 0) > (outcome["prepared_ms"] or _NEVER_MS)\n',
        "        is_later = False\n",
        (NOTHING_WILL_END,),
    ),
    Mutant(
        "open-data-of-the-open-transaction",
        "open data that its client wrote before the open transaction began is of the one before",
        "audit/walks/align.py",
        "        return _BEFORE_IT if is_older else 0\n",
        "        return 0\n",
        (ENDS_BEFORE,),
    ),
    Mutant(
        "what-is-open-holds-nothing-back",
        "stable offsets of aborts behind open data follow from it",
        "audit/walks/causes.py",
        '    _Rule(("hanging.orphan", "markers.not_transactional"), ("integrity.index",), _holds_back),\n',
        "",
        (STABLE, STABLE_BIT),
    ),
    Mutant(
        "a-partition-in-two-log-dirs",
        "a partition in two log directories of one node is a finding",
        "audit/checks/directories.py",
        "HAVING count(*) > 1\n",
        "HAVING count(*) > 2\n",
        (TWICE + "[two-directories]",),
    ),
    Mutant(
        "a-partition-that-moved-while-it-was-copied",
        "a partition in two log directories of a broker that ran is unknown",
        "audit/checks/directories.py",
        '    "twice WHERE is_same = 0 AND stopped = 1",\n',
        '    "twice WHERE is_same = 0",\n',
        (TWICE + "[it-may-have-moved-while-they-were-copied]",),
    ),
    Mutant(
        "an-older-copy-of-a-directory",
        "one log directory that is given twice is one line, and no fault",
        "audit/checks/directories.py",
        "           CASE WHEN a.identifier = b.identifier THEN 1 ELSE 0 END AS is_same,\n",
        "           0 AS is_same,\n",
        (TWICE + "[one-directory-and-its-copy]",),
    ),
    Mutant(
        "what-follows-from-two-directories",
        "what is odd in a partition with two directories is listed below that",
        "audit/walks/causes.py",
        '    _Rule(("replicas.twice",), _OF_A_LOG, alike.same("topic", "partition")),\n',
        "",
        (CAUSES + "test_a_partition_in_two_directories_explains_what_is_odd_in_it",),
    ),
    Mutant(
        "a-directory-of-another-nodes",
        "a directory that says another node makes that one have partitions twice: one finding",
        "audit/walks/causes.py",
        '    _Rule(("integrity.node",), ("replicas.twice",), alike.same("node")),\n',
        "",
        (CAUSES + "test_partitions_in_the_same_two_directories_are_one_finding",),
    ),
    Mutant(
        "epochs-of-what-does-not-belong-there",
        "a batch that does not belong there is not in the file of leader epochs: one finding",
        "audit/walks/alike.py",
        "    _by_epochs(findings)\n",
        "",
        (CAUSES + "test_a_batch_that_does_not_belong_there_is_in_no_file_of_epochs",),
    ),
    Mutant(
        "records-at-any-offset",
        "records have the offsets of their batch, each once",
        "audit/decode/opened.py",
        "        if not least <= each.offset <= max(last, least):\n",
        "        if False:\n",
        ("tests/audit/decode/test_deep.py::test_records_with_offsets_that_their_batch_has_not_are_a_fault",),
    ),
    Mutant(
        "a-batch-of-the-epoch-before",
        "a gap at the begin of an epoch follows from its first batch having another one",
        "audit/walks/causes.py",
        '    _Rule(("markers.late",), ("sequences.gap",), _begins_later),\n',
        "",
        (CAUSES + "test_a_batch_of_the_epoch_before_explains_that_its_own_begins_later",),
    ),
    Mutant(
        "a-transaction-of-another-producer",
        "a marker of another producer is the one that is missing there, its data or none before it",
        "audit/walks/causes.py",
        '    first = data if data is not None and data < cause["offset"] else since',
        "    first = data",
        (CAUSES + "test_a_marker_of_another_producer_explains_the_one_that_is_missing_there",),
    ),
    Mutant(
        "a-file-of-another-log",
        "all that a file beside a log says of another log is one finding",
        "audit/walks/causes.py",
        "    alike.join_files(findings)\n",
        "",
        (CAUSES + "test_a_file_that_says_several_things_is_one_finding",),
    ),
    Mutant(
        "a-producer-of-another-log",
        "a snapshot names a last offset of a producer of which its log has nothing",
        "audit/walks/snapshots.py",
        "_contradicts(entry) or self._unheard_of(entry)\n",
        "_contradicts(entry)\n",
        (UNHEARD_OF,),
    ),
    Mutant(
        "epochs-of-another-log",
        "after a clean end no leader epoch is missing in its file",
        "audit/walks/copy.py",
        " & (not facts.is_clean)\n",
        "\n",
        (LACKS_NEWEST,),
    ),
    Mutant(
        "transactions-without-a-producer",
        "data without a producer id is in no transaction",
        "audit/walks/log.py",
        "        self._of_none(rows, columns)\n",
        "",
        (NO_PRODUCER + "[data-of-no-producer-that-is-marked-as-transactional]",),
    ),
    Mutant(
        "what-is-open-holds-back-what-was-before",
        "an abort before open data has its own stable offset",
        "audit/walks/causes.py",
        '    is_behind = (row["offset"] or -1) > cause["offset"]\n',
        "    is_behind = True\n",
        (STABLE,),
    ),
    Mutant(
        "each-unread-copy-by-itself",
        "what no copy can read at one offset is one finding",
        "audit/walks/alike.py",
        "    _by_offset(findings)\n",
        "",
        (CAUSES + "test_what_no_copy_can_read_at_one_offset_is_one_finding",),
    ),
    Mutant(
        "all-unread-bytes-as-one",
        "bytes that cannot be read at two offsets are two findings",
        "audit/walks/alike.py",
        'first.setdefault((row["topic"], row["partition"], row["offset"]), row)',
        'first.setdefault((row["topic"], row["partition"]), row)',
        (CAUSES + "test_what_no_copy_can_read_at_one_offset_is_one_finding",),
    ),
    Mutant(
        "leader-epochs-behind-a-hole-by-themselves",
        "a batch whose offset is too high is where no leader epoch is said to begin",
        "audit/walks/causes.py",
        '    _Rule(("offsets.hole",), ("integrity.leader_epochs",), _behind_hole),\n',
        "",
        (CAUSES + "test_a_batch_too_far_ahead_is_where_its_leader_epoch_does_not_begin",),
    ),
    Mutant(
        "a-marker-of-another-coordinators-epoch-by-itself",
        "a marker given to another producer is one finding, also where its coordinator's epoch alone is odd",
        "audit/walks/causes.py",
        '    _Rule(("markers.missing",), ("epochs.coordinator",), _is_ended_by),\n',
        "",
        (CAUSES + "test_a_marker_of_another_producer_may_be_odd_for_its_coordinators_epoch_alone",),
    ),
    Mutant(
        "a-coordinators-epoch-explained-by-its-own-producer",
        "a marker of its own producer in another partition has a coordinator's epoch of its own",
        "audit/walks/causes.py",
        'bool(cause["producer_id"] != row["producer_id"]) and _ends_it(row, cause)',
        "_ends_it(row, cause)",
        (CAUSES + "test_a_marker_of_another_producer_may_be_odd_for_its_coordinators_epoch_alone",),
    ),
    Mutant(
        "a-transaction-of-another-producer-as-two",
        "a transaction given to another producer is one finding, whichever marker seems to be missing",
        "audit/walks/alike.py",
        "    _by_transaction(findings)\n",
        "",
        (CAUSES + "test_a_transaction_of_another_producer_lacks_its_data_and_its_marker",),
    ),
    Mutant(
        "a-transaction-of-another-producer-anywhere",
        "it lies where the data is missing",
        "audit/walks/alike.py",
        " and is_between(end, gap):\n                row",
        ":\n                row",
        (CAUSES + "test_a_transaction_of_another_producer_lacks_its_data_and_its_marker",),
    ),
    Mutant(
        "a-misnamed-file-as-two",
        "a file of another name is one finding, also where it is the last one",
        "audit/walks/causes.py",
        '    _Rule(("integrity.unreadable",), ("replicas.short",), alike.same("path")),\n',
        "",
        (CAUSES + "test_a_file_of_another_name_ends_below_what_its_broker_had_committed",),
    ),
    Mutant(
        "an-entry-of-a-moved-marker-by-itself",
        "a marker that is in another partition is one finding, its index entry there included",
        "audit/walks/causes.py",
        '    _Rule(("markers.missing",), ("integrity.index",), _elsewhere),\n',
        "",
        (CAUSES + "test_a_marker_in_another_partition_has_its_entry_there",),
    ),
    Mutant(
        "a-marker-far-from-its-decision-as-good",
        "of two ways to pair the one counts whose markers are nearer to what is usual",
        "audit/walks/clocks.py",
        ", sum(min(each, SKEW_MS) for each in apart)\n",
        ", 0\n",
        ("tests/audit/walks/test_pairs.py::test_the_marker_that_fits_its_decision_best_is_the_last_ones",),
    ),
    Mutant(
        "the-time-of-a-batch-that-cannot-be-read",
        "a batch with a wrong checksum says no time",
        "audit/walks/unbroken.py",
        " & is_sound, times, -1)",
        ", times, -1)",
        ("tests/audit/walks/test_one_copy.py::test_a_batch_with_a_wrong_checksum_says_no_time",),
    ),
    Mutant(
        "a-marker-that-was-written-again-as-a-decisions",
        "where the first transactions are free, pairs that are one off up to a repeated marker are not right",
        "audit/walks/clocks.py",
        "    if one_off or any(",
        "    if any(",
        (WRITTEN_AGAIN + "data_of_an_older_time_behind_a_marker_that_was_written_again[500]",),
    ),
    Mutant(
        "a-way-that-is-nearer-is-not-looked-for",
        "where pairs may be one off, the way is looked for whose markers are nearest to their decisions",
        "audit/walks/align.py",
        "    if not sides.by_nearness:\n",
        "    if True:\n",
        (WRITTEN_AGAIN + "data_of_an_older_time_behind_a_marker_that_was_written_again[500]",),
    ),
    Mutant(
        "audit-two-files-of-each-others-name-are-two-findings",
        "what is missing where one file begins stands under the name of the next one",
        "audit/walks/causes.py",
        '    _Rule(("integrity.unreadable",), ("offsets.hole",), _is_anothers_file),\n',
        "",
        (CAUSES + "test_two_files_that_have_each_others_name_are_one_finding",),
    ),
    Mutant(
        "audit-any-unreadable-batch-is-a-file-of-anothers-name",
        "only a file of which nothing can be read may be another's",
        "audit/walks/causes.py",
        'cause["position"] == 0 and row["position"] == 0',
        "True",
        (CAUSES + "test_two_files_that_have_each_others_name_are_one_finding",),
    ),
)
