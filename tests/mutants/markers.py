"""Mutants of markers: whose word a partition takes, and what becomes of a marker that it refuses."""

from typing import Final

from tests.mutants.mutant import Mutant

FOREIGN: Final = "tests/broker/test_foreign_markers.py::"
RULES: Final = "tests/broker/log/test_marker_rules.py::"
NEXT_OUTLIVES: Final = "test_what_is_asked_about_the_next_transaction_outlives_the_marker_of_the_last"
NEXT_STAYS: Final = (
    "        if pending is not None and not "
    "(marker.bumps_epoch and pending.epoch >= marker.producer_epoch):\n"
)
PROTOCOL: Final = "test_the_row_says_whose_protocol_the_open_transaction_follows"
OFFSETS: Final = "tests/controller/transactions/test_offsets_v2.py::"
END_TXN: Final = "tests/controller/transactions/test_end_txn.py::"
TRANSACTIONS: Final = "tests/broker/test_partition_transactions.py::"
FEATURES: Final = "tests/controller/test_feature_updates.py::"
PROOF: Final = "tests/wire/test_k20037.py::"
WEDGED: Final = "tests/coordinator/test_wedges.py::"
ANNOUNCED: Final = "tests/broker/test_announcements.py::"
PRODUCER_STATE: Final = "broker/log/producer_state.py"
ENDPOINT: Final = "broker/markers.py"
SENDER: Final = "coordinator/marker_sender.py"
WEDGES: Final = "coordinator/wedges.py"
SECRET: Final = "wire/secret_proof.py"

