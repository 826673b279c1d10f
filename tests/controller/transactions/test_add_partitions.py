"""AddPartitionsToTxn and its VerifyOnly: each state, each refusal, each partition's own code."""

import pytest

from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    ErrorCode,
    InvalidProducerIdMapping,
    InvalidRequest,
    ProducerFenced,
    TransactionTimedOut,
)
from fencepost.controller.transactions import add_partitions
from fencepost.controller.transactions.markers import marker_of
from fencepost.controller.transactions.states import FenceCause, State
from fencepost.records.transaction_log import Fence, TopicPartitions
from fencepost.records.types import ProducerId
from tests.controller.transactions.worlds import AUDIT, NOW_MS, ORDERS, Coordinator, partitions, transaction
from tests.together import table

OK, UNKNOWN, NOT_TRIED = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
TIMED_OUT = {"epoch": 6, "instance_epoch": 3, "last_producer_epoch": 5, "timed_out": True}
CLOSED = [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]

REFUSALS = [
    pytest.param({}, (42, 4), ProducerFenced, id="an-older-epoch"),
    pytest.param({}, (42, 6), ProducerFenced, id="a-newer-epoch"),
    pytest.param({}, (7, 5), InvalidProducerIdMapping, id="a-producer-id-that-was-never-its-own"),
    pytest.param({"previous_producer_id": 7}, (7, 32766), ProducerFenced, id="the-id-before-a-rotation"),
    pytest.param(
        {"fences": (Fence(1, FenceCause.NEW_INSTANCE, ProducerId(7), 3),)},
        (7, 3),
        ProducerFenced,
        id="an-id-that-was-fenced-is-remembered",
    ),
    pytest.param(TIMED_OUT, (42, 5), TransactionTimedOut, id="the-epoch-that-timed-out"),
    pytest.param(TIMED_OUT, (42, 4), ProducerFenced, id="an-epoch-before-it"),
    pytest.param({**TIMED_OUT, "init_version": 3}, (42, 5), TransactionTimedOut, id="init-v3-can-recover"),
    pytest.param({**TIMED_OUT, "init_version": 2}, (42, 5), ProducerFenced, id="init-v2-cannot-recover"),
    pytest.param({**TIMED_OUT, "init_version": 0}, (42, 5), ProducerFenced, id="init-v0-cannot-recover"),
    pytest.param({**TIMED_OUT, "init_version": -1}, (42, 5), TransactionTimedOut, id="of-no-known-version"),
    pytest.param({**TIMED_OUT, "timed_out": False}, (42, 5), ProducerFenced, id="a-lost-bump-is-no-timeout"),
    pytest.param(
        {
            "producer_id": 85,
            "epoch": 0,
            "previous_producer_id": 42,
            "last_producer_epoch": 32766,
            "timed_out": True,
        },
        (42, 32766),
        TransactionTimedOut,
        id="timed-out-at-the-last-epoch-and-rotated",
    ),
]


@table("state", list(State)[:6], ids=lambda state: state.wire_name)
@table(("row", "given", "refusal"), REFUSALS)
@table("verify", [False, True], ids=["add", "verify"])
def test_a_pair_that_is_not_current(
    verify: bool, row: dict[str, object], given: tuple[int, int], refusal: type[ApiError], state: State
) -> None:
    """Rows 588.2 and 588.4, in every state: any other producer is refused before anything else."""
    coordinator = Coordinator(transaction(state, **row))  # type: ignore[arg-type]
    with pytest.raises(refusal) as refused:
        (coordinator.verify if verify else coordinator.add)(*given, partitions(ORDERS, 0))
    assert type(refused.value) is refusal
    assert coordinator.written == []


@pytest.mark.parametrize("state", CLOSED, ids=lambda state: state.wire_name)
def test_the_first_partitions_begin_a_transaction(state: State) -> None:
    coordinator = Coordinator(transaction(state))
    assert coordinator.add(42, 5, partitions(ORDERS, 3, 1)).errors == ((ORDERS, ((3, OK), (1, OK))),)
    row = coordinator.row()
    assert (row.state, row.partitions) == (State.ONGOING, (partitions(ORDERS, 1, 3),))
    assert (row.started_ms, row.updated_ms) == (NOW_MS, NOW_MS)
    assert (row.producer_id, row.producer_epoch, row.instance_epoch) == (42, 5, 5)


def test_more_partitions_keep_the_start() -> None:
    coordinator = Coordinator(transaction(State.ONGOING))
    coordinator.add(42, 5, partitions(AUDIT, 0), partitions(ORDERS, 1, 2, 2))
    row = coordinator.row()
    assert row.partitions == (partitions(AUDIT, 0), partitions(ORDERS, 0, 1, 2))
    assert (row.started_ms, row.updated_ms) == (NOW_MS - 1000, NOW_MS)


def test_what_is_in_already_is_not_written_again() -> None:
    coordinator = Coordinator(transaction(State.ONGOING))
    assert coordinator.add(42, 5, partitions(ORDERS, 1, 0)).errors == ((ORDERS, ((1, OK), (0, OK))),)
    assert coordinator.written == []


