"""What is broken on purpose around pairs of producer id and epoch, idle ids and sequences that wrap."""

from typing import Final

from tests.mutants.mutant import Mutant

PRODUCER_STATE: Final = "tests/broker/log/test_producer_state.py::"
STATES_FILE: Final = "broker/log/producer_state.py"
GIVEN_OUT: Final = "tests/controller/transactions/test_given_out.py::"
AFTER_ABORTS: Final = "tests/controller/transactions/test_given_out_after_aborts.py::"
EVERY_PAIR: Final = "tests/controller/transactions/test_every_pair.py::test_every_pair_in_every_row"
EVERY_BATCH: Final = "tests/broker/log/test_every_batch.py::test_every_batch_in_every_state"
LAW: Final = GIVEN_OUT + "test_only_pairs_that_were_given_out_are_accepted[from-seed-0]"
FENCING_FILE: Final = "controller/transactions/fencing.py"
INIT_FILE: Final = "controller/transactions/init_producer_id.py"
CLOCKS: Final = "tests/controller/test_clocks.py::"
EXPIRY: Final = "tests/controller/transactions/test_expiry.py::"
SEEN: Final = "tests/coordinator/test_seen_clocks.py::"
CLOCKS_FILE: Final = "controller/clocks.py"
EXPIRY_FILE: Final = "controller/transactions/expiry.py"

