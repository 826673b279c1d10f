"""Offsets in transactions: who may commit, what is pending, and what each end does with it."""

from typing import Any

import msgspec
import pytest

from fencepost.controller import topics
from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    ErrorCode,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTopic,
    ProducerFenced,
    TransactionAbortable,
    TransactionTimedOut,
    UnsupportedVersion,
)
from fencepost.controller.group_errors import IllegalGeneration, UnstableOffsetCommit
from fencepost.controller.groups import offset_tables, offsets
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import CommitTransactionOffsets, OffsetToCommit
from fencepost.controller.groups.offsets import OffsetRules
from fencepost.controller.topic_creation import require_valid_name
from fencepost.controller.transactions import commit_offsets, ending
from fencepost.controller.transactions.commit_offsets import decide_commit_in_transaction
from fencepost.controller.transactions.markers import marker_of
from fencepost.controller.transactions.states import State
from fencepost.records.end_marker import EndMarker
from fencepost.records.group_metadata import GroupMetadata, GroupState
from fencepost.records.offset_commit import OffsetCommitRecord
from fencepost.records.types import ProducerId
from tests.controller.groups.offset_worlds import RULES, GroupCoordinator
from tests.controller.groups.worlds import GROUP, group, member
from tests.controller.transactions.worlds import (
    ID,
    NOW_MS,
    ORDERS,
    TIMEOUT_MS,
    partitions,
    place,
    transaction,
)
from tests.together import table

ALICE, BOB = member("alice-1"), member("bob-2", instance_id="bob")
STABLE = group(ALICE, BOB)
COMPLETING = group(ALICE, BOB, state=GroupState.COMPLETING_REBALANCE)
CODE = ErrorCode

COMMITS = [
    pytest.param(None, Identity(), CODE.NONE, id="missing-group"),
    pytest.param(None, Identity("x", None, 0), CODE.ILLEGAL_GENERATION, id="missing-group-and-a-generation"),
    pytest.param(group(), Identity("x", "y"), CODE.NONE, id="empty-group-ignores-ids"),
    pytest.param(group(), Identity("x", None, 0), CODE.UNKNOWN_MEMBER_ID, id="empty-group-and-a-generation"),
    pytest.param(STABLE, Identity("alice-1", None, 3), CODE.NONE, id="member"),
    pytest.param(COMPLETING, Identity("alice-1", None, 3), CODE.NONE, id="while-assignments-are-awaited"),
    pytest.param(STABLE, Identity(), CODE.NONE, id="no-identity-of-an-old-client"),
    pytest.param(STABLE, Identity("alice-1", None, 2), CODE.ILLEGAL_GENERATION, id="old-generation"),
    pytest.param(STABLE, Identity("eve", None, 3), CODE.UNKNOWN_MEMBER_ID, id="unknown-member"),
    pytest.param(STABLE, Identity("x", "eve", 3), CODE.UNKNOWN_MEMBER_ID, id="unknown-instance"),
    pytest.param(STABLE, Identity("bob-1", "bob", 3), CODE.FENCED_INSTANCE_ID, id="replaced"),
]


@pytest.mark.row("447.1")
@pytest.mark.parametrize(("known", "by", "code"), COMMITS)
def test_who_may_commit(known: GroupMetadata | None, by: Identity, code: int) -> None:
    world = GroupCoordinator(*(() if known is None else (known,)))
    pair = world.begin()
    assert world.commit_in(pair, 9, by=by) == code
    assert (world.fetched(require_stable=True).code == CODE.UNSTABLE_OFFSET_COMMIT) == (code == CODE.NONE)
    world.end(*pair, committed=True)
    assert world.offset() == (9 if code == CODE.NONE else -1)


def in_state(state: State, **given: Any) -> Any:
    held = (partitions("__consumer_offsets", 0), partitions(ORDERS, 0))
    return transaction(state, 42, 5, partitions=held if state is State.ONGOING else (), **given)


