"""The proposals' worked examples, step by step, every field."""

import pytest

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced
from fencepost.controller.transactions.states import State
from tests.controller.transactions.worlds import ORDERS, Coordinator, partitions, transaction

MAX = 32767


def fields(coordinator: Coordinator) -> tuple[State, int, int, int, int, int]:
    """State, ProducerId, ProducerEpoch, PrevProducerId, NextProducerId, NextProducerEpoch."""
    row = coordinator.row()
    return (
        row.state,
        row.producer_id,
        row.producer_epoch,
        row.previous_producer_id,
        row.next_producer_id,
        row.next_producer_epoch,
    )


def test_kip_939_a_transaction_with_an_epoch_overflow() -> None:
    """Vanilla KIP-890, a commit at the last epoch."""
    coordinator = Coordinator(transaction(producer_id=42, epoch=MAX - 2), next_producer_id=85)

    assert coordinator.init() == (42, MAX - 1)
    assert fields(coordinator) == (State.EMPTY, 42, MAX - 1, -1, -1, -1)

    coordinator.add(42, MAX - 1, partitions(ORDERS, 0))
    assert fields(coordinator) == (State.ONGOING, 42, MAX - 1, -1, -1, -1)

    assert coordinator.end(42, MAX - 1, committed=True, bumps_epoch=True) == (85, 0)
    assert fields(coordinator) == (State.PREPARE_COMMIT, 42, MAX, -1, 85, 0)

    assert coordinator.complete()
    assert fields(coordinator) == (State.COMPLETE_COMMIT, 85, 0, 42, -1, -1)
    assert coordinator.row().instance_epoch == 0, "the new pair's (row 360.2)"

    # "if the commit operation times out and the client retries with the previous ProducerId and ProducerEpoch
    # we can detect the retry and return success" (row 939.5)
    assert coordinator.end(42, MAX - 1, committed=True, bumps_epoch=True) == (85, 0)
    assert fields(coordinator) == (State.COMPLETE_COMMIT, 85, 0, 42, -1, -1)

    # The next transaction of the new pair: at most one of the extra fields is ever set.
    coordinator.add(85, 0, partitions(ORDERS, 1))
    assert coordinator.end(85, 0, committed=True, bumps_epoch=True) == (85, 1)
    assert fields(coordinator) == (State.PREPARE_COMMIT, 85, 1, -1, -1, -1)
    coordinator.complete()
    assert fields(coordinator) == (State.COMPLETE_COMMIT, 85, 1, -1, -1, -1)


def test_kip_939_a_transaction_of_two_phase_commit_with_two_epoch_overflows() -> None:
    """All ten steps. At step 8 the proposal stores MAX and answers MAX-1; here what is stored is answered."""
    coordinator = Coordinator(transaction(producer_id=42, epoch=MAX - 2), next_producer_id=73)

    # 1. InitProducerId(false)
    assert coordinator.init(two_phase=True, init_version=6) == (42, MAX - 1)  # and Ongoing -1, -1
    assert fields(coordinator) == (State.EMPTY, 42, MAX - 1, -1, -1, -1)

    # 2. AddPartitionsToTxn
    coordinator.add(42, MAX - 1, partitions(ORDERS, 0))
    assert fields(coordinator) == (State.ONGOING, 42, MAX - 1, -1, -1, -1)

    # 3. prepared on the client, which crashes; 4. InitProducerId(true)
    assert coordinator.keep(two_phase=True) == (73, 0, 42, MAX - 1)
    assert fields(coordinator) == (State.ONGOING, 42, MAX - 1, -1, 73, 0)

    # 5. crash; 6. InitProducerId(true)
    assert coordinator.keep(two_phase=True) == (73, 1, 42, MAX - 1)
    assert fields(coordinator) == (State.ONGOING, 42, MAX - 1, -1, 73, 1)

    # 7. crash a few times
    for epoch in range(2, MAX - 1):
        assert coordinator.keep(two_phase=True) == (73, epoch, 42, MAX - 1)

    # 8. InitProducerId(true)
    assert coordinator.keep(two_phase=True) == (73, MAX - 1, 42, MAX - 1)
    assert fields(coordinator) == (State.ONGOING, 42, MAX - 1, -1, 73, MAX - 1)

    # 9. commit, with the latest pair: three producer ids at once
    coordinator.next_is(85)
    assert coordinator.end(73, MAX - 1, committed=True, bumps_epoch=True) == (85, 0)
    assert fields(coordinator) == (State.PREPARE_COMMIT, 42, MAX, 73, 85, 0)

    # 10. the transition to CompleteCommit
    assert coordinator.complete()
    assert fields(coordinator) == (State.COMPLETE_COMMIT, 85, 0, 73, -1, -1)

    # "to avoid self-fencing on retries (i.e. if the commit request times out and the client retries with
    # previous producer id, we can return success and new producer id)"
    assert coordinator.end(73, MAX - 1, committed=True, bumps_epoch=True) == (85, 0)
    assert fields(coordinator) == (State.COMPLETE_COMMIT, 85, 0, 73, -1, -1)
    assert coordinator.claimed == [73, 85]


