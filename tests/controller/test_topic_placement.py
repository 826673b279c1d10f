"""Which brokers a new topic's partitions are on, and who leads them."""

import uuid
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.errors import PolicyViolation
from fencepost.controller.placement import Placement
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import HOSTED, NO_LEADER, NewTopic, leader_of, partition
from fencepost.records.schema import MetadataRecord
from fencepost.records.types import BrokerId
from tests.controller.topic_worlds import LIVE, create, spread
from tests.controller.worlds import changed, image, registered
from tests.together import table


def test_a_topic_spreads_over_the_live_brokers() -> None:
    view = image(*LIVE, registered(4, 103, fenced=True))
    create(view, NewTopic("orders", 7, 1))
    assert spread(view, "orders") == [1, 2, 3, 1, 2, 3, 1]
    create(view, NewTopic("next", 1, 1), NewTopic("last", 2, 1))
    assert spread(view, "next") == [2]
    assert spread(view, "last") == [3, 1]


def test_an_empty_broker_comes_first_but_does_not_get_everything() -> None:
    view = image(*LIVE[:2])
    create(view, NewTopic("orders", 6, 1))
    replay_record(view, LIVE[2])
    create(view, NewTopic("next", 4, 1))
    assert spread(view, "next") == [3, 1, 2, 3]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5))
def test_one_partition_topics_are_even(counts: list[int], brokers: int) -> None:
    view = image(*(registered(each, 100 + each, fenced=False) for each in range(1, brokers + 1)))
    create(view, *(NewTopic(f"t{number}", count, 1) for number, count in enumerate(counts)))
    loads = [view.get(HOSTED, BrokerId(each)) or 0 for each in range(1, brokers + 1)]
    assert max(loads) - min(loads) <= 1
    for number in range(len(counts)):
        per_broker = Counter(spread(view, f"t{number}"))
        assert max(per_broker.values()) - min(per_broker.values()) <= 1


@table(
    ("then", "leader"),
    [
        pytest.param((), 1, id="its-broker-lives"),
        pytest.param((changed(1, 100, fenced=1),), NO_LEADER, id="its-broker-is-fenced"),
        pytest.param((changed(1, 100, fenced=1), changed(1, 100, fenced=-1)), 1, id="its-broker-is-back"),
    ],
)
def test_who_leads(then: tuple[MetadataRecord, ...], leader: int) -> None:
    view = image(LIVE[0])
    create(view, NewTopic("orders", 1, 1))
    for record in then:
        replay_record(view, record)
    found = partition(view, "orders", 0)
    assert found is not None
    assert leader_of(view, found) == leader


@table(("leader", "expected"), [(0, 0), (NO_LEADER, NO_LEADER), (1, NO_LEADER)])
def test_broker_0_leads_as_any_other(leader: int, expected: int) -> None:
    view = image(LIVE[0])
    create(view, NewTopic("orders", 1, 1))
    found = partition(view, "orders", 0)
    assert found is not None
    zero = image(registered(0, 100, fenced=False))
    kept = msgspec.structs.replace(found, leader=BrokerId(leader))
    assert leader_of(zero, kept) == expected


@table(
    ("hosted", "count", "expected"),
    [
        ({}, 3, (1, 2, 1)),
        ({1: 1}, 3, (2, 1, 2)),
        ({1: 1, 2: 1}, 2, (1, 2)),
        ({1: 1, 2: 2}, 2, (1, 2)),
        ({1: 3, 9: 1}, 1, (2,)),
    ],
)
def test_those_with_the_fewest_replicas_come_first(
    hosted: dict[int, int], count: int, expected: tuple[int, ...]
) -> None:
    view = image(registered(1, fenced=False), registered(2, 101, fenced=False), registered(3, 102))
    for broker_id, replicas in hosted.items():
        view.put(HOSTED, BrokerId(broker_id), replicas)
    assert Placement(view, 100).chosen(count) == expected


@table(("more", "fits"), [(6, True), (7, False)])
def test_the_cluster_has_room_for_so_many(more: int, fits: bool) -> None:
    view = image(registered(1, fenced=False))
    view.put(HOSTED, BrokerId(1), 4)
    placement = Placement(view, 10)
    if fits:
        placement.require_room(more)
        placement.records(uuid.UUID(int=1), placement.chosen(more))
        with pytest.raises(PolicyViolation, match="1 partitions more would be 11"):
            placement.require_room(1)
    else:
        with pytest.raises(PolicyViolation):
            placement.require_room(more)
