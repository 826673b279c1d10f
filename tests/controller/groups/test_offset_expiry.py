"""Offsets expire: by their group's state, their client's wish and their topic, by clocks that do not jump."""

from typing import Any
from uuid import UUID

import pytest

from fencepost.controller.groups import offset_expiry as e
from fencepost.controller.groups import offset_tables, offsets, tables
from fencepost.controller.groups.offset_expiry import Retention
from fencepost.controller.groups.offset_tables import TIMES_BUCKET_MS
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import find
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.group_metadata import GroupForgotten, GroupState
from fencepost.records.offset_commit import OffsetCommitRecord, decode_offset, encode_offset
from fencepost.records.schema import RemoveTopicRecord
from tests.controller.groups.offset_worlds import GroupCoordinator
from tests.controller.groups.test_offset_deletion import reader
from tests.controller.groups.test_offsets import created_again
from tests.controller.groups.worlds import GROUP, group, later, member
from tests.controller.transactions.worlds import AUDIT, NOW_MS, ORDERS
from tests.together import table

WEEK_MS = 7 * 24 * 3_600_000


class Sweeper(GroupCoordinator):
    """A leader that has led since ``activated_ms``; ``slowest_ms`` is by the slowest clock it has seen."""

    def retention(self, slowest_ms: int | None = None) -> Retention:
        return Retention(self.now_ms, self.activated_ms, WEEK_MS, slowest_ms)

    def sweep(self, retention: Retention | None = None) -> e.Forgotten:
        """Every look, to the end of each index; what is due is decided at once."""
        at = retention or self.retention()
        offsets_gone = groups_gone = 0
        for look in (e.due_by_time, e.due_by_client):
            after: Any = None
            while True:
                keys, after = look(self.view, at, after)
                done = self.applied(e.decide_expire(self.view, at, keys))
                offsets_gone, groups_gone = offsets_gone + done.offsets, groups_gone + done.groups
                if after is None:
                    break
        return e.Forgotten(offsets_gone, groups_gone)


def empty_since(ms: int) -> Any:
    return later(group(), state_ms=ms)


STABLE = group(reader("alice-1", "elsewhere"))
BASES = [  # the group, written after the commit; ms from the commit; expired
    pytest.param(None, WEEK_MS - 1, False, id="simple-just-before"),
    pytest.param(None, WEEK_MS, True, id="simple"),
    pytest.param(empty_since(NOW_MS + 1000), WEEK_MS, False, id="empty-counts-from-when-it-became-so"),
    pytest.param(empty_since(NOW_MS + 1000), WEEK_MS + 1000, True, id="empty"),
    pytest.param(empty_since(-1), WEEK_MS, True, id="empty-since-no-one-knows-when"),
    pytest.param(empty_since(NOW_MS - WEEK_MS), WEEK_MS - 1, False, id="empty-but-committed-since"),
    pytest.param(STABLE, WEEK_MS, True, id="stable-of-a-topic-that-no-one-reads"),
    pytest.param(group(reader("a", ORDERS)), 9 * WEEK_MS, False, id="stable-and-subscribed"),
    pytest.param(group(member("a")), 9 * WEEK_MS, False, id="stable-and-subscriptions-unknown"),
    pytest.param(later(STABLE, state=GroupState.COMPLETING_REBALANCE), 9 * WEEK_MS, False, id="rebalancing"),
    pytest.param(later(STABLE, protocol_type="connect"), 9 * WEEK_MS, False, id="another-protocol"),
]


@table(("known", "after_ms", "expired"), BASES)
def test_when_an_offset_expires(known: Any, after_ms: int, expired: bool) -> None:
    world = Sweeper()
    world.commit(5)
    if known is not None:
        world.write(known)
    world.now_ms += after_ms
    assert world.sweep().offsets == int(expired)
    assert world.offset() == (-1 if expired else 5)


def test_a_pending_offset_keeps_the_committed_one() -> None:
    world = Sweeper()
    world.commit(5)
    pair = world.begin()
    world.commit_in(pair, 9)
    world.now_ms += WEEK_MS
    assert world.sweep() == e.Forgotten(0, 0)
    assert world.offset() == 5
    world.end(*pair, committed=False)
    assert world.sweep() == e.Forgotten(1, 1)