def test_kip_939_the_retry_while_the_markers_are_written_waits() -> None:
    coordinator = Coordinator(transaction(State.ONGOING, 42, MAX - 1), next_producer_id=85)
    coordinator.end(42, MAX - 1, committed=True, bumps_epoch=True)
    with pytest.raises(ConcurrentTransactions):
        coordinator.end(42, MAX - 1, committed=True, bumps_epoch=True)
    assert coordinator.claimed == [85], "a retry wastes no producer id"


def test_kip_939_who_lost_the_answer_may_ask_who_it_is_instead() -> None:
    """The pair before the rotation is recognised by InitProducerId, too."""
    coordinator = Coordinator(transaction(State.ONGOING, 42, MAX - 1), next_producer_id=85)
    coordinator.end(42, MAX - 1, committed=True, bumps_epoch=True)
    coordinator.complete()
    assert coordinator.init(42, MAX - 1) == (85, 0)
    with pytest.raises(ProducerFenced):
        coordinator.init(42, MAX - 2)


def test_v1_rotates_when_it_asks_and_the_previous_pair_is_recognised() -> None:
    """Row 939.5 as V1 has it: an end bumps nothing, InitProducerId past the last epoch rotates."""
    coordinator = Coordinator(transaction(State.ONGOING, 42, MAX - 1), next_producer_id=85)
    assert coordinator.end(42, MAX - 1, committed=True) is None
    coordinator.complete()
    assert fields(coordinator) == (State.COMPLETE_COMMIT, 42, MAX - 1, -1, -1, -1)
    assert coordinator.end(42, MAX - 1, committed=True) is None, "a retry of the commit"

    assert coordinator.init(42, MAX - 1) == (85, 0)
    assert fields(coordinator) == (State.EMPTY, 85, 0, 42, -1, -1)
    assert coordinator.init(42, MAX - 1) == (85, 0), "a retry of InitProducerId"
    assert coordinator.claimed == [85]

    with pytest.raises(ProducerFenced):
        coordinator.end(42, MAX - 1, committed=True)
    with pytest.raises(InvalidProducerIdMapping):
        coordinator.end(41, MAX - 1, committed=True)


def test_kip_360_a_retry_that_spans_a_failover_is_answered() -> None:
    """Row 360.3: nothing but the log's records is needed to recognise it; Kafka forgets and fences."""
    coordinator = Coordinator(transaction(epoch=5))
    assert coordinator.init(42, 5) == (42, 6)
    assert coordinator.init(42, 6) == (42, 7)
    follower = Coordinator(transaction(epoch=5))
    for record in coordinator.written:
        follower.applied(Decision((record,), None))
    assert follower.row() == coordinator.row()
    for epoch in (5, 6):
        assert follower.init(42, epoch) == (42, 7), "any number of lost bumps"
