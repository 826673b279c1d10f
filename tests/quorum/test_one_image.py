"""Any order of decisions in one entry ends in one image: the leader's, a follower's, a restarted node's.

First of records as they come, in any order: of the three logs, and markers between records of their producer.
Then of what the coordinators really decide: memberships, offsets, transactions whose offsets and whose end
are in one entry, deletions of groups and of topics, and what expires.
"""

import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.controller.decision import Decision
from fencepost.controller.groups.offset_deletion import decide_delete_group, decide_delete_offsets
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteOffsets,
    OffsetToCommit,
)
from fencepost.controller.groups.offset_tables import OFFSETS
from fencepost.controller.groups.offsets import OffsetRules, decide_commit
from fencepost.controller.groups.tables import GROUPS, member_ids
from fencepost.controller.topic_creation import TopicRules
from fencepost.controller.topic_deletion import decide_delete
from fencepost.controller.topics import DeleteTopics, find
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    decide_add_offsets,
    decide_add_partitions,
)
from fencepost.controller.transactions.assignments import OWNERS
from fencepost.controller.transactions.commit_offsets import decide_commit_in_transaction
from fencepost.controller.transactions.end_txn import EndTxn, decide_end_txn
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_producer_id import decide_init_producer_id
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.controller.transactions.markers import decide_complete
from fencepost.controller.transactions.states import State, get
from fencepost.controller.view import View
from fencepost.quorum.port import Decide
from fencepost.records.group_metadata import GroupForgotten
from fencepost.records.logged import StateRecord
from fencepost.records.offset_commit import OffsetForgotten
from fencepost.records.schema import NoOpRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from fencepost.records.transaction_log import TopicPartitions, TransactionForgotten
from fencepost.records.types import ImageVersion, ProducerId
from tests.controller.groups import decisions as d
from tests.controller.notes import Note, known, marker
from tests.controller.test_own_log import TOPIC, group, offset, transaction
from tests.controller.worlds import allocated, changed, level, registered
from tests.examples import examples
from tests.quorum.decisions import writes
from tests.quorum.one_image import Images

any_time = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True, scope="module")
def notes() -> Iterator[None]:
    with known():
        yield


def assert_one_image(images: Images, entries: list[list[Decide[Any]]], saved: int) -> Images:
    """``saved``: so many entries are in the image from which a node starts again."""
    for number, decisions in enumerate(entries):
        images.play(decisions, saved=number < saved)
    images.start_again()
    return images


# -- any records -----------------------------------------------------------------------------------------

producers = st.sampled_from([ProducerId(7), ProducerId(8)])
epochs = st.sampled_from([0, 0, 1])
names = st.sampled_from("abc")
texts = st.sampled_from(["x", "y", None])
group_records: st.SearchStrategy[Any] = st.one_of(
    st.builds(Note, names, texts),
    st.builds(Note, names, texts, producers, epochs),
    st.builds(Note, names, st.just("z"), producers, epochs),
    st.builds(marker, producers, epochs, committed=st.booleans()),
    st.builds(group, st.integers(1, 3)),
    st.builds(group, st.integers(1, 3), st.sampled_from("mn")),
    st.just(GroupForgotten("readers")),
    st.builds(offset, st.integers(0, 9), partition=st.sampled_from([0, 1])),
    st.builds(offset, st.integers(0, 9), producers, partition=st.sampled_from([0, 1]), epoch=epochs),
    st.builds(OffsetForgotten, st.just("readers"), st.just("a.b"), st.sampled_from([0, 1])),
)
other_records: st.SearchStrategy[Any] = st.one_of(
    st.just(NoOpRecord()),
    st.builds(allocated, st.integers(1, 5).map(lambda number: 1000 * number)),
    st.builds(level, st.sampled_from("pq"), st.integers(1, 3)),
    st.just(registered()),
    st.builds(changed, fenced=st.sampled_from([-1, 1])),
    st.just(TopicRecord(name="a.b", topic_id=TOPIC)),
    st.just(RemoveTopicRecord(topic_id=TOPIC)),
    st.builds(transaction, st.sampled_from([0, 1, 2, 4])),
    st.just(TransactionForgotten("payments")),
)
decisions = st.lists(st.lists(group_records | other_records, max_size=5), max_size=8)


