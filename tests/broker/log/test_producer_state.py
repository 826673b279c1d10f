"""What a partition says to each batch and marker of a producer: docs/kafka-notes.md C1 to C3, row by row."""

import pytest

from fencepost.broker.log.producer_state import (
    CACHED_BATCHES_MAX,
    SEQUENCE_MAX,
    VERIFICATIONS_MAX,
    ProducerStates,
)
from fencepost.broker.log.shapes import NO_OFFSET, VerificationGuard
from fencepost.controller.errors import (
    ApiError,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from fencepost.records.batch import BatchHeader, batch_header
from fencepost.records.end_marker import EndMarker
from fencepost.records.types import ImageVersion, Offset, ProducerId
from tests.broker.log.builders import NOW_MS, batch

P = ProducerId(7)


class Partition:
    """Producers' states and an end offset, without a log."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end = 100

    def data(
        self, sequence: int, *, epoch: int = 0, count: int = 1, txn: bool = False, guard: int | None = None,
        verification: bool = False, producer: int = P,
    ) -> str:  # fmt: skip
        """Append a batch: "at <offset>" or "again at <offset>"."""
        header = batch_header(batch(producer, sequence, epoch=epoch, count=count, transactional=txn))
        known = self.states.duplicate(header)
        if known is not None:
            return f"again at {known.last_offset - known.offset_delta}"
        given = VerificationGuard(guard) if guard is not None else None
        self.states.check(header, given, verification=verification)
        self.states.take(header, Offset(self.end), NOW_MS)
        self.end += count
        return f"at {self.end - count}"

    def marker(
        self, *, epoch: int = 0, coordinator_epoch: int = 1, version: int = 0, producer: int = P
    ) -> str:
        """Append a marker: "late", "nothing open", or "ended <first> to <last>, stable <lso>"."""
        marker = EndMarker(
            producer_id=ProducerId(producer),
            producer_epoch=epoch,
            committed=False,
            coordinator_epoch=coordinator_epoch,
            version=ImageVersion(version),
        )
        if not self.states.check_marker(marker):
            return "late"
        ended = self.states.take_marker(marker, Offset(self.end), NOW_MS, NOW_MS)
        self.end += 1
        if ended is None:
            return "nothing open"
        return f"ended {ended.first_offset} to {ended.last_offset}, stable {ended.last_stable_offset}"


def partition(*steps: dict[str, int | bool]) -> Partition:
    """A partition after some batches and markers."""
    made = Partition()
    for step in steps:
        if "sequence" in step:
            made.data(**step)  # type: ignore[arg-type]
        else:
            made.marker(**step)
    return made


def data(sequence: int, **fields: int | bool) -> dict[str, int | bool]:
    return {"sequence": sequence, **fields}


def marker(**fields: int) -> dict[str, int | bool]:
    return dict(fields)


FIVE = tuple(data(number) for number in range(5))
OPEN = (data(0, txn=True),)

BATCHES = [
    pytest.param((), data(0), "at 100", id="an unknown producer begins at 0"),
    pytest.param((), data(41), "at 100", id="an unknown producer may begin anywhere"),
    pytest.param((), data(3, epoch=9), "at 100", id="an unknown producer may have any epoch"),
    pytest.param((data(0),), data(1), "at 101", id="the next sequence"),
    pytest.param((data(0, count=3),), data(3), "at 103", id="the next sequence after a batch of three"),
    pytest.param((data(0),), data(2), OutOfOrderSequence, id="a gap"),
    pytest.param((data(5),), data(4), OutOfOrderSequence, id="a sequence before the first one known"),
    pytest.param((data(0),), data(0), "again at 100", id="a duplicate of the last"),
    pytest.param((data(0, count=3),), data(0, count=3), "again at 100", id="a duplicate of a batch of three"),
    pytest.param((data(0, count=3),), data(0, count=2), OutOfOrderSequence, id="not quite a duplicate"),
    pytest.param(FIVE, data(0), "again at 100", id="a duplicate of the fifth last"),
    pytest.param((*FIVE, data(5)), data(0), OutOfOrderSequence, id="a duplicate of the sixth last is 45"),
    pytest.param((data(SEQUENCE_MAX),), data(0), "at 101", id="after 2^31 - 1 comes 0"),
    pytest.param((data(SEQUENCE_MAX),), data(SEQUENCE_MAX), "again at 100", id="a duplicate at the wrap"),
    pytest.param((data(SEQUENCE_MAX - 1, count=4),), data(2), "at 104", id="a batch across the wrap"),
    pytest.param(
        (data(SEQUENCE_MAX - 1, count=4),), data(SEQUENCE_MAX - 1, count=4), "again at 100",
        id="a duplicate across the wrap",
    ),
    pytest.param((data(SEQUENCE_MAX - 1),), data(0), OutOfOrderSequence, id="a wrap too early"),
    pytest.param((data(5, epoch=3),), data(6, epoch=2), InvalidProducerEpoch, id="an old epoch"),
    pytest.param((data(5, epoch=3),), data(5, epoch=2), InvalidProducerEpoch, id="an old epoch's duplicate"),
    pytest.param((data(5, epoch=3),), data(0, epoch=4), "at 101", id="a new epoch begins with 0"),
    pytest.param((data(5, epoch=3),), data(6, epoch=4), OutOfOrderSequence, id="a new epoch not at 0"),
    pytest.param((data(0, epoch=3),), data(0, epoch=4), "at 101", id="a new epoch's 0 is no duplicate"),
    pytest.param((*OPEN,), data(1), InvalidTxnState, id="a batch of no transaction inside one"),
    pytest.param((*OPEN,), data(1, txn=True), "at 101", id="a transaction goes on"),
    pytest.param((*OPEN, marker()), data(1), "at 102", id="a batch of no transaction after one"),
    pytest.param((*OPEN, marker()), data(1, txn=True), "at 102", id="sequences go on over a marker"),
    pytest.param((*OPEN, marker(epoch=1)), data(1, txn=True), InvalidProducerEpoch, id="a marker fences"),
    pytest.param((*OPEN, marker(epoch=1)), data(0, txn=True, epoch=1), "at 102", id="after a fence from 0"),
    pytest.param(
        (*OPEN, marker(epoch=1)), data(1, txn=True, epoch=1), OutOfOrderSequence,
        id="after a fence not from 1",
    ),
    pytest.param((marker(),), data(0), "at 101", id="a producer known by a marker only begins at 0"),
    pytest.param((marker(),), data(1), OutOfOrderSequence, id="and only there"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "sent", "outcome"), BATCHES)
def test_a_batch(
    before: tuple[dict[str, int | bool], ...],
    sent: dict[str, int | bool],
    outcome: str | type[ApiError],
) -> None:
    made = partition(*before)
    table = dict(made.states.table)
    if isinstance(outcome, str):
        assert made.data(**sent) == outcome  # type: ignore[arg-type]
    else:
        with pytest.raises(outcome):
            made.data(**sent)  # type: ignore[arg-type]
        assert made.states.table == table, "a refusal changed something"


MARKERS = [
    pytest.param((), marker(), "nothing open", id="of an unknown producer"),
    pytest.param(OPEN, marker(), "ended 100 to 101, stable 102", id="ends the transaction"),
    pytest.param((*OPEN, marker()), marker(), "nothing open", id="again, without versions: appended again"),
    pytest.param(OPEN, marker(epoch=1), "ended 100 to 101, stable 102", id="of a newer epoch"),
    pytest.param((data(0, epoch=2, txn=True),), marker(epoch=1), InvalidProducerEpoch, id="of an old epoch"),
    pytest.param(
        (*OPEN, marker(coordinator_epoch=4)), marker(coordinator_epoch=3), TransactionCoordinatorFenced,
        id="of an old coordinator",
    ),
    pytest.param(
        (*OPEN, marker(coordinator_epoch=4)), marker(coordinator_epoch=5), "nothing open",
        id="of a newer coordinator",
    ),
    pytest.param((*OPEN, marker(version=9)), marker(version=9), "late", id="a duplicate"),
    pytest.param(
        (*OPEN, marker(version=9), data(1, txn=True)), marker(version=9), "late",
        id="a late duplicate does not end the next transaction",
    ),
    pytest.param(
        (*OPEN, marker(version=9), data(1, txn=True)), marker(version=8), "late",
        id="nor does an older one",
    ),
    pytest.param(
        (*OPEN, marker(version=9), data(1, txn=True)), marker(version=10), "ended 102 to 103, stable 104",
        id="the next transaction's own marker does",
    ),
    pytest.param(
        (*OPEN, marker(version=9), data(1, txn=True)), marker(version=0), "ended 102 to 103, stable 104",
        id="an admin's abort has no version and is not held back",
    ),
    pytest.param(
        (*OPEN, marker(version=9), data(1, txn=True), marker(version=0)), marker(version=9), "late",
        id="an admin's abort leaves the memory alone",
    ),
    pytest.param(
        (*OPEN, marker(version=9, epoch=5)), marker(version=9, epoch=4), "late",
        id="a late duplicate of an old epoch is NONE, not fenced",
    ),
    pytest.param(
        (*OPEN, data(0, txn=True, producer=8)), marker(), "ended 100 to 102, stable 101",
        id="stable up to the next open transaction",
    ),
    pytest.param(
        (*OPEN, data(0, txn=True, producer=8)), marker(producer=8), "ended 101 to 102, stable 100",
        id="stable only up to an older open transaction",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "sent", "outcome"), MARKERS)
def test_a_marker(
    before: tuple[dict[str, int | bool], ...], sent: dict[str, int], outcome: str | type[ApiError]
) -> None:
    made = partition(*before)
    table = dict(made.states.table)
    if isinstance(outcome, str):
        assert made.marker(**sent) == outcome
    else:
        with pytest.raises(outcome):
            made.marker(**sent)
        assert made.states.table == table, "a refusal changed something"


def test_a_marker_says_which_epoch_its_producer_has_and_keeps_batches_of_the_same() -> None:
    made = partition(*OPEN, marker(epoch=0))
    assert made.data(0, txn=True) == "again at 100"  # the duplicate of a committed batch is still one
    made.marker(epoch=1)
    assert made.states.table[P].batches == ()
    assert made.states.table[P].epoch == 1


def ask(made: Partition, *, epoch: int = 0, sequence: int = 0, producer: int = P) -> VerificationGuard | None:
    return made.states.verification_guard(ProducerId(producer), epoch, sequence, NOW_MS)


def test_a_transaction_opens_with_the_current_guard_only() -> None:
    made = Partition()
    guard = ask(made)
    assert guard is not None
    for wrong in (None, guard + 1):
        with pytest.raises(InvalidTxnState):
            made.data(0, txn=True, guard=wrong, verification=True)
    assert made.data(0, txn=True, guard=guard, verification=True) == "at 100"
    assert ask(made) is None, "the transaction is open: there is nothing to ask"
    assert made.data(1, txn=True, verification=True) == "at 101"


def test_a_marker_between_question_and_append_makes_the_guard_stale() -> None:
    made = Partition()
    guard = ask(made)
    made.marker(version=3)
    with pytest.raises(InvalidTxnState):
        made.data(0, txn=True, guard=guard, verification=True)
    assert ask(made) not in {None, guard}


def test_a_guard_is_shared_by_requests_that_wait_for_the_same_answer() -> None:
    made = Partition()
    assert ask(made, sequence=3) == ask(made, sequence=0) == ask(made, sequence=5)


@pytest.mark.parametrize(
    ("asked", "sent", "outcome"),
    [
        pytest.param([(0, 0), (0, 1)], (0, 1), OutOfOrderSequence, id="the second request first"),
        pytest.param([(0, 1), (0, 0)], (0, 1), OutOfOrderSequence, id="asked in the wrong order too"),
        pytest.param([(0, 0), (0, 1)], (0, 0), "at 100", id="the lowest first"),
        pytest.param([(0, 0), (1, 4)], (1, 4), "at 100", id="a higher epoch begins anew"),
        pytest.param([(1, 4), (0, 0)], (1, 4), "at 100", id="a lower epoch changes nothing"),
    ],
)
def test_the_lowest_sequence_asked_for_comes_first(
    asked: list[tuple[int, int]], sent: tuple[int, int], outcome: str | type[ApiError]
) -> None:
    made = Partition()
    guard = [ask(made, epoch=epoch, sequence=sequence) for epoch, sequence in asked][-1]
    epoch, sequence = sent
    if isinstance(outcome, str):
        assert made.data(sequence, epoch=epoch, txn=True, guard=guard, verification=True) == outcome
    else:
        with pytest.raises(outcome):
            made.data(sequence, epoch=epoch, txn=True, guard=guard, verification=True)


@pytest.mark.parametrize("known", [False, True], ids=["unknown-producer", "known-producer"])
@pytest.mark.parametrize("backwards", [False, True], ids=["asked-in-order", "asked-backwards"])
@pytest.mark.parametrize(
    ("first", "counts"),
    [
        pytest.param(SEQUENCE_MAX, (1, 1), id="a-batch-that-ends-at-the-wrap"),
        pytest.param(SEQUENCE_MAX - 1, (4, 1), id="a-batch-across-the-wrap"),
        pytest.param(SEQUENCE_MAX - 2, (1, 1, 1, 1, 1), id="five-in-flight"),
        pytest.param(2**30 - 1, (1, 1, 1), id="half-way"),
    ],
)
def test_the_sequence_may_wrap_while_a_verification_is_under_way(
    first: int, counts: tuple[int, ...], backwards: bool, known: bool
) -> None:
    """Batches in flight are appended in their order. Without it the lowest number, 0, refused them all."""
    made = Partition()
    if known:
        made.data(first - 1)
    sequences = [(first + sum(counts[:number])) % 2**31 for number in range(len(counts))]
    questions = [ask(made, sequence=each) for each in (reversed(sequences) if backwards else sequences)]
    (guard,) = set(questions)
    for early in sequences[1:]:
        with pytest.raises(OutOfOrderSequence):
            made.data(early, txn=True, guard=guard, verification=True)
    offsets = [
        made.data(sequence, count=count, txn=True, guard=guard, verification=True)
        for sequence, count in zip(sequences, counts, strict=True)
    ]
    assert all(each.startswith("at ") for each in offsets)


def test_a_sequence_that_can_never_come_blocks_no_batch_that_is_expected() -> None:
    """A late batch that fell out of the last five asks too; the next one in line is taken all the same."""
    made = partition(*(data(number) for number in range(7)))
    guard = ask(made, sequence=0)
    assert ask(made, sequence=7) == guard
    assert made.data(7, txn=True, guard=guard, verification=True) == "at 107"


def test_questions_are_bounded_and_the_oldest_is_forgotten() -> None:
    made = Partition()
    oldest = ask(made, producer=0)
    for producer in range(1, VERIFICATIONS_MAX):
        ask(made, producer=producer)
    assert ask(made, producer=0) == oldest
    ask(made, producer=VERIFICATIONS_MAX)
    assert ask(made, producer=0) not in {None, oldest}


def test_five_batches_are_remembered() -> None:
    made = partition(*(data(number) for number in range(20)))
    assert len(made.states.table[P].batches) == CACHED_BATCHES_MAX == 5


def test_the_oldest_open_transaction_is_what_is_unstable() -> None:
    made = Partition()
    assert made.states.first_unstable() is None
    made.data(0, txn=True, producer=1)
    made.data(0, txn=True, producer=2)
    made.data(1, txn=True, producer=1)
    assert made.states.first_unstable() == 100
    made.marker(producer=1)
    assert made.states.first_unstable() == 101
    made.marker(producer=2)
    assert made.states.first_unstable() is None


def test_a_transaction_open_longest_is_known_after_a_restore() -> None:
    made = partition(data(0, txn=True, producer=9), data(0, txn=True, producer=3))
    restored = ProducerStates()
    restored.restore(made.states.table)
    assert restored.first_unstable() == 100


def test_producers_expire_in_slices_but_never_with_a_transaction_open() -> None:
    made = Partition()
    made.data(0, txn=True, producer=100_000)
    for producer in range(99_999):  # with the open one as many as a partition remembers
        made.states.take(_header(producer), Offset(made.end), NOW_MS)
    guard = ask(made, producer=5)
    assert not _sweep(made.states, NOW_MS + 999), "expired too early"
    assert ask(made, producer=5) == guard
    slices = _sweep(made.states, NOW_MS + 1_000)
    assert slices == 100  # of 1,000 producers each: none is looked at twice
    assert list(made.states.table) == [100_000]
    assert made.states.row(ProducerId(5)) is None
    assert ask(made, producer=5) not in {None, guard}, "what was asked for so long ago is forgotten, too"


def _header(producer: int) -> BatchHeader:
    return batch_header(batch())._replace(producer_id=ProducerId(producer), producer_epoch=0, base_sequence=0)


def _sweep(states: ProducerStates, now_ms: int) -> int:
    """Slices of one sweep; 0 if it forgot none."""
    before = len(states.table)
    slices = 1
    while states.expire(now_ms, 1_000, 1_000):
        slices += 1
    return slices if len(states.table) < before else 0


def test_expiry_goes_by_the_partitions_clock_not_by_the_records_times() -> None:
    made = Partition()
    header = batch_header(batch(P, 0, timestamp_ms=1))  # mirrored: records of 1970
    made.states.take(header, Offset(0), NOW_MS)
    assert not made.states.expire(NOW_MS + 10, 1_000, 10)
    row = made.states.row(P)
    assert row is not None
    assert (row.last_timestamp_ms, row.last_sequence, row.transaction_first) == (1, 0, NO_OFFSET)
