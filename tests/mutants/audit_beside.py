"""What is broken on purpose in the audit's checks of directories, files beside a log, and ends."""

from typing import Final

from tests.mutants.mutant import Mutant

WALKS: Final = "tests/audit/walks/"
CASES: Final = "tests/audit/checks/test_cases.py::test_one_fault_is_one_finding"
DIRECTORIES: Final = "tests/audit/checks/test_directories.py::test_what_a_directory_says_of_itself"
MISSING: Final = "tests/audit/checks/test_directories.py::test_which_copies_are_missing"
SNAPSHOTS: Final = WALKS + "test_snapshots.py::test_what_is_found_in_a_producer_snapshot"
ONE_COPY: Final = WALKS + "test_one_copy.py::test_what_is_found_in_a_copy"
MARKERS: Final = WALKS + "test_markers.py::test_what_is_found_of_markers"
LOG: Final = WALKS + "test_log.py::test_what_is_found_in_a_log"
FAULTS: Final = WALKS + "test_faults.py::"
STORY: Final = WALKS + "test_story.py::test_what_is_found_in_a_coordinators_log"
COPIES: Final = WALKS + "test_copies.py::test_what_is_found_in_the_copies_of_a_log"
FORGOTTEN: Final = (
    WALKS + "test_control.py::test_an_id_that_is_forgotten_while_its_transaction_is_open_is_named"
)
MISPLACED: Final = WALKS + "test_misplaced.py::test_a_record_in_another_partition_says_nothing_else"

