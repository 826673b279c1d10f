"""Mutants of what keeps one request's failure, and one request's size, from the others."""

from typing import Final

from tests.mutants.mutant import Mutant

QUARANTINED: Final = "tests/quorum/test_quarantine.py::"
WIRE_ISOLATED: Final = "tests/wire/test_isolation.py::"
ISOLATED: Final = "tests/quorum/test_isolation.py::"

ISOLATION: Final = (
    Mutant(
        "violation-halts",
        "a decision that breaks an invariant harms its own request",
        "quorum/draft.py",
        "        except Exception as error:  # noqa: BLE001 - around one request's decision\n"
        "            self._violated(request, error)\n",
        "        except ZeroDivisionError as error:\n            self._violated(request, error)\n",
        (
            ISOLATED + "test_a_decision_that_fails_harms_its_own_request[InvariantViolation]",
            ISOLATED + "test_the_first_violation_of_a_leadership_hands_it_over_and_no_second_within_the_hour",
        ),
    ),
    Mutant(
        "replay-not-undone",
        "what a failed replay wrote on the overlay is taken back",
        "quorum/draft.py",
        "            self.overlay.undo()\n",
        "            self.overlay.keep()\n",
        (ISOLATED + "test_what_a_failed_replay_wrote_is_undone[InvariantViolation]",),
    ),
    Mutant(
        "undo-forgets-a-table",
        "undo takes back what was written to every table",
        "controller/view.py",
        "            self._undo.append((rows, key, rows.get(key, _MISSING)))",
        '            if table.name == "words" or table.name == "transactions":\n'
        "                self._undo.append((rows, key, rows.get(key, _MISSING)))",
        ("tests/controller/test_view.py::test_every_table_is_undone",),
    ),
    Mutant(
        "undo-in-order-of-writing",
        "what was written twice gets the value back that it had before both",
        "controller/view.py",
        "        for rows, key, before in reversed(writes):",
        "        for rows, key, before in writes:",
        ("tests/controller/test_view.py::test_what_is_undone_never_was",),
    ),
    Mutant(
        "store-errors-are-isolated",
        "what the own store raises halts the node",
        "quorum/draft.py",
        "            return True\n        except HALTING:\n            raise\n",
        "            return True\n",
        (
            ISOLATED + "test_what_the_own_store_raises_halts[Error]",
            ISOLATED + "test_what_the_own_store_raises_halts[MemoryError]",
            ISOLATED + "test_what_the_own_store_raises_halts[OSError]",
            ISOLATED + "test_a_row_of_the_own_store_that_cannot_be_read_halts",
        ),
    ),
    Mutant(
        "answer-halts",
        "an answer that cannot be given costs its own connection",
        "quorum/proposer.py",
        "            if request.closing is not None:\n",
        "            if request.closing is None:\n",
        (ISOLATED + "test_an_answer_that_cannot_be_given_closes_its_connection[InvariantViolation]",),
    ),
    Mutant(
        "entry-blames-all",
        "of an entry that cannot be encoded only the request at fault is refused",
        "quorum/proposer.py",
        "        if len(requests) == 1:\n",
        "        if requests:\n",
        (ISOLATED + "test_an_entry_that_cannot_be_encoded_is_decided_again_request_by_request",),
    ),
    Mutant(
        "control-record-halts",
        "a leader that cannot write its LeaderChange resigns",
        "quorum/replica.py",
        "            self.raft.resign()\n",
        "            pass\n",
        (
            ISOLATED
            + "test_a_leader_that_cannot_write_its_leader_change_resigns_and_another_one_leads[KeyError]",
            ISOLATED + "test_a_node_that_resigned_campaigns_again_when_no_other_leads_or_after_an_hour",
        ),
    ),
    Mutant(
        "resigned-campaigns",
        "a node that resigned lets others lead",
        "quorum/raft_log.py",
        "        return now < self._abstains_until_s and now - self._led_s < UNLED_S",
        "        return False",
        (ISOLATED + "test_a_node_that_resigned_campaigns_again_when_no_other_leads_or_after_an_hour",),
    ),
    Mutant(
        "resigned-for-ever",
        "a node that resigned campaigns when no other node leads",
        "quorum/raft_log.py",
        "        return now < self._abstains_until_s and now - self._led_s < UNLED_S",
        "        return now < self._abstains_until_s",
        (ISOLATED + "test_a_node_that_resigned_campaigns_again_when_no_other_leads_or_after_an_hour",),
    ),
    Mutant(
        "hands-over-at-each-violation",
        "a node hands leadership over for a violation once an hour",
        "quorum/succession.py",
        "        if self._peers and (self._yielded_s is None or now - self._yielded_s >= YIELD_PERIOD_S):",
        "        if self._peers:",
        (ISOLATED + "test_the_first_violation_of_a_leadership_hands_it_over_and_no_second_within_the_hour",),
    ),
    Mutant(
        "stops-for-ever",
        "a leader that nobody relieves in time goes on",
        "quorum/succession.py",
        "        self._proposer.stopping = self._leaving\n",
        "",
        (ISOLATED + "test_a_leader_whose_followers_are_gone_leads_on_after_a_violation",),
    ),
    Mutant(
        "unbounded-decision",
        "a decision that fits into no entry is refused",
        "quorum/draft.py",
        "            if size > DECISION_BYTES_MAX:",
        "            if size > 2 * ENTRY_BYTES_MAX:",
        (ISOLATED + "test_a_decision_that_fits_into_no_entry_is_refused[one-past-it]",),
    ),
    Mutant(
        "budget-off-by-one",
        "a decision may be as large as the limit",
        "quorum/draft.py",
        "            if size > DECISION_BYTES_MAX:",
        "            if size >= DECISION_BYTES_MAX:",
        (ISOLATED + "test_a_decision_that_fits_into_no_entry_is_refused[at-the-limit]",),
    ),
    Mutant(
        "budget-off-by-one-entry",
        "what does not fit beside others waits for the next entry",
        "quorum/draft.py",
        "        return len(self.answers) >= DECISIONS_MAX or self.cost >= ENTRY_COST_MAX",
        "        return len(self.answers) >= DECISIONS_MAX or self.cost >= 2 * ENTRY_COST_MAX",
        (ISOLATED + "test_small_decisions_share_an_entry_up_to_the_budget",),
    ),
    Mutant(
        "record-overhead-left-out",
        "what a batch writes around each record counts",
        "quorum/draft.py",
        "bytes_of(parts) + RECORD_OVERHEAD_BYTES_MAX for",
        "bytes_of(parts) for",
        (ISOLATED + "test_what_a_batch_writes_around_small_records_counts",),
    ),
    Mutant(
        "decides-without-end",
        "deciding ends after a while, and goes on with the next entry",
        "quorum/proposer.py",
        "            if self._clock() > until_s:\n                break\n        try:",
        "        try:",
        (ISOLATED + "test_deciding_takes_so_much_time_and_the_rest_waits_for_the_next_entry",),
    ),
    Mutant(
        "applies-without-end",
        "applying ends after a while, and goes on with the next tick",
        "quorum/raft_log.py",
        "            if self._clock() > until_s:\n                break\n        return False",
        "        return False",
        (ISOLATED + "test_committed_entries_are_applied_for_so_long_at_a_time",),
    ),
    Mutant(
        "sweep-blames-all",
        "of a sweep's rows only those at fault are set aside",
        "quorum/sweep.py",
        "        elif len(keys) == 1:\n            self._set_aside(keys[0], outcome)\n",
        "        elif keys:\n            for key in keys:\n                self._set_aside(key, outcome)\n",
        (
            QUARANTINED + "test_a_timeout_that_fails_sets_its_row_aside_and_all_others_are_aborted[decide]",
            QUARANTINED + "test_a_timeout_that_fails_sets_its_row_aside_and_all_others_are_aborted[replay]",
            QUARANTINED + "test_an_id_that_cannot_be_forgotten_does_not_keep_the_others",
        ),
    ),
    Mutant(
        "quarantined-for-ever",
        "a row that is set aside is tried again",
        "quorum/quarantine.py",
        " if row.concern == concern and now_s < row.retry_at_s\n",
        " if row.concern == concern\n",
        (
            QUARANTINED + "test_a_row_whose_fault_is_gone_is_done_and_set_aside_no_more",
            QUARANTINED + "test_a_row_that_is_set_aside_is_tried_again_less_and_less_often",
        ),
    ),
    Mutant(
        "quarantine-unbounded",
        "at the limit the oldest row makes room",
        "quorum/quarantine.py",
        "        if known is None and len(self._rows) >= QUARANTINED_MAX:\n",
        "        if known is None and len(self._rows) > QUARANTINED_MAX:\n",
        (QUARANTINED + "test_at_the_limit_the_oldest_makes_room_and_is_tried_again",),
    ),
    Mutant(
        "timeouts-fill-any-entry",
        "a sweep of timeouts writes what the entry has room for",
        "controller/transactions/expiry.py",
        "        if records and cost > room:\n",
        "        if False:\n",
        (QUARANTINED + "test_large_rows_time_out_in_several_entries_of_bounded_cost",),
    ),
    Mutant(
        "topics-unbounded",
        "a transaction has at most so many topics",
        "controller/transactions/add_partitions.py",
        "len(united) > TOPICS_MAX",
        "len(united) > 2 * TOPICS_MAX",
        ("tests/controller/transactions/test_add_partitions.py::test_a_transaction_has_a_bound_of_topics",),
    ),
    Mutant(
        "endpoint-ends-the-process",
        "an endpoint that fails costs its own request",
        "wire/server_connection.py",
        "            reply.fail(self.isolation.failure(api.name, error))",
        "            raise",
        (
            WIRE_ISOLATED
            + "test_an_endpoint_that_fails_is_answered_for_and_the_connection_goes_on[InvariantViolation]",
        ),
    ),
    Mutant(
        "reply-hangs",
        "a reply that cannot be encoded closes its connection",
        "wire/server_reply.py",
        "            connection.close_because(str(connection.isolation.failure(api.name, error)))\n",
        "            connection.isolation.failure(api.name, error)\n",
        (WIRE_ISOLATED + "test_a_reply_that_cannot_be_encoded_closes_its_connection_and_no_other[later]",),
    ),
    Mutant(
        "store-failure-isolated",
        "what the store raises ends the process, also out of an endpoint",
        "wire/isolation.py",
        "        if isinstance(error, self._halting):\n            raise error\n",
        "",
        (WIRE_ISOLATED + "test_a_failure_of_the_store_goes_on_to_what_ends_the_process",),
    ),
)
