"""TxnOffsetCommit of transactions V2: it begins the transaction, or adds to it, by itself (KIP-890)."""

import pytest

from fencepost.controller.errors import ConcurrentTransactions, ErrorCode, ProducerFenced
from fencepost.controller.groups.identity import Identity
from fencepost.controller.transactions import ending
from fencepost.controller.transactions.states import State
from tests.controller.groups.offset_worlds import GroupCoordinator
from tests.controller.groups.worlds import group, member

STABLE = group(member("alice-1"), member("bob-2", instance_id="bob"))
CODE = ErrorCode


@pytest.mark.row("939.10")
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_client_of_transactions_v2_commits_offsets_without_adding_them_first(committed: bool) -> None:
    """TxnOffsetCommit begins the transaction, or adds to it, in the entry that has the offset."""
    world = GroupCoordinator()
    pair = world.init()
    assert world.commit_in(pair, 9, adds_offsets=True) == CODE.NONE
    row = world.row()
    assert (row.state, row.client_transaction_version) == (State.ONGOING, 2)
    assert ending.holds_offsets(row)
    assert world.commit_in(pair, 11, partition=1, adds_offsets=True) == CODE.NONE
    following = world.end(*pair, committed=committed, bumps_epoch=True)
    assert following == (pair[0], pair[1] + 1)
    assert world.offset() == (9 if committed else -1)
    world.complete()
    with pytest.raises(ProducerFenced):
        world.commit_in(pair, 12, adds_offsets=True)
    assert world.commit_in(following, 13, adds_offsets=True) == CODE.NONE


def test_nothing_begins_for_an_offset_that_is_refused() -> None:
    world = GroupCoordinator(STABLE)
    pair = world.init()
    by = Identity("alice-1", None, 2)
    assert world.commit_in(pair, 9, by=by, adds_offsets=True) == CODE.ILLEGAL_GENERATION
    assert world.row().state is State.EMPTY
    assert world.commit_in(pair, 9, topic="unknown", adds_offsets=True) == CODE.UNKNOWN_TOPIC_OR_PARTITION
    assert world.row().state is State.EMPTY
    code = world.commit_in(pair, 9, by=Identity("alice-1", None, 3), metadata="m" * 5_000, adds_offsets=True)
    assert (code, world.row().state) == (CODE.OFFSET_METADATA_TOO_LARGE, State.EMPTY)


def test_offsets_wait_for_the_markers_of_the_last_transaction() -> None:
    world = GroupCoordinator()
    pair = world.init()
    world.add(*pair, for_client=True)
    following = world.end(*pair, committed=True, bumps_epoch=True)
    with pytest.raises(ConcurrentTransactions):
        world.commit_in(following, 9, adds_offsets=True)
    world.complete()
    assert world.commit_in(following, 9, adds_offsets=True) == CODE.NONE
