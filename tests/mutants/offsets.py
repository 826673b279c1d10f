"""Mutants of offsets: commits, fetches, transactions and what their ends do."""

from typing import Final

from tests.mutants.mutant import Mutant

TABLES: Final = "controller/groups/offset_tables.py"
OFFSETS: Final = "controller/groups/offsets.py"
IN_TRANSACTIONS: Final = "controller/transactions/commit_offsets.py"
TEST: Final = "tests/controller/groups/test_offsets.py::"
LAWS: Final = "tests/controller/groups/test_offset_laws.py::"
STORM: Final = "tests/simulation/test_offset_storms.py::test_leaders_die_at_every_step_of_a_transaction"
SERVER: Final = "tests/coordinator/test_offset_server.py::"
EXPIRY: Final = "tests/controller/groups/test_offset_expiry.py::"
DELETION: Final = "tests/controller/groups/test_offset_deletion.py::"
TEST_IN: Final = "tests/controller/transactions/test_commit_offsets.py::"

OFFSET_MUTANTS: Final = (
    Mutant(
        "offset-control-applied-twice",
        "a control record finds only what is pending since the one before",
        TABLES,
        "        view.delete(PENDING, (marker.producer_id, key))\n        _no_more_waiting",
        "        _no_more_waiting",
        (LAWS + "test_kafkas_rules_on_the_archive_give_the_live_offsets",),
    ),
    Mutant(
        "offset-open-transaction-kept",
        "what a transaction committed is forgotten at its end",
        TABLES,
        "    view.delete(OPEN, marker.producer_id)\n",
        "",
        (LAWS + "test_indexes_follow_the_rows",),
    ),
    Mutant(
        "offset-plain-commit-overtaken",
        "a plain commit between a transactional one and its end wins",
        TABLES,
        "later = row if row.record_offset > before.record_offset else before",
        "later = row",
        (
            TEST_IN + "test_a_plain_commit_between_wins_and_stays_won",
            LAWS + "test_kafkas_rules_on_the_archive_give_the_live_offsets",
        ),
    ),
    Mutant(
        "offset-abort-applies",
        "an abort drops a transaction's offsets",
        TABLES,
        "        if marker.committed:\n",
        "        if marker:\n",
        (TEST_IN + "test_the_decision_that_ends_it_moves_its_offsets", STORM),
    ),
    Mutant(
        "offset-tombstone-leaves-pending",
        "a tombstone removes what is pending, too",
        TABLES,
        "        view.delete(PENDING, (producer_id, key))\n        pending -= 1",
        "        pending -= 1",
        (LAWS + "test_kafkas_rules_on_the_archive_give_the_live_offsets",),
    ),
    Mutant(
        "offset-of-another-topic-id",
        "an offset of a topic that was deleted is not read for the one created since",
        OFFSETS,
        "    return row.topic_id in (topic_id, NO_TOPIC_ID)",
        "    return True",
        (TEST + "test_an_offset_of_another_topic_id_is_none",),
    ),
    Mutant(
        "offset-commit-without-identity-check",
        "OffsetCommit checks who commits",
        OFFSETS,
        "            require_committer(view, request.group_id, group, request.identity, transactional=False)",
        "            pass",
        (TEST + "test_who_may_commit",),
    ),
    Mutant(
        "txn-offset-commit-without-identity-check",
        "TxnOffsetCommit checks who commits",
        IN_TRANSACTIONS,
        "            require_committer(view, request.group_id, group, request.identity, transactional=True)",
        "            pass",
        (TEST_IN + "test_who_may_commit",),
    ),
    Mutant(
        "txn-offset-commit-over-an-owner",
        "a producer without a generation does not commit over one that presented it",
        IN_TRANSACTIONS,
        "        if row.is_identified or rules.refuses_all_without_identity:",
        "        if rules.refuses_all_without_identity:",
        (TEST_IN + "test_a_producer_without_identity_does_not_commit_over_an_owner",),
    ),
    Mutant(
        "offset-owner-hidden-by-a-plain-commit",
        "a plain commit keeps the producer that committed the offset before",
        TABLES,
        "    if row.committer == NO_PRODUCER or (",
        "    if (",
        (TEST_IN + "test_a_plain_commit_does_not_hide_the_owner",),
    ),
    Mutant(
        "txn-offset-commit-unchecked-transaction",
        "TxnOffsetCommit needs the producer's open transaction",
        IN_TRANSACTIONS,
        "    adding = _added_offsets(view, request, now_ms)\n",
        "    adding = ()\n",
        (TEST_IN + "test_what_is_wrong_with_the_transaction_is_said_first",),
    ),
    Mutant(
        "end-without-offsets",
        "PrepareCommit and PrepareAbort move the offsets in the same entry",
        "controller/transactions/ending.py",
        "    return record_of(row), marker",
        "    return (record_of(row),)",
        (TEST_IN + "test_the_decision_that_ends_it_moves_its_offsets",),
    ),
    Mutant(
        "timeout-without-offsets",
        "a timeout drops the transaction's offsets in the same entry",
        "controller/transactions/expiry.py",
        "records_of_end(view, aborting), cost_of_end",
        "records_of_end(view, aborting)[:1], cost_of_end",
        (TEST_IN + "test_the_decision_that_ends_it_moves_its_offsets",),
    ),
    Mutant(
        "fencing-without-offsets",
        "InitProducerId drops the offsets of the transaction that it aborts",
        "controller/transactions/init_producer_id.py",
        "        return Decision(records_of_end(view, aborting), come_back",
        "        return Decision(records_of_end(view, aborting)[:1], come_back",
        (TEST_IN + "test_the_decision_that_ends_it_moves_its_offsets", STORM),
    ),
    Mutant(
        "marker-for-the-group-log",
        "no marker is sent for offsets: they moved with the decision",
        "controller/transactions/markers.py",
        "        with_markers(row.partitions),",
        "        row.partitions,",
        (TEST_IN + "test_add_offsets_holds_the_group_log_and_no_marker_is_sent_for_it",),
    ),
    Mutant(
        "offset-fetch-without-a-barrier",
        "what OffsetFetch says of offsets and transactions rides on an entry: a deposed leader says nothing",
        "coordinator/groups/offset_server.py",
        "Fetch(request, self._rules, self._submit, ",
        "Fetch(request, self._rules, "
        "lambda decide, reply, **_: reply(decide(self._requests.image(), 0).response, 0), ",
        (SERVER + "test_a_deposed_leader_answers_nothing_from_its_image[OffsetFetch]",),
    ),
    Mutant(
        "txn-offset-commit-not-parked",
        "a TxnOffsetCommit that meets the end of the transaction before waits for it",
        "coordinator/groups/offset_server.py",
        "        self._requests.begin(request.transactional_id, decide, Then(committed, reply), PARK_S_MAX)",
        "        self._submit(decide, self._errors.before(Then(committed, reply)))",
        (SERVER + "test_a_commit_that_collides_with_the_end_before_is_parked",),
    ),
    Mutant(
        "offset-expiry-by-its-own-clock",
        "a clock that jumps forward expires no offset",
        "controller/groups/offset_expiry.py",
        "    return retention.idle().holds(max(0, since_ms))",
        "    return since_ms <= retention.now_ms - retention.idle_ms",
        (EXPIRY + "test_whose_clock_counts",),
    ),
    Mutant(
        "offset-expiry-while-subscribed",
        "offsets of topics that members read do not expire",
        "controller/groups/offset_expiry.py",
        "GroupState.STABLE or is_subscribed(view, key[0], group, key[1]):",
        "GroupState.STABLE:",
        (EXPIRY + "test_when_an_offset_expires",),
    ),
    Mutant(
        "offset-delete-while-subscribed",
        "OffsetDelete leaves offsets of topics that members read",
        "controller/groups/offset_deletion.py",
        "        if is_subscribed(view, request.group_id, group, topic):",
        "        if False:",
        (DELETION + "test_which_offsets_are_deleted",),
    ),
    Mutant(
        "group-deleted-with-members",
        "a group with members is not deleted",
        "controller/groups/offset_deletion.py",
        '    if group.state is not GroupState.EMPTY:\n        raise NonEmptyGroup(f"group {group_id!r} has',
        '    if False:\n        raise NonEmptyGroup(f"group {group_id!r} has',
        (DELETION + "test_which_groups_are_deleted[with-members]",),
    ),
    Mutant(
        "offset-fetch-unstable-as-committed",
        "with require_stable a pending offset is waited for",
        OFFSETS,
        "    if unstable and is_unstable(view, key):",
        "    if False:",
        (TEST + "test_while_a_transaction_has_an_offset[require-stable]",),
    ),
)
