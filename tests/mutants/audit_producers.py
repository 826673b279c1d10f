"""What is broken on purpose in how the audit follows one producer, and its transactional id."""

from typing import Final

from tests.mutants.mutant import Mutant

LOG: Final = "audit/walks/log.py"
PRODUCER: Final = "audit/walks/producer.py"
STORY: Final = "audit/walks/story.py"
CONTROL: Final = "audit/walks/control.py"
BITS: Final = "tests/audit/walks/test_control.py::"
NO_EPOCH: Final = "tests/audit/walks/test_no_epoch.py::"
NAMED: Final = NO_EPOCH + "test_what_is_found_of_data_without_an_epoch"
SNAPSHOTS: Final = "tests/audit/walks/test_snapshots.py::test_what_is_found_in_a_producer_snapshot"
CUT: Final = "tests/audit/walks/test_cut_coordinators.py::"
LATER: Final = CUT + "test_an_abort_whose_data_was_written_later_is_behind_the_end"
STORIES: Final = "tests/audit/walks/test_story.py::test_what_is_found_in_a_coordinators_log"

AUDIT_PRODUCERS: Final = (
    Mutant(
        "audit-data-without-an-epoch-is-a-zombie",
        "data without an epoch is of its producer's current one",
        LOG,
        "        elif 0 <= epoch < producer.epoch:\n",
        "        elif epoch < producer.epoch:\n",
        (NAMED + "[a-batch-between-two-of-its-producer]",),
    ),
    Mutant(
        "audit-data-without-an-epoch-is-passed-over",
        "data of a producer without an epoch is a finding",
        LOG,
        "        if epoch < 0 and not flags & FLAG_UNCOMMITTED:\n",
        "        if epoch is None:\n",
        (NAMED + "[the-only-batch-of-its-producer]",),
    ),
    Mutant(
        "audit-next-epoch-begins-behind-its-first-batch",
        "data without an epoch is of the next one, if that goes on where it ended",
        LOG,
        "        if producer.is_of(epoch, sequence):\n",
        "        if producer is None:\n",
        (NAMED + "[the-first-batch-of-the-next-epoch]", NAMED + "[the-first-batch-of-its-producer]"),
    ),
    Mutant(
        "audit-epoch-that-no-batch-says-is-late",
        "where no batch says an epoch, data of a higher one is not late",
        LOG,
        "bool(producer.batches) and not producer.is_assumed and not",
        "bool(producer.batches) and not",
        (NO_EPOCH + "test_no_marker_is_missing_where_the_first_batch_may_begin_the_epoch",),
    ),
    Mutant(
        "audit-sequence-behind-a-marker-is-sure",
        "where no batch said an epoch, its marker does not say where the sequence goes on",
        PRODUCER,
        "            if is_unsure:",
        "            if self is None:",
        (NAMED + "[the-only-batch-of-the-next-epoch]",),
    ),
    Mutant(
        "audit-broker-knows-markers-that-are-gone",
        "a broker that was started again knows no marker that its log does not have",
        "audit/walks/snapshots.py",
        "if led == _NONE and last.marker_offset",
        "if led is None and last.marker_offset",
        (SNAPSHOTS + "[a-broker-that-started-again-behind-the-last-marker-sizes0]",),
    ),
    Mutant(
        "audit-snapshot-without-coordinator-epoch",
        "a snapshot has the coordinator epoch of a marker that its log has",
        "audit/walks/snapshots.py",
        'last.marker_offset < (entry["copy_first"] or 0)',
        "last.marker_offset < entry['at']",
        (SNAPSHOTS + "[no-coordinator-epoch-where-the-last-marker-is-kept-sizes0]",),
    ),
    Mutant(
        "audit-failed-abort-is-a-missing-record",
        "an abort of Kafka's whose append failed came to nothing, if its client committed",
        STORY,
        ' or (row["state"] == "PrepareCommit" and is_same)\n',
        "\n",
        (STORIES + "[an-abort-whose-append-failed-came-to-nothing]",),
    ),
    Mutant(
        "audit-commit-of-the-next-transaction-follows-an-abort",
        "a commit of another transaction does not follow from an abort",
        STORY,
        ' or (row["state"] == "PrepareCommit" and is_same)\n',
        ' or row["state"] == "PrepareCommit"\n',
        (STORIES + "[that-an-abort-was-carried-out-is-missing-before-the-next-transactions-commit]",),
    ),
    Mutant(
        "audit-begin-tried-again-goes-on",
        "a begin that was tried again in Kafka has a start of its own, and is no second record of the first",
        STORY,
        '        goes_on = before == _ONGOING and row["started_ms"] == each.row["started_ms"]\n',
        "        goes_on = before == _ONGOING\n",
        (STORIES + "[a-begin-that-was-tried-again-came-to-nothing-twice]",),
    ),
    Mutant(
        "audit-copied-log-tells-all",
        "a marker behind the end of a coordinator's log that was copied while it ran is no older decision's",
        "audit/walks/align.py",
        "if at == len(sides.outcomes) and _is_behind_the_end(sides, turn):",
        "if at > len(sides.outcomes):",
        (
            "tests/audit/walks/test_copied_running.py::test_a_marker_behind_its_end_is_not_of_an_older_decision",
        ),
    ),
    Mutant(
        "audit-second-decision-is-of-another-epoch",
        "a decision in place of one that came to nothing is of the same transaction",
        STORY,
        "        each.open, each.outcome = each.row | began, None\n",
        "        each.open, each.outcome = each.row, None\n",
        ("tests/audit/walks/test_story.py::test_an_outcome_is_known_from_what_is_left",),
    ),
    Mutant(
        "audit-data-is-older-than-it-can-be",
        "what was written after the last decision is of a later transaction",
        "audit/walks/align.py",
        "        steps = _before_later_data(sides, steps)\n",
        "        pass\n",
        (LATER + "[0]", LATER + "[2000]"),
    ),
    Mutant(
        "audit-marker-before-its-decision",
        "a marker is no earlier than the decision that it is given in place of another",
        "audit/walks/align.py",
        "if not is_no_earlier or not is_written",
        "if not is_written",
        (CUT + "test_an_abort_before_it_is_not_the_decisions[the-marker-before-it-is-too-early]",),
    ),
    Mutant(
        "audit-transactional-bit-of-a-marker-unread",
        "a marker has the transactional bit",
        CONTROL,
        "        if not attributes & TRANSACTIONAL:\n",
        "        if False:\n",
        (BITS + "test_a_marker_without_its_transactional_bit_is_named",),
    ),
    Mutant(
        "audit-marker-without-its-bit-says-no-outcome",
        "a marker without the transactional bit ends what it says",
        CONTROL,
        '("sequence", "transactional_bit")',
        '("sequence",)',
        (BITS + "test_a_marker_of_the_wrong_outcome_without_its_transactional_bit_is_one_finding",),
    ),
    Mutant(
        "audit-any-data-is-later",
        "data that may have been written before the decision is not later",
        "audit/walks/align.py",
        "written_ms - late_ms > decided_ms + SKEW_MS",
        "True",
        (CUT + "test_an_abort_before_it_is_not_the_decisions[its-data-may-have-been-written-before]",),
    ),
    Mutant(
        "audit-ways-of-data-that-is-later-are-alike",
        "of two ways that are as good the one without data from after its decision",
        "audit/walks/clocks.py",
        "_apart(usual) != 0, later, ",
        "_apart(usual) != 0, 0, ",
        (LATER + "[2000]",),
    ),
)
