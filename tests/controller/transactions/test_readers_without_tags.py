"""A reader that knows none of the tagged fields ends a transaction rightly (KIP-939, row 939.12)."""

import msgspec
import pytest

from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.markers import marker_of
from fencepost.controller.transactions.states import State
from fencepost.records.transaction_log import (
    TransactionStateRecord,
    decode_transaction,
    encode_transaction,
)
from tests.controller.transactions.worlds import ID, ORDERS, Coordinator, opened, partitions

FIXED = (
    "transactional_id",
    "producer_id",
    "producer_epoch",
    "transaction_timeout_ms",
    "status",
    "partitions",
    "updated_ms",
    "started_ms",
)


def untagged(record: TransactionStateRecord) -> TransactionStateRecord:
    """What such a reader reads of the record's bytes: all before the tagged fields, which it skips."""
    key, value = encode_transaction(record)
    plain = TransactionStateRecord(**{name: getattr(record, name) for name in FIXED})
    fixed = encode_transaction(plain)[1]
    assert fixed is not None
    assert value is not None
    assert value.startswith(fixed[:-1]), "the fields that have no tag come first, and are the same"
    read = decode_transaction(key, fixed)
    assert isinstance(read, TransactionStateRecord)
    return read


def reader(*records: TransactionStateRecord) -> Coordinator:
    coordinator = Coordinator()
    for record in (msgspec.structs.replace(records[0], status=State.EMPTY), *records):
        replay_record(coordinator.view, untagged(record))
    return coordinator


@pytest.mark.row("939.12")
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("v2", [True, False], ids=["v2", "v1"])
@pytest.mark.parametrize("epoch", [5, 32765, 32766])
def test_what_is_prepared_is_completed_with_the_same_markers(epoch: int, v2: bool, committed: bool) -> None:
    coordinator = opened(epoch)
    for _ in range(2):
        producer_id, client_epoch, _, _ = coordinator.keep(two_phase=True)
    kept = coordinator.written[-1]
    coordinator.end(producer_id, client_epoch, committed=committed, bumps_epoch=v2)
    other = reader(kept, coordinator.written[-1])
    ours, its = marker_of(coordinator.view, ID), marker_of(other.view, ID)
    assert ours is not None
    assert its is not None
    assert (its.producer_id, its.producer_epoch, its.committed, its.partitions) == (
        42,
        epoch + 1,
        committed,
        (partitions(ORDERS, 0, 1),),
    )
    assert (its.producer_id, its.producer_epoch, its.committed, its.partitions) == (
        ours.producer_id,
        ours.producer_epoch,
        ours.committed,
        ours.partitions,
    )
    assert other.complete()
    assert other.row().state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)


@pytest.mark.row("939.12")
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_what_is_open_ends_with_the_transactions_own_pair(committed: bool) -> None:
    coordinator = opened(32766)
    coordinator.keep(two_phase=True)
    other = reader(coordinator.written[-1])
    other.end(42, 32766, committed=committed)
    assert other.row().partitions == (partitions(ORDERS, 0, 1),)
    assert other.complete()
    assert other.row().state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
