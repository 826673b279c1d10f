"""Topics: which exist, with what ids, partitions, replicas and settings.

Invariant   a topic's partitions are 0 .. partition_count - 1; a topic id names one topic forever.
Leader      the stored leader leads while its broker is alive; ``leader_of`` says whether it is now. A
            partition has one replica: its leader never changes, and its leader epoch only when its log was
            lost and it was started again (partition_recovery.py).
Source      Kafka ReplicationControlManager (createTopics, deleteTopics, replay); ``Topic.validate``.
"""

import hashlib
import struct
import uuid
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from fencepost.controller import cluster_version
from fencepost.controller.brokers import BROKERS
from fencepost.controller.errors import ErrorCode
from fencepost.controller.view import MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.invariant import invariant
from fencepost.records.schema import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from fencepost.records.types import BrokerEpoch, BrokerId

TOPIC_NAME_CHARACTERS_MAX: Final = 249  # Kafka's: a directory name of 255 holds it and "-partition"
TOPIC_RESOURCE: Final = 2  # ConfigRecord.resource_type of a topic
NO_LEADER: Final = BrokerId(-1)


class Topic(msgspec.Struct, frozen=True, array_like=True):
    """One topic. ``configs`` are those set for it, ordered by name; the rest are the broker's."""

    topic_id: uuid.UUID
    name: str
    partition_count: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """One partition. ``leader`` is a broker id, whether it lives or not: see ``leader_of``."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    directories: tuple[uuid.UUID, ...] = ()  # of the replicas, in their order


_PARTITION_KEY: Final = struct.Struct(">16sI")


def _encode_partition_key(key: tuple[uuid.UUID, int]) -> bytes:
    return _PARTITION_KEY.pack(key[0].bytes, key[1])


def _decode_partition_key(key: bytes) -> tuple[uuid.UUID, int]:
    topic_id, index = _PARTITION_KEY.unpack(key)
    return uuid.UUID(bytes=topic_id), index


TOPICS: Final[Table[str, Topic]] = Table("topics", Topic, str.encode, bytes.decode)
TOPIC_NAMES: Final[Table[uuid.UUID, str]] = Table(
    "topic_names", str, lambda key: key.bytes, lambda key: uuid.UUID(bytes=key)
)
PARTITIONS: Final[Table[tuple[uuid.UUID, int], Partition]] = Table(
    "partitions", Partition, _encode_partition_key, _decode_partition_key
)
COLLIDING: Final[Table[str, str]] = Table("colliding_topics", str, str.encode, bytes.decode)
"""Names with a ``.`` or ``_``, by what metrics make of them: two of one key would be one there (Kafka)."""

STARTED_AT: Final[Table[tuple[uuid.UUID, int], tuple[int, int]]] = Table(
    "partition_starts", tuple[int, int], _encode_partition_key, _decode_partition_key
)
"""(offset, leader epoch) at which a partition whose log was lost was started again: partition_recovery.py."""

PARTITION_ENDS: Final[Table[tuple[uuid.UUID, int], int]] = Table(
    "partition_ends", int, _encode_partition_key, _decode_partition_key
)
"""The highest end of a partition's log that its broker has reported: partition_reports.py."""

OFFLINE_PARTITIONS: Final[Table[tuple[uuid.UUID, int], BrokerEpoch]] = Table(
    "offline_partitions", BrokerEpoch, _encode_partition_key, _decode_partition_key
)
"""The registration of its broker that reported the partition's log offline: partition_reports.py."""

HOSTED: Final[Table[BrokerId, int]] = Table(
    "hosted_partitions", int, encode_int_key, lambda key: BrokerId(decode_int_key(key))
)
"""How many replicas each broker has been given. It places new ones evenly and bounds their sum."""


# -- requests and answers --------------------------------------------------------------------------------


