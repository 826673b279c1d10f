"""What comes late: an EndTxn, a marker, a batch, an AddPartitionsToTxn of a transaction that is over.

The first is the hole of the protocol that versions of EndTxn below 5 cannot close: neither the client nor the
coordinator is to blame, for nothing in the request says which transaction it means (KIP-890).
"""

from collections.abc import Iterator

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.states import State
from fencepost.wire.k27_write_txn_markers import WriteTxnMarkers
from fencepost.wire.k20024_announce_partitions import AnnouncePartitions
from tests.simulation.coordinator import TIMES
from tests.simulation.desk import TIMEOUT_MS, Desk, Program, calm_desk
from tests.simulation.simulation import Failed

PLACE, OTHER = 0, 1


@pytest.fixture
def desk() -> Iterator[Desk]:
    with calm_desk() as desk:
        yield desk


def begun(desk: Desk, *, timeout_ms: int = TIMEOUT_MS, bumps_epoch: bool = False) -> Program:
    """A program with one batch in an open transaction."""
    program = Program(desk, timeout_ms=timeout_ms, bumps_epoch=bumps_epoch)
    program.identify()
    program.begin()
    program.write(PLACE)
    return program


# -- EndTxn ----------------------------------------------------------------------------------------------


def test_a_delayed_end_of_v1_ends_the_next_transaction(desk: Desk) -> None:
    """The hole: one EndTxn is late, another is answered, then the first arrives, in the next transaction."""
    program = begun(desk)
    late = program.ending(committed=True)
    assert program.end(committed=True) is None
    desk.settle("payments")
    program.begin()
    program.write(PLACE)
    late.deliver()
    with pytest.raises(Failed, match="I7: nobody asked to commit"):
        desk.wait(1.0)
    assert late.answer() is None
    assert desk.row("payments").state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


def test_a_delayed_end_of_v2_ends_nothing(desk: Desk) -> None:
    """The same with EndTxn v5: each end bumps the epoch, so a late one is told what became of its own."""
    program = begun(desk, bumps_epoch=True)
    late = program.ending(committed=True)
    assert program.end(committed=True).producer_epoch == 1
    desk.settle("payments")
    program.begin()
    program.write(PLACE)
    assert late.deliver().answer() == ErrorCode.PRODUCER_FENCED
    assert desk.row("payments").state is State.ONGOING
    program.end(committed=False)
    desk.settle("payments")
    assert len(desk.read()) == 1


def test_a_delayed_end_of_v1_is_fenced_once_the_epoch_is_another(desk: Desk) -> None:
    program = begun(desk)
    late = program.ending(committed=True)
    assert program.end(committed=False) is None
    desk.settle("payments")
    program.identify()
    program.begin()
    program.write(PLACE)
    assert late.deliver().answer() == ErrorCode.PRODUCER_FENCED
    assert desk.row("payments").state is State.ONGOING


def test_ends_that_wait_inside_end_no_later_transaction(desk: Desk) -> None:
    """An EndTxn that is repeated while its markers are written is held, and still means its own."""
    program = begun(desk)
    first, again = program.ending(committed=True), program.ending(committed=True)
    first.deliver()
    again.deliver()
    then = program.adding(OTHER).deliver()
    assert (first.answer(), again.answer()) == (None, None)
    then.answer()
    assert desk.row("payments").state is State.ONGOING


# -- WriteTxnMarkers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_late_duplicate_of_a_marker_ends_no_later_transaction(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    sent: list[WriteTxnMarkers] = []
    broker = desk.sim.world.brokers[PLACE]
    write = broker.write_markers

    def noting(request: WriteTxnMarkers, told: object) -> None:
        sent.append(request)
        write(request, told)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "write_markers", noting)
    program = begun(desk)
    program.end(committed=committed)
    desk.settle("payments")
    program.begin()
    program.write(PLACE)
    before = len(desk.sim.partitions[PLACE].log)
    told: list[object] = []
    write(sent[0], told.append)
    desk.wait(0.1)
    assert told
    assert len(desk.sim.partitions[PLACE].log) == before
    assert desk.sim.partitions[PLACE].last_stable == before - 1
    program.end(committed=not committed)
    desk.settle("payments")
    assert len(desk.read()) == 1


def test_after_a_failover_the_next_coordinator_sends_markers_again_and_one_is_appended(desk: Desk) -> None:
    """It dies between PrepareCommit and CompleteCommit; the partition has the marker, nobody knows."""
    program = begun(desk)
    partition, leader = desk.sim.partitions[PLACE], desk.leader
    ending = program.ending(committed=True).deliver()
    while len(partition.log) == 1:
        desk.wait(0.0005)
    leader.kill()
    desk.wait(3.0)
    leader.start()
    assert desk.row("payments").state is State.COMPLETE_COMMIT
    assert ending.answers in ([], [None])
    assert (len(partition.log), len(desk.read())) == (2, 1)