TRANSACTIONS = [
    pytest.param(None, 42, 5, InvalidProducerIdMapping, id="unknown-id"),
    pytest.param(in_state(State.ONGOING), 43, 5, InvalidProducerIdMapping, id="another-producer-id"),
    pytest.param(in_state(State.ONGOING), 42, 4, ProducerFenced, id="fenced"),
    pytest.param(transaction(State.ONGOING, 42, 5), 42, 5, TransactionAbortable, id="without-add-offsets"),
    pytest.param(transaction(State.PREPARE_COMMIT, 42, 5), 42, 5, ConcurrentTransactions, id="ending"),
    pytest.param(transaction(State.COMPLETE_COMMIT, 42, 5), 42, 5, TransactionAbortable, id="ended"),
    pytest.param(transaction(State.EMPTY, 42, 5), 42, 5, TransactionAbortable, id="none-open"),
]


@table("known", [None, STABLE], ids=["group-missing", "group-stable"])
@table(("row", "producer_id", "epoch", "refusal"), TRANSACTIONS)
def test_what_is_wrong_with_the_transaction_is_said_first(
    row: Any, producer_id: int, epoch: int, refusal: type[ApiError], known: GroupMetadata | None
) -> None:
    world = GroupCoordinator(*(() if known is None else (known,)))
    if row is not None:
        place(world.view, row)
    with pytest.raises(refusal):
        world.commit_in((producer_id, epoch), by=Identity("eve", None, 99))
    assert offset_tables.open_offsets(world.view, producer_id).keys == ()


@pytest.mark.row("588.2")
@pytest.mark.parametrize(
    ("knows_abortable", "refusal"),
    [(True, TransactionAbortable), (False, IllegalGeneration)],
    ids=["v4", "v3"],
)
def test_a_pair_that_timed_out_gets_a_code_that_clients_abort_on(
    knows_abortable: bool, refusal: type[ApiError]
) -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.commit_in(pair)
    assert world.time_out(TIMEOUT_MS + 1) == (ID,)
    assert world.offset() == -1
    with pytest.raises(refusal):
        world.commit_in(pair, knows_abortable=knows_abortable)
    with pytest.raises(TransactionTimedOut):
        world.add_offsets(*pair)


def test_add_offsets_holds_the_group_log_and_no_marker_is_sent_for_it() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.add(*pair, partitions(ORDERS, 0, 1))
    assert world.row().partitions == (partitions("__consumer_offsets", 0), partitions(ORDERS, 0, 1))
    world.end(*pair, committed=True)
    marker = marker_of(world.view, ID)
    assert marker is not None
    assert marker.partitions == (partitions(ORDERS, 0, 1),)
    world.written.clear()
    assert world.complete()
    assert [type(each).__name__ for each in world.written] == ["TransactionStateRecord"]


def test_add_offsets_needs_the_log_level() -> None:
    world = GroupCoordinator(level=1)
    pair = world.init()
    with pytest.raises(UnsupportedVersion, match="features upgrade"):
        world.add_offsets(*pair)
    with pytest.raises(UnsupportedVersion, match="features upgrade"):
        world.commit_in(pair, 5)


# -- every end of a transaction ----------------------------------------------------------------------------


def ended_by_commit(world: GroupCoordinator, pair: tuple[int, int]) -> None:
    world.end(*pair, committed=True)


def ended_by_abort(world: GroupCoordinator, pair: tuple[int, int]) -> None:
    world.end(*pair, committed=False)


def ended_by_commit_v2(world: GroupCoordinator, pair: tuple[int, int]) -> None:
    world.end(*pair, committed=True, bumps_epoch=True)


def ended_by_abort_v2(world: GroupCoordinator, pair: tuple[int, int]) -> None:
    world.end(*pair, committed=False, bumps_epoch=True)


def ended_by_timeout(world: GroupCoordinator, pair: tuple[int, int]) -> None:
    assert world.time_out(TIMEOUT_MS + 1)


def ended_by_another_instance(world: GroupCoordinator, pair: tuple[int, int]) -> None:
    with pytest.raises(ConcurrentTransactions):
        world.init()


def ended_by_the_same_instance(world: GroupCoordinator, pair: tuple[int, int]) -> None:
    with pytest.raises(ConcurrentTransactions):
        world.init(*pair)


ENDS = [
    pytest.param(ended_by_commit, True, id="commit"),
    pytest.param(ended_by_abort, False, id="abort"),
    pytest.param(ended_by_commit_v2, True, id="commit-that-bumps"),
    pytest.param(ended_by_abort_v2, False, id="abort-that-bumps"),
    pytest.param(ended_by_timeout, False, id="timeout"),
    pytest.param(ended_by_another_instance, False, id="another-instance"),
    pytest.param(ended_by_the_same_instance, False, id="the-same-instance"),
]


