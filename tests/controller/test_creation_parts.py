"""A request for many topics is cut into parts, which together are the request."""

from fencepost.controller.topic_creation import ROWS_PER_PART_MAX, TopicRules, creation_parts
from fencepost.controller.topics import CreateTopics, NewTopic

ROWS = 40  # partitions of a topic; it is a row itself


def test_every_topic_is_in_one_part_and_no_part_is_too_large() -> None:
    topics = tuple(NewTopic(f"topic-{number}", ROWS, 1) for number in range(20))
    parts = creation_parts(CreateTopics(topics), TopicRules())
    assert [topic for part, _ in parts for topic in part.topics] == list(topics)
    assert all(len(part.topics) * (ROWS + 1) <= ROWS_PER_PART_MAX for part, _ in parts)
    before = 0
    for part, earlier in parts:
        assert (earlier.partitions, earlier.rows) == (before * ROWS, before * (ROWS + 1))
        before += len(part.topics)


def test_what_is_only_validated_stays_whole() -> None:
    topics = tuple(NewTopic(f"topic-{number}", ROWS, 1) for number in range(20))
    request = CreateTopics(topics, validate_only=True)
    assert [part for part, _ in creation_parts(request, TopicRules())] == [request]
