"""Bugs that others had with transactions: here they do not happen. Each test names its bug.

The epochs run out after a few bumps (transactions.py): ``CLIENT_EPOCH_MAX`` stands for 32766.
"""

from collections.abc import Iterator

import pytest

from fencepost.broker.log.producer_state import Producer, ProducerStates
from fencepost.controller.clocks import IdleStamps
from fencepost.controller.errors import CoordinatorLoadInProgress, ErrorCode
from fencepost.controller.transactions import states
from fencepost.controller.transactions.expiry import EXPIRED_MAX, decide_expire
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.controller.transactions.states import State, Transaction
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.end_marker import EndMarker
from fencepost.records.transaction_log import TransactionForgotten, TransactionStateRecord
from fencepost.records.types import ProducerId
from tests.simulation.coordinator import TIMES
from tests.simulation.desk import NO_NODE, Desk, Letter, Program, calm_desk
from tests.simulation.transactions import EPOCH_MAX

CLIENT_EPOCH_MAX = EPOCH_MAX - 1
PLACE, OTHER = 0, 1
SHORT_MS = 500


@pytest.fixture
def desk() -> Iterator[Desk]:
    with calm_desk() as desk:
        yield desk


def at_the_last_epoch(desk: Desk, *, timeout_ms: int = 60_000, bumps_epoch: bool = False) -> Program:
    """A producer that can be bumped no more."""
    program = Program(desk, timeout_ms=timeout_ms, bumps_epoch=bumps_epoch)
    for epoch in range(CLIENT_EPOCH_MAX + 1):
        program.identify()
        assert program.pair[1] == epoch
    return program


# -- Kafka: producer ids and unknown outcomes ------------------------------------------------------------