class NewTopic(msgspec.Struct, frozen=True):
    """A topic to be created. -1 of a count: the controller's default.

    ``assignments``: (partition, broker ids) for each partition, or none: the controller chooses.
    """

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopics(msgspec.Struct, frozen=True):
    """API key 19. ``validate_only``: answer as if, and create nothing."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    timeout_ms: int = 60_000


class ConfigSynonym(msgspec.Struct, frozen=True):
    """A setting that another one is, or could have been. ``source``: Kafka's ConfigSource."""

    name: str
    value: str | None
    source: int


class TopicConfig(msgspec.Struct, frozen=True):
    """A setting of a topic or broker, in force.

    source     Kafka's ConfigSource: 1 the topic, 2 the broker, 3 all brokers, 4 properties, 5 default.
    synonyms   what it is and what it could have been: what counts first is first.
    kind       Kafka's ConfigType; 0 unknown.
    """

    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    kind: int = 0


class TopicCreated(msgspec.Struct, frozen=True):
    """What became of one topic. The fields from ``topic_id`` on say nothing if there is an error."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_id: uuid.UUID = uuid.UUID(int=0)
    partition_count: int = -1
    replication_factor: int = -1
    configs: tuple[TopicConfig, ...] = ()


class CreateTopicsAnswer(msgspec.Struct, frozen=True):
    """The result for each name in the request, in its order."""

    topics: tuple[TopicCreated, ...]


class DeleteTopics(msgspec.Struct, frozen=True):
    """API key 20: topics by name, by id (from version 6 on), or some of each."""

    names: tuple[str, ...] = ()
    ids: tuple[uuid.UUID, ...] = ()
    timeout_ms: int = 60_000


class TopicDeleted(msgspec.Struct, frozen=True):
    """What became of one topic. ``name`` None: an id that no topic has; zero id: a name that none has."""

    name: str | None
    topic_id: uuid.UUID = uuid.UUID(int=0)
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DeleteTopicsAnswer(msgspec.Struct, frozen=True):
    """The result for each topic in the request: first the names, then the ids, in their order."""

    topics: tuple[TopicDeleted, ...]


# -- reading ---------------------------------------------------------------------------------------------


def find(view: View, name: str) -> Topic | None:
    """The topic of that name, or None. Any text may be given."""
    if len(name) > TOPIC_NAME_CHARACTERS_MAX or not name.isascii():
        return None  # nor may it become a key
    return view.get(TOPICS, name)


def find_by_id(view: View, topic_id: uuid.UUID) -> Topic | None:
    """The topic of that id."""
    name = view.get(TOPIC_NAMES, topic_id)
    return None if name is None else view.get(TOPICS, name)


def partition(view: View, name: str, index: int) -> Partition | None:
    """Partition ``index`` of the topic of that name, or None. Any text and number may be given."""
    topic = find(view, name)
    if topic is None or not 0 <= index < topic.partition_count:
        return None
    return view.get(PARTITIONS, (topic.topic_id, index))


def collision_key(name: str) -> str | None:
    """The key of ``COLLIDING``; None for a name that collides with no other."""
    return name.replace(".", "_") if "." in name or "_" in name else None


@lru_cache(maxsize=1_000)  # most topics have the settings of some others
def configs_digest(configs: tuple[tuple[str, str | None], ...]) -> int:
    """A number, of 64 bits with a sign, that other settings do not have; 0: none are set.

    A broker that has seen another one reads the topic's settings anew.
    """
    if not configs:
        return 0
    digest = hashlib.blake2b(repr(configs).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def leader_of(view: View, found: Partition) -> BrokerId:
    """Who leads the partition now: ``NO_LEADER`` while its broker is fenced or not registered."""
    broker = view.get(BROKERS, BrokerId(found.leader)) if found.leader >= 0 else None
    return NO_LEADER if broker is None or broker.fenced else broker.broker_id


def records_of(view: View) -> Iterator[TopicRecord | PartitionRecord | ConfigRecord]:
    """The records that make the topics, in Kafka's order: each topic with its partitions, then settings."""
    for _, topic in view.scan(TOPICS):
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index in range(topic.partition_count):
            kept = view.get(PARTITIONS, (topic.topic_id, index))
            if kept is None:
                invariant(False, "a topic lacks a partition", topic=topic, index=index)
                continue
            yield partition_record(topic.topic_id, index, kept)
    for _, topic in view.scan(TOPICS):
        for name, value in topic.configs:
            yield ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)


