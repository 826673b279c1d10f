"""Creating topics: names, counts, placement, settings; each topic of a request on its own.

Replicas     one. A topic that wants more is refused, unless the node's properties allow it to get one.
Placement    as placement.py says.
Entry        topics and partitions of a request are bounded, so that its records fit into one Raft entry.
Source       Kafka ReplicationControlManager.createTopics, ``Topic.validate``.
"""

import base64
import re
import uuid
from collections import Counter
from typing import Final, Protocol

import msgspec

from fencepost.controller import broker_configs, levels
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
)
from fencepost.controller.placement import Placement
from fencepost.controller.topic_configs import MIN_INSYNC_REPLICAS, checked, in_force, with_properties
from fencepost.controller.topics import (
    COLLIDING,
    TOPIC_NAME_CHARACTERS_MAX,
    TOPIC_NAMES,
    TOPIC_RESOURCE,
    CreateTopics,
    CreateTopicsAnswer,
    NewTopic,
    TopicCreated,
    collision_key,
    find,
)
from fencepost.controller.view import View
from fencepost.records.invariant import invariant
from fencepost.records.schema import ConfigRecord, MetadataRecord, TopicRecord
from fencepost.records.types import BrokerId

TOPICS_PER_REQUEST_MAX: Final = 500
PARTITIONS_PER_REQUEST_MAX: Final = 2000  # decided in some 20 ms, in which nothing else is; Kafka: 10000
ROWS_PER_PART_MAX: Final = 250  # decided in some 3 ms; a topic alone may have more
ROWS_PER_REQUEST_MAX: Final = 2500
"""Topics, partitions and settings of a request together: every node applies a record of each in one step."""
AUTO_CREATED_PARTITIONS_MAX: Final = 10_000
"""Partitions of the cluster past which no topic is created automatically, by a request that only names it."""
PARTITIONS_MAX: Final = 100_000  # in the cluster; each broker keeps files open for its own
QUORUM_LOGS: Final = frozenset({"__cluster_metadata", "__transaction_state", "__consumer_offsets"})
ID_ATTEMPTS_MAX: Final = 100  # to draw an id that is free and can be typed after an option

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class RandomBits(Protocol):
    """What draws topics' ids; ``random.Random`` is one."""

    def getrandbits(self, count: int, /) -> int:
        """A number of so many bits."""


class TopicRules(msgspec.Struct, frozen=True):
    """What the node's properties say of topics. ``configs``: the broker's settings that are theirs."""

    partitions_default: int = 1
    replication_factor_default: int = 1
    allow_unreplicated: bool = False
    delete_topics: bool = True
    configs: tuple[tuple[str, str], ...] = ()


class Earlier(msgspec.Struct, frozen=True):
    """What the parts of a request before this one take of it, at most: topics that are refused count, too."""

    partitions: int = 0
    rows: int = 0
    twice: frozenset[str] = frozenset()
    """Names that the whole request has more than once."""


class _Planned(msgspec.Struct, frozen=True):
    """One topic that can be created."""

    replicas: tuple[BrokerId, ...]  # the one of each partition
    configs: tuple[tuple[str, str], ...]


def creation_parts(request: CreateTopics, rules: TopicRules) -> tuple[tuple[CreateTopics, Earlier], ...]:
    """The request cut where ROWS_PER_PART_MAX is passed, to be decided one after the other.

    What is only validated stays whole: a part would not see the topics before it. Raises PolicyViolation.
    """
    twice = require_count(request)
    if request.validate_only:
        return ((request, Earlier(twice=twice)),)
    parts: list[tuple[CreateTopics, Earlier]] = []
    topics: list[NewTopic] = []
    partitions = rows = part_rows = 0
    earlier = Earlier(twice=twice)
    for topic in request.topics:
        requested = len(topic.assignments) or topic.partition_count
        count = requested if requested > 0 else rules.partitions_default
        if count > PARTITIONS_PER_REQUEST_MAX:
            count = 0  # it is refused by itself
        own_rows = 1 + count + len(topic.configs)
        if topics and part_rows + own_rows > ROWS_PER_PART_MAX:
            parts.append((msgspec.structs.replace(request, topics=tuple(topics)), earlier))
            earlier, topics, part_rows = Earlier(partitions, rows, twice), [], 0
        topics.append(topic)
        partitions, rows, part_rows = partitions + count, rows + own_rows, part_rows + own_rows
    parts.append((msgspec.structs.replace(request, topics=tuple(topics)), earlier))
    return tuple(parts)


