"""Deleting topics, by name or by id; each topic of a request on its own.

The partitions leave the image with their topic; the brokers delete their directories when they see it.
Source   Kafka ReplicationControlManager.deleteTopics, ControllerApis.deleteTopics.
"""

import uuid
from collections import Counter
from typing import Final

from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ErrorCode,
    InvalidRequest,
    PolicyViolation,
    TopicDeletionDisabled,
)
from fencepost.controller.topic_creation import TopicRules
from fencepost.controller.topics import (
    DeleteTopics,
    DeleteTopicsAnswer,
    Topic,
    TopicDeleted,
    find,
    find_by_id,
)
from fencepost.controller.view import View
from fencepost.records.logged import ROW_COST
from fencepost.records.schema import RemoveTopicRecord

TOPICS_PER_REQUEST_MAX: Final = 1000
PARTITIONS_PER_REQUEST_MAX: Final = 5_000  # rows that one decision deletes, in some 10 ms


class UnknownTopicOrPartition(ApiError):
    """No topic has this name."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownTopicId(ApiError):
    """No topic has this id."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


def decide_delete(view: View, request: DeleteTopics, rules: TopicRules) -> Decision[DeleteTopicsAnswer]:
    """Delete what is there; each topic that is not is answered with its own error.

    Raises TopicDeletionDisabled, and PolicyViolation if the request is too large as a whole.
    """
    if not rules.delete_topics:
        raise TopicDeletionDisabled("delete.topic.enable=false: topics cannot be deleted here")
    require_count(request)
    found: list[tuple[str | None, uuid.UUID, Topic | None]] = []
    found += [(name, _NO_ID, find(view, name)) for name in dict.fromkeys(request.names)]
    found += [(None, topic_id, find_by_id(view, topic_id)) for topic_id in dict.fromkeys(request.ids)]
    times = Counter(topic.topic_id for _, _, topic in found if topic is not None)
    times.update(_repeated(view, request))
    records: list[RemoveTopicRecord] = []
    answers: list[TopicDeleted] = []
    partitions = 0
    for name, topic_id, topic in found:
        if topic is None:
            answers.append(_unknown(name, topic_id))
            continue
        try:
            if times[topic.topic_id] > 1:
                raise InvalidRequest(f"topic {topic.name} is in the request twice")
            if records and partitions + topic.partition_count > PARTITIONS_PER_REQUEST_MAX:
                raise PolicyViolation(f"more than {PARTITIONS_PER_REQUEST_MAX} partitions in one request")
        except ApiError as refusal:
            answers.append(TopicDeleted(topic.name, topic.topic_id, refusal.code, str(refusal)))
            continue
        partitions += topic.partition_count
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        answers.append(TopicDeleted(topic.name, topic.topic_id))
    return Decision(tuple(records), DeleteTopicsAnswer(tuple(answers)), extra_cost=ROW_COST * partitions)


def require_count(request: DeleteTopics) -> None:
    """Raises PolicyViolation if the request has too many topics."""
    requested = len(request.names) + len(request.ids)
    if requested > TOPICS_PER_REQUEST_MAX:
        raise PolicyViolation(f"{requested} topics in one request, at most {TOPICS_PER_REQUEST_MAX}")


def _repeated(view: View, request: DeleteTopics) -> list[uuid.UUID]:
    """The ids of topics that the request names twice in the same way."""
    by_name = [find(view, name) for name, times in Counter(request.names).items() if times > 1]
    by_id = [topic_id for topic_id, times in Counter(request.ids).items() if times > 1]
    return [topic.topic_id for topic in by_name if topic is not None] + by_id


def _unknown(name: str | None, topic_id: uuid.UUID) -> TopicDeleted:
    error: ApiError
    if name is None:
        error = UnknownTopicId(f"no topic has the id {topic_id}")
    else:
        error = UnknownTopicOrPartition(f"no topic is named {name[:249]!r}")
    return TopicDeleted(name, topic_id, error.code, str(error))


_NO_ID: Final = uuid.UUID(int=0)
