"""Why a transaction is where it is: the sentence for each way to get there."""

import pytest

from fencepost.controller.errors import ConcurrentTransactions
from fencepost.controller.transactions.explain import NAMED_MAX, explain
from fencepost.controller.transactions.states import State
from tests.controller.transactions.group_worlds import PRODUCER_A, PRODUCER_B, A, B, LoopCoordinator
from tests.controller.transactions.worlds import TIMEOUT_MS, Coordinator, transaction
from tests.controller.transactions.worlds import opened as of_two_phase
from tests.together import table


def explained(coordinator: Coordinator) -> str:
    return explain(coordinator.row(), coordinator.now_ms)


def opened() -> Coordinator:
    coordinator = Coordinator()
    coordinator.init(client_id="first")
    coordinator.add(1000, 0)
    coordinator.now_ms += 12_300
    return coordinator


@pytest.mark.parametrize("version", [0, 4])
def test_nothing_was_opened_yet(version: int) -> None:
    coordinator = Coordinator()
    coordinator.init(init_version=version)
    coordinator.now_ms += 300_000
    assert (
        explained(coordinator) == "producer 1000, epoch 0 began 5 min ago and has opened no transaction yet."
    )


def test_open() -> None:
    assert explained(opened()) == (
        "producer 1000, epoch 0 has had a transaction on 1 partition open for 12.3 s; "
        "it is aborted in 47.7 s unless it ends before."
    )


@pytest.mark.parametrize(("committed", "word"), [(True, "committed"), (False, "aborted")])
def test_ended_by_its_producer(committed: bool, word: str) -> None:
    coordinator = opened()
    coordinator.end(1000, 0, committed=committed)
    assert explained(coordinator) == (
        f"the transaction was {word} 0.0 s ago; markers are being written to 1 partition."
    )
    coordinator.complete()
    coordinator.now_ms += 7_200_000
    assert explained(coordinator) == (
        f"the last transaction of producer 1000, epoch 0 was {word}, complete since 2 h, and none is open."
    )


def test_wedged() -> None:
    coordinator = opened()
    coordinator.end(1000, 0, committed=True)
    coordinator.now_ms += 90_000
    row = coordinator.row()
    refusing = tuple((f"t-{index}", 47, coordinator.now_ms - 2_000) for index in range(NAMED_MAX + 1))
    begin = (
        "the transaction was committed 90.0 s ago; it is wedged: its marker is refused by t-0 "
        "(error 47, for 2.0 s)"
    )
    end = (
        ", where a newer epoch of that producer has written; 'fencepost transactions force-terminate' ends "
        "it there as it was decided."
    )
    assert explain(row, coordinator.now_ms, refusing=refusing[:1]) == begin + end
    all_of_them = explain(row, coordinator.now_ms, refusing=refusing)
    assert f"t-{NAMED_MAX - 1} (error 47, for 2.0 s) and 1 more{end}" in all_of_them
    assert f"t-{NAMED_MAX} " not in all_of_them
    assert "being written" not in all_of_them


def test_timed_out() -> None:
    coordinator = opened()
    coordinator.time_out(TIMEOUT_MS)
    assert explained(coordinator) == (
        "the transaction was aborted 0.0 s ago because it was open for longer than its timeout of 60.0 s; "
        "markers are being written to 1 partition."
    )
    coordinator.complete()
    coordinator.now_ms += 1000
    assert explained(coordinator) == (
        "the last transaction of producer 1000, epoch 1 was aborted, complete since 1.0 s, and none is open; "
        "epoch 0 of producer 1000 was fenced by its timeout 1.0 s ago; "
        "a producer that still has epoch 0 may ask for epoch 1 and go on."
    )


def test_timed_out_at_the_last_epoch() -> None:
    coordinator = Coordinator(transaction(State.ONGOING, epoch=32766, started_ms=0))
    coordinator.time_out(TIMEOUT_MS)
    coordinator.complete()
    assert explained(coordinator).endswith(
        "a producer that still has epoch 32766 may ask for a new producer id and go on."
    )


def test_fenced_by_a_new_instance() -> None:
    coordinator = opened()
    with pytest.raises(ConcurrentTransactions):
        coordinator.init(client_id="second")
    assert explained(coordinator) == (
        "the transaction was aborted 0.0 s ago because a new instance (client id 'second') took its epoch 0 "
        "away; markers are being written to 1 partition."
    )
    coordinator.complete()
    coordinator.init(client_id="second")
    coordinator.now_ms += 3 * 86_400_000
    assert explained(coordinator) == (
        "producer 1000, epoch 2 began 3 days ago and has opened no transaction yet; "
        "epoch 0 of producer 1000 was fenced by a new instance (client id 'second') 3 days ago."
    )