def test_the_indexes_have_a_committed_offset_where_its_last_commit_puts_it() -> None:
    """With the value that they have always had: nodes of different versions compare these rows, too."""
    world = Sweeper()
    world.commit(5)
    world.now_ms += 3 * TIMES_BUCKET_MS
    pair = world.begin()
    world.commit_in(pair, 9)
    world.end(*pair, committed=True)
    ((key, row),) = world.view.items(offset_tables.OFFSETS)
    assert row.committed_ms == world.now_ms
    bucket_ms = row.committed_ms // TIMES_BUCKET_MS * TIMES_BUCKET_MS
    assert list(world.view.items(offset_tables.TIMES)) == [((bucket_ms, key), True)]
    world.now_ms += TIMES_BUCKET_MS
    world.commit(10, retention_ms=1000)
    assert list(world.view.items(offset_tables.TIMES)) == []
    assert list(world.view.items(offset_tables.EXPIRIES)) == [((world.now_ms + 1000, key), True)]


def test_an_offset_that_expires_as_time_begins_leaves_no_entry_behind() -> None:
    world = Sweeper()
    world.now_ms = 0
    for retention_ms in (0, 1000):
        world.commit(5, retention_ms=retention_ms)
        ((expires_ms, _),) = [key for key, _ in world.view.items(offset_tables.EXPIRIES)]
        assert expires_ms == retention_ms


def test_a_client_may_say_how_long() -> None:
    world = Sweeper()
    world.commit(5, retention_ms=1000)
    world.commit(6, partition=1, retention_ms=2 * WEEK_MS)
    world.now_ms += 999
    assert world.sweep().offsets == 0
    world.now_ms += 1
    assert world.sweep().offsets == 1
    world.now_ms += WEEK_MS
    assert world.sweep().offsets == 0
    world.now_ms += WEEK_MS
    assert world.sweep().offsets == 1


@pytest.mark.parametrize(
    ("retention_ms", "expires_ms"),
    [
        pytest.param(-1, -1, id="the-groups"),
        pytest.param(-(2**63), -1, id="a-negative-one-is-none"),
        pytest.param(0, NOW_MS, id="at-once"),
        pytest.param(2**63 - 1, 2**63 - 1, id="never-and-no-overflow"),
    ],
)
def test_any_retention_can_be_written(retention_ms: int, expires_ms: int) -> None:
    world = Sweeper()
    world.commit(5, retention_ms=retention_ms)
    (record,) = (each for each in world.written if isinstance(each, OffsetCommitRecord))
    assert decode_offset(*encode_offset(record)) == record
    assert record.expires_ms == expires_ms


def test_an_empty_group_goes_with_its_last_offset() -> None:
    world = Sweeper()
    world.commit(5)
    world.commit(6, partition=1)
    world.write(empty_since(NOW_MS))
    world.now_ms += WEEK_MS
    assert world.sweep() == e.Forgotten(2, 1)
    assert tables.get(world.view, GROUP) is None


def test_a_group_of_offsets_alone_goes_with_its_last_offset() -> None:
    world = Sweeper()
    world.commit(5)
    world.commit(6, topic=AUDIT)
    topic = find(world.view, AUDIT)
    assert topic is not None
    replay_record(world.view, RemoveTopicRecord(topic_id=topic.topic_id))
    assert swept_topics(world) == 1
    assert GroupForgotten(GROUP) not in world.written
    world.now_ms += WEEK_MS
    assert world.sweep() == e.Forgotten(1, 1)
    assert world.written[-1] == GroupForgotten(GROUP)
    world.commit(6, group_id="another")
    topic = find(world.view, ORDERS)
    assert topic is not None
    replay_record(world.view, RemoveTopicRecord(topic_id=topic.topic_id))
    assert swept_topics(world) == 1
    assert world.written[-1] == GroupForgotten("another")


