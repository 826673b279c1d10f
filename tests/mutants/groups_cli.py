"""Mutants of the commands for consumer groups."""

from typing import Final

from tests.mutants.mutant import Mutant

GROUPS: Final = "tests/cli/test_groups.py::"
PENDING: Final = "tests/coordinator/test_offset_server.py::"
CONSUME: Final = "tests/cli/test_produce_consume.py::"

GROUPS_CLI: Final = (
    Mutant(
        "commits-what-is-not-printed",
        "consume --group commits the offset of a record when it has been printed",
        "cli/consume.py",
        "            await self.consumer.commit(dict(self._next))\n",
        "            await self.consumer.commit()\n",
        (CONSUME + "test_what_was_printed_is_committed_and_no_more",),
    ),
    Mutant(
        "a-dry-run-commits",
        "reset-offsets commits nothing without --execute",
        "cli/groups_reset.py",
        "in found.items() if execute else ():",
        "in found.items():",
        (GROUPS + "test_without_execute_it_says_that_nothing_is_done",),
    ),
    Mutant(
        "a-group-in-use-is-reset",
        "offsets of a group with members are not reset",
        "cli/groups_reset.py",
        "    if state not in INACTIVE:\n",
        "    if not state:\n",
        (GROUPS + "test_groups_with_members_are_left_and_the_others_are_reset",),
    ),
    Mutant(
        "a-reset-leaves-the-log",
        "a new offset lies between the ends of the log",
        "cli/group_resets.py",
        "    return min(max(wanted, log.earliest), log.latest)\n",
        "    return wanted\n",
        (
            GROUPS + "test_a_shift_stays_in_the_log[1000-100]",
            GROUPS + "test_a_shift_stays_in_the_log[-1000-10]",
        ),
    ),
    Mutant(
        "lag-cut-at-zero",
        "a committed offset past the end of the log has a lag below 0, as Kafka prints it",
        "cli/group_output.py",
        "else end - offset.offset",
        "else max(0, end - offset.offset)",
        (GROUPS + "test_offsets_have_the_columns_and_the_lag_of_kafka",),
    ),
    Mutant(
        "all-pending-offsets-explained",
        "an explanation names so many pending offsets at most",
        "coordinator/set_aside.py",
        "sorted(keys)[:PENDING_EXPLAINED_MAX]",
        "sorted(keys)",
        (
            PENDING
            + "test_pending_offsets_of_a_transaction_are_explained_until_it_ends[one-more-than-is-named]",
        ),
    ),
)