def decide_create(
    view: View,
    request: CreateTopics,
    rules: TopicRules,
    rng: RandomBits,
    *,
    partitions_max: int = PARTITIONS_MAX,
    earlier: Earlier | None = None,
) -> Decision[CreateTopicsAnswer]:
    """Create what can be created; each refused topic is answered with its own error.

    ``partitions_max``: how many the cluster may have then. ``rng`` draws the topics' ids. ``earlier``: of a
    request that is decided in parts.
    Raises PolicyViolation if the request is too large as a whole.
    """
    if earlier is None:
        earlier = Earlier(twice=require_count(request))
    creation = _Creation(view, rules, partitions_max, earlier)
    defaults = with_properties(broker_configs.layers(view, None), rules.configs)
    records: list[MetadataRecord] = []
    answers: dict[str, TopicCreated] = {}
    for topic in request.topics:
        try:
            if topic.name in earlier.twice:
                raise InvalidRequest(
                    f"topic {topic.name[:TOPIC_NAME_CHARACTERS_MAX]} is in the request twice"
                )
            planned = creation.plan(topic)
        except ApiError as refusal:
            answers[topic.name] = TopicCreated(topic.name, refusal.code, str(refusal))
            continue
        topic_id = _free_id(view, rng)
        records += creation.records(topic.name, topic_id, planned)
        answers[topic.name] = TopicCreated(
            topic.name,
            ErrorCode.NONE,
            None,
            topic_id,
            partition_count=len(planned.replicas),
            replication_factor=1,
            configs=in_force(planned.configs, defaults),
        )
    answer = CreateTopicsAnswer(tuple(answers.values()))
    return Decision(() if request.validate_only else tuple(records), answer)


def require_count(request: CreateTopics) -> frozenset[str]:
    """The names that the request has more than once. Raises PolicyViolation if it has too many topics."""
    if len(request.topics) > TOPICS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"{len(request.topics)} topics in one request, at most {TOPICS_PER_REQUEST_MAX}"
        )
    times = Counter(each.name for each in request.topics)
    return frozenset(name for name, count in times.items() if count > 1)