@settings(any_time, max_examples=examples(300))
@given(st.lists(decisions, min_size=1, max_size=4), st.integers(0, 4))
def test_one_image_whoever_replays_it(entries: list[list[list[Any]]], saved: int) -> None:
    assert_one_image(Images(), [[writes(*records) for records in each] for each in entries], saved)


# -- what the coordinators decide ------------------------------------------------------------------------

GROUP, RULES = "readers", OffsetRules()


def world(topic_id: uuid.UUID) -> tuple[StateRecord, ...]:
    """The topic."""
    partitions = [
        PartitionRecord(
            partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0
        )
        for index in range(2)
    ]
    return TopicRecord(name="a.b", topic_id=topic_id), *partitions


WORLD = world(TOPIC)


def pair(view: View, of: str) -> tuple[ProducerId, int]:
    """What the producer holds; none before its first init."""
    row = get(view, of)
    return (ProducerId(-1), -1) if row is None else (row.producer_id, row.producer_epoch)


def inits(of: str, fresh: int, view: View, now_ms: int) -> Decision[Any]:
    return _decides(InitProducerId(of, 60_000, init_version=4), fresh, view, now_ms)


def inits_as(of: str | None, name: str, behind: int, fresh: int, view: View, now_ms: int) -> Decision[Any]:
    """A group-aware one, of a member with what it was assigned; ``behind``: as in a generation before."""
    by = d.identity_of(view, GROUP, name, behind)
    given = d.assigned_partitions(view, GROUP, by.member_id)
    said = MemberAssignment(GROUP, by.generation, given, by.member_id, by.instance_id)
    return _decides(InitProducerId(of, 60_000, init_version=6, member=said), fresh, view, now_ms)


def _decides(request: InitProducerId, fresh: int, view: View, now_ms: int) -> Decision[Any]:
    return decide_init_producer_id(
        view, request, now_ms=now_ms, fresh=ProducerId(fresh), max_timeout_ms=900_000
    )


def adds(of: str, view: View, now_ms: int) -> Decision[Any]:
    request = AddPartitions(of, *pair(view, of), (TopicPartitions("a.b", (0,)),))
    return decide_add_partitions(view, request, now_ms=now_ms)


def adds_offsets(of: str, view: View, now_ms: int) -> Decision[Any]:
    return decide_add_offsets(view, AddOffsets(of, *pair(view, of), GROUP), now_ms=now_ms)


def commits_in(of: str, partition: int, number: int, view: View, now_ms: int) -> Decision[Any]:
    request = CommitTransactionOffsets(
        of, GROUP, *pair(view, of), (OffsetToCommit("a.b", partition, number),)
    )
    return decide_commit_in_transaction(view, request, RULES, now_ms=now_ms)


def ends(of: str, committed: bool, view: View, now_ms: int) -> Decision[Any]:
    request = EndTxn(of, *pair(view, of), committed)
    return decide_end_txn(view, request, now_ms=now_ms)


def completes(of: str, view: View, now_ms: int) -> Decision[Any]:
    row = get(view, of)
    version = ImageVersion(0) if row is None else row.prepared_version
    return decide_complete(view, of, version, now_ms=now_ms)


def commits(partition: int, number: int, view: View, now_ms: int) -> Decision[Any]:
    request = CommitOffsets(GROUP, (OffsetToCommit("a.b", partition, number),))
    return decide_commit(view, request, RULES, now_ms=now_ms)


def commits_as(name: str, behind: int, number: int, view: View, now_ms: int) -> Decision[Any]:
    by = d.identity_of(view, GROUP, name, behind)
    return decide_commit(
        view, CommitOffsets(GROUP, (OffsetToCommit("a.b", 0, number),), by), RULES, now_ms=now_ms
    )


def commits_in_as(
    of: str, name: str, behind: int, partition: int, number: int, view: View, now_ms: int
) -> Decision[Any]:
    request = CommitTransactionOffsets(
        of,
        GROUP,
        *pair(view, of),
        (OffsetToCommit("a.b", partition, number),),
        d.identity_of(view, GROUP, name, behind),
    )
    return decide_commit_in_transaction(view, request, RULES, now_ms=now_ms)


