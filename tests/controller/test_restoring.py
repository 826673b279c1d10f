"""An image of the past that a cluster goes on from lies behind all that was found in its logs."""

import uuid
from typing import Any

import msgspec
import pytest

from fencepost.controller import producer_ids, topics, voters
from fencepost.controller.brokers import BROKERS
from fencepost.controller.groups import tables as groups
from fencepost.controller.replay import replay_record
from fencepost.controller.restoring import FOUND_PREFIX, Found, ProducerIdsEnd, Restored, restore
from fencepost.controller.transactions.states import State
from fencepost.controller.view import Overlay
from fencepost.records.group_metadata import GroupMember, GroupMetadata, GroupState
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import PRODUCER_ID_MAX, BrokerId, ImageVersion, NodeId, ProducerId, Term
from tests.controller.transactions.worlds import AUDIT, ID, NOW_MS, ORDERS, Coordinator, transaction
from tests.controller.worlds import allocated, registered

SKIPPED = 500
VOTER = uuid.UUID(int=0x77)


def restored(view: Overlay, **found: Any) -> Restored:
    return restore(view, Found(**found), skip_ids=SKIPPED, directories={NodeId(1): VOTER}, now_ms=NOW_MS + 1)


def after(here: Coordinator, **found: Any) -> Restored:
    return restored(here.view, **found)


def test_ids_go_on_above_the_image_and_above_what_was_found() -> None:
    for found, end in ((0, 3000 + SKIPPED), (2999, 3000 + SKIPPED), (7001, 7001 + SKIPPED)):
        here = Coordinator()
        replay_record(here.view, allocated(3000))
        done = after(here, producer_id_end=ProducerId(found))
        assert producer_ids.latest(here.view).end == done.producer_id_end == end
        assert done.producer_id_end_before == 3000


def test_the_last_ids_are_skipped_and_one_more_is_refused() -> None:
    here = Coordinator()
    replay_record(here.view, allocated(PRODUCER_ID_MAX - SKIPPED))
    assert after(here).producer_id_end == PRODUCER_ID_MAX
    with pytest.raises(ProducerIdsEnd, match="the last one is"):
        after(here)


def test_versions_epochs_and_ends_are_above_what_was_found() -> None:
    here = Coordinator()
    replay_record(here.view, registered(1, epoch=4, fenced=False))
    here.view.header = msgspec.structs.replace(here.view.header, log_ends=(9, 20, 3))
    done = after(
        here,
        marker_version=ImageVersion(90),
        coordinator_epoch=Term(12),
        log_ends=(30, 5, 3),
        leader_epochs={(ORDERS, 2): Term(6)},
    )
    header = here.view.header
    assert (header.version, header.controller_epoch, header.log_ends) == (91, 13, (31, 21, 4))
    assert done.controller_epoch == 13
    broker = here.view.get(BROKERS, BrokerId(1))
    assert broker is not None
    assert (broker.epoch, broker.fenced) == (30, True), "of no registration: the next one is at 31"
    by_partition = {
        (here.view.get(topics.TOPIC_NAMES, topic_id), index): row.leader_epoch
        for (topic_id, index), row in here.view.items(topics.PARTITIONS)
    }
    assert by_partition[ORDERS, 2] == 7
    assert by_partition[ORDERS, 0] == by_partition[AUDIT, 0] == 1
    assert voters.bindings(here.view) == {1: VOTER}


def test_what_is_older_than_the_image_takes_nothing_back() -> None:
    here = Coordinator()
    before = here.view.header
    after(here, marker_version=ImageVersion(1), coordinator_epoch=Term(1))
    assert here.view.header.version == before.version + 1
    assert here.view.header.controller_epoch == before.controller_epoch + 1


def test_an_open_transaction_is_aborted_wherever_it_is_open() -> None:
    here = Coordinator()
    pair = here.init()
    here.add(*pair, TopicPartitions(ORDERS, (0,)))
    opened = {ProducerId(pair[0]): (TopicPartitions(AUDIT, (0,)), TopicPartitions(ORDERS, (0, 3)))}
    done = after(here, opened=opened, producer_epochs={ProducerId(pair[0]): 40})
    row = here.row()
    assert done.aborted == (ID,)
    assert row.state is State.PREPARE_ABORT
    assert row.partitions == (TopicPartitions(AUDIT, (0,)), TopicPartitions(ORDERS, (0, 3)))
    assert row.producer_epoch == 41, "above what any partition has seen"
    assert row.prepared_version == here.view.header.version + 1


