"""Group-aware InitProducerId: whom it fences, when it answers, what it refuses, what it records (KIP-447)."""

import pytest

from fencepost.controller.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    ProducerFenced,
)
from fencepost.controller.group_errors import (
    IllegalGeneration,
)
from fencepost.controller.groups import offset_tables
from fencepost.controller.transactions.assignments import ASSIGNMENTS, OWNERS, OWNERS_MAX, assigned
from fencepost.controller.transactions.group_init import (
    RIVALS_MAX,
    RivalsEnding,
    fence,
    rivals,
)
from fencepost.controller.transactions.states import State
from fencepost.records.levels import TWO_PHASE_COMMIT
from fencepost.records.transaction_log import GroupAssignment
from tests.controller.groups.worlds import GROUP
from tests.controller.transactions.group_worlds import (
    GENERATION,
    PRODUCER_A,
    PRODUCER_B,
    A,
    B,
    LoopCoordinator,
    moved,
)
from tests.controller.transactions.worlds import ORDERS, partitions
from tests.together import table

# -- whom it fences, and when it answers -------------------------------------------------------------------


@pytest.mark.row("447.4")
@pytest.mark.parametrize("offsets", [True, False], ids=["with-offsets", "with-outputs-alone"])
def test_the_producer_that_lost_a_partition_is_aborted_and_fenced(offsets: bool) -> None:
    world, zombie = moved(offsets=offsets)
    with pytest.raises(RivalsEnding) as ending:
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert ending.value.transactional_ids == (PRODUCER_A,)
    assert world.row(PRODUCER_A).state is State.PREPARE_ABORT
    assert world.fetched(partition=1, require_stable=True).offset == -1
    with pytest.raises(ProducerFenced):
        world.add(*zombie, of=PRODUCER_A)
    with pytest.raises(ProducerFenced):
        world.commit_in(zombie, 10, of=PRODUCER_A, partition=1, by=world.identity(A, GENERATION))
    with pytest.raises(ProducerFenced):
        world.init(*zombie, of=PRODUCER_A)
    assert world.complete(PRODUCER_A)
    assert world.init_for(world.said(1, by=B), of=PRODUCER_B) == (1001, 0)
    world.check()


@pytest.mark.row("447.4")
@pytest.mark.parametrize("offsets", [True, False], ids=["with-offsets", "with-outputs-alone"])
def test_it_is_answered_when_what_it_aborted_is_complete(offsets: bool) -> None:
    world, _ = moved(offsets=offsets)
    for _ in range(3):  # a client that retries, a new leader: neither is answered before
        with pytest.raises(ConcurrentTransactions):
            world.init_for(world.said(1, by=B), of=PRODUCER_B)
        assert world.row(PRODUCER_A).state is State.PREPARE_ABORT
    world.complete(PRODUCER_A)
    world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert world.row(PRODUCER_A).state is State.COMPLETE_ABORT


def test_one_that_knows_no_groups_is_fenced_by_its_pending_offsets_and_waited_for() -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.begin(of="plain")
    assert world.commit_in(pair, 9, of="plain", partition=1, by=world.identity(A)) == 0
    world.rebalance((0,), (1,))
    for _ in range(2):
        with pytest.raises(RivalsEnding):
            world.init_for(world.said(1, by=B), of=PRODUCER_B)
    with pytest.raises(ProducerFenced):
        world.commit_in(pair, 9, of="plain", partition=1)
    world.check()
    world.complete("plain")
    world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert dict(world.view.items(OWNERS)) == {(GROUP, ORDERS, 1): (PRODUCER_B,)}
    assert assigned(world.view, "plain") == ()
    world.check()


@table("ended", [None, True, False], ids=["empty", "committed", "aborted"])
def test_one_without_a_transaction_is_fenced_too(ended: bool | None) -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.init_for(world.said(0, 1, by=A))
    if ended is not None:
        world.add(*pair, of=PRODUCER_A)
        world.end(*pair, committed=ended, of=PRODUCER_A)
        world.complete(PRODUCER_A)
    world.rebalance((0,), (1,))
    with pytest.raises(RivalsEnding) as ending:
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert ending.value.transactional_ids == (PRODUCER_A,)
    with pytest.raises(ProducerFenced):
        world.add(*pair, of=PRODUCER_A)
    with pytest.raises(ProducerFenced):
        world.init(*pair, of=PRODUCER_A)
    with pytest.raises(ProducerFenced):
        world.end(*pair, committed=False, of=PRODUCER_A, bumps_epoch=True)
    world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.check()


def test_one_that_was_fenced_begins_anew_with_what_it_has_left() -> None:
    world, zombie = moved()
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.complete(PRODUCER_A)
    producer_id, epoch = world.init_for(world.said(0, by=A))
    assert producer_id == zombie[0]
    assert epoch > zombie[1]
    world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.add(producer_id, epoch, of=PRODUCER_A)  # B took partition 1 alone
    assert assigned(world.view, PRODUCER_A) == (
        GroupAssignment(GROUP, GENERATION + 1, (partitions(ORDERS, 0),)),
    )
    world.check()