@table(("end", "committed"), ENDS)
def test_the_decision_that_ends_it_moves_its_offsets(end: Any, committed: bool) -> None:
    """In the same entry: from then on they are committed or gone, before any marker is written."""
    world = GroupCoordinator()
    world.commit(5)
    pair = world.begin()
    world.commit_in(pair, 9)
    world.commit_in(pair, 4, partition=1)
    world.written.clear()
    end(world, pair)
    state, marker = world.written
    assert world.row().state is (State.PREPARE_COMMIT if committed else State.PREPARE_ABORT)
    assert isinstance(marker, EndMarker)
    assert (marker.producer_id, marker.producer_epoch) == (state.producer_id, state.producer_epoch)
    assert (marker.committed, marker.coordinator_epoch) == (committed, 3)
    assert [world.fetched(partition=each, require_stable=True).offset for each in (0, 1)] == (
        [9, 4] if committed else [5, -1]
    )
    assert not list(world.view.items(offset_tables.PENDING))
    assert not list(world.view.items(offset_tables.WAITING))


def test_an_epoch_past_the_last_ends_with_its_offsets_dropped() -> None:
    """Older versions accepted 32767, which no producer was given: such a transaction is aborted, too."""
    world = GroupCoordinator()
    held = (partitions("__consumer_offsets", 0),)
    place(world.view, transaction(State.ONGOING, 42, 32767, partitions=held))
    assert world.time_out(TIMEOUT_MS + 1) == (ID,)
    assert [type(each) for each in world.written][1:] == [EndMarker]
    assert world.row().producer_epoch == 32767


def test_a_transaction_without_offsets_writes_no_control_record() -> None:
    world = GroupCoordinator()
    pair = world.init()
    world.add(*pair)
    world.end(*pair, committed=True)
    assert not any(isinstance(each, EndMarker) for each in world.written)


def test_a_plain_commit_between_wins_and_stays_won() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.commit_in(pair, 9)
    world.commit(3)
    world.end(*pair, committed=True)
    assert world.offset() == 3


def test_the_last_commit_of_a_transaction_counts() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.commit_in(pair, 9)
    world.commit(3)
    world.commit_in(pair, 11)
    world.end(*pair, committed=True)
    assert world.offset() == 11


def test_a_second_end_of_a_producer_finds_nothing() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    world.commit_in(pair, 9)
    world.end(*pair, committed=True)
    world.commit(3)
    (marker,) = (each for each in world.written if isinstance(each, EndMarker))
    world.write(marker)
    assert world.offset() == 3


@pytest.mark.parametrize(
    ("known", "by", "said"),
    [
        pytest.param(STABLE, Identity("alice-1", None, 3), (3, True, "alice-1"), id="member"),
        pytest.param(STABLE, Identity("bob-2", "bob", 3), (3, True, "bob-2"), id="static-member"),
        pytest.param(STABLE, Identity(), (3, False, ""), id="without-identity"),
        pytest.param(group(), Identity("x", "y"), (-1, False, ""), id="empty-group"),
    ],
)
def test_the_log_says_who_committed(known: GroupMetadata, by: Identity, said: tuple[int, bool, str]) -> None:
    world = GroupCoordinator(known)
    pair = world.begin()
    assert world.commit_in(pair, 9, by=by) == CODE.NONE
    (record,) = (each for each in world.written if isinstance(each, OffsetCommitRecord))
    assert record.committer == pair[0]
    assert (record.generation, record.is_identified, record.member_id) == said


# -- commits without identity ------------------------------------------------------------------------------


@pytest.mark.row("447.2")
def test_a_producer_without_identity_does_not_commit_over_an_owner() -> None:
    """A zombie that cannot say its generation would set the new owner's offsets back."""
    world = GroupCoordinator(STABLE)
    owner, zombie = world.begin("owner"), world.begin("zombie")
    assert world.commit_in(owner, 20, of="owner", by=Identity("alice-1", None, 3)) == CODE.NONE
    assert world.commit_in(zombie, 7, of="zombie") == CODE.ILLEGAL_GENERATION
    world.end(*owner, committed=True, of="owner")
    assert world.commit_in(zombie, 7, of="zombie") == CODE.ILLEGAL_GENERATION
    assert world.commit_in(zombie, 7, of="zombie", partition=1) == CODE.NONE
    world.end(*zombie, committed=True, of="zombie")
    assert (world.offset(), world.offset(partition=1)) == (20, 7)


