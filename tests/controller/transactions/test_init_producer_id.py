"""InitProducerId: each row of Kafka's table, each epoch that may be given, the boundaries, the retries."""

import pytest

from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
)
from fencepost.controller.transactions.init_producer_id import decide_init_producer_id, needs_producer_id
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.controller.transactions.states import (
    EPOCH_MAX,
    TRANSACTIONAL_ID_BYTES_MAX,
    FenceCause,
    State,
    Transaction,
)
from fencepost.records.transaction_log import FENCES_MAX, Fence
from fencepost.records.types import ProducerId
from tests.controller.transactions.worlds import (
    ID,
    MAX_TIMEOUT_MS,
    NOW_MS,
    TIMEOUT_MS,
    Coordinator,
    transaction,
)
from tests.together import table

CLOSED = [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]
PREPARED = [State.PREPARE_COMMIT, State.PREPARE_ABORT]
LAST_ID = 2**63 - 1

# The row has producer 42, instance epoch 3, epoch 5, if nothing else is said. Fresh ids begin at 1000.
# Expected: (the answer, instance epoch, last epoch), or the refusal.
HELD = {"epoch": 5, "instance_epoch": 3}
TOP = {"epoch": 32766, "instance_epoch": 3}
FENCE_EPOCH = {"epoch": 32767, "instance_epoch": 3}

EPOCHS = [
    pytest.param(HELD, (-1, -1), ((42, 6), 6, -1), id="none-given-begins-an-instance"),
    pytest.param(HELD, (42, 5), ((42, 6), 3, 5), id="the-current-epoch-keeps-the-instance"),
    pytest.param(HELD, (42, 4), ((42, 5), 3, -1), id="the-epoch-before-is-a-retry"),
    pytest.param(HELD, (42, 3), ((42, 5), 3, -1), id="the-instances-first-epoch-is-a-retry"),
    pytest.param(HELD, (42, 2), ProducerFenced, id="an-epoch-of-the-instance-before"),
    pytest.param(HELD, (42, 0), ProducerFenced, id="the-very-first-epoch-of-another-instance"),
    pytest.param(HELD, (42, 6), ProducerFenced, id="an-epoch-of-the-future"),
    pytest.param(HELD, (41, 5), ProducerFenced, id="another-producer-id"),
    pytest.param({"epoch": 0}, (-1, -1), ((42, 1), 1, -1), id="from-epoch-0"),
    pytest.param({"epoch": 32764}, (-1, -1), ((42, 32765), 32765, -1), id="32764-to-32765"),
    pytest.param({"epoch": 32765}, (-1, -1), ((42, 32766), 32766, -1), id="32766-is-the-last-that-is-given"),
    pytest.param({"epoch": 32765}, (42, 32765), ((42, 32766), 32765, 32765), id="32766-to-the-same-instance"),
    pytest.param(TOP, (-1, -1), ((1000, 0), 0, -1), id="past-32766-a-new-id"),
    pytest.param(TOP, (42, 32766), ((1000, 0), 0, 32766), id="past-32766-a-new-id-to-the-same-instance"),
    pytest.param(TOP, (42, 32765), ((42, 32766), 3, -1), id="a-retry-is-still-answered-at-32766"),
    pytest.param(FENCE_EPOCH, (-1, -1), ((1000, 0), 0, -1), id="after-32767-a-new-id"),
    pytest.param(
        {**FENCE_EPOCH, "last_producer_epoch": 32766},
        (42, 32766),
        ((1000, 0), 0, 32766),
        id="32767-is-never-given-a-new-id-to-who-held-32766",
    ),
    pytest.param(
        {**FENCE_EPOCH, "last_producer_epoch": 32766},
        (42, 32760),
        ((1000, 0), 0, 32766),
        id="a-late-retry-rotates-for-who-holds-32766",
    ),
    pytest.param(
        {"producer_id": 85, "epoch": 0, "previous_producer_id": 42, "last_producer_epoch": 32766},
        (42, 32766),
        ((85, 0), 0, 32766),
        id="a-retry-across-a-rotation",
    ),
    pytest.param(
        {"producer_id": 85, "epoch": 0, "previous_producer_id": 42, "last_producer_epoch": 32766},
        (42, 32765),
        ProducerFenced,
        id="an-older-epoch-before-a-rotation",
    ),
    pytest.param(
        {"producer_id": 85, "epoch": 0, "previous_producer_id": 42, "last_producer_epoch": -1},
        (42, 32766),
        ProducerFenced,
        id="who-was-rotated-out-by-a-new-instance",
    ),
    pytest.param(
        {"epoch": 5, "instance_epoch": -1},
        (42, 4),
        ProducerFenced,
        id="from-kafka-no-instance-is-known",
    ),
    pytest.param(
        {"epoch": 5, "instance_epoch": -1},
        (42, 5),
        ((42, 6), -1, 5),
        id="from-kafka-the-current-epoch",
    ),
    pytest.param({"producer_id": LAST_ID}, (-1, -1), ((LAST_ID, 6), 6, -1), id="the-largest-producer-id"),
    pytest.param(
        {"producer_id": LAST_ID, "epoch": 32766},
        (LAST_ID, 32766),
        ((1000, 0), 0, 32766),
        id="its-rotation",
    ),
]


