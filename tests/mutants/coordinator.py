"""What is broken on purpose in the transaction coordinator, the marker sender and a partition's rules."""

from typing import Final

from tests.mutants.mutant import Mutant

INIT: Final = "tests/controller/transactions/test_init_producer_id.py::"
ADD: Final = "tests/controller/transactions/test_add_partitions.py::"
END: Final = "tests/controller/transactions/test_end_txn.py::"
EXPIRY: Final = "tests/controller/transactions/test_expiry.py::"
SENDER: Final = "tests/coordinator/test_marker_sender.py::"
LATE: Final = "tests/simulation/test_late_requests.py::"
BUGS: Final = "tests/simulation/test_past_bugs.py::"
DESCRIBED: Final = "tests/broker/test_describe_producers.py::"
CALM: Final = "tests/simulation/test_transaction_storms.py::test_a_calm_day"
STORM: Final = "tests/simulation/test_transaction_storms.py::test_rough_transactions"
INIT_FILE: Final = "controller/transactions/init_producer_id.py"
EXPIRY_FILE: Final = "controller/transactions/expiry.py"
STATES_FILE: Final = "broker/log/producer_state.py"

COORDINATOR: Final = (
    # -- InitProducerId --------------------------------------------------------------------------------------
    Mutant(
        "skipped-bump",
        "each new instance has another epoch",
        INIT_FILE,
        "        producer_epoch=row.producer_epoch + 1,\n",
        "        producer_epoch=row.producer_epoch,\n",
        (INIT + "test_an_epoch_in_a_closed_state", STORM),
    ),
    Mutant(
        "instance-epoch-at-fencing",
        "a new instance that aborts what is open begins there: the fenced one is no retry",
        "controller/transactions/fencing.py",
        "        instance_epoch=client_pair(past).epoch,\n",
        "        instance_epoch=row.instance_epoch,\n",
        (INIT + "test_an_open_transaction_is_aborted_first",),
    ),
    Mutant(
        "restart-leaves-open",
        "a restarted producer's InitProducerId aborts what was open",
        INIT_FILE,
        "    if row.state is State.ONGOING:\n",
        "    if row.state is State.ONGOING and given:\n",
        (
            INIT + "test_a_restarted_producers_first_request_aborts_what_was_open",
            BUGS + "test_kfake_a_restarted_producer_aborts_what_it_had_open[same-coordinator]",
            STORM,
        ),
    ),
    Mutant(
        "past-the-last-epoch",
        "32767 is never given to a producer",
        INIT_FILE,
        "    exhausted = row.producer_epoch >= CLIENT_EPOCH_MAX\n",
        "    exhausted = row.producer_epoch > CLIENT_EPOCH_MAX\n",
        (INIT + "test_no_epoch_above_32766_is_ever_given",),
    ),
    Mutant(
        "init-while-ending",
        "nobody is given an epoch while markers of the one before are missing",
        INIT_FILE,
        "    if row.state in PREPARED_STATES:\n        return _Case.WAIT\n",
        "",
        (INIT + "test_while_markers_are_written",),
    ),
    # -- AddPartitionsToTxn and EndTxn -----------------------------------------------------------------------
    Mutant(
        "verified-though-fenced",
        "only the current pair is verified",
        "controller/transactions/add_partitions.py",
        "    require_current(row, request.producer_id, request.producer_epoch)\n"
        "    _require_not_ending(row)\n    require_not_kept(row)\n    known",
        "    _require_not_ending(row)\n    require_not_kept(row)\n    known",
        (ADD + "test_a_pair_that_is_not_current",),
    ),
    Mutant(
        "verified-while-ending",
        "nothing is verified while the transaction ends",
        "controller/transactions/add_partitions.py",
        "    _require_not_ending(row)\n    require_not_kept(row)\n    known",
        "    require_not_kept(row)\n    known",
        (ADD + "test_while_markers_are_written_it_waits[verify-PrepareAbort]",),
    ),
    Mutant(
        "added-while-ending",
        "nothing is added to a transaction that ends",
        "controller/transactions/add_partitions.py",
        "    _require_not_ending(row)\n    require_not_kept(row)\n    united",
        "    require_not_kept(row)\n    united",
        (ADD + "test_while_markers_are_written_it_waits[add-PrepareCommit]",),
    ),
    Mutant(
        "verified-from-a-stale-image",
        "a verification is answered when an entry of its batch is applied",
        "coordinator/transaction_server.py",
        "broker_batches.submit(self._submit, rest, self._errors.before(reply), reply, early=early)\n",
        "reply(broker_batches._decide_batch(rest.transactions, self._image(), 0).response)\n",
        (LATE + "test_a_deposed_coordinator_verifies_nothing",),
    ),
    Mutant(
        "partitions-outlive-the-end",
        "a transaction that is complete holds no partition: a late batch is not verified",
        "controller/transactions/end_txn.py",
        "state=ended, partitions=(), updated_ms=now_ms",
        "state=ended, updated_ms=now_ms",
        (LATE + "test_a_late_batch_of_an_aborted_transaction_opens_nothing",),
    ),
    Mutant(
        "any-end-is-a-retry",
        "only an end of the same outcome is a retry",
        "controller/transactions/end_txn.py",
        "    if row.state is ended:\n        return Decision((), None)  # a retry\n",
        "    if row.state >= State.COMPLETE_COMMIT:\n        return Decision((), None)\n",
        (END + "test_the_table_of_v1",),
    ),
    Mutant(
        "end-without-fence",
        "only the current pair ends a transaction",
        "controller/transactions/end_txn.py",
        "        require_current(row, request.producer_id, request.producer_epoch)\n    except",
        "        pass\n    except",
        (
            END + "test_a_pair_that_is_not_current",
            LATE + "test_a_delayed_end_of_v1_is_fenced_once_the_epoch_is_another",
        ),
    ),
    # -- timeouts and expiry ---------------------------------------------------------------------------------
    Mutant(
        "timeout-without-bump",
        "a transaction that timed out ends at another epoch",
        EXPIRY_FILE,
        "        fenced_pairs(aborting),\n",
        "        aborting,\n",
        (EXPIRY + "test_a_timeout_aborts_bumps_and_remembers", STORM),
    ),
    Mutant(
        "timeout-forgets-the-epoch",
        "a timeout remembers the epoch that its producer holds (KIP-588)",
        EXPIRY_FILE,
        "        last_producer_epoch=client_pair(row).epoch,\n",
        "        last_producer_epoch=-1,\n",
        (
            EXPIRY + "test_the_producer_that_timed_out_is_told_so[complete]",
            LATE + "test_a_late_added_partition_opens_what_its_timeout_closes",
        ),
    ),
    Mutant(
        "timeout-is-a-fence",
        "who timed out is told so, and goes on",
        "controller/transactions/fencing.py",
        "    if row.timed_out and is_last(",
        "    if False and is_last(",
        (EXPIRY + "test_the_producer_that_timed_out_is_told_so[complete]",),
    ),
    Mutant(
        "no-grace",
        "nobody times out before one sweep of a new leader's is over",
        EXPIRY_FILE,
        "    if now_ms < activated_ms + grace_ms:\n",
        "    if False:\n",
        (EXPIRY + "test_a_new_leader_gives_a_grace[within]",),
    ),
    Mutant(
        "open-ones-expire",
        "only an id without a transaction is forgotten",
        "controller/transactions/states.py",
        "    if row.state is _ONGOING:\n        view.put(DEADLINES,",
        "    view.put(UPDATES, (max(0, row.updated_ms), row.transactional_id), True)\n"
        "    if row.state is _ONGOING:\n        view.put(DEADLINES,",
        (EXPIRY + "test_only_an_id_without_a_transaction_expires",),
    ),
    Mutant(
        "snapshot-drops-open-transactions",
        "a snapshot holds every transaction, also one that is open and empty",
        "snapshots/reader.py",
        "                yield name, key, value\n\n    def digest(",
        "                if name != 'transaction_deadlines':\n                    yield name, key, value\n\n"
        "    def digest(",
        (BUGS + "test_redpanda_30003_a_snapshot_keeps_an_open_transaction_without_a_batch",),
    ),
    # -- markers ---------------------------------------------------------------------------------------------
    Mutant(
        "complete-before-the-markers",
        "a transaction is complete when its last marker is written",
        "coordinator/marker_sender.py",
        "        if job.missing:\n            self._route(job, tuple(sorted(job.missing)))\n        else:\n",
        "        self._route(job, tuple(sorted(job.missing)))\n        if job.missing:\n",
        (SENDER + "test_a_partition_without_a_leader_waits_for_one", CALM),
    ),
    Mutant(
        "complete-after-one-marker",
        "a transaction is complete when every partition has its marker",
        "coordinator/marker_sender.py",
        "        self.wedges.ended(job, part)\n        if not job.missing:\n",
        "        self.wedges.ended(job, part)\n        if True:\n",
        (CALM, STORM),
    ),
    Mutant(
        "failover-forgets-markers",
        "a new leader sends every marker of what is prepared",
        "coordinator/marker_sender.py",
        "        self._active = True\n        self.walk()\n",
        "        self._active = True\n",
        (SENDER + "test_a_new_leadership_sends_all_markers_again_with_its_own_epoch",),
    ),
    Mutant(
        "version-of-the-entry-before",
        "a marker has the image version of its own PrepareX",
        "controller/transactions/states.py",
        "        version = ImageVersion(view.header.version + 1)",
        "        version = ImageVersion(view.header.version)",
        (CALM, STORM),
    ),
    Mutant(
        "late-duplicate-appended",
        "a marker that comes again ends no later transaction",
        STATES_FILE,
        "            if marker.version <= state.marker_version:\n",
        "            if False:\n",
        (
            LATE + "test_a_late_duplicate_of_a_marker_ends_no_later_transaction[commit]",
            LATE + "test_a_late_duplicate_of_a_marker_ends_no_later_transaction[abort]",
            STORM,
        ),
    ),
    Mutant(
        "guard-outlives-the-marker",
        "what was verified before a marker is not appended after it",
        STATES_FILE,
        "            del self._verifications[producer_id]  # requested before the marker",
        "            pass  #",
        (LATE + "test_a_batch_that_was_verified_before_the_marker_came_is_refused_after_it",),
    ),
    Mutant(
        "old-epoch-writes",
        "a partition refuses an epoch older than it has seen",
        STATES_FILE,
        "        if state is not None and epoch < state.epoch:\n",
        "        if False:\n",
        (LATE + "test_a_fenced_producers_batch_is_refused_inside_its_successors_transaction", STORM),
    ),
    Mutant(
        "unverified-writes",
        "a transaction's first batch on a partition is verified with the coordinator",
        STATES_FILE,
        "            if guard is None or pending is None or pending.guard != guard:\n",
        "            if False:\n",
        (
            "tests/broker/log/test_producer_state.py::test_a_transaction_opens_with_the_current_guard_only",
            LATE + "test_a_batch_that_was_verified_before_the_marker_came_is_refused_after_it",
        ),
    ),
    Mutant(
        "announced-after-the-end",
        "an announcement that is older than the partition's marker says nothing",
        STATES_FILE,
        " or version <= state.marker_version\n",
        "\n",
        (LATE + "test_a_late_announcement_of_a_transaction_that_ended_lets_nobody_write",),
    ),
    Mutant(
        "announced-beyond-the-marker",
        "what was announced before a marker says nothing after it",
        STATES_FILE,
        "        self._announced.pop(producer_id, None)\n",
        "",
        (LATE + "test_what_was_announced_and_not_written_is_void_after_the_marker",),
    ),
    # -- answers ---------------------------------------------------------------------------------------------
    Mutant(
        "unknown-is-request-timed-out",
        "an outcome that nobody knows is 15 to a client, never 7 (KAFKA-14417)",
        "coordinator/coordinator_errors.py",
        "        if isinstance(outcome, RequestTimedOut | StorageFull):\n",
        "        if isinstance(outcome, StorageFull):\n",
        (BUGS + "test_kafka_14417_init_producer_id_is_never_told_request_timed_out",),
    ),
    Mutant(
        "held-out-of-order",
        "what waits for a transaction to complete is asked again in the order in which it came",
        "coordinator/parked.py",
        "self._by_id.setdefault(request.transactional_id, []).append(request)",
        "self._by_id.setdefault(request.transactional_id, []).insert(0, request)",
        (LATE + "test_ends_that_wait_inside_end_no_later_transaction",),
    ),
    Mutant(
        "partitions-without-a-pause",
        "the loop runs between the partitions that DescribeProducers tells, too",
        "broker/describe_producers.py",
        "            if done >= SLICE_PRODUCERS_MAX:",
        "            if False:",
        (DESCRIBED + "test_many_small_partitions_do_not_hold_the_loop_together",),
    ),
)
