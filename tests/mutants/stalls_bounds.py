"""What is broken on purpose where the rows that a request makes are bounded."""

from typing import Final

from tests.mutants.mutant import Mutant

TOPICS: Final = (
    "tests/controller/test_topics.py::test_topics_partitions_and_settings_of_a_request_are_bounded_together"
)
ANNOUNCER: Final = "tests/coordinator/test_announcer.py::"
SERVER: Final = "tests/coordinator/test_transaction_server.py::"

STALLS_BOUNDS: Final = (
    Mutant(
        "settings-are-free",
        "the settings of new topics count as their partitions do",
        "controller/topic_creation.py",
        "        if self._rows + 1 + partitions + settings > ROWS_PER_REQUEST_MAX:\n",
        "        if self._rows + 1 + partitions > ROWS_PER_REQUEST_MAX:\n",
        (TOPICS + "[a-setting-more]",),
    ),
    Mutant(
        "rows-off-by-one",
        "a topic counts beside its partitions and settings",
        "controller/topic_creation.py",
        "        if self._rows + 1 + partitions + settings > ROWS_PER_REQUEST_MAX:\n",
        "        if self._rows + partitions + settings > ROWS_PER_REQUEST_MAX:\n",
        (TOPICS + "[a-partition-more]",),
    ),
    Mutant(
        "announced-after-answers",
        "an announcement is sent before its producer is answered",
        "coordinator/announcer.py",
        "            self._announce()\n        finally:\n            self._answer()\n",
        "            self._answer()\n        finally:\n            self._announce()\n",
        ("tests/coordinator/test_announcer.py::test_it_is_sent_before_the_producer_is_answered",),
    ),
    Mutant(
        "answers-behind-a-failure",
        "an answer that cannot be given costs no other producer its own",
        "coordinator/announcer.py",
        "                    self._flush_soon()\n",
        "                    pass\n",
        (ANNOUNCER + "test_an_answer_that_cannot_be_given_closes_its_connection_and_no_other",),
    ),
    Mutant(
        "answers-without-bound",
        "so many answers are collected, and no more",
        "coordinator/announcer.py",
        " or together >= ANSWERS_MAX",
        "",
        ("tests/coordinator/test_announcer.py::test_many_are_announced_in_several_requests[ANSWERS_MAX]",),
    ),
    Mutant(
        "announces-all",
        "a wide transaction is not announced: looking up its leaders would stall the loop",
        "coordinator/announcer.py",
        "<= ANNOUNCED_MAX:",
        "<= 10**9:",
        ("tests/coordinator/test_announcer.py::test_a_wide_transaction_is_not_announced[1-0]",),
    ),
    Mutant(
        "cache-starts-anew",
        "a full cache of rows is not emptied at once: to free 50,000 rows takes the loop 7 ms at least",
        "snapshots/image.py",
        "            self._cache.popitem(last=False)",
        "            self._cache.clear()",
        ("tests/snapshots/test_store.py::test_a_full_cache_loses_one_row_for_each_that_it_takes",),
    ),
    Mutant(
        "transactions-of-a-broker-without-end",
        "the transactions of one request of a broker are bounded: all are decided in one step",
        "coordinator/transaction_server.py",
        " or len(ids) > ADDED_MAX:",
        ":",
        (SERVER + "test_the_transactions_of_one_request_of_a_broker_are_bounded[3-True]",),
    ),
)
