"""What an open transaction waits for, row by row."""

import pytest

from fencepost.records.open_transactions import (
    NO_TIMEOUT_MS,
    Coordinated,
    Holding,
    OpenTransaction,
    judge,
)
from tests.together import table

OPENED = OpenTransaction("orders", 0, 42, 3, 100)
HERE = frozenset({("orders", 0), ("pay", 1)})


def owner(
    state: str = "Ongoing",
    *,
    epoch: int = 3,
    partitions: frozenset[tuple[str, int]] = HERE,
    timeout_ms: int = 60_000,
) -> Coordinated:
    return Coordinated(
        transactional_id="billing",
        state=state,
        producer_id=42,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        started_ms=1_000,
        partitions=partitions,
    )


@table(
    ("known", "is_whole", "expected", "said"),
    [
        pytest.param(None, True, Holding.HANGING, "no coordinator has producer 42", id="of-nobody"),
        pytest.param(None, False, Holding.UNKNOWN, "not every coordinator", id="one-did-not-answer"),
        pytest.param(owner(), True, Holding.ONGOING, "'billing' is Ongoing", id="under-way"),
        pytest.param(owner(), False, Holding.ONGOING, "", id="under-way-and-another-did-not-answer"),
        pytest.param(owner(timeout_ms=NO_TIMEOUT_MS), True, Holding.TWO_PHASE, "two-phase", id="two-phase"),
        pytest.param(owner("PrepareCommit"), True, Holding.ENDING, "still to be written", id="committing"),
        pytest.param(owner("PrepareAbort", epoch=4), True, Holding.ENDING, "", id="aborting-a-later-epoch"),
        pytest.param(owner("PrepareEpochFence"), True, Holding.ENDING, "", id="fencing"),
        pytest.param(
            owner("PrepareCommit", partitions=frozenset({("pay", 1)})),
            True,
            Holding.HANGING,
            "no transaction on this partition",
            id="its-marker-was-written-and-data-came-later",
        ),
        pytest.param(
            owner("CompleteCommit", partitions=frozenset()),
            True,
            Holding.HANGING,
            "CompleteCommit",
            id="ended",
        ),
        pytest.param(owner("Empty", partitions=frozenset()), True, Holding.HANGING, "is Empty", id="empty"),
        pytest.param(
            owner(partitions=frozenset({("orders", 1)})), True, Holding.HANGING, "", id="of-another-partition"
        ),
        pytest.param(
            owner("PrepareCommit", epoch=2), True, Holding.ENDING, "refuses markers of epoch 2", id="wedged"
        ),
        pytest.param(
            owner(epoch=2), True, Holding.ONGOING, "is at epoch 3", id="an-epoch-the-coordinator-lost"
        ),
        pytest.param(owner("Asleep"), True, Holding.UNKNOWN, "'Asleep'", id="a-state-of-later-versions"),
    ],
)
def test_what_it_waits_for(known: Coordinated | None, is_whole: bool, expected: Holding, said: str) -> None:
    judged = judge(OPENED, known, is_whole=is_whole)
    assert judged.holding is expected
    assert said in judged.reason


@table(
    ("known", "due_ms"),
    [
        pytest.param(owner(), 61_000, id="start-and-timeout"),
        pytest.param(owner("PrepareAbort"), None, id="decided"),
        pytest.param(owner(timeout_ms=NO_TIMEOUT_MS), None, id="two-phase"),
        pytest.param(owner("Empty"), None, id="none-is-open"),
    ],
)
def test_when_it_is_due(known: Coordinated, due_ms: int | None) -> None:
    assert known.due_ms == due_ms
