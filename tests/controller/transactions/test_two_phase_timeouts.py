"""Two-phase commit has no timeout (KIP-939): under any clock, after failovers and a client's crashes."""

import pytest

from fencepost.controller.errors import (
    ProducerFenced,
)
from fencepost.controller.transactions.pairs import transaction_pair
from fencepost.controller.transactions.states import (
    DEADLINES,
    KEPT_TIMEOUTS,
    NEVER_MS,
    TWO_PHASE_TIMEOUT_MS,
    State,
)
from tests.controller.transactions.worlds import (
    DECADES_MS,
    ID,
    NOW_MS,
    ORDERS,
    TIMEOUT_MS,
    Coordinator,
    opened,
    partitions,
    transaction,
)
from tests.together import table

# -- no timeout --------------------------------------------------------------------------------------------


@pytest.mark.row("939.6")
def test_a_transaction_of_two_phase_commit_never_times_out() -> None:
    """Nor under a leader whose clock is ahead, nor after a failover."""
    coordinator = Coordinator()
    pair = coordinator.init(two_phase=True, init_version=6, timeout_ms=1)
    assert coordinator.row().transaction_timeout_ms == TWO_PHASE_TIMEOUT_MS
    coordinator.add(*pair)
    assert [key[0] for key, _ in coordinator.view.items(DEADLINES)] == [NEVER_MS]
    for after_ms in (1, TIMEOUT_MS, 2**31, DECADES_MS):
        assert coordinator.time_out(after_ms) == ()
    coordinator.activated_ms = coordinator.now_ms
    assert coordinator.time_out(DECADES_MS) == ()
    coordinator.now_ms = NOW_MS - DECADES_MS
    assert coordinator.time_out() == ()
    assert coordinator.expire(0) == (), "nor is its id forgotten"
    assert coordinator.end(*pair, committed=True) is None


def test_those_that_never_time_out_hide_no_others() -> None:
    coordinator = Coordinator()
    for number in range(1_500):  # more than one look walks over
        name = f"two-phase-{number}"
        coordinator.add(*coordinator.init(of=name, two_phase=True, init_version=6), of=name)
    coordinator.add(*coordinator.init(of="late"), of="late")
    assert coordinator.time_out(TIMEOUT_MS) == ("late",)
    found, _ = coordinator.sweep_timeouts()
    assert (found.transactional_ids, found.more, found.after) == ((), False, None)


def test_no_other_request_has_no_timeout() -> None:
    """The largest number is a timeout below version 6, and cannot be had from it on without permission."""
    row = transaction(State.ONGOING, transaction_timeout_ms=TWO_PHASE_TIMEOUT_MS, init_version=4)
    coordinator = Coordinator(row)
    assert coordinator.keep() == (42, 6, 42, 5)
    assert not coordinator.row().is_two_phase, "keeping it does not make it so"
    assert coordinator.time_out(2**31) == (ID,)


@table(
    ("before", "after", "open_ms", "next_ms"),
    [
        pytest.param(True, True, TWO_PHASE_TIMEOUT_MS, TWO_PHASE_TIMEOUT_MS, id="both"),
        pytest.param(True, False, TWO_PHASE_TIMEOUT_MS, 1234, id="only-before"),
        pytest.param(False, True, TWO_PHASE_TIMEOUT_MS, TWO_PHASE_TIMEOUT_MS, id="only-after"),
        pytest.param(False, False, TIMEOUT_MS, 1234, id="neither"),
    ],
)
@table("bumps_epoch", [True, False], ids=["v2", "v1"])
def test_the_timeouts_of_what_is_kept_and_of_what_follows(
    before: bool, after: bool, open_ms: int, next_ms: int, bumps_epoch: bool
) -> None:
    coordinator = opened(two_phase=before)
    for _ in range(2):
        *client, _, _ = coordinator.keep(two_phase=after, timeout_ms=1234)
        assert coordinator.row().transaction_timeout_ms == open_ms
    coordinator.end(*client, committed=True, bumps_epoch=bumps_epoch)
    assert coordinator.row().transaction_timeout_ms == open_ms
    coordinator.complete()
    assert coordinator.row().transaction_timeout_ms == next_ms
    assert list(coordinator.view.items(KEPT_TIMEOUTS)) == []


def test_the_last_instance_that_keeps_says_what_follows() -> None:
    coordinator = opened()
    coordinator.keep(timeout_ms=1234)
    assert list(coordinator.view.items(KEPT_TIMEOUTS)) == [(ID, 1234)]
    *client, _, _ = coordinator.keep(two_phase=True)
    assert list(coordinator.view.items(KEPT_TIMEOUTS)) == []
    coordinator.end(*client, committed=True)
    coordinator.complete()
    assert coordinator.row().is_two_phase


# -- a client that crashes again and again -----------------------------------------------------------------


def test_forty_thousand_crashes_leave_it_prepared_and_it_commits() -> None:
    """Begun at epoch 32766: the client's epoch overflows at once, and once more."""
    coordinator = Coordinator(transaction(State.EMPTY, epoch=32765), next_producer_id=1000)
    coordinator.init(two_phase=True, init_version=6)
    coordinator.add(42, 32766, partitions(ORDERS, 0, 2))
    given = {(42, 32766)}
    for _ in range(40_000):
        *client, ongoing_id, ongoing_epoch = coordinator.keep(two_phase=True)
        assert (ongoing_id, ongoing_epoch) == (42, 32766)
        assert (client[0], client[1]) not in given
        given.add((client[0], client[1]))
        coordinator.written.clear()
    assert client == [1001, 40_000 - 32_767 - 1]
    assert coordinator.claimed == [1000, 1001]
    assert coordinator.row().partitions == (partitions(ORDERS, 0, 2),)
    for fenced in ((42, 32766), (42, 32767), (1001, client[1] - 1), (1001, client[1] + 1)):
        with pytest.raises(ProducerFenced):
            coordinator.end(*fenced, committed=False, bumps_epoch=True)
    assert coordinator.end(*client, committed=True, bumps_epoch=True) == (1001, client[1] + 1)
    row = coordinator.row()
    assert (transaction_pair(row), row.previous_producer_id) == ((42, 32767), 1001)
    coordinator.complete()
    assert coordinator.row().state is State.COMPLETE_COMMIT
