"""What is broken on purpose where requests of many partitions are served in slices."""

from typing import Final

from tests.mutants.mutant import Mutant

FETCH: Final = "tests/broker/test_large_fetch.py::"

STALLS_FETCH: Final = (
    Mutant(
        "fetch-in-one-go",
        "a fetch of many partitions is read in slices",
        "broker/fetch.py",
        "        if len(request.partitions) > READS_MAX:\n",
        "        if False:\n",
        (FETCH + "test_the_answer_is_that_of_one_read[everything]",),
    ),
    Mutant(
        "fetch-move-missed",
        "what moves while a large fetch is read is looked at",
        "broker/fetch.py",
        "        self._is_pausing = False\n        if self._has_moved:\n",
        "        self._is_pausing = False\n        if False:\n",
        (FETCH + "test_what_comes_at_any_moment_ends_the_wait[0]",),
    ),
    Mutant(
        "fetch-without-pause",
        "a large fetch whose partitions move often is read again after a pause",
        "broker/fetch.py",
        "            self._pause_s = PAUSE_S\n",
        "            self._pause_s = 0.0\n",
        (FETCH + "test_what_moves_often_is_looked_at_after_a_pause",),
    ),
    Mutant(
        "fetch-never-let-go",
        "a large fetch that fails waits for nothing any more",
        "broker/fetch.py",
        "        except BaseException:\n            self._let_go()\n",
        "        except BaseException:\n",
        (FETCH + "test_a_failure_in_a_later_slice_forgets_the_fetch",),
    ),
    Mutant(
        "look-up-of-all",
        "a broker asks about many topics in requests that the controller takes",
        "broker/topics.py",
        "        for start in range(0, len(in_order), QUERIES_MAX):\n"
        "            some = tuple(in_order[start : start + QUERIES_MAX])\n",
        "        for _ in (0,):\n            some = tuple(in_order)\n",
        (FETCH + "test_many_unknown_topics_are_asked_about_in_several_requests",),
    ),
)