EPOCHS: Final = (
    # -- pairs that were given out ---------------------------------------------------------------------------
    Mutant(
        "32767-is-current",
        "32767 is accepted in no state",
        FENCING_FILE,
        "    if client_pair(row).epoch > CLIENT_EPOCH_MAX:\n        return False\n",
        "",
        (
            LAW,
            GIVEN_OUT + "test_32767_is_refused_in_every_state",
        ),
    ),
    Mutant(
        "32767-named-by-a-producer",
        "InitProducerId with 32767 is refused, of an unknown id too",
        INIT_FILE,
        "    if request.producer_epoch > CLIENT_EPOCH_MAX:\n",
        "    if False:\n",
        (LAW,),
    ),
    Mutant(
        "timeouts-epoch-is-current",
        "the epoch of a timeout is refused until its producer has asked for it",
        EXPIRY_FILE,
        "        init_version=-1,\n",
        "",
        (LAW, AFTER_ABORTS + "test_the_epoch_of_an_abort_is_refused_until_it_is_given_out"),
    ),
    Mutant(
        "fencing-epoch-is-current",
        "the epoch of an abort by InitProducerId is refused until a producer has asked for it",
        "controller/transactions/fencing.py",
        "        instance_epoch=client_pair(past).epoch,\n        init_version=-1,\n",
        "        instance_epoch=client_pair(past).epoch,\n        init_version=row.init_version,\n",
        (LAW, AFTER_ABORTS + "test_the_epoch_of_an_abort_is_refused_until_it_is_given_out"),
    ),
    Mutant(
        "given-out-without-a-record",
        "the epoch of an abort is the producer's once it is answered with it",
        INIT_FILE,
        "    if given and not current and is_given_out(row):\n",
        "    if given and not current and row.producer_epoch <= CLIENT_EPOCH_MAX:\n",
        (LAW, AFTER_ABORTS + "test_once_asked_for_it_is_the_producers"),
    ),
    Mutant(
        "invented-epoch-accepted",
        "an epoch above the current one is accepted by no request",
        FENCING_FILE,
        "    return (producer_id, epoch) == client_pair(row) and is_given_out(row)\n",
        "    return epoch >= client_pair(row).epoch and is_given_out(row)\n",
        (LAW,),
    ),
    Mutant(
        "rotation-out-of-an-open-transaction",
        "what is open is aborted before its producer id changes",
        INIT_FILE,
        "    if row.state is State.ONGOING:\n",
        "    if row.state is State.ONGOING and (current or not given):\n",
        (
            LAW,
            GIVEN_OUT + "test_the_holder_of_32766_goes_on_after_an_old_row_unless_it_was_fenced",
        ),
    ),
    Mutant(
        "timeout-past-the-last-epoch",
        "a transaction that an older version left open at 32767 times out without a bump",
        EXPIRY_FILE,
        "    if not is_given_out(row):\n        return aborting\n",
        "",
        (GIVEN_OUT + "test_a_transaction_left_open_at_32767_times_out_without_a_bump[Ongoing-timeout]",),
    ),
    Mutant(
        "v2-retry-gives-32767",
        "a retried V2 end gives out the epoch of the abort by a record, 32767 never",
        "controller/transactions/end_txn.py",
        "    if is_given_out(row):\n",
        "    if True:\n",
        (
            LAW,
            AFTER_ABORTS
            + "test_an_end_of_v2_that_is_tried_again_after_a_timeout_at_32766_has_a_new_producer_id",
        ),
    ),
    # -- clocks ----------------------------------------------------------------------------------------------
    Mutant(
        "expiry-believes-its-own-clock",
        "a leader whose clock is ahead forgets no id that was just used",
        CLOCKS_FILE,
        "    return IdleStamps(min(now_ms, slowest_ms) - idle_ms, None)\n",
        "    return IdleStamps(now_ms - idle_ms, None)\n",
        (
            CLOCKS + "test_nothing_is_forgotten_that_was_used_and_all_that_is_idle_is",
            EXPIRY + "test_a_leader_whose_clock_differs_forgets_no_id_that_was_just_used[8-days]",
        ),
    ),
    Mutant(
        "expiry-without-another-clock",
        "a leader that saw no other clock ages what it inherits by its own time alone",
        CLOCKS_FILE,
        "        return IdleStamps(-1, None)\n",
        "        return IdleStamps(now_ms - idle_ms, None)\n",
        (
            EXPIRY + "test_a_leader_whose_clock_differs_forgets_no_id_that_was_just_used[8-days]",
            SEEN + "test_a_leader_whose_clock_jumped_ahead_forgets_no_id_and_later_forgets_what_is_idle",
        ),
    ),
    Mutant(
        "future-ids-live-for-ever",
        "a leader that stays forgets idle ids that were stamped in the future",
        CLOCKS_FILE,
        "        return IdleStamps(now_ms - idle_ms, now_ms + 1)\n",
        "        return IdleStamps(now_ms - idle_ms, None)\n",
        (
            CLOCKS + "test_nothing_is_forgotten_that_was_used_and_all_that_is_idle_is",
            EXPIRY + "test_a_leader_that_stays_forgets_what_is_idle_whatever_its_clock_says[-8-days]",
        ),
    ),
    Mutant(
        "slowest-clock-forgotten",
        "the slowest clock seen counts for as long as the node lives",
        CLOCKS_FILE,
        "            self._others_behind_ms = max(others, self._behind_ms)\n",
        "            self._others_behind_ms = self._behind_ms\n",
        (
            CLOCKS + "test_the_slowest_clock_of_all_leaderships_counts",
            CLOCKS + "test_nothing_is_forgotten_that_was_used_and_all_that_is_idle_is",
        ),
    ),
    Mutant(
        "a-late-stamp-counts",
        "of one leadership the stamp counts that was least late",
        CLOCKS_FILE,
        "            self._behind_ms = min(self._behind_ms, behind_ms)\n",
        "            self._behind_ms = max(self._behind_ms, behind_ms)\n",
        (CLOCKS + "test_of_one_leadership_the_stamp_that_was_least_late_counts",),
    ),
    # -- sequences -------------------------------------------------------------------------------------------
    Mutant(
        "sequences-compared-as-numbers",
        "a sequence before the wrap precedes one after it",
        STATES_FILE,
        "    return 0 < (other - sequence) & SEQUENCE_MAX <= SEQUENCE_MAX // 2\n",
        "    return sequence < other\n",
        (
            PRODUCER_STATE + "test_the_sequence_may_wrap_while_a_verification_is_under_way"
            "[a-batch-across-the-wrap-asked-in-order-unknown-producer]",
        ),
    ),
    Mutant(
        "lowest-question-rules",
        "the next sequence in line is taken, whatever was verified before",
        STATES_FILE,
        "        elif pending is not None and pending.epoch == epoch:\n",
        "        if pending is not None and pending.epoch == epoch:\n",
        (PRODUCER_STATE + "test_a_sequence_that_can_never_come_blocks_no_batch_that_is_expected",),
    ),
    Mutant(
        "v2-begins-anywhere",
        "a transaction of V2 begins with sequence 0 on a partition that knows nothing of its producer",
        STATES_FILE,
        "            first = 0 if pending.adds else pending.lowest_sequence\n",
        "            first = pending.lowest_sequence\n",
        (EVERY_BATCH,),
    ),
    # -- every pair in every row -----------------------------------------------------------------------------
    Mutant(
        "no-producer-is-remembered",
        "producer id -1 is unknown, as in Kafka, not fenced",
        FENCING_FILE,
        "    if producer_id == NO_PRODUCER_ID:\n        return False\n",
        "",
        (EVERY_PAIR + "[AddPartitionsToTxn v5]", EVERY_PAIR + "[EndTxn v0 to v4]"),
    ),
    Mutant(
        "kafkas-row-is-fenced-by-its-rotation",
        "who ended Kafka's transaction at 32766 goes on with the pair that it was answered",
        "controller/transactions/end_txn.py",
        "client.producer_id == before or row.instance_epoch == NO_EPOCH",
        "client.producer_id == before",
        (EVERY_PAIR + "[InitProducerId v6]", EVERY_PAIR + "[AddPartitionsToTxn v5]"),
    ),
    Mutant(
        "kafkas-row-forgets-who-aborted",
        "who aborted Kafka's open transaction by InitProducerId is known by its pair",
        INIT_FILE,
        "client_pair(row).epoch if was_given_out else",
        "client_pair(row).epoch if is_given_out(row) else",
        (EVERY_PAIR + "[EndTxn v5]",),
    ),
    Mutant(
        "late-past-its-next-pair",
        "who went on after its timeout is not late any more, across a rotation too",
        INIT_FILE,
        "        timed_out=row.timed_out and given and not is_given_out(row),",
        "        timed_out=row.timed_out and given,",
        (AFTER_ABORTS + "test_who_went_on_after_its_timeout_is_not_late_any_more",),
    ),
)
