"""Laws of offsets: Kafka's rules on the archived bytes give the live image, and the indexes follow it.

Beside them groups rebalance, members are replaced and leave, and topics are deleted and created again.
"""

from collections import Counter
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller import topics
from fencepost.controller.errors import ApiError
from fencepost.controller.groups import offset_deletion
from fencepost.controller.groups import offset_tables as t
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import NO_IDENTITY, DeleteOffsets
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_creation import TopicRules
from fencepost.controller.topic_deletion import decide_delete
from fencepost.controller.topics import DeleteTopics
from fencepost.controller.transactions.states import State
from fencepost.records.group_log import encode_group_batches, encode_group_record
from fencepost.records.schema import PartitionRecord, TopicRecord
from tests.controller.groups import decisions as d
from tests.controller.groups.kafka_offsets import Committed, KafkaOffsets
from tests.controller.groups.offset_worlds import GroupCoordinator
from tests.controller.transactions.worlds import ORDERS, TIMEOUT_MS
from tests.examples import examples

GROUPS = ("readers", "writers")
IDS = ("t0", "t1", "t2")
groups, ids = st.sampled_from(GROUPS), st.sampled_from(IDS)
partitions, numbers = st.integers(0, 1), st.integers(0, 99)
names = st.sampled_from(("d0", "d1", "s0"))
some = st.lists(names, min_size=1, max_size=3, unique=True)
BETWEEN = ("commit", "delete_offsets", "rebalance", "nothing")
offset_steps = (
    st.tuples(st.just("commit"), groups, partitions, numbers),
    st.tuples(st.just("commit_in"), ids, groups, partitions, numbers),
    st.tuples(st.just("end"), ids, st.booleans()),
    st.tuples(st.just("time_out")),
    st.tuples(st.just("delete_offsets"), groups, partitions),
    st.tuples(st.just("delete_group"), groups),
    st.tuples(st.just("whole"), ids, groups, partitions, numbers, st.sampled_from(BETWEEN)),
)
membership_steps = (
    st.tuples(st.just("rebalance"), groups, some, st.booleans()),
    st.tuples(st.just("remove"), groups, some),
    st.tuples(st.just("empty"), groups),
    st.tuples(st.just("replace"), groups, st.just("s0"), st.integers(1, 9)),
    st.tuples(st.just("commit_as"), groups, names, st.integers(0, 1), partitions, numbers),
    st.tuples(
        st.just("commit_in_as"), ids, groups, names, st.integers(0, 1), partitions, numbers, st.booleans()
    ),
)
topic_steps = (
    st.tuples(st.just("delete_topic")),
    st.tuples(st.just("create_topic"), st.integers(1, 99)),
    st.tuples(st.just("sweep")),
)
steps = st.one_of(*offset_steps, *offset_steps, *membership_steps, *topic_steps)
stories = st.one_of(
    st.lists(st.one_of(*offset_steps), min_size=8, max_size=40), st.lists(steps, min_size=8, max_size=40)
)


class Story(GroupCoordinator):
    """Takes steps as they are drawn; what cannot be done now is refused, and changes nothing."""

    def take(self, step: tuple[Any, ...]) -> None:
        self.now_ms += 1
        try:
            getattr(self, f"step_{step[0]}")(*step[1:])
        except ApiError:
            pass

    def step_commit(self, group_id: str, partition: int, number: int) -> None:
        self.commit(number, partition=partition, group_id=group_id)

    def step_begin(self, of: str, group_id: str) -> None:
        pair = self.init(of=of)
        self.add_offsets(*pair, of=of, group_id=group_id)

    def step_commit_in(
        self, of: str, group_id: str, partition: int, number: int, by: Identity = NO_IDENTITY
    ) -> None:
        """A transaction is begun if none is open."""
        row = self.row_or_none(of)
        if row is None or row.state is not State.ONGOING:
            self.step_begin(of, group_id)
            row = self.row(of)
        pair = row.producer_id, row.producer_epoch
        self.commit_in(pair, number, of=of, partition=partition, group_id=group_id, by=by)

    def step_end(self, of: str, committed: bool) -> None:
        row = self.row_or_none(of)
        if row is not None:
            self.end(row.producer_id, row.producer_epoch, committed=committed, of=of)
            self.complete(of)

    def step_whole(self, of: str, group_id: str, partition: int, number: int, between: str) -> None:
        """A transaction that commits; something happens to its group before it ends."""
        self.step_commit_in(of, group_id, partition, number)
        if between == "commit":
            self.step_commit(group_id, partition, number + 1)
        elif between == "delete_offsets":
            self.take((between, group_id, partition))
        elif between == "rebalance":
            self.take((between, group_id, ["d0"], True))
        self.step_end(of, True)

    def step_time_out(self) -> None:
        for of in self.time_out(TIMEOUT_MS + 1):
            self.complete(of)

    def step_delete_offsets(self, group_id: str, partition: int) -> None:
        request = DeleteOffsets(group_id, ((ORDERS, partition),))
        self.applied(offset_deletion.decide_delete_offsets(self.view, request))

    def step_delete_group(self, group_id: str) -> None:
        self.applied(offset_deletion.decide_delete_group(self.view, group_id))

    # -- membership -----------------------------------------------------------------------------------

    def step_rebalance(self, group_id: str, joined: list[str], is_assigned: bool) -> None:
        self.applied(d.completes(group_id, joined, self.view, self.now_ms))
        if is_assigned:
            self.applied(d.assigns(group_id, self.view, self.now_ms))

    def step_remove(self, group_id: str, gone: list[str]) -> None:
        self.applied(d.removes(group_id, gone, self.view, self.now_ms))

    def step_empty(self, group_id: str) -> None:
        self.step_remove(group_id, ["d0", "d1", "s0"])

    def step_replace(self, group_id: str, name: str, number: int) -> None:
        self.applied(d.replaces(group_id, name, number, self.view, self.now_ms))

    def step_commit_as(self, group_id: str, name: str, behind: int, partition: int, number: int) -> None:
        by = d.identity_of(self.view, group_id, name, behind)
        self.commit(number, partition=partition, group_id=group_id, by=by)

    def step_commit_in_as(
        self,
        of: str,
        group_id: str,
        name: str,
        behind: int,
        partition: int,
        number: int,
        ends: bool,
    ) -> None:
        """A member's transaction: its commit, and perhaps its end at once."""
        by = d.identity_of(self.view, group_id, name, behind)
        self.step_commit_in(of, group_id, partition, number, by)
        if ends:
            self.step_end(of, True)

    # -- topics -----------------------------------------------------------------------------------------

    def step_delete_topic(self) -> None:
        self.applied(decide_delete(self.view, DeleteTopics((ORDERS,)), TopicRules()))

    def step_create_topic(self, number: int) -> None:
        """Again, with an id that it did not have."""
        if topics.find(self.view, ORDERS) is None:
            topic_id = UUID(int=100 + number)
            replay_record(self.view, TopicRecord(name=ORDERS, topic_id=topic_id))
            for index in range(2):
                record = PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0
                )
                replay_record(self.view, record)

    def step_sweep(self) -> None:
        """What is forgotten by itself."""
        for decide in (d.forgets_topics, d.expires, d.forgets_groups):
            self.applied(decide(self.view, self.now_ms))

    def row_or_none(self, of: str) -> Any:
        try:
            return self.row(of)
        except LookupError:
            return None

    def archived(self) -> KafkaOffsets:
        records = [record for _, record in self.log]
        parts = [encode_group_record(each) for each in records]
        found = KafkaOffsets()
        found.read(encode_group_batches(records, parts, self.now_ms))
        return found