def partition_record(topic_id: uuid.UUID, index: int, kept: Partition) -> PartitionRecord:
    """The record that makes this partition: every replica in sync, no change under way."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=kept.replicas,
        isr=kept.replicas,
        leader=kept.leader,
        leader_epoch=kept.leader_epoch,
        partition_epoch=0,
        directories=kept.directories,
    )


# -- replay ----------------------------------------------------------------------------------------------


def replay_topic(view: MutableView, record: TopicRecord) -> None:
    """Total. The topic has no partition yet: their records follow."""
    cluster_version.advance(view)
    invariant(view.get(TOPICS, record.name) is None, "a topic was created twice", record=record)
    invariant(view.get(TOPIC_NAMES, record.topic_id) is None, "a topic id is used twice", record=record)
    view.put(TOPICS, record.name, Topic(record.topic_id, record.name))
    view.put(TOPIC_NAMES, record.topic_id, record.name)
    key = collision_key(record.name)
    if key is not None:
        view.put(COLLIDING, key, record.name)


def replay_partition(view: MutableView, record: PartitionRecord) -> None:
    """Total. Partitions of a topic come in order, from 0."""
    cluster_version.advance(view)
    topic = find_by_id(view, record.topic_id)
    if topic is None or record.partition_id != topic.partition_count:
        invariant(False, "a partition that is not its topic's next", record=record, topic=topic)
        return
    view.put(TOPICS, topic.name, msgspec.structs.replace(topic, partition_count=record.partition_id + 1))
    view.put(
        PARTITIONS,
        (record.topic_id, record.partition_id),
        Partition(record.replicas, record.leader, record.leader_epoch, record.directories),
    )
    for replica in record.replicas:
        broker_id = BrokerId(replica)
        view.put(HOSTED, broker_id, (view.get(HOSTED, broker_id) or 0) + 1)


def replay_config(view: MutableView, record: ConfigRecord) -> None:
    """Total. Of a topic: those of brokers are in broker_configs.py."""
    cluster_version.advance(view)
    invariant(record.resource_type == TOPIC_RESOURCE, "a setting of no topic", record=record)
    topic = find(view, record.resource_name)
    if topic is None:
        invariant(False, "a setting of a topic that does not exist", record=record)
        return
    configs = dict(topic.configs)
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    view.put(TOPICS, topic.name, msgspec.structs.replace(topic, configs=tuple(sorted(configs.items()))))


def replay_remove(view: MutableView, record: RemoveTopicRecord) -> None:
    """Total. Partitions and settings go with their topic, as in Kafka."""
    cluster_version.advance(view)
    topic = find_by_id(view, record.topic_id)
    if topic is None:
        invariant(False, "a topic was deleted that does not exist", record=record)
        return
    for index in range(topic.partition_count):
        key = (topic.topic_id, index)
        for replica in (view.get(PARTITIONS, key) or _NO_PARTITION).replicas:
            broker_id = BrokerId(replica)
            view.put(HOSTED, broker_id, (view.get(HOSTED, broker_id) or 0) - 1)
        view.delete(PARTITIONS, key)
        for table in _OF_PARTITIONS:
            if view.get(table, key) is not None:
                view.delete(table, key)
    collides = collision_key(topic.name)
    if collides is not None:
        view.delete(COLLIDING, collides)
    view.delete(TOPIC_NAMES, topic.topic_id)
    view.delete(TOPICS, topic.name)


_OF_PARTITIONS: Final[tuple[Table[Any, Any], ...]] = (STARTED_AT, PARTITION_ENDS, OFFLINE_PARTITIONS)
_NO_PARTITION: Final = Partition((), -1, -1)