def test_a_transaction_that_was_begun_since_is_aborted() -> None:
    here = Coordinator()
    here.init()
    producer_id = ProducerId(here.pair()[0])
    done = after(here, opened={producer_id: (TopicPartitions(ORDERS, (1,)),)})
    assert done.aborted == (ID,)
    assert here.row().state is State.PREPARE_ABORT
    assert here.row().partitions == (TopicPartitions(ORDERS, (1,)),)


def test_a_transaction_of_an_unknown_id_is_aborted_by_an_id_of_its_own() -> None:
    here = Coordinator()
    opened = {ProducerId(77): (TopicPartitions(ORDERS, (1,)),)}
    done = after(here, opened=opened, producer_epochs={ProducerId(77): 3})
    assert done.aborted == (f"{FOUND_PREFIX}77",)
    row = here.row(f"{FOUND_PREFIX}77")
    assert (row.producer_id, row.producer_epoch, row.state) == (77, 4, State.PREPARE_ABORT)


def decided(here: Coordinator) -> tuple[int, int]:
    """PrepareCommit: the pair of the transaction."""
    pair = here.init()
    here.add(*pair, TopicPartitions(ORDERS, (0,)))
    here.end(*pair, committed=True)
    assert here.row().state is State.PREPARE_COMMIT
    return pair


def test_an_outcome_that_was_decided_stays() -> None:
    here = Coordinator()
    producer_id, _ = decided(here)
    before = here.row()
    opened = {ProducerId(producer_id): (TopicPartitions(ORDERS, (0,)),)}
    done = after(here, opened=opened, last_versions={ProducerId(producer_id): ImageVersion(2)})
    row = here.row()
    assert (done.aborted, done.decided) == ((), (ID,))
    assert (row.state, row.partitions) == (State.PREPARE_COMMIT, before.partitions)
    assert row.prepared_version == before.prepared_version, "partitions that have the marker pass it over"
    assert row.producer_epoch > before.producer_epoch


def test_what_was_begun_after_a_decided_outcome_is_aborted_beside_it() -> None:
    """The partition has the marker of that outcome already, or a later one."""
    here = Coordinator()
    producer_id, _ = decided(here)
    opened = {ProducerId(producer_id): (TopicPartitions(ORDERS, (3,)),)}
    last = {ProducerId(producer_id): here.row().prepared_version}
    done = after(here, opened=opened, last_versions=last)
    assert done.decided == (ID,)
    assert done.aborted == (f"{FOUND_PREFIX}{producer_id}",)


def test_an_idle_id_has_an_epoch_that_no_producer_has() -> None:
    here = Coordinator()
    here.init()
    producer_id = ProducerId(here.pair()[0])
    after(here, producer_epochs={producer_id: 9})
    assert (here.row().state, here.row().producer_epoch) == (State.EMPTY, 10)


def test_groups_have_no_member_and_the_next_generation() -> None:
    here = Coordinator()
    member = GroupMember(
        member_id="m-1",
        instance_id="i-1",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocols=(("range", b""),),
        assignment=b"",
    )
    for group_id, members in (("led", (member,)), ("idle", ())):
        replay_record(
            here.view,
            GroupMetadata(
                group_id=group_id,
                protocol_type="consumer",
                generation=4,
                protocol="range" if members else None,
                leader="m-1" if members else None,
                state=GroupState.STABLE if members else GroupState.EMPTY,
                state_ms=1,
                members=members,
            ),
        )
    assert after(here).groups == 2
    for group_id in ("led", "idle"):
        row = groups.get(here.view, group_id)
        assert row is not None
        assert (row.generation, row.state) == (5, GroupState.EMPTY)
        assert groups.member_ids(here.view, group_id) == ()
    assert groups.static_member_id(here.view, "led", "i-1") is None


def test_nothing_else_changes() -> None:
    here = Coordinator()
    before = {table: dict(rows) for table, rows in here.view._rows.items()}
    after(here)
    changed = {table.name for table, rows in here.view._rows.items() if rows != before.get(table, {})}
    assert changed == {"quorum", "partitions", "producer_ids"}


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
@pytest.mark.parametrize(("epoch", "then"), [(5, 6), (32_766, 32_767), (32_767, 32_767)])
def test_what_is_prepared_stays_so_at_an_epoch_that_no_producer_has(
    state: State, epoch: int, then: int
) -> None:
    here = Coordinator(transaction(state, epoch=epoch))
    after(here)
    row = here.row()
    assert (row.state, row.producer_epoch, row.instance_epoch, row.init_version) == (state, then, then, -1)