@table("state", CLOSED, ids=lambda state: state.wire_name)
@table(("row", "given", "expected"), EPOCHS)
def test_an_epoch_in_a_closed_state(
    state: State,
    row: dict[str, int],
    given: tuple[int, int],
    expected: tuple[tuple[int, int], int, int] | type[ApiError],
) -> None:
    """Rows 360.1, 360.2, 588.3; docs/kafka-notes.md B2 rows 8, 10, 11 and B11."""
    coordinator = Coordinator(transaction(state, **row))
    before = coordinator.row()
    if isinstance(expected, type):
        with pytest.raises(expected):
            coordinator.init(*given)
        assert coordinator.row() == before
        assert coordinator.claimed == []
        return
    pair, instance_epoch, last_producer_epoch = expected
    assert coordinator.init(*given) == pair
    after = coordinator.row()
    assert coordinator.pair() == pair
    assert (after.instance_epoch, after.last_producer_epoch) == (instance_epoch, last_producer_epoch)
    assert coordinator.claimed == ([pair[0]] if pair[0] == 1000 else [])
    if not coordinator.written:
        assert after == before, "a retry leaves everything as it is"
        return
    assert (after.state, after.partitions, after.started_ms) == (State.EMPTY, (), -1)
    assert (after.transaction_timeout_ms, after.updated_ms) == (TIMEOUT_MS, NOW_MS)
    rotated = pair[0] != before.producer_id
    assert after.previous_producer_id == (before.producer_id if rotated else -1)


@table("state", PREPARED, ids=lambda state: state.wire_name)
@table(
    ("given", "expected"),
    [
        pytest.param((-1, -1), ConcurrentTransactions, id="none-given-waits"),
        pytest.param((42, 5), ConcurrentTransactions, id="the-current-epoch-waits"),
        pytest.param((42, 4), ConcurrentTransactions, id="a-retry-waits"),
        pytest.param((42, 2), ProducerFenced, id="a-fenced-one-is-told-at-once"),
        pytest.param((41, 5), ProducerFenced, id="another-producer-id-too"),
    ],
)
def test_while_markers_are_written(state: State, given: tuple[int, int], expected: type[ApiError]) -> None:
    """Row 9 of B2."""
    coordinator = Coordinator(transaction(state, **HELD))
    with pytest.raises(expected):
        coordinator.init(*given)
    assert coordinator.written == []


