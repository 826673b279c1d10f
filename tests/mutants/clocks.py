"""What is broken on purpose around wall clocks that jump."""

from typing import Final

from tests.mutants.mutant import Mutant

CLOCKS_FILE: Final = "controller/clocks.py"
TRUSTED: Final = "tests/controller/test_trusted_clock.py::"
STORMS: Final = "tests/simulation/test_clock_storms.py::"
NODE: Final = "tests/settings/test_node_clock.py::"
NODE_FILE: Final = "settings/node_clock.py"
PEERS: Final = "tests/quorum/test_peer_clocks.py::"
MAINTENANCE: Final = (
    "tests/broker/test_log_maintenance.py::"
    "test_a_clock_that_jumped_deletes_and_forgets_nothing_but_for_want_of_room"
)
SEEN: Final = "tests/coordinator/test_seen_clocks.py::"
PEERS_FILE: Final = "quorum/peer_clocks.py"

CLOCKS: Final = (
    Mutant(
        "every-wall-clock-is-believed",
        "a wall clock that left the boot-time clock has jumped",
        CLOCKS_FILE,
        "        return off_ms if abs(off_ms) > JUMP_MS else 0\n",
        "        return 0\n",
        (
            TRUSTED + "test_a_jump_is_over_an_hour_off_the_boot_time_clock",
            STORMS + "test_all_clocks_jump_and_all_start_again[8-days]",
            NODE + "test_one_warning_for_a_jump_whoever_asks_and_how_often",
        ),
    ),
    Mutant(
        "a-restart-forgets-the-clock",
        "the next process measures from what the last one kept",
        CLOCKS_FILE,
        "            self._ahead_ms = kept.ahead_ms\n            return\n",
        "            return\n",
        (
            TRUSTED + "test_what_the_next_process_makes_of_what_was_kept",
            STORMS + "test_all_clocks_jump_and_all_start_again[8-days]",
            NODE + "test_the_next_process_knows_a_jump_that_happened_while_none_ran",
        ),
    ),
    Mutant(
        "going-back-across-boots-is-believed",
        "a clock that is earlier after a boot has jumped",
        CLOCKS_FILE,
        "        if went_back or still_ahead:\n",
        "        if still_ahead:\n",
        (TRUSTED + "test_what_the_next_process_makes_of_what_was_kept",),
    ),
    Mutant(
        "a-boot-ends-a-jump",
        "a clock that was ahead before a boot, and is still, is not believed",
        CLOCKS_FILE,
        "        if went_back or still_ahead:\n",
        "        if went_back:\n",
        (TRUSTED + "test_what_the_next_process_makes_of_what_was_kept",),
    ),
    Mutant(
        "time-jumps-with-the-clock",
        "meanwhile it is the time that it would be without the jump",
        CLOCKS_FILE,
        "        return now.boottime_ms + self._ahead_ms if self.jump_ms(now) else now.wall_ms\n",
        "        return now.wall_ms\n",
        (
            TRUSTED + "test_a_jump_is_over_an_hour_off_the_boot_time_clock",
            NODE + "test_one_warning_for_a_jump_whoever_asks_and_how_often",
        ),
    ),
    Mutant(
        "any-clocks-are-a-majority",
        "a majority's clocks agree within an hour",
        CLOCKS_FILE,
        "        if times[first + majority - 1] - times[first] <= JUMP_MS:\n",
        "        if True:\n",
        (TRUSTED + "test_a_majority_of_all_voters_agrees_or_there_is_none",),
    ),
    Mutant(
        "a-minority-is-a-majority",
        "a majority is of all voters, not of those that have a say",
        CLOCKS_FILE,
        "    majority = voter_count // 2 + 1\n",
        "    majority = len(times) // 2 + 1\n",
        (
            TRUSTED + "test_a_majority_of_all_voters_agrees_or_there_is_none",
            PEERS + "test_voters_that_jumped_together_are_no_majority",
        ),
    ),
    Mutant(
        "a-jumped-clock-has-a-say",
        "a voter whose clock jumped tells no time",
        NODE_FILE,
        "        return now.wall_ms if self._clock.is_believed(now) else None\n",
        "        return now.wall_ms\n",
        (NODE + "test_one_warning_for_a_jump_whoever_asks_and_how_often",),
    ),
    Mutant(
        "a-damaged-clock-file-is-none",
        "what a damaged file said of a jump is not taken for none",
        NODE_FILE,
        "is_doubted=bool(damage))\n",
        "is_doubted=False)\n",
        (NODE + "test_what_a_damaged_file_said_of_a_jump_is_not_taken_for_none",),
    ),
    Mutant(
        "a-doubt-ends-with-the-process",
        "the next process doubts the clock, too",
        NODE_FILE,
        "        if self._clock.is_doubted:\n",
        "        if self._kept_at_ms is None:\n",
        (NODE + "test_what_a_damaged_file_said_of_a_jump_is_not_taken_for_none",),
    ),
    Mutant(
        "a-doubt-never-ends",
        "a majority or an operator ends the doubt",
        CLOCKS_FILE,
        "        self.is_doubted = False\n",
        "        pass\n",
        (NODE + "test_a_majority_or_an_operator_ends_the_doubt",),
    ),
    Mutant(
        "who-jumped-is-still-counted",
        "a voter that tells no time any more has no say",
        PEERS_FILE,
        "            self._said.pop(peer, None)\n",
        "            pass\n",
        (PEERS + "test_voters_that_jumped_together_are_no_majority",),
    ),
    Mutant(
        "the-word-is-taken-for-ever",
        "an operator's word counts for one jump",
        NODE_FILE,
        "                accepted.unlink(missing_ok=True)\n",
        "                pass\n",
        (NODE + "test_an_operators_word_is_taken_once",),
    ),
    Mutant(
        "logs-are-cleaned-by-a-jumped-clock",
        "no record is too old by a clock that jumped",
        "broker/log_maintenance.py",
        "self._clock_ms() if self._may_delete() else BEFORE_ALL_MS",
        "2**62",
        (MAINTENANCE,),
    ),
    Mutant(
        "ids-expire-by-a-jumped-clock",
        "a leader whose clock jumped forgets no transactional id",
        "coordinator/transaction_timers.py",
        "        if not self._may_expire():\n",
        "        if False:\n",
        (SEEN + "test_a_leader_whose_clock_jumped_forgets_nothing_until_it_is_believed",),
    ),
)