def kept(row: t.KeptOffset) -> tuple[int, Committed]:
    return row.record_offset, Committed(row.offset, row.leader_epoch, row.metadata, row.committed_ms)


@settings(max_examples=examples(300), deadline=None)
@given(stories)
def test_kafkas_rules_on_the_archive_give_the_live_offsets(story: list[tuple[Any, ...]]) -> None:
    world = Story()
    for step in story:
        world.take(step)
    archived = world.archived()
    assert {key: kept(row) for key, row in world.view.items(t.OFFSETS)} == archived.committed
    pending = {key: kept(row) for key, row in world.view.items(t.PENDING)}
    assert pending == {
        (producer_id, key): row for producer_id, rows in archived.pending.items() for key, row in rows.items()
    }


@settings(max_examples=examples(200), deadline=None)
@given(stories)
def test_indexes_follow_the_rows(story: list[tuple[Any, ...]]) -> None:
    world = Story()
    for step in story:
        world.take(step)
    view = world.view
    committed, pending = dict(view.items(t.OFFSETS)), dict(view.items(t.PENDING))
    waiting = Counter((key, producer_id) for producer_id, key in pending)
    assert waiting == Counter((key, each) for key, ids_ in view.items(t.WAITING) for each in ids_)
    assert {key for key, row in committed.items() if row.expires_ms < 0} == {
        key for _, key in dict(view.items(t.TIMES))
    }
    by_topic = {(row.topic_id, key[0], key[2]): key[1] for key, row in committed.items()}
    assert dict(view.items(t.BY_TOPIC)) == by_topic
    opened = dict(view.items(t.OPEN))
    for producer_id, key in pending:
        assert key in opened[producer_id].keys
    for group_id in GROUPS:
        counts = t.counts_of(view, group_id)
        assert counts.committed == sum(key[0] == group_id for key in committed)
        assert counts.pending == sum(key[0] == group_id for _, key in pending)
        assert counts.transactions == sum(group_id in each.group_ids for each in opened.values())


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(steps, max_size=40), partitions, numbers, st.booleans())
def test_pending_or_committed_never_neither(
    story: list[tuple[Any, ...]], partition: int, number: int, committed: bool
) -> None:
    """An offset of an open transaction is pending at each step until the one that ends it.

    Its group rebalances meanwhile. A timeout would end the transaction; without a topic there is no offset.
    """
    world = Story()
    for step in story:
        world.take(step)
    world.step_create_topic(0)
    pair = world.begin("own", group_id="own")
    world.commit_in(pair, number, of="own", partition=partition, group_id="own")
    said: dict[str, Any] = {"partition": partition, "group_id": "own", "require_stable": True}
    for step in story:
        if step[0] in ("rebalance", "remove", "empty", "replace"):
            world.take((step[0], "own", *step[2:]))
        elif step[0] not in ("time_out", "delete_topic"):
            world.take(step)
        assert world.fetched(**said).code
    world.end(*pair, committed=committed, of="own")
    assert (world.fetched(**said).code, world.offset(**said)) == (0, number if committed else -1)