@table(
    ("epoch", "given", "aborted", "then"),
    [
        pytest.param(5, None, (6, 6, -1, -1), (42, 7), id="a-new-instance"),
        pytest.param(5, (42, 5), (6, 3, 5, -1), (42, 6), id="the-same-instance-is-given-the-aborts-epoch"),
        pytest.param(32764, None, (32765, 32765, -1, -1), (42, 32766), id="a-new-instance-at-32764"),
        pytest.param(32765, None, (32766, 32766, -1, -1), (1000, 0), id="a-new-instance-at-32765"),
        pytest.param(32766, None, (32767, 32767, -1, -1), (1000, 0), id="a-new-instance-at-32766"),
        pytest.param(32765, (42, 32765), (32766, 3, 32765, -1), (42, 32766), id="the-same-at-32765"),
        pytest.param(32766, (42, 32766), (32767, 3, 32766, -1), (1000, 0), id="the-same-at-32766"),
    ],
)
def test_an_open_transaction_is_aborted_first(
    epoch: int,
    given: tuple[int, int] | None,
    aborted: tuple[int, int, int, int],
    then: tuple[int, int],
) -> None:
    """Row 12 of B2. The abort's record already begins the new instance (row 360.2)."""
    coordinator = Coordinator(transaction(State.ONGOING, epoch=epoch, instance_epoch=3))
    partitions_ = coordinator.row().partitions
    ask = given or (-1, -1)
    with pytest.raises(ConcurrentTransactions):
        coordinator.init(*ask, client_id="second")
    row = coordinator.row()
    assert row.state is State.PREPARE_ABORT
    assert row.partitions == partitions_
    assert (row.producer_epoch, row.instance_epoch, row.last_producer_epoch, row.init_version) == aborted
    cause = FenceCause.SAME_INSTANCE if given else FenceCause.NEW_INSTANCE
    assert row.fences == (Fence(NOW_MS, cause, ProducerId(42), epoch, "second"),)
    if given is None:
        with pytest.raises(ProducerFenced):
            coordinator.init(42, epoch)
    with pytest.raises(ConcurrentTransactions):
        coordinator.init(*ask)
    assert coordinator.complete()
    assert coordinator.init(*ask) == then
    assert len(coordinator.row().fences) == 1, "an epoch that no producer held is not fenced"
    if given is None:
        with pytest.raises(ProducerFenced):
            coordinator.init(42, epoch)
    else:
        assert coordinator.init(*ask) == then, "the same retry, once more"


def test_a_late_retry_leaves_the_open_transaction_of_its_own_instance_alone() -> None:
    """Kafka fences a live producer here: its InitProducerId was delivered twice, the second time late."""
    coordinator = Coordinator(transaction(epoch=5))
    assert coordinator.init(42, 5) == (42, 6)
    coordinator.add(42, 6)
    open_ = coordinator.row()
    assert coordinator.init(42, 5) == (42, 6)
    assert coordinator.row() == open_


def test_a_restarted_producers_first_request_aborts_what_was_open() -> None:
    """The kfake bug: the next commit would publish the dead process's records."""
    coordinator = Coordinator()
    first = coordinator.init()
    coordinator.add(*first)
    with pytest.raises(ConcurrentTransactions):
        coordinator.init()
    assert coordinator.row().state is State.PREPARE_ABORT
    coordinator.complete()
    assert coordinator.init() == (first[0], first[1] + 2)


@pytest.mark.parametrize("given", [(-1, -1), (7, 3)], ids=["nothing-given", "a-pair-from-before-it-expired"])
def test_an_unknown_id_is_begun_with_a_new_producer_id(given: tuple[int, int]) -> None:
    """Rows 360.1 and 360.4; row 6 of B2."""
    coordinator = Coordinator()
    assert coordinator.init(*given, init_version=3, timeout_ms=123) == (1000, 0)
    row = coordinator.row()
    assert row == Transaction(
        ID,
        ProducerId(1000),
        0,
        123,
        State.EMPTY,
        updated_ms=NOW_MS,
        instance_epoch=0,
        init_version=3,
    )


def test_after_an_id_expired_the_old_pair_belongs_to_nobody() -> None:
    coordinator = Coordinator()
    old = coordinator.init()
    assert coordinator.expire(0) == (ID,)
    assert coordinator.init() == (1001, 0)
    with pytest.raises(ProducerFenced):
        coordinator.init(*old)


