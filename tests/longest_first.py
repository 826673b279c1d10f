"""The test files that take longest, the longest first: ``make`` gives each worker the next file of this list.

With two workers a file that takes a minute must not be the last to begin. After a change of theirs see what
``--durations`` says.
"""

from typing import Final

SLOW: Final = (
    "tests/processes/test_rolling_upgrade.py",
    "tests/processes/test_given_out.py",
    "tests/cli/test_bench.py",
    "tests/cli/test_bench_transactions.py",
    "tests/cli/test_bench_groups.py",
    "tests/cli/test_bench_stalls.py",
    "tests/simulation/test_failover_storms.py",
    "tests/processes/test_overload.py",
    "tests/checker/test_runs.py",
    "tests/cli/test_cluster.py",
    "tests/processes/test_timeouts_together.py",
    "tests/hostile/test_largest.py",
    "tests/processes/test_markers.py",
    "tests/clients/test_bench_transactions.py",
    "tests/clients/test_offsets_archive.py",
    "tests/clients/test_stories.py",
    "tests/hostile/test_campaign.py",
    "tests/processes/test_leader_loss.py",
    "tests/processes/test_strangers.py",
    "tests/clients/test_instances.py",
    "tests/processes/test_wiped_voter.py",
    "tests/processes/test_snapshots.py",
    "tests/package/test_distribution.py",
)
FAST: Final = (
    "tests/simulation/test_driver_duties.py",
    "tests/package/test_one_name.py",
    "tests/hostile/test_decoders.py",
    "tests/wire/test_by_hand.py",
    "tests/simulation/test_group_storms.py",
    "tests/simulation/test_transaction_storms.py",
    "tests/audit/faults/test_seeder.py",
    "tests/simulation/test_offset_storms.py",
    "tests/broker/log/test_validation.py",
    "tests/simulation/test_past_bugs.py",
    "tests/broker/test_checks.py",
    "tests/simulation/test_late_requests.py",
    "tests/wire/test_schema.py",
    "tests/quorum/test_group_records.py",
    "tests/broker/log/test_recovery.py",
    "tests/broker/test_foreign_markers.py",
    "tests/records/test_batch.py",
    "tests/simulation/test_full_disks.py",
    "tests/quorum/test_budgets.py",
    "tests/broker/log/test_aborted.py",
    "tests/coordinator/test_group_attacks.py",
    "tests/wire/test_garbage.py",
    "tests/quorum/test_hostile_voter.py",
    "tests/package/test_import_contracts.py",
    "tests/cli/test_transaction_load.py",
)
LONGEST_FIRST: Final = (*SLOW, *FAST)