@pytest.mark.parametrize("version", [0, 4])
def test_an_abort_in_the_very_ms_in_which_its_instance_came_is_its_own(version: int) -> None:
    coordinator = Coordinator()
    coordinator.init(init_version=version)
    coordinator.init(init_version=version)
    coordinator.add(1000, 1)
    coordinator.end(1000, 1, committed=False)
    assert explained(coordinator) == (
        "the transaction was aborted 0.0 s ago; markers are being written to 1 partition."
    )


def test_before_a_rotation_it_says_what_comes() -> None:
    coordinator = Coordinator(transaction(State.ONGOING, epoch=32766), next_producer_id=85)
    coordinator.end(42, 32766, committed=True, bumps_epoch=True)
    assert explained(coordinator) == (
        "the transaction was committed 0.0 s ago; markers of producer 42, epoch 32767 are being written to "
        "2 partitions; its next transaction has producer id 85, epoch 0."
    )


def test_a_clock_that_went_back_tells_no_negative_time() -> None:
    coordinator = opened()
    coordinator.now_ms -= 1_000_000
    assert "open for 0.0 s; it is aborted in 60.0 s" in explained(coordinator)


def test_kept() -> None:
    coordinator = of_two_phase(epoch=32766)
    coordinator.keep(two_phase=True)
    assert explained(coordinator) == (
        "producer 42, epoch 32766 has had a transaction on 2 partitions open for 1.0 s; it never times out, "
        "as it is of two-phase commit: an external coordinator ends it; another instance kept it, and alone "
        "may end it: producer 1000, epoch 0."
    )


@pytest.mark.row("939.4")
def test_three_producer_ids_at_once() -> None:
    coordinator = of_two_phase(epoch=32766)
    for _ in range(32_767):
        producer_id, epoch, _, _ = coordinator.keep(two_phase=True)
    assert (producer_id, epoch) == (1000, 32766)
    coordinator.end(producer_id, epoch, committed=True, bumps_epoch=True)
    assert explained(coordinator) == (
        "the transaction was committed 0.0 s ago; markers of producer 42, epoch 32767 are being written to "
        "2 partitions; it was ended with producer id 1000; its next transaction has producer id 1001, "
        "epoch 0."
    )


@pytest.mark.parametrize("has_written", [False, True], ids=["idle", "open"])
def test_fenced_by_another_member_of_its_group(has_written: bool) -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.init_for(world.said(0, 1, by=A))
    if has_written:
        world.add(*pair, of=PRODUCER_A)
    world.rebalance((0,), (1,))
    with pytest.raises(ConcurrentTransactions):
        world.init_for(world.said(1, by=B), of=PRODUCER_B, client_id="next")
    said = explain(world.row(PRODUCER_A), world.now_ms)
    by = "another member of its group (client id 'next')"
    if has_written:
        assert said == (
            f"the transaction was aborted 0.0 s ago because {by} took its epoch 0 away; "
            "markers are being written to 1 partition."
        )
    else:
        assert said == (
            "no instance has producer 1000, epoch 1: the next InitProducerId begins a new one; "
            f"epoch 0 of producer 1000 was fenced by {by} 0.0 s ago."
        )


def test_set_aside_by_the_coordinator() -> None:
    coordinator = opened()
    failing = (("a row is broken", coordinator.now_ms - 4_000), ("again", coordinator.now_ms - 500))
    assert explain(coordinator.row(), coordinator.now_ms, failing=failing) == (
        "producer 1000, epoch 0 has had a transaction on 1 partition open for 12.3 s; it is aborted in 47.7 "
        "s unless it ends before; the coordinator set it aside 4.0 s ago and tries it again: a row is "
        "broken; the coordinator set it aside 0.5 s ago and tries it again: again."
    )


@table(
    ("ms", "said"),
    [(-5, "0.0 s"), (0, "0.0 s"), (119_900, "119.9 s"), (120_000, "2 min"), (7_199_000, "120 min"),
     (7_200_000, "2 h"), (172_799_000, "48 h"), (172_800_000, "2 days"), (900_000_000, "10 days")],
)  # fmt: skip
def test_a_span_of_time_as_people_read_it(ms: int, said: str) -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.now_ms += ms
    assert explained(coordinator) == (
        f"producer 1000, epoch 0 began {said} ago and has opened no transaction yet."
    )
