"""What is broken on purpose around pairs of producer id and epoch, idle ids and sequences that wrap."""

from typing import Final

from tests.mutants.mutant import Mutant

PRODUCER_STATE: Final = "tests/broker/log/test_producer_state.py::"
STATES_FILE: Final = "broker/log/producer_state.py"

EPOCHS: Final = (
    # -- sequences -------------------------------------------------------------------------------------------
    Mutant(
        "sequences-compared-as-numbers",
        "a sequence before the wrap precedes one after it",
        STATES_FILE,
        "    return 0 < (other - sequence) & SEQUENCE_MAX <= SEQUENCE_MAX // 2\n",
        "    return sequence < other\n",
        (
            PRODUCER_STATE + "test_the_sequence_may_wrap_while_a_verification_is_under_way"
            "[a-batch-across-the-wrap-asked-in-order-unknown-producer]",
        ),
    ),
    Mutant(
        "lowest-question-rules",
        "the next sequence in line is taken, whatever was verified before",
        STATES_FILE,
        "        elif asked is not None and asked.epoch == epoch and _precedes(",
        "        if asked is not None and asked.epoch == epoch and _precedes(",
        (PRODUCER_STATE + "test_a_sequence_that_can_never_come_blocks_no_batch_that_is_expected",),
    ),
)
