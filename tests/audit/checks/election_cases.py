"""Unclean elections: what they cut of a partition excuses what groups had committed of it before."""

from fencepost.audit.walks.story import CLOCK_GRACE_MS
from tests.audit.checks.case import case
from tests.audit.checks.group_cases import group
from tests.audit.checks.rows import Story


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