def deletes(view: View, _now_ms: int) -> Decision[Any]:
    return decide_delete_group(view, GROUP)


def deletes_offsets(partition: int, view: View, _now_ms: int) -> Decision[Any]:
    return decide_delete_offsets(view, DeleteOffsets(GROUP, (("a.b", partition),)))


def deletes_the_topic(view: View, _now_ms: int) -> Decision[Any]:
    return decide_delete(view, DeleteTopics(("a.b",)), TopicRules())


def creates_the_topic(number: int, view: View, _now_ms: int) -> Decision[Any]:
    """Again, with an id that it did not have."""
    return Decision(() if find(view, "a.b") is not None else world(uuid.UUID(int=0x70 + number)), None)


def whole(of: str, partition: int, number: int, committed: bool) -> list[Decide[Any]]:
    """A transaction as a client pipelines it."""
    return [
        partial(adds_offsets, of),
        partial(commits_in, of, partition, number),
        partial(ends, of, committed),
        partial(completes, of),
    ]


def whole_as(of: str, name: str, partition: int, number: int, committed: bool) -> list[Decide[Any]]:
    """The same of a member, whose group rebalances in between: its commit is in the generation before."""
    _, _, end, complete = whole(of, partition, number, committed)
    return [
        partial(adds_offsets, of),
        partial(commits_in_as, of, name, 0, partition, number),
        partial(d.completes, GROUP, (name,)),
        partial(commits_in_as, of, name, 1, partition, number + 1),
        end,
        complete,
    ]


def rebalance(names: list[str]) -> list[Decide[Any]]:
    """A join phase and its assignments."""
    return [partial(d.completes, GROUP, tuple(names)), partial(d.assigns, GROUP)]


MEMBERS = ("d0", "d1", "s0", "s1")
names_of_members = st.sampled_from(MEMBERS)
some = st.lists(names_of_members, min_size=1, max_size=3, unique=True)
ids = st.sampled_from(["p", "q"])
partitions, numbers = st.sampled_from([0, 1]), st.integers(1, 99)
wholes = st.builds(whole, ids, partitions, numbers, st.booleans())
Steps = st.SearchStrategy[list[Decide[Any]]]


def one(decide: Any, *what: st.SearchStrategy[Any]) -> Steps:
    """One decision, with what is drawn before what each decision is given."""
    return st.tuples(*what).map(lambda drawn: [partial(decide, *drawn)])


memberships: Steps = st.one_of(
    st.builds(rebalance, some),
    st.builds(
        lambda name, *what: [*rebalance([name]), partial(commits_as, name, *what)],
        names_of_members,
        st.integers(0, 1),
        numbers,
    ),
    st.builds(whole_as, ids, names_of_members, partitions, numbers, st.booleans()),
    one(partial(d.completes, GROUP), some),
    one(partial(d.assigns, GROUP)),
    one(partial(d.removes, GROUP), some),
    one(partial(d.removes, GROUP, MEMBERS)),
    one(partial(d.replaces, GROUP), st.sampled_from(["s0", "s1"]), numbers),
    one(partial(d.heartbeats, GROUP), names_of_members),
    one(commits_as, names_of_members, st.integers(0, 1), numbers),
)
transactions: Steps = st.one_of(
    wholes,
    wholes,
    one(inits, ids, st.integers(1_000, 2_000)),
    one(inits_as, ids | st.none(), names_of_members, st.sampled_from([0, 0, 1]), st.integers(1_000, 2_000)),
    one(adds, ids),
    one(adds_offsets, ids),
    one(commits_in, ids, partitions, numbers),
    one(ends, ids, st.booleans()),
    one(completes, ids),
)
deletions: Steps = st.one_of(
    st.builds(lambda number: [deletes_the_topic, partial(creates_the_topic, number)], numbers),
    st.just([partial(d.removes, GROUP, MEMBERS), deletes]),
    st.just([partial(d.removes, GROUP, MEMBERS), d.expires, d.forgets_groups]),
    st.just([deletes_the_topic, d.forgets_topics]),
    one(deletes),
    one(deletes_offsets, partitions),
    one(deletes_the_topic),
    one(creates_the_topic, numbers),
    one(d.expires),
    one(d.forgets_topics),
)
steps: Steps = st.one_of(transactions, memberships, one(commits, partitions, numbers), deletions)
pipelined = st.lists(steps, max_size=8).map(lambda each: [decide for step in each for decide in step])
BEGIN = [partial(inits, "p", 1), partial(inits, "q", 2)]


