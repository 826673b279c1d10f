"""What is broken on purpose where a snapshot becomes the image of a restored cluster."""

from typing import Final

from tests.mutants.mutant import Mutant

TESTS: Final = "tests/controller/test_restoring.py::"
TRACES: Final = "tests/broker/log/test_traces.py::"
COMMAND: Final = "tests/cli/test_snapshot_restore.py::"
FILE: Final = "controller/restoring.py"

RESTORING: Final = (
    Mutant(
        "restore-ids-of-logs-ignored",
        "ids go on above those that logs hold",
        FILE,
        "    end = max(latest.end, found.producer_id_end) + skip_ids\n",
        "    end = latest.end + skip_ids\n",
        (TESTS + "test_ids_go_on_above_the_image_and_above_what_was_found",),
    ),
    Mutant(
        "restore-ids-not-skipped",
        "ids that were given out and left no trace are skipped",
        FILE,
        "    end = max(latest.end, found.producer_id_end) + skip_ids\n",
        "    end = max(latest.end, found.producer_id_end)\n",
        (TESTS + "test_ids_go_on_above_the_image_and_above_what_was_found",),
    ),
    Mutant(
        "restore-version-below-markers",
        "a partition takes the markers of a restored coordinator",
        FILE,
        "    version = ImageVersion(max(before.version, found.marker_version) + 1)\n",
        "    version = ImageVersion(before.version + 1)\n",
        (TESTS + "test_versions_epochs_and_ends_are_above_what_was_found",),
    ),
    Mutant(
        "restore-controller-epoch-of-the-image",
        "the coordinator's epoch is above that of every marker",
        FILE,
        "    epoch = Term(max(before.controller_epoch, found.coordinator_epoch) + 1)\n",
        "    epoch = Term(before.controller_epoch + 1)\n",
        (TESTS + "test_versions_epochs_and_ends_are_above_what_was_found",),
    ),
    Mutant(
        "restore-epochs-of-logs-ignored",
        "a producer epoch is above what partitions have seen",
        FILE,
        "max(row.producer_epoch, found.producer_epochs.get(row.producer_id, 0))",
        "row.producer_epoch",
        (
            TESTS + "test_an_open_transaction_is_aborted_wherever_it_is_open",
            TESTS + "test_an_idle_id_has_an_epoch_that_no_producer_has",
        ),
    ),
    Mutant(
        "restore-forgets-what-logs-have-open",
        "a transaction is aborted on every partition where it is open",
        FILE,
        "row.partitions if row.state is State.ONGOING else (), opened)",
        "row.partitions if row.state is State.ONGOING else opened, ())",
        (TESTS + "test_an_open_transaction_is_aborted_wherever_it_is_open",),
    ),
    Mutant(
        "restore-leaves-unknown-ones-open",
        "a transaction of an unknown id is aborted",
        FILE,
        "    for producer_id, opened in sorted(rest.items()):\n",
        "    for producer_id, opened in ():\n",
        (
            TESTS + "test_a_transaction_of_an_unknown_id_is_aborted_by_an_id_of_its_own",
            TESTS + "test_what_was_begun_after_a_decided_outcome_is_aborted_beside_it",
        ),
    ),
    Mutant(
        "restore-takes-an-outcome-back",
        "an outcome that was decided stays",
        FILE,
        "        if row.state in PREPARED_STATES:\n            if",
        "        if False:\n            if",
        (TESTS + "test_an_outcome_that_was_decided_stays",),
    ),
    Mutant(
        "restore-keeps-the-voters",
        "the voters are those that were restored",
        FILE,
        "    view.put(voters.QUORUM, 0, msgspec.structs.replace(quorum, directories=bound))\n",
        "    view.put(voters.QUORUM, 0, quorum)\n",
        (TESTS + "test_versions_epochs_and_ends_are_above_what_was_found",),
    ),
    Mutant(
        "restore-sees-no-expired-producers",
        "ids of producers that expired are found in the batches",
        "broker/log/traces.py",
        "            self._producer(stored.header.producer_id, stored.header.producer_epoch)\n",
        "            pass\n",
        (TRACES + "test_ids_of_producers_that_expired_are_found_in_the_batches",),
    ),
    Mutant(
        "restore-takes-a-foreign-snapshot",
        "nodes go on from a snapshot of their own cluster",
        "cli/snapshot_restore.py",
        "        if identity.cluster_id != manifest.cluster_id and not any(",
        "        if False and not any(",
        (COMMAND + "test_a_snapshot_of_another_cluster_is_refused",),
    ),
    Mutant(
        "restore-cannot-be-typed-again",
        "a restore that was killed between two nodes is typed again",
        "cli/snapshot_restore.py",
        ' and not any(root.glob(f"{ASIDE}*")):\n',
        ":\n",
        (COMMAND + "test_the_directory_is_one_of_another_cluster",),
    ),
)