# -- AnnouncePartitions ----------------------------------------------------------------------------------


def test_a_late_announcement_of_a_transaction_that_ended_lets_nobody_write(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that the partition need not ask. Its marker has come since, so it must."""
    sent: list[AnnouncePartitions] = []
    broker = desk.sim.world.brokers[PLACE]
    monkeypatch.setattr(broker, "announce", lambda request, _told: sent.append(request))
    desk.wait_for_broker(PLACE)
    program = begun(desk)
    desk.wait(0.1)
    late = program.batch(PLACE)
    program.end(committed=False)
    desk.settle("payments")
    monkeypatch.undo()
    assert sent
    for request in sent:
        broker.announce(request, lambda _: None)
    assert program.send(late) == ErrorCode.TRANSACTION_ABORTABLE


def test_what_was_announced_and_not_written_is_void_after_the_marker(desk: Desk) -> None:
    program = begun(desk)
    assert program.add(OTHER) == ErrorCode.NONE
    desk.wait(0.1)
    late = program.batch(OTHER)
    assert desk.sim.partitions[OTHER].is_announced(*late.pair)
    program.end(committed=True)
    desk.settle("payments")
    assert program.send(late) == ErrorCode.TRANSACTION_ABORTABLE


# -- Produce ---------------------------------------------------------------------------------------------


def test_a_late_batch_of_an_aborted_transaction_opens_nothing(desk: Desk) -> None:
    """KIP-890's hanging transaction: the partition leader asks first."""
    program = begun(desk)
    late = program.batch(PLACE)
    program.end(committed=False)
    desk.settle("payments")
    assert program.send(late) == ErrorCode.TRANSACTION_ABORTABLE
    assert desk.sim.partitions[PLACE].last_stable == len(desk.sim.partitions[PLACE].log)


def test_a_batch_that_was_verified_before_the_marker_came_is_refused_after_it(desk: Desk) -> None:
    program = begun(desk)
    assert program.add(OTHER) == ErrorCode.NONE
    partition, batch = desk.sim.partitions[OTHER], program.batch(OTHER)
    guard = partition.guard(batch, 0)
    assert guard is not None
    program.end(committed=False)
    desk.settle("payments")
    with pytest.raises(Exception, match="not verified, or ended meanwhile"):
        partition.append(batch, guard, 0)


def test_a_fenced_producers_batch_is_refused_where_it_never_wrote(desk: Desk) -> None:
    """Row 360.6: the partition knows nothing of it, the coordinator does."""
    program = begun(desk)
    assert program.add(OTHER) == ErrorCode.NONE
    late = program.batch(OTHER)
    Program(desk).identify()
    assert program.send(late) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert desk.read() == []


def test_a_fenced_producers_batch_is_refused_inside_its_successors_transaction(desk: Desk) -> None:
    """The transaction of the same producer id is open there: nobody is asked, the epoch alone tells."""
    program = begun(desk)
    late = program.batch(PLACE)._replace(sequence=0)
    successor = Program(desk)
    successor.identify()
    successor.begin()
    successor.write(PLACE)
    assert program.send(late) == ErrorCode.INVALID_PRODUCER_EPOCH
    successor.end(committed=True)
    desk.settle("payments")
    assert desk.read() == [successor.purpose]


def test_a_deposed_coordinator_verifies_nothing(desk: Desk) -> None:
    """To the one that is cut off the transaction is still open. It was aborted elsewhere: none may write."""
    program = begun(desk)
    assert program.add(OTHER) == ErrorCode.NONE
    late, deposed = program.batch(PLACE), desk.leader
    desk.cut_off(deposed.node_id)
    desk.wait(2.0)
    assert desk.leader is not deposed
    assert program.end(committed=False) is None
    desk.settle("payments")
    broker = desk.sim.world.brokers[PLACE]
    broker.coordinator = deposed.node_id
    told: list[ErrorCode] = []
    broker.produce(late, told.append)
    desk.wait(1.0)
    assert told == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert program.send(late) == ErrorCode.TRANSACTION_ABORTABLE


# -- AddPartitionsToTxn ----------------------------------------------------------------------------------


def test_a_late_added_partition_opens_what_its_timeout_closes(desk: Desk) -> None:
    """V1: its pair is current, so it begins a transaction. Nothing is written, and the producer goes on."""
    program = begun(desk, timeout_ms=500)
    late = program.adding(OTHER)
    program.end(committed=True)
    desk.settle("payments")
    late.deliver().answer()
    assert desk.row("payments").state is State.ONGOING
    desk.wait(0.5 + 3 * TIMES.timeouts_interval_ms / 1000)
    assert desk.settle("payments").state is State.COMPLETE_ABORT
    program.begin()
    assert program.add(PLACE) == ErrorCode.UNKNOWN_PRODUCER_ID
    program.identify()
    program.write(PLACE)
    assert program.end(committed=True) is None
    desk.settle("payments")
    assert len(desk.read()) == 2
