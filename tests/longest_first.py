"""The test files that take longest, the longest first: ``make`` gives each worker the next file of this list.

With two workers a file that takes a minute must not be the last to begin. After a change of theirs see what
``--durations`` says.
"""

from typing import Final

SLOW: Final = (
    "tests/processes/test_rolling_upgrade.py",
    "tests/cli/test_audit.py",
    "tests/processes/test_given_out.py",
    "tests/cli/test_bench.py",
    "tests/processes/test_overload.py",
    "tests/cli/test_cluster.py",
    "tests/processes/test_timeouts_together.py",
    "tests/hostile/test_largest.py",
    "tests/processes/test_markers.py",
    "tests/clients/test_stories.py",
    "tests/hostile/test_campaign.py",
    "tests/processes/test_leader_loss.py",
    "tests/processes/test_strangers.py",
    "tests/clients/test_instances.py",
    "tests/processes/test_wiped_voter.py",
    "tests/processes/test_snapshots.py",
    "tests/package/test_distribution.py",
    "tests/simulation/test_transaction_storms.py",
)
FAST: Final = (
    "tests/wire/test_schema.py",
    "tests/audit/decode/test_agrees_with_kio.py",
    "tests/wire/test_by_hand.py",
    "tests/broker/log/test_aborted.py",
    "tests/audit/faults/test_seeder.py",
    "tests/quorum/test_links_closing.py",
    "tests/records/test_batch.py",
    "tests/broker/log/test_validation.py",
    "tests/hostile/test_decoders.py",
    "tests/quorum/test_budgets.py",
    "tests/package/test_one_name.py",
    "tests/broker/test_checks.py",
    "tests/broker/log/test_recovery.py",
    "tests/simulation/test_past_bugs.py",
)
LONGEST_FIRST: Final = (*SLOW, *FAST)
