"""Unclean elections: what they cut of a partition excuses what groups had committed of it before, and markers
that are missing; so does an election of which a snapshot of the metadata has the result alone.
"""

from fencepost.audit.walks.story import CLOCK_GRACE_MS
from tests.audit.checks.case import case
from tests.audit.checks.group_cases import group
from tests.audit.checks.rows import Story

_ELSEWHERE = 99  # a node of which no directory is given


def elected(s: Story, *leaders: int) -> None:
    """Of the story's topic, its only partition: each of these leads, -1 is none. Kafka calls the last one
    unclean.
    """
    for number, leader in enumerate(leaders or (1, -1, 2)):
        _led(s, leader, is_recovering=number + 1 == len(leaders or (1, -1, 2)))


def _led(s: Story, leader: int, *, is_recovering: bool) -> None:
    batch = s.batch(topic="__cluster_metadata", partition=s.number)
    row = {name: batch[name] for name in ("node", "topic", "partition", "path", "position")}
    row |= {"offset": batch["base_offset"], "timestamp_ms": batch["base_timestamp_ms"], "event": "changed",
            "topic_id": f"id-of-{s.topic}", "partition_id": 0, "leader": leader,
            "recovering": is_recovering}  # fmt: skip
    s.tables["partitions"].append(row)


@case("?groups.beyond_end")
def an_offset_beyond_what_an_unclean_election_left(s: Story) -> None:
    s.topic_event("created")
    s.data(transactional=False)
    group(s, "a").plain(11)
    elected(s)


@case("groups.beyond_end")
def an_offset_beyond_the_end_where_the_last_leader_came_back_alone(s: Story) -> None:
    """As a broker does after a kill if it was the only one in sync, or is the only replica."""
    s.topic_event("created")
    s.data(transactional=False)
    group(s, "a").plain(11)
    elected(s, 2, -1, 2)


@case("groups.beyond_end")
def an_offset_beyond_the_end_long_after_an_unclean_election(s: Story) -> None:
    s.topic_event("created")
    s.data(transactional=False)
    elected(s)
    s.later(CLOCK_GRACE_MS + 1_000)
    group(s, "a").plain(11)


@case()
def an_offset_goes_back_to_where_an_unclean_election_cut(s: Story) -> None:
    s.topic_event("created")
    copier = group(s, "a")
    copier.transaction(10)
    elected(s)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")


@case("groups.went_back")
def an_offset_goes_back_long_after_an_unclean_election(s: Story) -> None:
    s.topic_event("created")
    elected(s)
    s.later(CLOCK_GRACE_MS + 1_000)
    copier = group(s, "a")
    copier.transaction(10)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")


def _stated(s: Story, leader_epoch: int, *replicas: int) -> None:
    """A snapshot of the metadata has the story's partition so."""
    s.topic_event("created")
    _led(s, 2, is_recovering=False)
    row = s.tables["partitions"].pop()
    path = row["path"].rpartition("/")[0] + f"/{row['offset'] + 1:020}-{1:010}.checkpoint"
    more = {"path": path, "event": "created", "leader_epoch": leader_epoch}
    s.tables["partitions"].append(row | more | {"replicas": list(replicas or (1, _ELSEWHERE))})


@case("?groups.beyond_end")
def an_offset_beyond_what_an_election_left_that_a_snapshot_alone_tells_of(s: Story) -> None:
    _stated(s, 2, 1, 2)
    s.data(transactional=False)
    s.copy_log(s.topic, 0, 2)
    group(s, "a").plain(11)


@case("groups.beyond_end")
def an_offset_beyond_the_end_of_a_log_whose_first_leader_leads(s: Story) -> None:
    _stated(s, 0, 1, 2)
    s.data(transactional=False)
    s.copy_log(s.topic, 0, 2)
    group(s, "a").plain(11)


def _goes_back(s: Story) -> None:
    s.data(transactional=False)
    copier = group(s, "a")
    copier.transaction(10)
    copier.members("b")
    copier.transaction(4, producer=1, member="b")


@case("?groups.went_back")
def an_offset_goes_back_where_a_snapshot_alone_tells_of_an_election(s: Story) -> None:
    _goes_back(s)
    _stated(s, 2)


@case("groups.went_back")
def an_offset_goes_back_in_a_log_of_one_replica(s: Story) -> None:
    _goes_back(s)
    _stated(s, 2, 1)


@case("groups.went_back")
def an_offset_goes_back_long_after_an_election_that_a_snapshot_alone_tells_of(s: Story) -> None:
    _stated(s, 2)
    s.later(CLOCK_GRACE_MS + 1_000)
    _goes_back(s)


def _cut(s: Story, *, later_ms: int = 0) -> None:
    """Of three transactions the second left nothing in the log, where leader epoch 2 follows epoch 1."""
    s.transaction()
    if later_ms == 0:
        s.transaction(epoch=1, written=(), marked=())
    at = len(s.tables["record_batches"])
    s.transaction(epoch=2)
    if later_ms:
        s.later(later_ms)
        s.transaction(epoch=2, written=(), marked=())
        s.transaction(epoch=2)
        s.transaction(epoch=3)
    for row in s.tables["record_batches"][at:]:
        if row["topic"] == s.topic:
            row["leader_epoch"] = 2


@case("?markers.missing")
def a_marker_where_an_election_was_that_a_snapshot_alone_tells_of(s: Story) -> None:
    _cut(s)
    _stated(s, 2)


@case("markers.missing")
def a_marker_where_the_metadata_log_tells_of_a_clean_election(s: Story) -> None:
    _cut(s)
    _stated(s, 1)
    _led(s, 2, is_recovering=False)


@case("markers.missing")
def a_marker_where_the_metadata_log_tells_of_a_clean_election_and_a_snapshot_too(s: Story) -> None:
    _cut(s)
    _stated(s, 1)
    _led(s, 2, is_recovering=False)
    _stated(s, 2)


@case("markers.missing")
def a_marker_that_was_decided_long_after_an_election_that_a_snapshot_alone_tells_of(s: Story) -> None:
    _cut(s, later_ms=CLOCK_GRACE_MS + 1_000)
    _stated(s, 2)


@case("markers.missing")
def a_marker_of_a_log_of_one_replica(s: Story) -> None:
    _cut(s)
    _stated(s, 2, 1)


@case("?markers.missing")
def a_marker_that_may_be_with_a_topic_of_that_name_that_was_deleted(s: Story) -> None:
    s.transaction(written=(), marked=())
    s.transaction(epoch=1)
    _stated(s, 0)