class _Creation:
    """One request under way: what its earlier topics take counts for the later ones."""

    def __init__(self, view: View, rules: TopicRules, partitions_max: int, earlier: Earlier) -> None:
        self._view = view
        self._rules = rules
        self._placement = Placement(view, partitions_max)
        self._requested = earlier.partitions
        self._rows = earlier.rows
        self._colliding: dict[str, str] = {}

    def plan(self, topic: NewTopic) -> _Planned:
        """Raises the refusal of this topic, whatever it is."""
        self._require_free_name(topic.name)
        reduced = self._replication_factor(topic) > 1
        configs = checked(topic.configs, levels.in_force(self._view))
        if reduced:  # who wants three replicas and two in sync gets one, which is in sync
            configs = tuple((name, "1" if name == MIN_INSYNC_REPLICAS else value) for name, value in configs)
        count = len(topic.assignments) or topic.partition_count
        if count == -1:
            count = self._rules.partitions_default
        if count < 1:
            raise InvalidPartitions(f"{count} partitions; expected at least 1, or -1 for the default")
        self._require_room(count, len(configs))
        replicas = self._assigned(topic) if topic.assignments else self._placement.chosen(count)
        return _Planned(replicas, configs)

    def records(self, name: str, topic_id: uuid.UUID, planned: _Planned) -> list[MetadataRecord]:
        """The topic's records, in Kafka's order; what they take is taken."""
        key = collision_key(name)
        if key is not None:
            self._colliding[key] = name
        self._requested += len(planned.replicas)
        self._rows += 1 + len(planned.replicas) + len(planned.configs)
        records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
        records += [
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=each, value=value)
            for each, value in planned.configs
        ]
        return records + self._placement.records(topic_id, planned.replicas)

    def _require_free_name(self, name: str) -> None:
        require_valid_name(name)
        if find(self._view, name) is not None:
            raise TopicAlreadyExists(f"topic {name} already exists")
        key = collision_key(name)
        if key is None:
            return
        other = self._colliding.get(key) or self._view.get(COLLIDING, key)
        if other is not None:
            raise InvalidTopic(
                f"topic {name} collides with topic {other}: metrics take '.' and '_' for the same"
            )

    def _replication_factor(self, topic: NewTopic) -> int:
        if topic.assignments:
            if topic.partition_count != -1 or topic.replication_factor != -1:
                raise InvalidRequest("with assigned replicas both counts must be -1")
            factor = max(1, *(len(replicas) for _, replicas in topic.assignments))
        else:
            factor = topic.replication_factor
            if factor == -1:
                factor = self._rules.replication_factor_default
        if factor < 1:
            raise InvalidReplicationFactor(f"replication factor {factor}; expected 1, or -1 for the default")
        if factor > 1 and not self._rules.allow_unreplicated:
            raise InvalidReplicationFactor(
                f"replication factor {factor}: partitions have one replica in this version; ask for 1, "
                f"or set fencepost.allow.unreplicated=true to get 1 whatever a request names"
            )
        return factor

    def _require_room(self, partitions: int, settings: int) -> None:
        if self._requested + partitions > PARTITIONS_PER_REQUEST_MAX:
            raise PolicyViolation(f"more than {PARTITIONS_PER_REQUEST_MAX} partitions in one request")
        if self._rows + 1 + partitions + settings > ROWS_PER_REQUEST_MAX:
            raise PolicyViolation(
                f"more than {ROWS_PER_REQUEST_MAX} topics, partitions and settings in one request; send "
                f"several"
            )
        self._placement.require_room(partitions)

    def _assigned(self, topic: NewTopic) -> tuple[BrokerId, ...]:
        assigned = dict(topic.assignments)
        if len(assigned) != len(topic.assignments) or set(assigned) != set(range(len(assigned))):
            raise InvalidReplicaAssignment(f"partitions must be 0 to {len(topic.assignments) - 1}, each once")
        return self._placement.assigned(assigned[index] for index in range(len(assigned)))


def require_valid_name(name: str) -> None:
    """Raises InvalidTopic. Kafka's rules, and the quorum's own logs are no topics."""
    if not name or name in (".", ".."):
        raise InvalidTopic(f"a topic cannot be named {name!r}")
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        raise InvalidTopic(f"a topic name of {len(name)} characters; at most {TOPIC_NAME_CHARACTERS_MAX}")
    if not _NAME.fullmatch(name):
        raise InvalidTopic(f"topic name {name!r}: expected only ASCII letters, digits, '.', '_' and '-'")
    if name in QUORUM_LOGS:
        raise InvalidTopic(f"{name} is kept by the quorum; it cannot be created as a topic")


def _free_id(view: View, rng: RandomBits) -> uuid.UUID:
    """A new id. As in Kafka none whose text begins with '-': it can be typed after any option."""
    for _ in range(ID_ATTEMPTS_MAX):
        drawn = uuid.UUID(int=rng.getrandbits(128), version=4)
        dashed = base64.urlsafe_b64encode(drawn.bytes[:3]).startswith(b"-")
        if not dashed and view.get(TOPIC_NAMES, drawn) is None:
            return drawn
    invariant(False, "no free topic id was drawn", attempts=ID_ATTEMPTS_MAX)
    return uuid.UUID(int=0)