def test_a_plain_commit_does_not_hide_the_owner() -> None:
    world = GroupCoordinator(STABLE)
    owner, zombie = world.begin("owner"), world.begin("zombie")
    world.commit_in(owner, 20, of="owner", by=Identity("alice-1", None, 3))
    world.end(*owner, committed=True, of="owner")
    assert world.commit(21, by=Identity("alice-1", None, 3)) == CODE.NONE
    assert world.commit_in(zombie, 7, of="zombie") == CODE.ILLEGAL_GENERATION


def test_the_next_generation_and_an_empty_group_refuse_no_one() -> None:
    world = GroupCoordinator(STABLE)
    owner, other = world.begin("owner"), world.begin("other")
    world.commit_in(owner, 20, of="owner", by=Identity("alice-1", None, 3))
    world.end(*owner, committed=True, of="owner")
    world.write(msgspec.structs.replace(STABLE, generation=4))
    assert world.commit_in(other, 21, of="other") == CODE.NONE
    world.write(group(generation=5))
    third = world.begin("third")
    assert world.commit_in(third, 22, of="third") == CODE.NONE


@pytest.mark.row("447.2")
@pytest.mark.parametrize("strict", [False, True], ids=["as-kafka", "all"])
def test_without_identity_against_without_identity(strict: bool) -> None:
    world = GroupCoordinator(STABLE)
    world.rules = OffsetRules(refuses_all_without_identity=strict)
    first, second = world.begin("first"), world.begin("second")
    assert world.commit_in(first, 20, of="first") == CODE.NONE
    expected = CODE.ILLEGAL_GENERATION if strict else CODE.NONE
    assert world.commit_in(second, 7, of="second") == expected
    assert world.commit_in(first, 21, of="first") == CODE.NONE


# -- bounds ------------------------------------------------------------------------------------------------


def test_a_transaction_has_so_many_offsets_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_offsets, "TXN_OFFSETS_MAX", 2)
    world = GroupCoordinator()
    pair = world.begin()
    for partition in (0, 1, 0, 1):
        assert world.commit_in(pair, 9, partition=partition) == CODE.NONE
    with pytest.raises(InvalidRequest, match="end it"):
        world.commit_in(pair, 9, partition=2)


def test_a_partition_has_so_many_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_offsets, "WAITING_MAX", 2)
    world = GroupCoordinator()
    pairs = [world.begin(f"t{each}") for each in range(3)]
    for number in (0, 1, 0):
        assert world.commit_in(pairs[number], 9, of=f"t{number}") == CODE.NONE
    with pytest.raises(UnstableOffsetCommit):
        world.commit_in(pairs[2], 9, of="t2")


def test_what_an_end_moves_is_counted_in_its_cost() -> None:
    world = GroupCoordinator()
    pair = world.begin()
    for partition in range(3):
        world.commit_in(pair, 9, partition=partition)
    row = world.row()
    assert ending.cost_of_end(world.view, row) == 3 * ending.MOVED_OFFSET_COST
    assert offsets.find(world.view, GROUP) is not None


def test_unknown_topics_are_answered_before_the_transaction_is_looked_at() -> None:
    world = GroupCoordinator()
    request = CommitTransactionOffsets("nothing", GROUP, ProducerId(1), 0, (OffsetToCommit("nowhere", 0, 1),))
    decision = decide_commit_in_transaction(world.view, request, RULES, now_ms=NOW_MS)
    assert [each.code for each in decision.response.rows] == [CODE.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_log_of_offsets_is_no_topic_that_a_client_names() -> None:
    """AddOffsetsToTxn adds it, AddPartitionsToTxn does not: it has no partition to produce to or fetch."""
    world = GroupCoordinator()
    pair = world.init()
    answer = world.add(*pair, partitions(ending.OFFSETS_TOPIC, 0))
    assert answer.errors == ((ending.OFFSETS_TOPIC, ((0, CODE.UNKNOWN_TOPIC_OR_PARTITION),)),)
    assert topics.find(world.view, ending.OFFSETS_TOPIC) is None
    with pytest.raises(InvalidTopic):
        require_valid_name(ending.OFFSETS_TOPIC)