@settings(any_time, max_examples=examples(200))
@given(st.lists(pipelined, min_size=1, max_size=4), st.integers(0, 5))
def test_one_image_of_what_is_really_decided(entries: list[list[Decide[Any]]], saved: int) -> None:
    begin = [*BEGIN, *rebalance(["d0", "s0"])]
    images = assert_one_image(Images(*WORLD), [begin, *entries], saved)
    assert images.violations == [], "what is decided can be replayed"


def test_a_transaction_in_one_entry_moves_its_offsets() -> None:
    """Commit and end pipelined; then another is aborted; then a plain commit comes before a marker."""
    images = assert_one_image(
        Images(*WORLD),
        [
            [*BEGIN, *whole("p", 0, 10, True), *whole("p", 0, 20, False)],
            [*whole("q", 1, 30, True)[:2], partial(commits, 1, 5), *whole("q", 1, 31, True)[2:]],
        ],
        saved=1,
    )
    assert images.refused == 0
    kept = {key: row.offset for key, row in images.restarted.items(OFFSETS)}
    assert kept == {(GROUP, "a.b", 0): 10, (GROUP, "a.b", 1): 5}


def test_a_rebalance_in_the_entry_of_a_transaction() -> None:
    """Members commit, the group rebalances, they commit again; the topic is deleted before the end."""
    images = assert_one_image(
        Images(*WORLD),
        [
            [*BEGIN, *rebalance(["d0", "s0"])],
            [
                *[partial(adds_offsets, each) for each in ("p", "q")],
                partial(commits_in_as, "p", "d0", 0, 0, 10),
                partial(d.replaces, GROUP, "s0", 7),
                partial(d.removes, GROUP, ["d0"]),
                *rebalance(["s0", "d1"]),
                partial(commits_in_as, "p", "d0", 1, 0, 11),
                partial(commits_in_as, "q", "s0", 1, 1, 20),
                partial(commits_in_as, "q", "s0", 0, 1, 21),
                partial(ends, "q", True),
                deletes_the_topic,
                partial(creates_the_topic, 1),
                partial(ends, "p", True),
            ],
        ],
        saved=1,
    )
    assert (images.refused, images.violations) == (0, [])
    row = images.restarted.get(GROUPS, GROUP)
    assert row is not None
    assert (row.generation, row.leader) == (2, "s0-7"), (
        "the place and the leadership are those of the instance"
    )
    assert member_ids(images.restarted, GROUP) == ("s0-7", "d1-0")
    kept = {key[2]: row.offset for key, row in images.restarted.items(OFFSETS)}
    assert kept == {0: 10, 1: 21}, "what members of the generation before committed is refused"
    images.play([d.forgets_topics], saved=True)
    assert not list(images.restarted.items(OFFSETS)), "they were of the topic that is gone"


@pytest.mark.row("447.5")
def test_a_partition_moves_in_the_entry_of_its_transaction() -> None:
    """Its first owner commits offsets, the group rebalances, and the next owner fences it, in one entry."""
    images = assert_one_image(
        Images(*WORLD),
        [
            [*rebalance(["d0"]), partial(inits_as, "p", "d0", 0, 1_000), partial(adds, "p")],
            [
                partial(adds_offsets, "p"),
                partial(commits_in_as, "p", "d0", 0, 0, 10),
                *rebalance(["s0"]),
                partial(inits_as, "q", "s0", 0, 2_000),
                partial(ends, "p", True),
                partial(completes, "p"),
                partial(inits_as, "q", "s0", 0, 2_000),
            ],
        ],
        saved=1,
    )
    assert images.violations == []
    row = get(images.restarted, "p")
    assert row is not None
    assert row.state is State.COMPLETE_ABORT
    assert list(images.restarted.items(OFFSETS)) == []
    assert list(images.restarted.items(OWNERS)) == [((GROUP, "a.b", 0), ("q",))]
