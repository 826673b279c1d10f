"""What is broken on purpose in two-phase commit: the three pairs, what is kept, retries, and no timeout."""

from typing import Final

from tests.mutants.mutant import Mutant

TWO_PHASE_TESTS: Final = "tests/controller/transactions/test_two_phase.py::"
TIMEOUTS: Final = "tests/controller/transactions/test_two_phase_timeouts.py::"
SECOND: Final = (
    "tests/controller/transactions/test_examples.py::"
    "test_kip_939_a_transaction_of_two_phase_commit_with_two_epoch_overflows"
)
SERVED: Final = "tests/coordinator/test_two_phase.py::"
STORM: Final = (
    "tests/simulation/test_transaction_storms.py::"
    "test_instances_that_keep_what_is_open_beside_those_that_do_not"
)
ROTATIONS: Final = (
    "tests/simulation/test_transaction_storms.py::test_whose_answer_was_lost_at_a_rotation_goes_on[{}]"
)
LAST_EPOCHS: Final = (
    "tests/simulation/test_transaction_storms.py::test_the_last_epochs_of_ids_with_clients_of_both_kinds[{}]"
)
PAIRS_FILE: Final = "controller/transactions/pairs.py"
FENCING_FILE: Final = "controller/transactions/fencing.py"
INIT_FILE: Final = "controller/transactions/init_producer_id.py"
END_FILE: Final = "controller/transactions/end_txn.py"

TWO_PHASE: Final = (
    Mutant(
        "client-has-the-transactions-pair",
        "requests present the client's pair where it is not the transaction's",
        FENCING_FILE,
        "    return (producer_id, epoch) == client_pair(row) and is_given_out(row)\n",
        "    return (producer_id, epoch) == (row.producer_id, row.producer_epoch) and is_given_out(row)\n",
        (SECOND, TWO_PHASE_TESTS + "test_what_is_kept_takes_nothing_more[add]"),
    ),
    Mutant(
        "rotation-forgets-whose-retry",
        "after a rotation a retry has the client's id before it",
        PAIRS_FILE,
        "Pair(client_id_before(row) if rotated else client.producer_id, row.last_producer_epoch)\n",
        "Pair(client.producer_id, row.last_producer_epoch)\n",
        (SECOND, TWO_PHASE_TESTS + "test_an_end_of_v2", ROTATIONS.format(0)),
    ),
    Mutant(
        "previous-id-is-the-transactions",
        "PreviousProducerId is the client's at the commit: a retry of a client with another id has it",
        PAIRS_FILE,
        "    return NO_PRODUCER_ID if client.producer_id == row.producer_id else client.producer_id\n",
        "    return NO_PRODUCER_ID\n",
        (SECOND,),
    ),
    Mutant(
        "kept-without-a-bump",
        "each instance that keeps has a pair of its own",
        INIT_FILE,
        "Pair(client.producer_id, client.epoch + 1)\n",
        "Pair(client.producer_id, client.epoch)\n",
        (SECOND, TWO_PHASE_TESTS + "test_each_new_instance_has_a_pair_of_its_own[5]"),
    ),
    Mutant(
        "end-gives-32767",
        "an end past 32766 gives a new producer id",
        END_FILE,
        "    if client.epoch >= CLIENT_EPOCH_MAX:\n        bumped",
        "    if client.epoch > CLIENT_EPOCH_MAX:\n        bumped",
        (SECOND, LAST_EPOCHS.format(3)),
    ),
    Mutant(
        "kept-gives-32767",
        "an instance that keeps is never given 32767",
        INIT_FILE,
        "    exhausted = client.epoch >= CLIENT_EPOCH_MAX\n",
        "    exhausted = client.epoch > CLIENT_EPOCH_MAX\n",
        (SECOND, TWO_PHASE_TESTS + "test_each_new_instance_has_a_pair_of_its_own[32765]"),
    ),
    Mutant(
        "kept-is-aborted",
        "with KeepPreparedTxn the open transaction stays",
        INIT_FILE,
        "        return _Case.KEEP if request.keeps_prepared else _Case.ABORT\n",
        "        return _Case.ABORT\n",
        (SECOND, TIMEOUTS + "test_forty_thousand_crashes_leave_it_prepared_and_it_commits"),
    ),
    Mutant(
        "keeps-with-a-pair-given",
        "a request that names a pair keeps nothing (42)",
        "controller/transactions/init_request.py",
        "    if request.keeps_prepared and request.producer_id != NO_PRODUCER_ID:\n",
        "    if False:\n",
        (TWO_PHASE_TESTS + "test_what_is_asked_for_is_checked",),
    ),
    Mutant(
        "kept-takes-more",
        "what is kept takes no more partitions",
        FENCING_FILE,
        "    if row.state is State.ONGOING and has_two(row):\n",
        "    if False:\n",
        (TWO_PHASE_TESTS + "test_what_is_kept_takes_nothing_more[add-v2]",),
    ),
    Mutant(
        "end-of-kept-without-a-bump",
        "the next transaction of V2 has another epoch than the instance that kept",
        END_FILE,
        "        bumped = _with_next(bumped, Pair(client.producer_id, client.epoch + 1))\n",
        "        pass\n",
        (TWO_PHASE_TESTS + "test_an_end_of_v2",),
    ),
    Mutant(
        "v1-end-of-kept-fences-none",
        "markers of what was kept have an epoch that no batch has, of V1 too",
        END_FILE,
        "                producer_epoch=min(row.producer_epoch + 1, EPOCH_MAX),\n                previous",
        "                previous",
        (
            TWO_PHASE_TESTS + "test_an_end_of_v1_leaves_the_clients_pair_as_it_is[5-client0-commit]",
            LAST_EPOCHS.format(0),
        ),
    ),
    Mutant(
        "abort-of-kept-leaves-the-client",
        "an end that is not the client's own takes its epoch away",
        FENCING_FILE,
        "next_producer_epoch=min(row.next_producer_epoch + 1, EPOCH_MAX))\n",
        "next_producer_epoch=row.next_producer_epoch)\n",
        (TWO_PHASE_TESTS + "test_an_instance_that_does_not_keep_aborts[5]",),
    ),
    Mutant(
        "complete-forgets-the-clients-epoch",
        "after the markers the client's pair is the only one",
        END_FILE,
        "        producer_epoch=client.epoch,\n",
        "        producer_epoch=row.producer_epoch,\n",
        (SECOND, STORM),
    ),
    Mutant(
        "two-phase-times-out",
        "two-phase commit has no timeout",
        "controller/transactions/states.py",
        "        return self.init_version >= TWO_PHASE_INIT_VERSION\n",
        "        return False\n",
        (TIMEOUTS + "test_a_transaction_of_two_phase_commit_never_times_out",),
    ),
    Mutant(
        "kept-timeout-stays",
        "what follows a kept transaction has the timeout that its own instance requested",
        END_FILE,
        "=row.transaction_timeout_ms if kept_timeout_ms is None else kept_timeout_ms,\n",
        "=row.transaction_timeout_ms,\n",
        (TIMEOUTS + "test_the_timeouts_of_what_is_kept_and_of_what_follows",),
    ),
    Mutant(
        "two-phase-without-permission",
        "two-phase commit needs the permission (53)",
        "coordinator/transaction_server.py",
        "        if not self._acls.allows(principal, Operation.TWO_PHASE_COMMIT):\n",
        "        if False:\n",
        (SERVED + "test_it_needs_the_setting_and_the_permission[on-and-not-allowed-begins]",),
    ),
)
