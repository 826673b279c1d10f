"""What else Kafka wrote into ZooKeeper, from 0.11 to 3.9: brokers, controller, features, topics, migration.

Producer ids do not depend on these; preflight reports them. A znode that Kafka did not write is refused with
its path, what was expected and what was found (``strict_json.Misshaped``).

Source      Kafka ZkUtils (0.11), ZkData (1.1 to 3.9), EndPoint; docs/kafka-notes.md A5.
"""

import re
from typing import Final, NamedTuple, TypeVar

from fencepost.bridge.strict_json import INT32_MAX, INT64_MAX, Fields, Misshaped, parse_object, shown
from fencepost.records.types import BrokerId

T = TypeVar("T")

BROKERS_PATH: Final = "/brokers/ids"
TOPICS_PATH: Final = "/brokers/topics"
CLUSTER_ID_PATH: Final = "/cluster/id"
CONTROLLER_PATH: Final = "/controller"
CONTROLLER_EPOCH_PATH: Final = "/controller_epoch"
FEATURE_PATH: Final = "/feature"
MIGRATION_PATH: Final = "/migration"

INT16_MAX: Final = 2**15 - 1
PORT_MAX: Final = 65_535
SECURITY_PROTOCOLS: Final = frozenset(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
_END_POINT: Final = re.compile(
    r"(?P<listener>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]{1,5})"
)
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class ZnodeEndPoint(NamedTuple):
    """Where a broker listens. ``host`` may be empty: all addresses."""

    listener: str
    security_protocol: str
    host: str
    port: int


class ZnodeBroker(NamedTuple):
    """A broker's registration, an ephemeral znode: it is there while the broker has its session."""

    broker_id: BrokerId
    version: int  # 1 to 5, by the broker's inter.broker.protocol.version: 5 from 2.7 on, 4 from 0.10
    end_points: tuple[ZnodeEndPoint, ...]
    rack: str | None
    features: dict[str, tuple[int, int]]  # name to lowest and highest supported version
    timestamp_ms: int  # when it registered


class ZnodeController(NamedTuple):
    """Who is the controller. ``kraft_epoch`` is set (not -1) when a KRaft controller has taken over."""

    broker_id: BrokerId
    timestamp_ms: int
    kraft_epoch: int


class ZnodeFeatures(NamedTuple):
    """The finalized features. Disabled: the brokers' protocol version is below 2.7."""

    enabled: bool
    levels: dict[str, int]


class ZnodeTopic(NamedTuple):
    """A topic's replicas by partition."""

    name: str
    topic_id: str | None  # since 2.8
    replicas: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]]
    removing: dict[int, tuple[int, ...]]


class ZnodeMigration(NamedTuple):
    """How far Kafka's own migration to KRaft got. One that is left over breaks clusters after a rollback."""

    controller_id: int
    controller_epoch: int
    metadata_offset: int
    metadata_epoch: int


def parse_broker(path: str, content: bytes | None) -> ZnodeBroker:
    """The broker that the znode ``/brokers/ids/N`` describes."""
    broker_id = _number_in(path, f"{BROKERS_PATH}/ and a broker's id", path.rpartition("/")[2])
    fields = _fields(path, content)
    version = fields.integer("version", 1, 5)
    fields.integer("jmx_port", -1, PORT_MAX)
    timestamp_ms = fields.decimal("timestamp")
    host = fields.optional_text("host")
    port = fields.integer("port", -1, PORT_MAX)
    if version == 1:
        if host is None:
            raise fields.refused("host", "a string", None)
        end_points: tuple[ZnodeEndPoint, ...] = (ZnodeEndPoint("PLAINTEXT", "PLAINTEXT", host, port),)
    else:
        end_points = _end_points(fields, version)
    rack = fields.optional_text("rack") if version >= 3 and fields.has("rack") else None
    features = _supported(fields) if version >= 5 else {}
    fields.end()
    return ZnodeBroker(BrokerId(broker_id), version, end_points, rack, features, timestamp_ms)


def parse_controller(content: bytes | None, path: str = CONTROLLER_PATH) -> ZnodeController:
    """The znode ``/controller``: version 1, or 2 since 3.4."""
    fields = _fields(path, content)
    version = fields.integer("version", 1, 2)
    controller = ZnodeController(
        broker_id=BrokerId(fields.integer("brokerid")),
        timestamp_ms=fields.decimal("timestamp"),
        kraft_epoch=fields.integer("kraftControllerEpoch", -1) if version == 2 else -1,
    )
    fields.end()
    return controller


def parse_controller_epoch(content: bytes | None, path: str = CONTROLLER_EPOCH_PATH) -> int:
    """The znode ``/controller_epoch``: a decimal number, bare."""
    text = (content or b"").decode("utf-8", "replace")
    return _number_in(path, f"a number from 0 to {INT32_MAX}", text, shown(text))