def test_no_partition_at_all_still_begins_a_transaction() -> None:
    """An open, empty transaction is one (Redpanda #30003 lost such a one in a snapshot)."""
    coordinator = Coordinator(transaction())
    assert coordinator.add(42, 5, TopicPartitions(ORDERS, ())).errors == ((ORDERS, ()),)
    assert coordinator.row().state is State.ONGOING


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT], ids=lambda s: s.wire_name)
@pytest.mark.parametrize("verify", [False, True], ids=["add", "verify"])
def test_while_markers_are_written_it_waits(verify: bool, state: State) -> None:
    coordinator = Coordinator(transaction(state))
    with pytest.raises(ConcurrentTransactions):
        (coordinator.verify if verify else coordinator.add)(42, 5, partitions(ORDERS, 0))


@table(
    ("asked", "errors"),
    [
        pytest.param(
            (partitions(ORDERS, 0, 4),), ((ORDERS, ((0, NOT_TRIED), (4, UNKNOWN))),), id="an-index-too-high"
        ),
        pytest.param(
            (partitions(ORDERS, 0), partitions("nowhere", 0, 1)),
            ((ORDERS, ((0, NOT_TRIED),)), ("nowhere", ((0, UNKNOWN), (1, UNKNOWN)))),
            id="a-topic-that-does-not-exist",
        ),
        pytest.param((partitions(ORDERS, -1),), ((ORDERS, ((-1, UNKNOWN),)),), id="a-negative-index"),
        pytest.param((partitions("", 0),), (("", ((0, UNKNOWN),)),), id="an-empty-name"),
        pytest.param((partitions("x" * 300, 0),), (("x" * 300, ((0, UNKNOWN),)),), id="a-name-too-long"),
    ],
)
def test_if_one_does_not_exist_none_is_added(
    asked: tuple[TopicPartitions, ...], errors: tuple[object, ...]
) -> None:
    coordinator = Coordinator(transaction())
    assert coordinator.add(42, 5, *asked).errors == errors
    assert coordinator.written == []


@table("verify", [False, True], ids=["add", "verify"])
@table(
    ("transactional_id", "refusal"),
    [
        pytest.param("", InvalidRequest, id="empty"),
        pytest.param("nobody", InvalidProducerIdMapping, id="unknown"),
        pytest.param("x" * 5000, InvalidProducerIdMapping, id="longer-than-any"),
    ],
)
def test_an_id_that_there_is_not(verify: bool, transactional_id: str, refusal: type[ApiError]) -> None:
    coordinator = Coordinator(transaction())
    with pytest.raises(refusal):
        (coordinator.verify if verify else coordinator.add)(42, 5, partitions(ORDERS, 0), of=transactional_id)


def test_a_transaction_has_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions, "PARTITIONS_MAX", 3)
    coordinator = Coordinator(transaction())
    coordinator.add(42, 5, partitions(ORDERS, 0, 1), partitions(AUDIT, 0))
    with pytest.raises(InvalidRequest, match="4 partitions"):
        coordinator.add(42, 5, partitions(ORDERS, 2))
    assert coordinator.row().partitions == (partitions(AUDIT, 0), partitions(ORDERS, 0, 1))


def test_a_transaction_has_a_bound_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions, "TOPICS_MAX", 1)
    coordinator = Coordinator(transaction())
    coordinator.add(42, 5, partitions(ORDERS, 0, 1))
    with pytest.raises(InvalidRequest, match="in 2 topics; at most"):
        coordinator.add(42, 5, partitions(AUDIT, 0))
    assert coordinator.row().partitions == (partitions(ORDERS, 0, 1),)


@pytest.mark.parametrize("state", [*CLOSED, State.ONGOING], ids=lambda state: state.wire_name)
def test_verification_tells_which_are_in(state: State) -> None:
    coordinator = Coordinator(transaction(state))
    inside = OK if state is State.ONGOING else ABORTABLE
    answer = coordinator.verify(42, 5, partitions(ORDERS, 0, 2), partitions(AUDIT, 0))
    assert answer.errors == ((ORDERS, ((0, inside), (2, ABORTABLE))), (AUDIT, ((0, ABORTABLE),)))
    assert coordinator.written == []


@pytest.mark.row("939.10")
@pytest.mark.parametrize("for_client", [True, False], ids=["v2", "v1"])
def test_the_row_says_whose_protocol_the_open_transaction_follows(for_client: bool) -> None:
    """Its markers do, too: those of V2 have an epoch of their own. Each transaction says it anew."""
    world = Coordinator(transaction(State.COMPLETE_COMMIT, 42, 5, client_transaction_version=2))
    world.add(42, 5, for_client=for_client)
    version = 2 if for_client else 0
    assert world.row().client_transaction_version == version
    world.end(42, 5, committed=True, bumps_epoch=for_client)
    marker = marker_of(world.view, world.row().transactional_id)
    assert marker is not None
    assert (marker.producer_epoch, marker.transaction_version) == (5 + for_client, version)