def test_an_empty_group_stays_while_a_transaction_has_some_of_it() -> None:
    world = Sweeper()
    world.commit(5)
    pair = world.begin()
    world.commit_in(pair, 9, partition=1)
    world.write(empty_since(NOW_MS))
    world.now_ms += WEEK_MS
    assert world.sweep() == e.Forgotten(1, 0)
    assert e.due_empty_groups(world.view) == ((), None)
    world.end(*pair, committed=False)
    due, after = e.due_empty_groups(world.view)
    assert (due, after) == ((GROUP,), None)
    assert world.applied(e.decide_forget_groups(world.view, due)) == e.Forgotten(0, 1)
    assert offsets.find(world.view, GROUP) is None


def test_a_group_that_came_back_is_not_forgotten() -> None:
    world = Sweeper(group())
    due, _ = e.due_empty_groups(world.view)
    world.write(group(member("alice-1"), generation=4))
    assert world.applied(e.decide_forget_groups(world.view, due)) == e.Forgotten(0, 0)


def test_a_group_that_committed_since_it_was_found_is_not_forgotten() -> None:
    world = Sweeper(group())
    due, _ = e.due_empty_groups(world.view)
    world.commit(5)
    world.write(empty_since(NOW_MS))
    assert due == (GROUP,)
    assert world.applied(e.decide_forget_groups(world.view, due)) == e.Forgotten(0, 0)
    assert offsets.find(world.view, GROUP) is not None


CLOCKS = [  # activated, now, the slowest clock seen: all from the commit on; expired
    pytest.param(-1, WEEK_MS, None, True, id="led-all-the-time"),
    pytest.param(5 * WEEK_MS, 5 * WEEK_MS + 1, None, False, id="a-clock-that-jumped-forward"),
    pytest.param(5 * WEEK_MS, 5 * WEEK_MS + 1, 1000, False, id="another-clock-disagrees"),
    pytest.param(5 * WEEK_MS, 5 * WEEK_MS + 1, WEEK_MS, True, id="another-clock-agrees"),
    pytest.param(5 * WEEK_MS, 6 * WEEK_MS, None, True, id="led-for-that-long-itself"),
    pytest.param(-9 * WEEK_MS, -8 * WEEK_MS, None, True, id="committed-in-the-future-and-led-that-long"),
]


@table(("activated", "now", "slowest", "expired"), CLOCKS)
def test_whose_clock_counts(activated: int, now: int, slowest: int | None, expired: bool) -> None:
    world = Sweeper()
    world.commit(5)
    world.commit(5, partition=1, retention_ms=WEEK_MS)
    slowest_ms = None if slowest is None else NOW_MS + slowest
    at = Retention(NOW_MS + now, NOW_MS + activated, WEEK_MS, slowest_ms)
    assert e.decide_expire(world.view, at, ((GROUP, ORDERS, 0),)).response.offsets == int(expired)
    due, _ = e.due_by_time(world.view, at)
    assert due == (((GROUP, ORDERS, 0),) if expired else ())


def test_a_walk_stops_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e, "DUE_MAX", 2)
    monkeypatch.setattr(e, "LOOKED_MAX", 3)
    world = Sweeper(group(reader("a", ORDERS), group_id="busy"))
    for partition in range(4):
        world.commit(1, partition=partition)
        world.commit(1, partition=partition, group_id="simple")
        world.now_ms += TIMES_BUCKET_MS
    world.write(group(reader("a", ORDERS)))
    world.now_ms += WEEK_MS
    assert world.sweep() == e.Forgotten(4, 1)
    assert [world.offset(partition=each) for each in range(4)] == [1, 1, 1, 1]


def test_only_offsets_of_topics_that_are_gone_are_forgotten_for_that() -> None:
    world = Sweeper()
    world.commit(5)
    keys = ((GROUP, ORDERS, 0), (GROUP, ORDERS, 3), (GROUP, "nothing", 0))
    assert e.decide_forget_topics(world.view, keys).records == ()


# -- topics ----------------------------------------------------------------------------------------------


def swept_topics(world: Sweeper) -> int:
    gone = 0
    after: Any = None
    while True:
        keys, after = e.due_by_topic(world.view, after)
        gone += int(world.applied(e.decide_forget_topics(world.view, keys)).offsets)
        if after is None:
            return gone


