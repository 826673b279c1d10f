"""What the tests of topics are written with."""

import uuid
from random import Random

from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_creation import TopicRules, decide_create
from fencepost.controller.topics import CreateTopics, NewTopic, TopicCreated, find, partition
from fencepost.controller.view import Overlay
from fencepost.records.schema import FeatureLevelRecord
from tests.controller.worlds import image, registered

LIVE = (registered(1, 100, fenced=False), registered(2, 101, fenced=False), registered(3, 102, fenced=False))
RULES = TopicRules(partitions_default=4)
LENIENT = TopicRules(allow_unreplicated=True)
ORDERS = uuid.UUID(int=0xD0)


def create(
    view: Overlay, *topics: NewTopic, rules: TopicRules = RULES, seed: int = 1, replayed: bool = True
) -> tuple[TopicCreated, ...]:
    """Decide and replay; what each topic is answered."""
    decision = decide_create(view, CreateTopics(topics), rules, Random(seed))
    for record in decision.records if replayed else ():
        replay_record(view, record)
    return decision.response.topics


def world(*topics: NewTopic, log_level: int = 0) -> Overlay:
    """Three live brokers and these topics."""
    view = image(*LIVE)
    if log_level:
        replay_record(view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=log_level))
    answers = create(view, *topics) if topics else ()
    assert [each.error_message for each in answers if each.error_code] == []
    return view


def spread(view: Overlay, name: str) -> list[int]:
    """The broker of each partition."""
    topic = find(view, name)
    assert topic is not None
    found = [partition(view, name, index) for index in range(topic.partition_count)]
    return [each.leader for each in found if each is not None]
