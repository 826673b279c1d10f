"""Mutants of additions that brokers ask for: when they are made, and whose question that answers."""

from typing import Final

from tests.mutants.mutant import Mutant

EARLY: Final = "tests/coordinator/test_early_additions.py::"
WAITING: Final = "tests/broker/test_waiting_together.py::"
ADDITIONS: Final = "coordinator/early_additions.py"
VERIFIER: Final = "broker/verification.py"

ADDITION_MUTANTS: Final = (
    Mutant(
        "concurrent-addition-not-asked-again",
        "an addition waits for the markers of the last transaction, and keeps its place",
        VERIFIER,
        "            is_soon = code == ErrorCode.CONCURRENT_TRANSACTIONS and now_s < each.until_s\n",
        "            is_soon = False\n",
        (WAITING + "test_an_addition_is_asked_again_while_the_last_transaction_ends_and_keeps_its_place",),
    ),
    Mutant(
        "rounds-without-a-pause",
        "questions that come soon after a round share the next one",
        VERIFIER,
        "                        await asyncio.sleep(ROUND_S)\n",
        "                        await asyncio.sleep(0)\n",
        (WAITING + "test_questions_that_come_soon_after_a_round_share_the_next",),
    ),
    Mutant(
        "round-lost-with-its-coordinator",
        "a round that meets a coordinator of the past is sent to the one of now",
        VERIFIER,
        "            if isinstance(outcome, MOVED):\n",
        "            if False:\n",
        (WAITING + "test_a_round_finds_the_coordinator_that_moved",),
    ),
    Mutant(
        "question-keeps-a-past-controller",
        "a client leaves the controller that is active no more",
        "wire/client.py",
        "        if isinstance(outcome, MOVED):\n",
        "        if False:\n",
        (
            "tests/wire/test_controller_client.py::test_a_question_is_one_attempt_and_leaves_what_is_active_no_more",
        ),
    ),
    Mutant(
        "early-addition-by-an-entry",
        "an early addition is refused without an entry, and made in the one that completes the last",
        ADDITIONS,
        "        self._parked.add(wanted)\n        return True\n",
        "        self._parked.add(wanted)\n        return False\n",
        (EARLY + "test_it_is_refused_at_once_and_made_with_the_completion",),
    ),
    Mutant(
        "early-verification-parked",
        "a verification that comes too early adds nothing later",
        ADDITIONS,
        "if each.for_client and self._park(each)",
        "if self._park(each)",
        (EARLY + "test_only_what_a_broker_adds_for_a_client_is_parked",),
    ),
    Mutant(
        "early-addition-never-proved",
        "a broker that asks again is answered by an entry: it finds out that its coordinator was deposed",
        ADDITIONS,
        "        if wanted in self._parked:\n            return False\n",
        "        if wanted in self._parked:\n            return True\n",
        (EARLY + "test_one_that_is_asked_again_is_decided_and_parked_once",),
    ),
    Mutant(
        "early-addition-parked-twice",
        "an early addition is parked once, however often it is asked for",
        ADDITIONS,
        "        if wanted in self._parked:\n",
        "        if False:\n",
        (EARLY + "test_one_that_is_asked_again_is_decided_and_parked_once",),
    ),
    Mutant(
        "early-addition-kept-when-closed",
        "an early addition whose outcome cannot be given may be parked again",
        ADDITIONS,
        "        self._additions.forget(self.addition)\n",
        "        pass\n",
        (EARLY + "test_one_whose_outcome_cannot_be_given_is_parked_again",),
    ),
    Mutant(
        "early-addition-in-silence",
        "the leader of the partition learns that its early addition was made",
        ADDITIONS,
        "            self._announcer.announce(addition.announcement())\n",
        "            pass\n",
        (EARLY + "test_those_of_several_leaders_are_all_made",),
    ),
    Mutant(
        "announcement-of-another-epoch",
        "an announcement answers the additions of its own pair",
        VERIFIER,
        "(self.producer.producer_id, self.producer.producer_epoch, self.topic, self.partition)\n",
        "(self.producer.producer_id, 1, self.topic, self.partition)\n",
        (WAITING + "test_an_announcement_answers_an_addition_at_once[after-the-51]",),
    ),
    Mutant(
        "announcement-and-a-second-answer",
        "the answer to a round changes nothing for a batch that an announcement answered",
        VERIFIER,
        "            if each.is_answered:\n                continue\n            code",
        "            code",
        (WAITING + "test_an_announcement_answers_an_addition_at_once[before-the-51]",),
    ),
    Mutant(
        "announced-addition-asked-again",
        "what was announced is not asked about any more, and its producer's next questions do not wait",
        VERIFIER,
        "            if pause is not None and all(each.is_answered for each in pause.questions):\n",
        "            if False:\n",
        (WAITING + "test_an_announcement_answers_an_addition_at_once[after-the-51]",),
    ),
    Mutant(
        "addition-answers-another-id",
        "an addition answers the batches of its own transactional id",
        VERIFIER,
        "            if question.producer == addition.producer:\n",
        "            if True:\n",
        (WAITING + "test_an_addition_answers_all_batches_that_wait_for_it",),
    ),
    Mutant(
        "addition-answers-one-batch",
        "batches of one producer and partition are appended in their order",
        VERIFIER,
        "                self._added(each)\n",
        "                self._answer(each, code)\n",
        (WAITING + "test_an_addition_answers_all_batches_that_wait_for_it",),
    ),
    Mutant(
        "an-old-epoch-without-its-reason",
        "a producer of an old epoch is answered why it is old, as its coordinator knows it",
        "broker/produce.py",
        "            message = producer.refused(code)\n",
        "            message = str(error)\n",
        ("tests/broker/test_partition_transactions.py::test_the_coordinator_says_why_an_epoch_is_old",),
    ),
)