@pytest.mark.parametrize("due_max", [1, 2, 400])
@pytest.mark.parametrize("topics_max", [1, 500])
def test_offsets_of_a_deleted_topic_are_forgotten(
    due_max: int, topics_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e, "DUE_MAX", due_max)
    monkeypatch.setattr(e, "TOPICS_LOOKED_MAX", topics_max)
    world = Sweeper()
    for number in range(3):
        world.commit(1, topic=AUDIT, group_id=f"g{number}")
        world.commit(2, group_id=f"g{number}")
    assert swept_topics(world) == 0
    topic = find(world.view, AUDIT)
    assert topic is not None
    replay_record(world.view, RemoveTopicRecord(topic_id=topic.topic_id))
    assert swept_topics(world) == 3
    assert [key for key, _ in world.view.items(offset_tables.OFFSETS)] == [
        (f"g{number}", ORDERS, 0) for number in range(3)
    ]


def test_offsets_of_a_topic_created_again_stay() -> None:
    world = Sweeper()
    world.commit(1, topic=AUDIT)
    world.commit(1, topic=AUDIT, group_id="another")
    created_again(world)
    world.commit(2, topic=AUDIT)
    assert swept_topics(world) == 1
    assert (world.offset(topic=AUDIT), world.offset(topic=AUDIT, group_id="another")) == (2, -1)


def test_an_old_offset_waits_for_the_end_of_a_transaction_on_the_new_topic() -> None:
    """A tombstone removes what is pending, too: the old offset goes when the transaction has ended."""
    world = Sweeper()
    world.commit(1, topic=AUDIT)
    created_again(world)
    pair = world.begin()
    world.commit_in(pair, 9, topic=AUDIT)
    assert swept_topics(world) == 0
    world.end(*pair, committed=True)
    assert swept_topics(world) == 0
    assert world.offset(topic=AUDIT) == 9


def test_the_walk_over_topics_goes_on_behind_the_last_group_that_may_be() -> None:
    """The greatest id of as many bytes as an id may have, and a partition of any number."""
    topic_id = UUID(int=7)
    greatest = "\U0010ffff" * 47 + "\u07ff"
    assert len(greatest.encode()) == tables.GROUP_ID_BYTES_MAX
    last = offset_tables.BY_TOPIC.encode_key((topic_id, e._LAST_GROUP, e._LAST_PARTITION))
    assert offset_tables.BY_TOPIC.encode_key((topic_id, greatest, 2**31 - 1)) < last
    assert last == offset_tables.BY_TOPIC.encode_key((topic_id, greatest, 2**32 - 1))
    assert last < offset_tables.BY_TOPIC.encode_key((UUID(int=8), "", 0))


@table(
    ("after", "last_ms", "future_ms", "times"),
    [
        (None, 4, None, []),
        (None, 5, None, [5, 5]),
        (None, 7, None, [5, 5, 7]),
        ((5, 0), 5, None, [5]),
        ((5, 1), 5, None, []),
        ((5, 1), 7, None, [7]),
        ((7, 0), 6, None, []),
        (None, 5, TIMES_BUCKET_MS + 8, [5, 5, 9]),
        ((5, 1), 5, TIMES_BUCKET_MS + 8, [9]),
        ((9, 0), 5, TIMES_BUCKET_MS + 8, []),
        (None, 4, 0, [5, 5, 7, 9]),
    ],
)
def test_a_walk_goes_on_behind_its_last_row(
    after: tuple[int, int] | None, last_ms: int, future_ms: int | None, times: list[int]
) -> None:
    """Rows up to one time, and from the step before another one on."""
    view = Overlay(EmptyView())
    for at_ms, partition in ((5, 0), (5, 1), (7, 0), (9, 0)):
        view.put(offset_tables.TIMES, (at_ms, (GROUP, ORDERS, partition)), True)
    key = None if after is None else (after[0], (GROUP, ORDERS, after[1]))
    assert [at for at, _ in e._within(view, offset_tables.TIMES, key, last_ms, future_ms)] == times