def test_one_that_was_fenced_begins_anew_with_what_it_has_left_and_no_transaction() -> None:
    world = LoopCoordinator((0, 1), ())
    first = world.init_for(world.said(0, 1, by=A))
    world.rebalance((0,), (1,))
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert world.pair(PRODUCER_A) == (first[0], first[1] + 1)
    assert world.init_for(world.said(0, by=A)) == (first[0], first[1] + 2)
    world.check()


def test_a_fence_is_done_once() -> None:
    world, _ = moved(offsets=False)
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.complete(PRODUCER_A)
    before = world.row(PRODUCER_A)
    for _ in range(3):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert world.row(PRODUCER_A) == before


def test_what_ends_by_itself_is_waited_for_and_its_producer_fenced() -> None:
    world, pair = moved(offsets=False)
    world.end(*pair, committed=True, of=PRODUCER_A)
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert world.row(PRODUCER_A).state is State.PREPARE_COMMIT
    world.complete(PRODUCER_A)
    with pytest.raises(RivalsEnding):  # it is fenced now
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.init_for(world.said(1, by=B), of=PRODUCER_B)
    with pytest.raises(ProducerFenced):
        world.add(*pair, of=PRODUCER_A)


def test_one_that_timed_out_does_not_go_on() -> None:
    """Its instance might be given the epoch of that abort (KIP-588): not after it lost its partition."""
    world, pair = moved(offsets=False)
    assert world.time_out(70_000) == (PRODUCER_A,)
    world.complete(PRODUCER_A)
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.init_for(world.said(1, by=B), of=PRODUCER_B)
    with pytest.raises(ProducerFenced):
        world.init(*pair, of=PRODUCER_A)


def test_a_transaction_of_two_phase_commit_is_waited_for() -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.init_for(world.said(0, 1, by=A), enables_two_phase=True)
    world.add(*pair, of=PRODUCER_A)
    world.rebalance((0,), (1,))
    for _ in range(2):
        with pytest.raises(RivalsEnding):
            world.init_for(world.said(1, by=B), of=PRODUCER_B)
    assert world.row(PRODUCER_A).state is State.ONGOING
    world.end(*pair, committed=True, of=PRODUCER_A)
    world.complete(PRODUCER_A)
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.init_for(world.said(1, by=B), of=PRODUCER_B)


def test_what_is_kept_stays_for_the_partitions_it_had() -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.init_for(world.said(0, 1, by=A), enables_two_phase=True)
    world.add(*pair, of=PRODUCER_A)
    world.rebalance((0,), (1,))
    kept = world.init_for(world.said(0, by=A), enables_two_phase=True, keeps_prepared=True)
    assert assigned(world.view, PRODUCER_A)[0].partitions == (partitions(ORDERS, 0, 1),)
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=PRODUCER_B)
    world.end(*kept, committed=True, of=PRODUCER_A)
    world.check()


@pytest.mark.parametrize("indexes", [(2,), ()], ids=["another-partition", "no-partition"])
def test_others_are_left_alone(indexes: tuple[int, ...]) -> None:
    world = LoopCoordinator((0, 1), (2,))
    pair = world.init_for(world.said(0, 1, by=A))
    world.add(*pair, of=PRODUCER_A)
    world.add_offsets(*pair, of=PRODUCER_A)
    world.commit_in(pair, 9, of=PRODUCER_A, partition=1, by=world.identity(A))
    before = world.row(PRODUCER_A)
    world.init_for(world.said(*indexes, by=B), of=PRODUCER_B)
    assert world.row(PRODUCER_A) == before
    assert assigned(world.view, PRODUCER_B)[0].group_id == GROUP
    world.check()


def test_another_groups_offsets_are_left_alone() -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.begin(of="plain", group_id="others")
    world.commit_in(pair, 9, of="plain", partition=1, group_id="others")
    before = world.row("plain")
    world.init_for(world.said(1, by=A))
    assert world.row("plain") == before


def test_more_rivals_than_one_decision_fences() -> None:
    world = LoopCoordinator((0, 1), ())
    names = [f"plain-{number:03}" for number in range(RIVALS_MAX)]
    for index in (0, 1):
        for name in names:
            whose = f"{name}-{index}"
            pair = world.begin(of=whose)
            assert world.commit_in(pair, 9, of=whose, partition=index) == 0
    found = rivals(world.view, world.said(0, 1, by=A), PRODUCER_A)
    assert len(found.held) == 2 * RIVALS_MAX
    world.view.room = 10_000
    few = fence(world.view, world.said(0, 1, by=A), found, now_ms=1, by="")
    assert 0 < len(few.transactional_ids) < RIVALS_MAX
    world.view.room = 1
    assert len(fence(world.view, world.said(0, 1, by=A), found, now_ms=1, by="").transactional_ids) == 1
    world.view.room = 100_000_000
    fenced: list[str] = []
    for _ in range(2):
        with pytest.raises(RivalsEnding) as ending:
            world.init_for(world.said(0, 1, by=A))
        fenced += ending.value.transactional_ids[:RIVALS_MAX]
    assert len(set(fenced)) == 2 * RIVALS_MAX
    world.check()
    assert max(len(names) for _, names in world.view.items(OWNERS)) <= OWNERS_MAX
    for name in fenced:
        world.complete(name)
    world.init_for(world.said(0, 1, by=A))
    assert {names for _, names in world.view.items(OWNERS)} == {(PRODUCER_A,)}
    world.check()