def test_kafka_14694_nobody_waits_for_a_block_of_producer_ids(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """InitProducerId held a lock while a block was fetched. Here it is told 14 at once, and harms nobody."""
    known = Program(desk, "known")
    known.identify()

    def none_left() -> ProducerId:
        raise CoordinatorLoadInProgress("no producer id is at hand")

    monkeypatch.setattr(desk.leader.server, "allocate_producer_id", none_left)
    first = Letter(desk, InitProducerId("new", 1000)).deliver()
    known.begin()
    known.write(PLACE)
    assert first.answer() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    monkeypatch.undo()
    assert Program(desk, "new").identify().producer_epoch == 0


def test_kafka_14417_init_producer_id_is_never_told_request_timed_out(desk: Desk) -> None:
    """7 is fatal to old clients: an outcome that nobody knows is 15, which they repeat."""
    leader = desk.leader
    desk.cut_off(leader.node_id)
    letter = Letter(desk, InitProducerId("payments", 1000), leader).deliver()
    assert letter.answer() == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_kafka_9666_retries_burn_no_epochs_while_the_log_is_unavailable(desk: Desk) -> None:
    """Kafka bumped in memory whenever the append failed, until no epoch was left to fence with."""
    program = Program(desk)
    program.identify()
    program.begin()
    program.write(PLACE)
    leader = desk.leader
    others = [node for node in desk.sim.processes if node != leader.node_id]
    pairs = [(leader.node_id, node) for node in others]
    desk.sim.network.block(pairs)
    for _ in range(3 * EPOCH_MAX):
        Letter(desk, InitProducerId("payments", 1000), leader).deliver()
        desk.wait(0.05)
    desk.sim.network.unblock(pairs)
    desk.wait(3.0)
    assert Program(desk).identify().producer_epoch <= 2 * len(others)


# -- Kafka: the last epochs ------------------------------------------------------------------------------


def test_kafka_18660_an_end_at_the_last_epoch_gives_the_next_pair_and_does_not_fence_it(desk: Desk) -> None:
    """V2: the answer had the wrong pair, and the next transaction, begun at once, was fenced."""
    program = at_the_last_epoch(desk, bumps_epoch=True)
    before = program.pair
    program.begin()
    program.write(PLACE)
    answer = program.end(committed=True)
    assert (answer.producer_id > before[0], answer.producer_epoch) == (True, 0)
    program.begin()
    program.write(PLACE, OTHER)
    assert program.end(committed=True).producer_epoch == 1
    desk.settle("payments")
    assert len(desk.read()) == 3


def test_kafka_19367_a_fence_bumps_once_and_the_last_epoch_does_not_overflow(desk: Desk) -> None:
    """The abort bumped a second time: 32766, 32767, -32768."""
    program = at_the_last_epoch(desk)
    program.begin()
    program.write(PLACE)
    restarted = Program(desk)
    restarted.identify()
    assert (restarted.pair[0] > program.pair[0], restarted.pair[1]) == (True, 0)
    marked = [fact for fact in desk.sim.partitions[PLACE].log if isinstance(fact, EndMarker)]
    assert [(marker.producer_epoch, marker.committed) for marker in marked] == [(EPOCH_MAX, False)]


def test_kafka_20090_a_timeout_at_the_last_epoch_ends_and_a_late_abort_changes_nothing(desk: Desk) -> None:
    """It stayed Ongoing for ever: the late EndTxn passed for a retry, and nothing was left to fence with."""
    program = at_the_last_epoch(desk, timeout_ms=SHORT_MS)
    program.begin()
    program.write(PLACE)
    late = program.ending(committed=False)
    desk.wait((SHORT_MS + 3 * TIMES.timeouts_interval_ms) / 1000)
    assert desk.settle("payments").state is State.COMPLETE_ABORT
    assert desk.row("payments").producer_epoch == EPOCH_MAX
    assert late.deliver().answer() == ErrorCode.UNKNOWN_PRODUCER_ID
    before = program.pair
    program.identify()
    assert (program.pair[0] > before[0], program.pair[1]) == (True, 0)
    program.begin()
    program.write(PLACE)
    assert program.end(committed=True) is None
    desk.settle("payments")
    assert len(desk.read()) == 1


# -- Kafka: expiry ---------------------------------------------------------------------------------------


def test_kafka_16229_a_hundred_thousand_producer_ids_expire_in_slices() -> None:
    """One sweep removed keys from a list, 5.7 s. Here a call looks at so many and leaves the rest."""
    producers = ProducerStates()
    producers.restore({ProducerId(number): Producer(epoch=0, seen_ms=0) for number in range(100_000)})
    more, sizes = True, []
    while more:
        more = producers.expire(now_ms=1_000, expiration_ms=1_000, limit=1_000)
        sizes.append(len(producers.table))
    assert sizes[:3] == [99_000, 98_000, 97_000]
    assert sizes[-1] == 0
    assert len(sizes) <= 101


def test_kafka_16229_transactional_ids_expire_in_slices() -> None:
    view = Overlay(EmptyView())
    for number in range(EXPIRED_MAX + 1):
        row = Transaction(f"id-{number:06}", ProducerId(number), 0, 1000, State.EMPTY, updated_ms=0)
        states.replay(view, states.record_of(row))
    decided = decide_expire(view, IdleStamps(0, None))
    assert len(decided.records) == EXPIRED_MAX
    for record in decided.records:
        assert isinstance(record, TransactionForgotten)
        states.replay_forgotten(view, record)
    assert len(decide_expire(view, IdleStamps(0, None)).records) == 1


# -- others ----------------------------------------------------------------------------------------------


def test_redpanda_30003_a_snapshot_keeps_an_open_transaction_without_a_batch(desk: Desk) -> None:
    """A coordinator that began from a snapshot knew nothing of it: its producer was lost."""
    program = Program(desk)
    program.identify()
    program.begin()
    assert program.add(PLACE) == ErrorCode.NONE
    wiped = next(p for p in desk.sim.processes.values() if p is not desk.leader)
    wiped.kill()
    wiped.wipe(desk.sim.new_uuid())
    desk.wait(4.0)  # long enough for two snapshots: what comes first is in no journal any more
    wiped.start()
    desk.wait(4.0)
    assert desk.sim.ledger.counts["snapshots installed"] >= 1
    assert wiped.replica is not None
    assert states.get(wiped.replica.image, "payments") == desk.row("payments")
    assert desk.row("payments").state is State.ONGOING
    assert program.send(program.batch(PLACE)) == ErrorCode.NONE
    assert program.end(committed=True) is None
    desk.settle("payments")
    assert len(desk.read()) == 1


@pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "after-a-failover"])
def test_kfake_a_restarted_producer_aborts_what_it_had_open(desk: Desk, failover: bool) -> None:
    """Its InitProducerId left the transaction open, and the next commit published the dead one's records."""
    dead = Program(desk)
    dead.identify()
    dead.begin()
    dead.write(PLACE, OTHER)
    if failover:
        leader = desk.leader
        leader.kill()
        desk.wait(2.0)
        leader.start()
    restarted = Program(desk)
    restarted.identify()
    assert restarted.pair == (dead.pair[0], dead.pair[1] + 2)
    restarted.begin()
    restarted.write(PLACE)
    assert restarted.end(committed=True) is None
    desk.settle("payments")
    assert desk.read() == [restarted.purpose]
    assert desk.sim.partitions[OTHER].last_stable == len(desk.sim.partitions[OTHER].log)


def test_a_pair_of_a_forgotten_id_is_nobodys(desk: Desk) -> None:
    """Row 360.4: the id expired, the program did not: it is given another producer id, never its own."""
    program = Program(desk)
    program.identify()
    before = program.pair
    desk.wait((TIMES.expiration_ms + 3 * TIMES.expiry_interval_ms) / 1000)
    assert program.add(PLACE) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    program.identify()
    assert program.pair[0] > before[0]
    assert program.pair != NO_NODE
    assert isinstance(states.record_of(desk.row("payments")), TransactionStateRecord)