@table(
    ("asked", "refusal"),
    [
        pytest.param({"of": ""}, InvalidRequest, id="an-empty-id"),
        pytest.param({"of": "x" * TRANSACTIONAL_ID_BYTES_MAX}, None, id="the-longest-id"),
        pytest.param({"of": "x" * (TRANSACTIONAL_ID_BYTES_MAX + 1)}, InvalidRequest, id="an-id-one-too-long"),
        pytest.param(
            {"of": "ä" * (TRANSACTIONAL_ID_BYTES_MAX // 2 + 1)}, InvalidRequest, id="too-many-bytes"
        ),
        pytest.param({"of": "\ud800"}, InvalidRequest, id="an-id-that-is-no-utf-8"),
        pytest.param({"producer_id": 42}, InvalidRequest, id="an-id-without-an-epoch"),
        pytest.param({"epoch": 3}, InvalidRequest, id="an-epoch-without-an-id"),
        pytest.param({"timeout_ms": 0}, InvalidTransactionTimeout, id="no-time"),
        pytest.param({"timeout_ms": -1}, InvalidTransactionTimeout, id="a-negative-timeout"),
        pytest.param({"timeout_ms": 1}, None, id="the-shortest-timeout"),
        pytest.param({"timeout_ms": MAX_TIMEOUT_MS}, None, id="the-longest-timeout"),
        pytest.param({"timeout_ms": MAX_TIMEOUT_MS + 1}, InvalidTransactionTimeout, id="one-ms-too-long"),
        pytest.param({"of": None, "timeout_ms": -1}, None, id="without-an-id-the-timeout-means-nothing"),
    ],
)
def test_what_is_asked_for_is_checked(asked: dict[str, object], refusal: type[ApiError] | None) -> None:
    """Rows 1, 2 and 4 of B2."""
    coordinator = Coordinator()
    if refusal is None:
        assert coordinator.init(**asked) == (1000, 0)  # type: ignore[arg-type]
    else:
        with pytest.raises(refusal):
            coordinator.init(**asked)  # type: ignore[arg-type]
        assert coordinator.written == []
        if refusal is InvalidRequest and "of" in asked:
            assert coordinator.claimed == []


@pytest.mark.parametrize(
    ("row", "given"),
    [
        pytest.param(None, (-1, -1), id="a-new-id"),
        pytest.param(transaction(epoch=32766), (-1, -1), id="a-rotation"),
    ],
)
def test_without_a_fresh_producer_id_it_is_told_to_come_back(
    row: Transaction | None, given: tuple[int, int]
) -> None:
    """14, as in Kafka: a client that cannot bear 7 can bear it (KAFKA-14417)."""
    coordinator = Coordinator(*([] if row is None else [row]))
    request = InitProducerId(ID, TIMEOUT_MS, ProducerId(given[0]), given[1])
    assert needs_producer_id(coordinator.view, request, NOW_MS)
    with pytest.raises(CoordinatorLoadInProgress):
        decide_init_producer_id(
            coordinator.view, request, now_ms=NOW_MS, fresh=None, max_timeout_ms=MAX_TIMEOUT_MS
        )


def test_without_a_transactional_id_nothing_is_stored() -> None:
    """Row 1 of B2: a given pair is ignored."""
    coordinator = Coordinator()
    request = InitProducerId(None, -1, ProducerId(7), 7)
    decision = decide_init_producer_id(
        coordinator.view, request, now_ms=NOW_MS, fresh=ProducerId(9), max_timeout_ms=1
    )
    assert (decision.records, decision.response) == ((), InitProducerIdAnswer(ProducerId(9), 0))


def test_the_history_of_fences_is_bounded_and_the_oldest_goes_first() -> None:
    coordinator = Coordinator()
    for number in range(FENCES_MAX + 3):
        coordinator.init(client_id=f"client-{number}")
    fences = coordinator.row().fences
    assert [fence.epoch for fence in fences] == list(range(2, FENCES_MAX + 2))
    assert [fence.by for fence in fences] == [f"client-{n}" for n in range(3, FENCES_MAX + 3)]
    coordinator.init(client_id="x" * 1000)
    assert coordinator.row().fences[-1].by == "x" * 64


def test_no_epoch_above_32766_is_ever_given() -> None:
    """32767 is left to the coordinator, so that it can always fence."""
    coordinator = Coordinator(transaction(epoch=32760))
    given = [coordinator.init() for _ in range(20)]
    assert max(epoch for _, epoch in given) == EPOCH_MAX - 1
    assert len(set(given)) == len(given)


@table(("epoch", "is_given"), [(32766, True), (32767, False)])
def test_an_id_that_is_not_known_is_begun_with_any_epoch_that_a_producer_may_have(
    epoch: int, is_given: bool
) -> None:
    coordinator = Coordinator()
    if is_given:
        assert coordinator.init(42, epoch)[0] == 1000
    else:
        with pytest.raises(ProducerFenced, match="is given to no producer"):
            coordinator.init(42, epoch)
