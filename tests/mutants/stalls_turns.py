"""What is broken on purpose where a turn of the driver, and the decisions in it, are bounded."""

from typing import Final

from tests.mutants.mutant import Mutant

BUDGETS: Final = "tests/quorum/test_budgets.py::"
TOPICS: Final = "tests/coordinator/test_topic_server.py::"
LONG: Final = BUDGETS + "test_what_a_long_turn_has_no_time_for_is_the_next_ones"

STALLS_TURNS: Final = (
    Mutant(
        "turn-without-end",
        "what a long turn has no time for is the next one's",
        "quorum/replica.py",
        "        self._rest_is_left = True\n        return True\n",
        "        return False\n",
        (LONG + "[apply]", LONG + "[reply]"),
    ),
    Mutant(
        "turn-leaves-the-rest-for-ever",
        "a turn does what the last one left, however long its own first steps take",
        "quorum/replica.py",
        "        if self._rest_is_left:\n",
        "        if False:\n",
        (BUDGETS + "test_a_node_whose_every_tick_is_long_serves_all_the_same",),
    ),
    Mutant(
        "saves-beside-all-else",
        "rows are put into the store's transaction in a turn of their own",
        "quorum/replica.py",
        "            self._save()\n            return True\n",
        "            self._save()\n",
        (BUDGETS + "test_rows_are_saved_in_a_turn_of_their_own",),
    ),
    Mutant(
        "saves-twice-a-second-only",
        "rows that are not saved are bounded",
        "quorum/replica.py",
        "        if self._save_is_due:\n",
        "        if False:\n",
        (
            BUDGETS + "test_rows_are_saved_in_a_turn_of_their_own",
            "tests/quorum/test_lost_image.py::test_a_long_log_is_replayed_in_bounded_memory",
        ),
    ),
    Mutant(
        "topics-in-one-decision",
        "many topics are made a few at a time",
        "controller/topic_creation.py",
        "        if topics and part_rows + own_rows > ROWS_PER_PART_MAX:\n",
        "        if False:\n",
        (TOPICS + "test_many_topics_are_made_a_few_at_a_time[several]",),
    ),
    Mutant(
        "parts-count-for-themselves",
        "the parts of a CreateTopics are bounded together",
        "controller/topic_creation.py",
        "        self._requested = earlier.partitions\n",
        "        self._requested = 0\n",
        (TOPICS + "test_the_parts_of_a_request_are_bounded_together",),
    ),
    Mutant(
        "part-speaks-for-all",
        "a part that failed has its code in its own rows only",
        "coordinator/parts.py",
        "        if all(isinstance(each, ApiError) for each in outcomes):\n"
        "            self._reply(outcomes[0], self._throttle_ms)",
        "        if any(isinstance(each, ApiError) for each in outcomes):\n"
        "            self._reply(outcomes[-1], self._throttle_ms)",
        (TOPICS + "test_what_is_not_decided_says_so_and_the_rest_is_done[2]",),
    ),
    Mutant(
        "takes-all-frames-of-a-peer",
        "a peer's frames are taken for so long at a time",
        "quorum/links.py",
        "            self._is_behind = len(self._buffer) > position and monotonic() > until_s\n",
        "",
        ("tests/quorum/test_links_turns.py::test_other_work_comes_between_the_frames_of_a_peer",),
    ),
)