def test_a_pending_offset_of_an_older_log_level_is_waited_for() -> None:
    world = LoopCoordinator((0, 1), (), level=TWO_PHASE_COMMIT)
    pair = world.begin(of="plain")
    world.commit_in(pair, 9, of="plain", partition=1)
    assert list(world.view.items(offset_tables.PRODUCERS)) == []
    world.raise_level()
    with pytest.raises(ConcurrentTransactions, match="log level"):
        world.init_for(world.said(1, by=A))
    world.end(*pair, committed=True, of="plain")
    world.init_for(world.said(1, by=A))


# -- its own id --------------------------------------------------------------------------------------------


@pytest.mark.row("447.7")
def test_it_is_called_again_after_every_rebalance() -> None:
    world = LoopCoordinator((0, 1), ())
    pairs = [world.init_for(world.said(0, 1, by=A))]
    for indexes in ((0,), (0, 1), (1,)):
        world.rebalance(indexes, ())
        pairs.append(world.init_for(world.said(*indexes, by=A)))
    assert pairs == [(1000, 0), (1000, 1), (1000, 2), (1000, 3)]
    assert assigned(world.view, PRODUCER_A) == (
        GroupAssignment(GROUP, GENERATION + 3, (partitions(ORDERS, 1),)),
    )
    world.check()


def test_its_own_open_transaction_is_aborted_as_ever() -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.init_for(world.said(0, 1, by=A))
    world.add(*pair, of=PRODUCER_A)
    with pytest.raises(ConcurrentTransactions):
        world.init_for(world.said(0, 1, by=A))
    assert world.row(PRODUCER_A).state is State.PREPARE_ABORT
    with pytest.raises(ConcurrentTransactions):
        world.init_for(world.said(0, 1, by=A))
    world.complete(PRODUCER_A)
    world.init_for(world.said(0, 1, by=A))
    world.check()


@pytest.mark.row("447.8")
def test_without_a_transactional_id_one_is_made_and_named() -> None:
    world = LoopCoordinator((0,), (1,))
    first = world.init_for(world.said(0, by=A), of=None)
    name = world.made
    assert name == f"{GROUP}-{first[0]}"
    assert world.row(name).producer_id == first[0]
    assert assigned(world.view, name)[0].partitions == (partitions(ORDERS, 0),)
    world.add(*first, of=name)
    world.init_for(world.said(1, by=B), of=None)
    assert world.made != name
    with pytest.raises(ConcurrentTransactions):
        world.init_for(world.said(0, by=A), of=name)
    world.check()


def test_a_made_id_that_is_in_use_is_not_given() -> None:
    world = LoopCoordinator((0,), ())
    world.init(of=f"{GROUP}-1001")
    before = list(world.written)
    with pytest.raises(CoordinatorLoadInProgress):
        world.init_for(world.said(0, by=A), of=None)
    assert world.written == before
    assert world.init_for(world.said(0, by=A), of=None) == (1002, 0)


def test_a_request_that_is_refused_or_waits_takes_no_producer_id() -> None:
    world, _ = moved()
    before = list(world.claimed)
    with pytest.raises(IllegalGeneration):
        world.init_for(world.said(1, by=B, generation=GENERATION), of=None)
    with pytest.raises(RivalsEnding):
        world.init_for(world.said(1, by=B), of=None)
    assert world.claimed == before


def test_an_instance_that_goes_on_keeps_what_it_was_assigned_and_a_new_one_does_not() -> None:
    world = LoopCoordinator((0, 1), ())
    pair = world.init_for(world.said(0, 1, by=A))
    given = assigned(world.view, PRODUCER_A)
    pair = world.init(*pair, of=PRODUCER_A)
    assert assigned(world.view, PRODUCER_A) == given
    world.init(of=PRODUCER_A)
    assert assigned(world.view, PRODUCER_A) == ()
    world.check()


def test_an_id_that_expires_has_nothing_any_more() -> None:
    world = LoopCoordinator((0, 1), ())
    world.init_for(world.said(0, 1, by=A))
    world.now_ms += 10_000
    assert world.expire(1000) == (PRODUCER_A,)
    assert list(world.view.items(ASSIGNMENTS)) == []
    assert list(world.view.items(OWNERS)) == []
    world.check()
