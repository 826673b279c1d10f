"""More partitions for topics that are there; each topic of a request on its own.

Only more   a topic never loses a partition. New ones have the next indexes, placed as placement.py says.
Entry       partitions of a request are bounded, so that its records fit into one Raft entry.
Level       written from log level 7 on.
Source      Kafka ReplicationControlManager.createPartitions, ControllerApis.createPartitions.
"""

from collections import Counter
from typing import Final

import msgspec

from fencepost.controller import levels
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    PolicyViolation,
)
from fencepost.controller.placement import Placement
from fencepost.controller.topic_creation import PARTITIONS_MAX, TopicRules
from fencepost.controller.topic_deletion import UnknownTopicOrPartition
from fencepost.controller.topics import TOPIC_NAME_CHARACTERS_MAX, find
from fencepost.controller.view import View
from fencepost.records.schema import PartitionRecord

TOPICS_PER_REQUEST_MAX: Final = 500
PARTITIONS_PER_REQUEST_MAX: Final = 2_000  # decided in some 20 ms, in which nothing else is


class NewPartitions(msgspec.Struct, frozen=True):
    """``count`` partitions in all. ``assignments``: broker ids of each new one; None: they are chosen."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitions(msgspec.Struct, frozen=True):
    """API key 37. ``validate_only``: answer as if, and create nothing."""

    topics: tuple[NewPartitions, ...]
    validate_only: bool = False
    timeout_ms: int = 60_000


class PartitionsCreated(msgspec.Struct, frozen=True):
    """What became of one topic."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class CreatePartitionsAnswer(msgspec.Struct, frozen=True):
    """The result for each topic in the request, in its order."""

    topics: tuple[PartitionsCreated, ...]


def require_count(request: CreatePartitions) -> None:
    """Raises PolicyViolation if the request has too many topics."""
    if len(request.topics) > TOPICS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"{len(request.topics)} topics in one request, at most {TOPICS_PER_REQUEST_MAX}"
        )


def decide_create_partitions(
    view: View, request: CreatePartitions, rules: TopicRules, *, partitions_max: int = PARTITIONS_MAX
) -> Decision[CreatePartitionsAnswer]:
    """Create what can be created; each refused topic is answered with its own error.

    ``partitions_max``: how many the cluster may have then. Raises UnsupportedVersion, PolicyViolation.
    """
    levels.require_changed_topics(view)
    require_count(request)
    times = Counter(each.name for each in request.topics)
    placement = Placement(view, partitions_max)
    records: list[PartitionRecord] = []
    answers: list[PartitionsCreated] = []
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise InvalidRequest(
                    f"topic {topic.name[:TOPIC_NAME_CHARACTERS_MAX]} is in the request twice"
                )
            records += _records(view, topic, rules, placement, PARTITIONS_PER_REQUEST_MAX - len(records))
        except ApiError as refusal:
            answers.append(PartitionsCreated(topic.name, refusal.code, str(refusal)))
        else:
            answers.append(PartitionsCreated(topic.name))
    return Decision(() if request.validate_only else tuple(records), CreatePartitionsAnswer(tuple(answers)))


def _records(
    view: View, wanted: NewPartitions, rules: TopicRules, placement: Placement, room: int
) -> list[PartitionRecord]:
    """Raises the refusal of this topic, whatever it is."""
    topic = find(view, wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition(f"no topic is named {wanted.name[:TOPIC_NAME_CHARACTERS_MAX]!r}")
    first, count = topic.partition_count, wanted.count - topic.partition_count
    if count <= 0:
        raise InvalidPartitions(
            f"topic {topic.name} has {first} partitions; expected more than that, got {wanted.count}"
        )
    if count > room:
        raise PolicyViolation(f"more than {PARTITIONS_PER_REQUEST_MAX} partitions in one request")
    placement.require_room(count)
    if wanted.assignments is None:
        replicas = placement.chosen(count)
    else:
        _require_one_replica(wanted.assignments, count, rules)
        replicas = placement.assigned(wanted.assignments, first)
    return placement.records(topic.topic_id, replicas, first)


def _require_one_replica(assignments: tuple[tuple[int, ...], ...], count: int, rules: TopicRules) -> None:
    """Raises InvalidReplicaAssignment."""
    if len(assignments) != count:
        raise InvalidReplicaAssignment(f"{count} partitions more, but {len(assignments)} are assigned")
    most = max(map(len, assignments))
    if most > 1 and not rules.allow_unreplicated:
        raise InvalidReplicaAssignment(
            f"{most} replicas of a partition: partitions have one replica in this version; assign one, or "
            f"set fencepost.allow.unreplicated=true to get the first one"
        )