AUDIT_BESIDE: Final = (
    Mutant(
        "epoch-ahead-unasked",
        "data of an epoch that its transactional id never had is a finding",
        "audit/checks/judged.py",
        "c.producer_epoch > p.last_epoch",
        "c.producer_epoch > p.last_epoch + 9",
        (CASES + "[data-of-an-epoch-that-was-never-given]",),
    ),
    Mutant(
        "epochs-ahead-of-a-short-log",
        "epochs that a coordinator's log which lost its end does not tell of are its one finding",
        "audit/checks/judged.py",
        "    cause=f\"'{AFTER_COORDINATOR}' || CAST(decided_by AS STRING)\",\n",
        "",
        (CASES + "[two-producers-have-epochs-that-the-coordinators-log-never-gave]",),
    ),
    Mutant(
        "forgotten-while-open",
        "a coordinator forgets an id only after its last transaction has ended",
        "audit/walks/story.py",
        "        if each.state == _ONGOING or each.outcome is not None:\n",
        "        if False:\n",
        (FORGOTTEN + "[v1]", FORGOTTEN + "[v2]"),
    ),
    Mutant(
        "misplaced-unasked",
        "a coordinator's record in a partition that is not its id's says nothing",
        "audit/walks/story.py",
        '        if due == self._where["partition"] or count == 1:\n',
        "        if True:\n",
        (MISPLACED,),
    ),
    Mutant(
        "topic-id-unasked",
        "partition.metadata names the topic of its directory",
        "audit/checks/directories.py",
        "    ANTI JOIN topic_ids t ON t.name = d.topic AND t.topic_id = d.identifier\n",
        "    ANTI JOIN topic_ids t ON t.name = d.topic\n",
        (DIRECTORIES + "[a-directory-of-another-topic-findings2-unknown2]",),
    ),
    Mutant(
        "topic-id-forgotten",
        "an id that the metadata log may have forgotten is unknown",
        "audit/checks/directories.py",
        "CASE WHEN o.name IS NOT NULL OR w.many > 0 THEN 1",
        "CASE WHEN TRUE THEN 1",
        (DIRECTORIES + "[a-directory-of-an-id-that-the-metadata-log-may-have-forgotten-findings4-unknown4]",),
    ),
    Mutant(
        "node-unasked",
        "a directory is of the node that registered it",
        "audit/checks/directories.py",
        "     AND s.broker_id = d.broker_id\n",
        "",
        (DIRECTORIES + "[a-node-that-another-one-registered-findings8-unknown8]",),
    ),
    Mutant(
        "missing-copy-unsaid",
        "a node that was given and lacks its copy is named",
        "audit/checks/judged.py",
        "WHERE given = 1 AND lacks = 1\n",
        "WHERE given = 2 AND lacks = 1\n",
        (MISSING + "[a-replicas-directory-is-not-there-expected1]",),
    ),
    Mutant(
        "node-not-given-is-missing",
        "of a node that was not given nothing is missing",
        "audit/checks/judged.py",
        "WHERE given = 1 AND lacks = 1\n",
        "WHERE lacks = 1\n",
        (MISSING + "[a-replicas-node-was-not-given-expected3]",),
    ),
    Mutant(
        "not-given-unsaid",
        "partitions all of whose replicas are elsewhere are counted",
        "audit/checks/judged.py",
        "HAVING max(given) = 0\n",
        "HAVING max(given) = 2\n",
        (MISSING + "[no-replicas-node-was-given-expected4]",),
    ),
    Mutant(
        "beyond-end-unasked",
        "an offset that took effect lies within its partition",
        "audit/checks/groups.py",
        "s.committed_offset > e.log_end\n",
        "s.committed_offset > e.log_end + 99\n",
        (CASES + "[a-transaction-commits-an-offset-beyond-the-end]",),
    ),
    Mutant(
        "beyond-end-of-an-aborted-one",
        "an offset that took no effect may lie anywhere",
        "audit/checks/groups.py",
        "        WHERE s.outcome = 'committed'\n    ) AS numbered WHERE turn = 1\n",
        "    ) AS numbered WHERE turn = 1\n",
        (CASES + "[an-offset-beyond-the-end-that-never-took-effect]",),
    ),
    Mutant(
        "snapshot-sequence-unasked",
        "a producer snapshot has the sequence of the log",
        "audit/walks/snapshots.py",
        '        if entry["last_offset"] == last.data_last >= 0 and sequence != last.sequence:\n',
        "        if False:\n",
        (SNAPSHOTS + "[a-sequence-is-another-sizes0]",),
    ),
    Mutant(
        "snapshot-forgets-anyone",
        "a broker forgets the producer first that wrote longest ago",
        "audit/walks/snapshots.py",
        "            if is_missing and last.timestamp_ms > oldest_ms:\n",
        "            if is_missing:\n",
        (SNAPSHOTS + "[the-producer-that-wrote-longest-ago-is-not-in-it-sizes0]",),
    ),
    Mutant(
        "snapshot-lacks-no-one",
        "a producer that a snapshot lacks, and an older one that it has, are a finding",
        "audit/walks/snapshots.py",
        "            if is_missing and last.timestamp_ms > oldest_ms:\n",
        "            if False:\n",
        (SNAPSHOTS + "[a-producer-is-not-in-it-sizes0]",),
    ),
    Mutant(
        "first-batch-unmissed",
        "a log begins with the offset that its first file is named by",
        "audit/walks/unbroken.py",
        "                self._end = min(self._end, self._earliest_start)\n",
        "                pass\n",
        (ONE_COPY + "[sizes0-the-first-batch-of-a-log-is-gone]",),
    ),
    Mutant(
        "epoch-file-may-begin-late",
        "a leader-epoch-checkpoint begins where its log does",
        "audit/walks/copy.py",
        "    differs |= (epoch >= 0) & is_before\n",
        "",
        (ONE_COPY + "[sizes0-a-leader-epoch-file-that-begins-behind-the-log]",),
    ),
    Mutant(
        "epoch-file-of-a-running-broker",
        "a file that a deletion of records cut before its checkpoint was written is unknown",
        "audit/walks/differing.py",
        "is_before_epochs(row, log) and not log.copies[row.copy].is_clean",
        "False",
        (ONE_COPY + "[sizes0-a-leader-epoch-file-that-begins-behind-the-log-of-a-broker-that-ran]",),
    ),
    Mutant(
        "first-sequence-of-any-number",
        "a producer's first batch in a log that is kept whole has sequence 0",
        "audit/walks/log.py",
        "            self._begins_at = 0\n",
        "            pass\n",
        (LOG + "[a-producers-first-batch-of-a-whole-log-does-not-begin-at-0]",),
    ),
    Mutant(
        "all-before-the-first-outcome",
        "of an epoch above the first that a compacted coordinator's log tells of, all is told",
        "audit/walks/align.py",
        "    return bool(epoch == sides.first_epoch) and not is_known\n",
        "    return True\n",
        (MARKERS + "[a-marker-of-an-epoch-that-the-coordinator-had-for-another-partition-sizes0]",),
    ),
    Mutant(
        "lost-end-explains-all",
        "what later markers show that the coordinator would know is no lost end",
        "audit/walks/pairs.py",
        "is not None and context.is_covered(row):",
        "is not None and False:",
        (FAULTS + "test_what_later_markers_show_that_the_coordinator_would_know_is_not_its_lost_end",),
    ),
    Mutant(
        "marker-of-any-epoch",
        "data that a marker of another epoch ends is that of its own epoch's outcome",
        "audit/walks/align.py",
        'is_odd = outcome["is_v2"]',
        'is_odd = False and outcome["is_v2"]',
        (FAULTS + "test_a_fault_is_one_finding[the-epoch-of-a-marker-is-that-of-the-one-before-v2]",),
    ),
    Mutant(
        "forgotten-id-with-its-producer",
        "an id that was forgotten gets another producer id",
        "audit/walks/story.py",
        "        if each.pair is None and each.left is not None and pair <= each.left:\n",
        "        if False:\n",
        (STORY + "[a-forgotten-id-comes-back-with-the-producer-id-that-it-had]",),
    ),
    Mutant(
        "cleaned-without-metadata",
        "a log cleaner's own list says which logs are compacted",
        "audit/walks/facts.py",
        'if item in ("compacted", "cleaned"):',
        'if item == "compacted":',
        (COPIES + "[a-log-cleaner-was-there-and-no-metadata-says-that-the-topic-is-compacted]",),
    ),
    Mutant(
        "every-abort-without-a-transaction-an-operators",
        "an abort while the coordinator aborted a transaction of its producer elsewhere is of that one",
        "audit/checks/judged.py",
        "WHERE w.kind = 'note' AND w.rule = 'operator'",
        "WHERE w.kind = 'note' AND w.rule = 'none'",
        (CASES + "[an-abort-in-a-partition-that-the-transaction-aborted-then-does-not-have]",),
    ),
    Mutant(
        "operators-of-the-next-epoch",
        "an operator's abort has the epoch of the data that it ends",
        "audit/walks/align.py",
        ' and turn["producer_epoch"] == turn["data_epoch"]:\n',
        ":\n",
        (MARKERS + "[an-abort-of-the-next-epoch-is-no-operators-sizes0]",),
    ),
    Mutant(
        "first-marker-of-any-outcome",
        "where a log begins with a marker, what it ended may be deleted, and its outcome is judged",
        "audit/walks/align.py",
        "_WRONG_ALONE if is_alone",
        "_COST[WRONG] if is_alone",
        (MARKERS + "[the-first-marker-of-a-trimmed-log-is-of-the-other-outcome-sizes0]",),
    ),
    Mutant(
        "two-epochs-before-one-marker",
        "data of a later epoch comes after the marker of the data before it",
        "audit/walks/log.py",
        "                producer.late = base if producer.late is None else producer.late\n",
        "                pass\n",
        (MARKERS + "[a-marker-of-v2-stands-behind-data-of-the-next-transaction-sizes0]",),
    ),
    Mutant(
        "any-last-stable-offset",
        "a last stable offset that is too low ends a reader's search for aborts",
        "audit/walks/indexes.py",
        "        return bool(said < meant and (first == 0 or said >= first))\n",
        "        return False\n",
        (
            WALKS + "test_indexes.py::test_what_is_found_in_the_files_beside_a_log"
            "[a-last-stable-offset-is-too-low]",
        ),
    ),
    Mutant(
        "prepared-with-any-epoch",
        "a transaction is prepared with its own epoch or the next",
        "audit/walks/story.py",
        "        if self._is_of_another_epoch(each, row):\n",
        "        if False:\n",
        (STORY + "[a-transaction-is-prepared-with-an-epoch-two-above]",),
    ),
    Mutant(
        "stray-markers-beside-missing-ones",
        "a marker that is missing may be there with another producer's id",
        "audit/walks/causes.py",
        '    _Rule(("markers.without_transaction", "markers.double"), ("markers.missing",), _ends_it),\n',
        "",
        (WALKS + "test_causes.py::test_a_marker_that_is_missing_may_be_there_as_another_producers",),
    ),
)
