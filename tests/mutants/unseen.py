"""Changes that unguided mutation (unguided.py) made and no test noticed, each with the test it got."""

from typing import Final

from tests.mutants.mutant import Mutant

EXPIRY: Final = "tests/controller/groups/test_offset_expiry.py::"
GIVEN_OUT: Final = "tests/controller/transactions/test_given_out_after_aborts.py::"

UNSEEN: Final = (
    Mutant(
        "unseen-a-part-of-a-request-is-lost",
        "the parts of a request for topics are the request",
        "controller/topic_creation.py",
        "            parts.append((msgspec.structs.replace(request, topics=tuple(topics)), earlier))\n"
        "            earlier",
        "            earlier",
        (
            "tests/controller/test_creation_parts.py::test_every_topic_is_in_one_part_and_no_part_is_too_large",
        ),
    ),
    Mutant(
        "unseen-every-request-asks-for-a-turn",
        "a request that waits for an entry in flight asks for no turn",
        "quorum/proposer.py",
        "        return first_or_last and self._in_flight is None and not deferrable\n",
        "        return first_or_last and self._in_flight is None or not deferrable\n",
        ("tests/node/test_driver.py::test_of_those_waited_for_the_first_and_the_last_ask_for_a_turn",),
    ),
    Mutant(
        "unseen-proposing-while-resigning",
        "behind a control record that cannot be made nothing is proposed",
        "quorum/proposer.py",
        "            return True  # what waits is refused then, and surely not done\n",
        "            return False\n",
        ("tests/quorum/test_failed_leader_change.py::test_what_waits_behind_one_is_refused",),
    ),
    Mutant(
        "unseen-no-tail-of-the-journal",
        "a compacted journal keeps a tail for those who are a little behind",
        "quorum/snapshotter.py",
        "            target = min(target, LogIndex(journal.last_index - TAIL_ENTRIES))\n",
        "            target = min(target, LogIndex(journal.last_index + TAIL_ENTRIES))\n",
        ("tests/quorum/test_snapshots.py::test_the_journal_keeps_a_tail_for_those_who_are_a_little_behind",),
    ),
    Mutant(
        "unseen-another-error-code",
        "an error code is Kafka's",
        "controller/errors.py",
        "    INVALID_RECORD = 87\n",
        "    INVALID_RECORD = 88\n",
        ("tests/controller/test_errors.py::test_each_code_is_kafkas",),
    ),
    Mutant(
        "unseen-no-type-selects-nothing",
        "a list without types has groups of every type",
        "controller/groups/describe.py",
        "            not self._types or group.group_type in self._types\n",
        "            not self._types and group.group_type in self._types\n",
        ("tests/controller/groups/test_lists.py::test_a_list_selects_by_state_and_type",),
    ),
    Mutant(
        "unseen-index-of-an-earlier-commit",
        "the indexes have an offset where its last commit puts it",
        "controller/groups/offset_tables.py",
        "    if _places(kept) != _places(before):\n",
        "    if _places(kept) == _places(before):\n",
        (EXPIRY + "test_the_indexes_have_a_committed_offset_where_its_last_commit_puts_it",),
    ),
    Mutant(
        "unseen-a-retry-ends-two-phases",
        "an EndTxn that is tried again keeps a producer of two-phase commit one",
        "controller/transactions/end_txn.py",
        "        enables_two_phase=is_two_phase,\n",
        "",
        (GIVEN_OUT + "test_an_end_of_two_phase_commit_that_is_tried_again_stays_of_two_phases",),
    ),
    Mutant(
        "unseen-cleaned-without-the-aborted",
        "a cleaned segment has the entries of the aborted transactions whose markers stay",
        "broker/log/cleaner.py",
        "        self._segment.index_aborted(ended)\n",
        "        pass\n",
        ("tests/broker/log/test_cleaner_room.py::test_what_a_pass_had_no_room_for_is_aborted_as_before",),
    ),
)
