"""Bugs that others had (docs/past-bugs.md), planted here: the test that names the bug notices it."""

from typing import Final

from tests.mutants.mutant import Mutant

STORIES: Final = "tests/simulation/test_past_bugs.py::"

PAST_BUGS: Final = (
    Mutant(
        "an-error-is-the-block-at-zero",
        "KAFKA-15845: an answer with an error gives no block",
        "wire/k67_allocate_producer_ids.py",
        "            raise_for(code)\n",
        "            length = length or 1000\n",
        ("tests/broker/test_producer_id_source.py::test_any_other_failure_is_retried_and_gives_no_id",),
    ),
    Mutant(
        "an-end-at-the-last-epoch-bumps-on",
        "KAFKA-18660: an end at the last epoch gives another producer id",
        "controller/transactions/end_txn.py",
        "    if client.epoch >= CLIENT_EPOCH_MAX:\n",
        "    if client.epoch > CLIENT_EPOCH_MAX:\n",
        (STORIES + "test_kafka_18660_an_end_at_the_last_epoch_gives_the_next_pair_and_does_not_fence_it",),
    ),
    Mutant(
        "a-fence-bumps-twice",
        "KAFKA-19367: a fence bumps once, and never past the last epoch",
        "controller/transactions/fencing.py",
        "        producer_epoch=min(row.producer_epoch + 1, EPOCH_MAX),\n",
        "        producer_epoch=row.producer_epoch + 2,\n",
        (STORIES + "test_kafka_19367_a_fence_bumps_once_and_the_last_epoch_does_not_overflow",),
    ),
    Mutant(
        "all-producers-in-one-sweep",
        "KAFKA-16229: producer ids expire in slices",
        "broker/log/producer_state.py",
        "        for _ in range(min(limit, len(self._sweep))):\n",
        "        for _ in range(len(self._sweep)):\n",
        (STORIES + "test_kafka_16229_a_hundred_thousand_producer_ids_expire_in_slices",),
    ),
    Mutant(
        "all-transactional-ids-in-one-decision",
        "KAFKA-16229: transactional ids expire in slices",
        "controller/transactions/expiry.py",
        " if key[1] not in passed_by), EXPIRED_MAX))\n",
        " if key[1] not in passed_by), None))\n",
        (STORIES + "test_kafka_16229_transactional_ids_expire_in_slices",),
    ),
    Mutant(
        "the-vote-is-not-written",
        "PySyncObj #201: a restart knows for whom the node voted",
        "quorum/journal.py",
        "        self._put_ballot(term, votedForNodeId)\n",
        "        self._put_ballot(term, None)\n",
        ("tests/quorum/test_durability.py::test_a_vote_survives_a_crash",),
    ),
    Mutant(
        "any-epoch-is-current",
        "a delayed EndTxn of transactions V2 has an epoch that is over",
        "controller/transactions/end_txn.py",
        "        if row.state in (State.EMPTY, State.ONGOING):\n            raise ProducerFenced(",
        "        if row.state is State.ONGOING:\n            return True\n"
        "        if row.state is State.EMPTY:\n            raise ProducerFenced(",
        ("tests/simulation/test_late_requests.py::test_a_delayed_end_of_v2_ends_nothing",),
    ),
)