MARKERS: Final = (
    Mutant(
        "foreign-tag-believed",
        "the image version of a marker counts on a connection that proved the secret",
        ENDPOINT,
        "        proved = context.proved or self._foreign.coordinator_cannot_prove\n",
        "        proved = True\n",
        (FOREIGN + "test_a_version_that_anybody_claims_hides_no_later_commit",),
    ),
    Mutant(
        "any-version-believed",
        "a version that no coordinator can have is refused",
        ENDPOINT,
        "            is_sound = 0 <= marker.image_version <= IMAGE_VERSION_MAX\n",
        "            is_sound = 0 <= marker.image_version\n",
        (FOREIGN + "test_a_version_that_no_coordinator_has_is_refused_from_anybody",),
    ),
    Mutant(
        "v2-marker-of-the-same-epoch",
        "a marker of transactions V2 ends no transaction of its own epoch, which is a later one",
        PRODUCER_STATE,
        "        return marker.producer_epoch <= state.epoch\n",
        "        return marker.producer_epoch < state.epoch\n",
        (
            RULES + "test_a_marker_of_transactions_v2[True-equal-10-False]",
            RULES + "test_a_marker_of_transactions_v2[True-equal-0-False]",
        ),
    ),
    Mutant(
        "v2-marker-voids-the-next-question",
        "the marker of a V2 transaction leaves what is asked about the next one",
        PRODUCER_STATE,
        NEXT_STAYS,
        "        if pending is not None:\n",
        (RULES + NEXT_OUTLIVES + "[v2-ends-the-transaction-before-it]",),
    ),
    Mutant(
        "v2-marker-leaves-its-own-question",
        "the marker that ends a V2 transaction voids what was asked about it",
        PRODUCER_STATE,
        NEXT_STAYS,
        "        if pending is not None and not marker.bumps_epoch:\n",
        (RULES + NEXT_OUTLIVES + "[v2-ends-it]",),
    ),
    Mutant(
        "v2-timeout-is-a-wrong-state",
        "a commit of a V2 client after the timeout is answered with what happened",
        "controller/transactions/end_txn.py",
        "        if row.timed_out and request.committed:\n",
        "        if False:\n",
        (END_TXN + "test_a_commit_of_transactions_v2_after_the_timeout_says_so[CompleteAbort]",),
    ),
    Mutant(
        "addition-says-no-protocol",
        "an open transaction says whose protocol it follows, so that its markers are V2's",
        "controller/transactions/add_partitions.py",
        "        client_transaction_version=TRANSACTIONS_V2 if request.for_client else 0,\n",
        "",
        ("tests/controller/transactions/test_add_partitions.py::" + PROTOCOL + "[v1]",),
    ),
    Mutant(
        "refused-offset-begins-a-transaction",
        "an offset that is refused begins no transaction of a V2 client",
        "controller/transactions/commit_offsets.py",
        "    return Decision((*adding, *records) if records else (), answered(request.offsets, refusals))\n",
        "    return Decision((*adding, *records), answered(request.offsets, refusals))\n",
        (OFFSETS + "test_nothing_begins_for_an_offset_that_is_refused",),
    ),
    Mutant(
        "v2-not-added-where-none-is-verified",
        "a client of transactions V2 has its partition added, also where no other is verified",
        "broker/produce.py",
        "        if log.config.verification or adds:",
        "        if log.config.verification:",
        (TRANSACTIONS + "test_the_first_batch_of_a_v2_transaction_adds_its_partition[unverified]",),
    ),
    Mutant(
        "feature-raised-over-old-brokers",
        "no feature is finalized at a level that a registered broker does not support",
        "controller/feature_updates.py",
        "    if behind:\n",
        "    if False:\n",
        (FEATURES + "test_nothing_is_finalized_that_a_node_does_not_have[a-fenced-broker-comes-back]",),
    ),
    Mutant(
        "feature-raised-below-its-log-level",
        "clients learn of transactions V2 only when every voter serves them",
        "controller/feature_updates.py",
        "levels.in_force(view) < TRANSACTIONS_V2:\n",
        "levels.in_force(view) < 0:\n",
        (FEATURES + "test_nothing_is_finalized_that_a_node_does_not_have[log-level]",),
    ),
    Mutant(
        "negative-version-believed",
        "a negative version is refused",
        ENDPOINT,
        "            is_sound = 0 <= marker.image_version <= IMAGE_VERSION_MAX\n",
        "            is_sound = marker.image_version <= IMAGE_VERSION_MAX\n",
        (FOREIGN + "test_a_version_that_no_coordinator_has_is_refused_from_anybody",),
    ),
    Mutant(
        "poisoned-version-kept",
        "a version that an older release took from anybody is forgotten at the next opening",
        PRODUCER_STATE,
        "            if state.marker_version > IMAGE_VERSION_MAX:",
        "            if False:",
        (RULES + "test_a_version_that_no_coordinator_has_is_forgotten[one-past]",),
    ),
    Mutant(
        "coordinator-not-asked",
        "a foreign marker is refused where the coordinator has that transaction open",
        "broker/foreign_markers.py",
        "            each.reply(Verdict.OPEN if is_open else Verdict.FREE)\n",
        "            each.reply(Verdict.FREE)\n",
        (
            FOREIGN + "test_a_proved_connection_without_a_version_is_no_coordinator",
            FOREIGN + "test_a_wedged_transaction_ends_by_the_same_marker_forced[commit]",
        ),
    ),
    Mutant(
        "outcome-flipped-by-hand",
        "a wedged transaction cannot be aborted by hand while the coordinator has PrepareCommit",
        "broker/foreign_markers.py",
        "        (described.producer_id, each.topic, index)\n",
        "        (described.producer_id if described.state == 'Ongoing' else -1, each.topic, index)\n",
        (
            FOREIGN + "test_a_wedged_transaction_ends_by_the_same_marker_forced[commit]",
            FOREIGN + "test_a_wedged_transaction_ends_by_the_same_marker_forced[abort]",
        ),
    ),
    Mutant(
        "verdict-outlives-a-write",
        "what the producer wrote while the coordinator was asked makes its answer void",
        ENDPOINT,
        " or partition.log.state_of(producer_id) is not before:",
        ":",
        (
            FOREIGN + "test_what_changes_while_the_coordinator_is_asked_makes_its_answer_void[a batch]",
            FOREIGN + "test_what_changes_while_the_coordinator_is_asked_makes_its_answer_void[its marker]",
        ),
    ),
    Mutant(
        "forced-without-proof",
        "a marker of a stranger is never forced",
        ENDPOINT,
        "            marker.transaction_version,\n        )\n        try:\n"
        "            partition.log.check_marker(end_marker_of(plain))\n",
        "            marker.transaction_version,\n"
        "            marker.image_version,\n            marker.forced,\n        )\n"
        "        try:\n            pass\n",
        (FOREIGN + "test_a_wedged_transaction_ends_by_the_same_marker_forced[commit]",),
    ),
    Mutant(
        "none-while-open",
        "a marker of an older epoch is not answered NONE while a transaction is open",
        PRODUCER_STATE,
        "            if state.transaction_first == NO_OFFSET:\n                return False\n        elif",
        "            if _is_old(marker, state):\n                return False\n        elif",
        (
            RULES + "test_a_marker",
            FOREIGN + "test_a_wedged_transaction_ends_by_the_same_marker_forced[commit]",
        ),
    ),
    Mutant(
        "wedge-where-nothing-is-open",
        "a marker of an older epoch ends nothing where nothing is open, and is answered NONE",
        PRODUCER_STATE,
        "            if state.transaction_first == NO_OFFSET:\n                return False\n        elif",
        "        elif",
        (
            RULES + "test_a_marker",
            FOREIGN + "test_a_plain_batch_of_a_higher_epoch_leaves_the_transaction_endable",
        ),
    ),
    Mutant(
        "newer-epoch-not-verified",
        "a transactional batch of another epoch than the open transaction's is verified",
        PRODUCER_STATE,
        "NO_OFFSET and epoch <= state.epoch:\n            return None\n",
        "NO_OFFSET:\n            return None\n",
        (
            RULES + "test_a_batch_of_a_newer_epoch_is_verified_like_a_first_one[epoch+7-verified]",
            FOREIGN + "test_a_transactional_batch_of_a_higher_epoch_is_not_let_into_an_open_transaction",
        ),
    ),
    Mutant(
        "forced-epoch-goes-back",
        "a forced marker takes no epoch back",
        PRODUCER_STATE,
        "            max(marker.producer_epoch, state.epoch),",
        "            marker.producer_epoch,",
        (RULES + "test_a_marker",),
    ),
    Mutant(
        "foreign-coordinator-fences",
        "what a foreign marker claims of its coordinator stops no marker of ours",
        PRODUCER_STATE,
        "            if forced or not _is_old(marker, state):\n                return True\n",
        "            if forced:\n                return True\n",
        (RULES + "test_what_a_foreign_marker_claims_of_its_coordinator_stops_no_marker_of_ours",),
    ),
    Mutant(
        "stray-is-repeated",
        "a producer's batch repeats none of a stranger that is not in a transaction",
        PRODUCER_STATE,
        "return cached if cached.is_transactional in (None, batch.is_transactional) else None\n",
        "return cached\n",
        (
            RULES + "test_a_strangers_batch_is_not_repeated_by_one_of_the_producer[own-in-one]",
            RULES + "test_a_strangers_batch_is_not_repeated_by_one_of_the_producer[own-in-none]",
        ),
    ),
    Mutant(
        "empty-secret-proves",
        "an empty secret proves nothing",
        SECRET,
        "        return len(self.secret) >= SECRET_BYTES_MIN\n",
        "        return True\n",
        (
            PROOF + "test_a_secret_that_is_none_proves_nothing_and_is_proved_nothing[empty]",
            PROOF + "test_a_secret_that_is_none_proves_nothing_and_is_proved_nothing[one-byte-too-short]",
        ),
    ),
    Mutant(
        "replayed-proof",
        "a proof holds for the nonce of one connection",
        SECRET,
        "        answer.cluster_id.encode(),\n        answer.nonce,\n",
        "        answer.cluster_id.encode(),\n",
        (
            PROOF + "test_a_proof_that_was_overheard_proves_no_other_connection",
            PROOF + "test_a_proof_recorded_on_the_wire_is_refused_on_the_next_connection",
        ),
    ),
    Mutant(
        "nonce-used-twice",
        "a nonce is used once",
        SECRET,
        "    offered, proof.offered = proof.offered, None",
        "    offered = proof.offered",
        (PROOF + "test_a_proof_holds_for_what_it_was_made_for",),
    ),
    Mutant(
        "reflected-proof",
        "the server's own proof is not the client's",
        SECRET,
        'request.proof, lambda secret: _hmac(secret, b"client", said, answer))',
        'request.proof, lambda secret: _hmac(secret, b"server", said, answer))',
        (PROOF + "test_the_servers_own_proof_is_not_the_clients",),
    ),
    Mutant(
        "any-node-proves",
        "the coordinator talks to the broker that it means",
        SECRET,
        "(node_id is not None and answer.node_id != node_id)",
        "False",
        (PROOF + "test_what_does_not_belong_is_refused_by_name[not-the-node-that-was-meant]",),
    ),
    Mutant(
        "announced-without-proof",
        "an announcement counts on a connection that proved the secret",
        "broker/announcements.py",
        "        if context.proved:\n",
        "        if True:\n",
        (ANNOUNCED + "test_an_announcement_of_no_use_leaves_the_question",),
    ),
    Mutant(
        "job-dropped",
        "the job of a wedged transaction is kept",
        SENDER,
        "        delay_s, turn = self.wedges.refused(broker_id, job, part, code)\n",
        "        del self._jobs[job.marker.transactional_id]\n        return\n"
        "        delay_s, turn = self.wedges.refused(broker_id, job, part, code)\n",
        (
            WEDGED + "test_it_is_tried_again_ever_more_slowly_and_ends_when_it_may",
            WEDGED + "test_the_job_survives_a_change_of_leadership[there-and-back-code-47]",
        ),
    ),
    Mutant(
        "wedge-of-the-last-leadership",
        "what was put off is of one leadership",
        SENDER,
        "        self.wedges = Wedges(self._now_ms, self._log)\n",
        "        self.wedges = getattr(self, 'wedges', None) or Wedges(self._now_ms, self._log)\n",
        (
            WEDGED + "test_the_job_survives_a_change_of_leadership[there-code-47]",
            WEDGED + "test_the_job_survives_a_change_of_leadership[there-code-52]",
        ),
    ),
    Mutant(
        "wedged-not-shown",
        "a transaction whose marker is refused does not claim that markers are being written",
        "coordinator/set_aside.py",
        "(each.partition, each.code, each.since_ms) for each in rows if each.partition)\n",
        "(each.partition, each.code, each.since_ms) for each in ())\n",
        (
            WEDGED + "test_nothing_claims_that_markers_are_being_written[commit]",
            WEDGED + "test_nothing_claims_that_markers_are_being_written[abort]",
        ),
    ),
    Mutant(
        "wedged-not-listed",
        "what is wedged is listed with partition, code and time",
        "coordinator/set_aside.py",
        "        rows = (*islice(self._markers.wedges.rows(), ROWS_MAX), *quarantined)[:ROWS_MAX]\n",
        "        rows = quarantined[:ROWS_MAX]\n",
        (WEDGED + "test_it_is_shown_with_partition_code_and_time[code-47]",),
    ),
    Mutant(
        "force-turns-the-outcome",
        "the marker that is forced has the outcome that was decided",
        WEDGES,
        "        return [*made, txn_marker(job.marker, forced, forced=True)] if forced else made\n",
        "        if not forced:\n            return made\n"
        "        import msgspec\n"
        "        aborted = msgspec.structs.replace(job.marker, committed=False)\n"
        "        return [*made, txn_marker(aborted, forced, forced=True)]\n",
        ("tests/coordinator/test_forced_markers.py::test_the_same_marker_is_sent_again_forced[commit]",),
    ),
    Mutant(
        "wedged-fill-the-jobs",
        "wedged transactions keep no others waiting",
        SENDER,
        "        return len(self._jobs) - len(self.wedges) >= JOBS_MAX\n",
        "        return len(self._jobs) >= JOBS_MAX\n",
        (WEDGED + "test_wedged_transactions_keep_no_others_waiting",),
    ),
    Mutant(
        "anybody-forces",
        "forcing a marker needs ALTER",
        "coordinator/set_aside.py",
        "        self._acls.require(context.principal, Operation.ALTER)\n",
        "        self._acls.require(context.principal, Operation.DESCRIBE)\n",
        (WEDGED + "test_who_may_look_and_who_may_force[User:looker]",),
    ),
)
