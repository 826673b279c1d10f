"""Mutants of the client for applications: what it may send again, and what it must not."""

from typing import Final

from tests.mutants.mutant import Mutant

PRODUCER: Final = "tests/client/test_producer.py::"
ANY_FAULTS: Final = PRODUCER + "test_any_faults_in_any_order_leave_each_record_once_in_order"
TRANSACTIONS: Final = "tests/client/test_transactions.py::"
CLOSING: Final = "tests/client/test_closing.py::"
FETCHED: Final = "tests/client/test_fetched_records.py::"
STATES: Final = "client/transactions.py"
SENDER: Final = "client/sender.py"
BATCHES: Final = "client/batches.py"

APPLICATION_CLIENT: Final = (
    Mutant(
        "client-new-sequence",
        "a batch that may have been written is sent again with its sequence",
        BATCHES,
        "        if batch.sequence < 0:\n",
        '        batch.encoded = b""\n        if True:\n',
        (
            PRODUCER + "test_a_batch_is_sent_again_until_it_is_written_once[Lost(done=True)]",
            ANY_FAULTS + "[0]",
        ),
    ),
    Mutant(
        "client-coordinator-moved-in-a-row",
        "a refusal in a row of an answer, that another node coordinates, is requested again there",
        "client/admin.py",
        "            return next((code for code in codes_of(answer) if code in _MOVED), ErrorCode.NONE)\n",
        "            return ErrorCode.NONE\n",
        (
            "tests/client/test_coordinator_moves.py::test_a_row_that_names_another_coordinator_is_requested_again",
        ),
    ),
    Mutant(
        "client-unknown-skipped",
        "a batch that may be written is never given up while its producer lives",
        SENDER,
        "        if not self._transactional and batch.maybe_written:\n",
        "        if not self._transactional and False:\n",
        (PRODUCER + "test_a_batch_that_may_be_written_is_not_skipped_when_its_time_is_over",),
    ),
    Mutant(
        "client-unknown-renumbered",
        "a batch that may be written is given no other sequence",
        SENDER,
        "                if batch.maybe_written:\n",
        "                if batch.maybe_written and not setattr(batch, 'maybe_written', False) and False:\n",
        (PRODUCER + "test_the_producer_ends_if_a_record_behind_a_refused_one_may_be_written",),
    ),
    Mutant(
        "client-first-batches-pipelined",
        "one batch at a time until the leader is known to remember the producer",
        BATCHES,
        "        return len(self.in_flight) < (IN_FLIGHT_MAX if is_known else 1)\n",
        "        return len(self.in_flight) < IN_FLIGHT_MAX\n",
        (PRODUCER + "test_one_batch_at_a_time_until_the_leader_knows_the_producer",),
    ),
    Mutant(
        "client-ends-what-never-began",
        "with transactions V1 an abort says EndTxn only of what the coordinator opened",
        STATES,
        "        return self.adds_partitions or self._opened\n",
        "        return True\n",
        (
            TRANSACTIONS + "test_an_abort_of_what_was_never_added_is_safe[24-v1]",
            TRANSACTIONS + "test_an_abort_of_what_was_never_added_is_safe[25-v1]",
        ),
    ),
    Mutant(
        "client-old-epoch-after-abort",
        "after an abort of transactions V1 the producer has a new epoch",
        STATES,
        "                if self.adds_partitions:\n                    self._ended(answer)\n",
        "                if True:\n                    self._ended(answer)\n",
        (
            TRANSACTIONS + "test_a_refused_record_aborts_and_the_next_transaction_begins_a_new_epoch[10-v1]",
            TRANSACTIONS + "test_an_abort_that_first_notices_the_timeout_is_safe[v1]",
        ),
    ),
    Mutant(
        "client-unknown-commit-aborted",
        "a commit of unknown outcome can only be called again",
        STATES,
        "            self._phase = Phase.COMMITTING\n",
        "            pass\n",
        (
            TRANSACTIONS + "test_a_commit_of_unknown_outcome_can_only_be_called_again[v1]",
            TRANSACTIONS + "test_a_commit_of_unknown_outcome_can_only_be_called_again[v2]",
        ),
    ),
    Mutant(
        "client-commits-what-may-be-missing",
        "a transaction commits when each of its records is written",
        STATES,
        "            self._require(Phase.OPEN)\n        if self._phase is not Phase.COMMITTING:\n",
        "        if self._phase is not Phase.COMMITTING:\n",
        (
            TRANSACTIONS + "test_a_record_that_may_be_written_never_commits_when_its_time_is_over[v1]",
            TRANSACTIONS + "test_a_refused_record_aborts_and_the_next_transaction_begins_a_new_epoch[10-v2]",
        ),
    ),
    Mutant(
        "client-shows-aborted",
        "read committed hides what aborted, up to its marker",
        "client/fetched_records.py",
        "            hidden.add(waiting.pop().producer_id)\n",
        "            waiting.pop()\n",
        (FETCHED + "test_read_committed_hides_each_aborted_transaction_up_to_its_marker",),
    ),
    Mutant(
        "client-hides-committed",
        "an ABORT marker ends what is hidden of its producer",
        "client/fetched_records.py",
        "                hidden.discard(header.producer_id)\n",
        "                pass\n",
        (FETCHED + "test_read_committed_hides_each_aborted_transaction_up_to_its_marker",),
    ),
    Mutant(
        "client-completes-any-state",
        "a prepared transaction commits if the stored state is its own, and aborts else",
        STATES,
        "        committed = tuple(state) == tuple(self._ongoing)\n",
        "        committed = True\n",
        (
            "tests/client/test_two_phase.py::test_a_new_instance_ends_what_another_one_prepared[another-state]",
        ),
    ),
    Mutant(
        "client-v2-with-the-epoch-of-v1",
        "a transaction of V2 has an epoch that none of V1 had, whose marker may be late",
        STATES,
        "        self.adds_partitions = self._network.uses_transactions_v2 and self._is_fresh\n",
        "        self.adds_partitions = self._network.uses_transactions_v2\n",
        (TRANSACTIONS + "test_the_protocol_is_chosen_for_each_transaction",),
    ),
    Mutant(
        "client-closed-in-part",
        "a consumer whose listener raises while it closes sends no heartbeat any more",
        "client/consumer.py",
        "                ending.callback(self._membership.end_heartbeats)\n",
        "",
        (CLOSING + "test_a_listener_that_fails_when_the_consumer_closes",),
    ),
    Mutant(
        "client-closed-after-what-opens",
        "a network that is closed has no open connection, also if the close is cancelled",
        "client/network.py",
        "        self._closed = True\n        for connection in (",
        "        self._closed = True\n        await asyncio.sleep(0)\n        for connection in (",
        (CLOSING + "test_a_close_that_is_cancelled_after_any_step[answered-working_producer]",),
    ),
    Mutant(
        "client-admin-closed-in-part",
        "an administrator's client that is cancelled while it starts has no open connection",
        "client/admin.py",
        "        except BaseException:\n            await self.close()\n            raise\n",
        "        except Exception:\n            await self.close()\n            raise\n",
        (CLOSING + "test_a_start_that_is_cancelled_after_any_step[Admin]",),
    ),
    Mutant(
        "client-producer-closed-in-part",
        "a producer whose close is cancelled ends what waits, and closes",
        "client/producer.py",
        "                ending.callback(self._sender.end, unwritten)\n",
        "",
        (CLOSING + "test_what_waits_in_a_producer_whose_close_is_cancelled",),
    ),
)
