"""Topics are described in slices and proved by one entry: nothing is missing, halved or there twice."""

import uuid
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from msgspec.structs import replace

from fencepost.controller.errors import ErrorCode, UnknownServerError
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import TOPICS, CreateTopics, DeleteTopics, NewTopic, find
from fencepost.coordinator import topic_descriptions
from fencepost.records.types import NodeId, Term
from fencepost.wire.k03_metadata import TOPIC_ROWS, Metadata, MetadataAnswer, TopicMetadata, TopicQuery
from tests.controller.worlds import changed
from tests.coordinator.test_topic_server import Stage

AT_ONCE = 40
"""Rows in a slice of these tests."""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_descriptions, "DESCRIBED_ROWS_MAX", AT_ONCE)


def made(*counts: int, prefix: str = "t") -> Stage:
    stage = Stage()
    make(stage, *(NewTopic(f"{prefix}{number:03}", count, 1) for number, count in enumerate(counts)))
    return stage


def make(stage: Stage, *topics: NewTopic) -> None:
    stage.ask(CreateTopics(topics))


def by_name(*names: str) -> Metadata:
    return Metadata(tuple(map(TopicQuery, names)), allow_auto_topic_creation=False)


def described(stage: Stage, request: Metadata, between: Callable[[], None]) -> list[TopicMetadata]:
    """The topics in the answer; ``between`` is called before each turn of the loop."""
    answers = stage.begin(request)
    while stage.later:
        between()
        stage.later.popleft()()
    (answer,) = answers
    return list(cast(MetadataAnswer, answer).topics)


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda _count: Metadata(None), id="all"),
        pytest.param(lambda count: by_name(*(f"t{each:03}" for each in range(count))), id="by-name"),
        pytest.param(lambda count: by_name(*(f"no-{each}" for each in range(count))), id="unknown"),
    ],
)
def test_a_slice_describes_so_many_rows_and_the_topic_that_passes_them(
    request_of: Callable[[int], Metadata], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = made(*[AT_ONCE - TOPIC_ROWS - 1] * 10, AT_ONCE * 5, 1, 1)
    rows = [0]
    real = TopicMetadata

    def counted(**fields: Any) -> TopicMetadata:
        topic = real(**fields)
        rows[-1] += topic.rows
        return topic

    monkeypatch.setattr(topic_descriptions, "TopicMetadata", counted)
    decisions = stage.decisions
    found = described(stage, request_of(13), lambda: rows.append(0))
    assert len(found) == 13
    assert max(rows) < AT_ONCE + AT_ONCE * 5 + TOPIC_ROWS
    assert sorted(rows)[-2] < 2 * AT_ONCE
    assert sum(each > 0 for each in rows) > 1
    assert stage.decisions == decisions + 1  # the one that proves it


@pytest.mark.parametrize("seed", range(30), ids="seed-{}".format)
def test_a_topic_that_is_there_throughout_is_there_once_and_whole(seed: int) -> None:
    """Topics come, go and come again with other ids between the slices; brokers are fenced and come back."""
    rng = Random(seed)
    stage = made(*(rng.randrange(1, 30) for _ in range(40)))
    topics = [topic for _, topic in stage.image.scan(TOPICS)]
    lasting = {topic.name for topic in topics if rng.random() < 0.5}
    ever = {(topic.name, topic.topic_id): topic.partition_count for topic in topics}
    slices = 0

    def between() -> None:
        nonlocal slices
        slices += 1
        later, stage.later = stage.later, type(stage.later)()  # these requests are not the one under test
        for _ in range(rng.randrange(4)):
            name = f"t{rng.randrange(60):03}"
            topic = find(stage.image, name)
            if topic is None:
                make(stage, NewTopic(name, rng.randrange(1, 30), 1))
                new = find(stage.image, name)
                assert new is not None
                ever[name, new.topic_id] = new.partition_count
            elif name not in lasting:
                stage.ask(DeleteTopics((name,)))
        if rng.random() < 0.3:
            replay_record(stage.image, changed(1, 100, fenced=rng.choice((1, -1))))
        stage.later = later

    found = described(stage, Metadata(None), between)
    names = [cast(str, each.name) for each in found]
    assert slices > 10
    assert names == sorted(set(names))
    assert lasting <= set(names)
    for each in found:
        assert ever[cast(str, each.name), cast(uuid.UUID, each.topic_id)] == len(each.partitions)
        assert [partition.partition_index for partition in each.partitions] == [*range(len(each.partitions))]


def moved(stage: Stage) -> None:
    """Another node led, and this one leads again."""
    stage.image.header = replace(stage.image.header, controller_epoch=Term(9), leader_id=NodeId(2))


@pytest.mark.parametrize("request_", [Metadata(None), by_name("t000", "t001", "t002")], ids=["all", "some"])
def test_what_was_read_before_leadership_moved_is_not_answered(request_: Metadata) -> None:
    stage = made(30, 30, 30)
    answers = stage.begin(request_)
    stage.later.popleft()()
    moved(stage)
    while stage.later:
        stage.later.popleft()()
    (answer,) = answers
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert len(stage.ask(request_).topics) == 3


def test_what_was_kept_is_proved_too() -> None:
    stage = made(1)
    stage.ask(Metadata(None))
    decisions = stage.decisions
    stage.ask(Metadata(None))
    assert stage.decisions == decisions + 1


def test_a_node_that_does_not_lead_describes_nothing() -> None:
    stage = Stage(leads=False)
    for request in (Metadata(None), by_name("a")):
        answers = stage.begin(request)
        assert not stage.later
        assert answers[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("changes", [False, True], ids=["unchanged", "changed"])
def test_requests_that_come_meanwhile_share_what_is_said_after_them(changes: bool) -> None:
    stage = made(*[30] * 10)
    first = stage.begin(Metadata(None))
    stage.later.popleft()()
    stage.later.popleft()()
    if changes:
        later, stage.later = stage.later, type(stage.later)()
        make(stage, NewTopic("a-new-one", 1, 1))
        stage.later = later
    others = [stage.begin(Metadata(None)) for _ in range(5)]
    assert len(stage.later) == 1  # they begin nothing
    while not first:
        stage.later.popleft()()
    assert [len(each) for each in others] == [0 if changes else 1] * 5
    while stage.later:
        stage.later.popleft()()
    expected = (["a-new-one"] if changes else []) + [f"t{number:03}" for number in range(10)]
    assert all([topic.name for topic in answer.topics] == expected for (answer,) in others)
    assert len({id(answer.topics) for (answer,) in others}) == 1


def test_a_failure_is_answered_to_all_that_wait_and_the_next_request_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = made(30, 30, 30)
    with monkeypatch.context() as patch:
        patch.setattr(topic_descriptions, "_live", lambda _view: 1 // 0)
        answers = [stage.begin(Metadata(None)) for _ in range(3)]
        with pytest.raises(ZeroDivisionError):
            stage.later.popleft()()
    assert [type(answer) for (answer,) in answers] == [UnknownServerError] * 3
    assert len(stage.ask(Metadata(None)).topics) == 3


def test_a_topic_that_is_named_many_times_is_described_once() -> None:
    stage = made(3)
    assert [each.name for each in stage.ask(by_name(*["t000"] * 100, "none")).topics] == ["t000", "none"]


def test_a_topic_is_made_before_it_is_described() -> None:
    stage = made(30, 30, 30)
    request = Metadata(tuple(map(TopicQuery, ("t000", "new", "t001", "n/w"))))
    topics = stage.ask(request).topics
    assert [(each.name, each.error_code, len(each.partitions)) for each in topics] == [
        ("t000", 0, 30),
        ("new", 0, 1),
        ("t001", 0, 30),
        ("n/w", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
    ]