def parse_feature(content: bytes | None, path: str = FEATURE_PATH) -> ZnodeFeatures:
    """The znode ``/feature``: version 1 since 2.7, 2 since 3.3."""
    fields = _fields(path, content)
    version = fields.integer("version", 1, 2)
    enabled = fields.integer("status", 0, 1) == 1
    features = fields.fields("features")
    levels = {}
    for name in features.names():
        feature = features.fields(name)
        lowest = feature.integer("min_version_level", 1, INT16_MAX) if version == 1 else 1
        levels[name] = feature.integer("max_version_level", lowest, INT16_MAX)
        feature.end()
    fields.end()
    return ZnodeFeatures(enabled, levels)


def parse_topic(path: str, content: bytes | None) -> ZnodeTopic:
    """The znode ``/brokers/topics/T``: version 1, 2 since 2.4, 3 since 2.8."""
    name = path.rpartition("/")[2]
    if path != f"{TOPICS_PATH}/{name}" or not _TOPIC.fullmatch(name):
        raise Misshaped(path, f"{TOPICS_PATH}/ and a topic's name", shown(name))
    fields = _fields(path, content)
    version = fields.integer("version", 1, 3)
    topic = ZnodeTopic(
        name=name,
        topic_id=fields.text("topic_id") if version == 3 and fields.has("topic_id") else None,
        replicas=_by_partition(path, fields.fields("partitions")),
        adding=_by_partition(path, fields.fields("adding_replicas")) if version >= 2 else {},
        removing=_by_partition(path, fields.fields("removing_replicas")) if version >= 2 else {},
    )
    fields.end()
    return topic


def parse_migration(content: bytes | None, path: str = MIGRATION_PATH) -> ZnodeMigration:
    """The znode ``/migration``: version 0, written by Kafka 3.4 to 3.9."""
    fields = _fields(path, content)
    fields.integer("version", 0, 0)
    migration = ZnodeMigration(
        controller_id=fields.integer("kraft_controller_id", -1),
        controller_epoch=fields.integer("kraft_controller_epoch", -1),
        metadata_offset=fields.integer("kraft_metadata_offset", -1, INT64_MAX),
        metadata_epoch=fields.integer("kraft_metadata_epoch", -1),
    )
    fields.end()
    return migration


def parse_cluster_id(content: bytes | None, path: str = CLUSTER_ID_PATH) -> str:
    """The znode ``/cluster/id``: 22 characters of base64. Its version is a string, for once."""
    fields = _fields(path, content)
    version = fields.text("version")
    if version != "1":
        raise fields.refused("version", 'the string "1"', version)
    cluster_id = fields.text("id")
    fields.end()
    if not cluster_id:
        raise fields.refused("id", "a cluster id", cluster_id)
    return cluster_id


def _fields(path: str, content: bytes | None) -> Fields:
    if content is None:
        raise Misshaped(path, "a JSON object", "no data")
    return parse_object(path, content)


def _number_in(path: str, expected: str, text: str, found: str | None = None) -> int:
    """A canonical number in ``text``. Raises Misshaped."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and str(int(text)) == text):
        raise Misshaped(path, expected, found or f"/{text}")
    number = int(text)
    if number > INT32_MAX:
        raise Misshaped(path, expected, found or f"/{text}")
    return number


def _end_points(fields: Fields, version: int) -> tuple[ZnodeEndPoint, ...]:
    texts = fields.texts("endpoints")
    protocols: dict[str, str] | None = None
    if version >= 4:
        names = fields.fields("listener_security_protocol_map")
        protocols = {name: names.text(name) for name in names.names()}
    return tuple(_end_point(fields, text, protocols) for text in texts)


def _end_point(fields: Fields, text: str, protocols: dict[str, str] | None) -> ZnodeEndPoint:
    """One of ``endpoints``; without a map of protocols the listener's name is its protocol."""
    found = _END_POINT.fullmatch(text)
    if found is None or not -1 <= int(found["port"]) <= PORT_MAX:
        raise fields.refused("endpoints", "an array of LISTENER://HOST:PORT", text)
    listener = found["listener"]
    protocol = listener if protocols is None else protocols.get(listener)
    if protocol not in SECURITY_PROTOCOLS:
        expected = f"a security protocol for {listener} ({', '.join(sorted(SECURITY_PROTOCOLS))})"
        raise fields.refused("listener_security_protocol_map", expected, protocol)
    return ZnodeEndPoint(listener, protocol, found["host"], int(found["port"]))


def _supported(fields: Fields) -> dict[str, tuple[int, int]]:
    features = fields.fields("features")
    supported = {}
    for name in features.names():
        feature = features.fields(name)
        lowest = feature.integer("min_version", 0, INT16_MAX)
        supported[name] = (lowest, feature.integer("max_version", lowest, INT16_MAX))
        feature.end()
    return supported


def _by_partition(path: str, fields: Fields) -> dict[int, tuple[int, ...]]:
    return {
        _number_in(path, "a partition's number", name, shown(name)): fields.integers(name)
        for name in fields.names()
    }
