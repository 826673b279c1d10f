"""Preflight: what is in the way of the upgrade, and what the fence does to each broker. Changes nothing.

Fence       cuts off every Kafka broker: one below protocol version 3.0 takes its blocks from the znode
            itself, any other asks Kafka's controller, which takes them by the same loop from the same znode.
Below 3.0   a broker takes its first block where it starts: behind the fence it ends instead.
Protocol    DescribeConfigs says it, on a listener that needs no login. The registration says less: its
            version is 5 from inter.broker.protocol.version 2.7 on and 4 below, and it has no other trace of
            the protocol version (Kafka 3.9 writes its features as {}).
Watched     who gets blocks meanwhile is a note: a block names the broker that it is for, not who wrote it.
Kafka's     migration to KRaft writes the block without a condition (docs/kafka-notes.md A6): it would write
            over our fence, so a /migration znode blocks.

Source      Kafka 3.9 BrokerInfo, KafkaServer, ZkProducerIdManager; KIP-730.
"""

import asyncio
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fencepost.bridge.access import ZooKeeperRefused, is_write_granted
from fencepost.bridge.kafka_znodes import (
    BROKERS_PATH,
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    FEATURE_PATH,
    MIGRATION_PATH,
    TOPICS_PATH,
    ZnodeBroker,
    parse_broker,
    parse_controller,
    parse_controller_epoch,
    parse_feature,
    parse_migration,
)
from fencepost.bridge.live_port import ensemble_name, explain_no_cluster
from fencepost.bridge.strict_json import Misshaped
from fencepost.bridge.upgrade_ensemble import NO_BLOCK_SAID
from fencepost.bridge.writers import Observation, observe_blocks
from fencepost.bridge.znodes import BLOCK_PATH, KAFKA_BLOCK_LENGTH, Fence, ZnodeBlock, parse_block
from fencepost.bridge.zookeeper import ZooKeeper
from fencepost.controller.errors import ApiError
from fencepost.records.types import BrokerId
from fencepost.wire.connection import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.errors import raise_for
from fencepost.wire.k32_describe_configs import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    ConfigResource,
    DescribeConfigs,
)

PROTOCOL: Final = "inter.broker.protocol.version"
ASKING: Final = (3, 0)  # from this protocol version on a broker asks Kafka's controller for blocks
ASK_SECONDS: Final = 5.0
BROKERS_AT_ONCE: Final = 32
CONFIG, ZNODE = "its configuration", "its znode"
NEW_SAYS: Final = "Received an unexpected error code from the controller: UNKNOWN_SERVER_ERROR"
OLD_SAYS: Final = "Exhausted all producerIds"
OLD_ENDS: Final = "Have exhausted all producerIds."
BELOW_27: Final = "below 2.7"
_ZNODE_VERSION_27: Final = 5  # /brokers/ids/N of version 5 is written from 2.7 on


@dataclass(slots=True)
class BrokerSeen:
    """One registered broker, and what the fence does to it. Every one is cut off."""

    broker_id: int
    address: str | None = None
    protocol: str | None = None  # inter.broker.protocol.version; "below 2.7" is what a znode can say
    known_from: str | None = None  # where the protocol is known from
    asks_controller: bool | None = None  # for its blocks; False: it writes the znode itself; None: unknown
    reasons: list[str] = field(default_factory=list)  # why something about it is unknown

    @property
    def starts_again(self) -> bool | None:
        """Whether it can be started behind the fence; None: unknown."""
        return self.asks_controller

    @property
    def after_the_fence(self) -> str:
        """What becomes of it, as a sentence."""
        if self.asks_controller is None:
            return (
                "no new producer ids; whether it can be started again is not known, "
                "so do not stop it behind the fence"
            )
        if self.asks_controller:
            return (
                "no new producer ids: Kafka's controller, which it asks, takes them from the same znode. "
                f"When the ids in its memory are used up, at most {2 * KAFKA_BLOCK_LENGTH}, new producers "
                f"get COORDINATOR_LOAD_IN_PROGRESS (14), and its log says '{NEW_SAYS}'. It can be "
                "started again, and has no ids then"
            )
        return (
            "no new producer ids: it takes them from the znode itself. When the ids in its memory are used "
            f"up, at most {KAFKA_BLOCK_LENGTH}, new producers get UNKNOWN_SERVER_ERROR (-1), and its log "
            f"says '{OLD_SAYS}'. It cannot be started again: it ends with '{OLD_ENDS}'"
        )


@dataclass(slots=True)
class Preflight:
    """What was seen. ``blocking``: what is in the way of the upgrade itself."""

    zookeeper: str
    ensemble: str = ""
    block: dict[str, int] | None = None  # broker, first, last (inclusive) and end, the first id after it
    zk_version: int | None = None
    fence: dict[str, Any] | None = None
    acl: list[str] | None = None  # of the block's znode; None: it may not be read
    brokers: list[BrokerSeen] = field(default_factory=list)
    blocks_seen: dict[int, int] = field(default_factory=dict)  # while it was watched, by whom they are for
    unseen_writes: int = 0
    blocking: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    controller: int | None = None
    controller_epoch: int | None = None
    topics: int = 0
    features: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``blocked``; ``cuts-off``: the fence can be set, and these brokers get no ids; or ``ready``."""
        if self.blocking:
            return "blocked"
        return "cuts-off" if self.brokers else "ready"

    def to_json(self) -> dict[str, Any]:
        """The fields of ``--format json``."""
        brokers = [
            {**asdict(each), "starts_again": each.starts_again, "after_the_fence": each.after_the_fence}
            for each in self.brokers
        ]
        return {"verdict": self.verdict, **asdict(self), "brokers": brokers, "write_permission": "not proved"}


async def look(zookeeper: ZooKeeper, connect: str, watch_s: float) -> Preflight:
    """Read what ZooKeeper and the brokers show. Raises ZooKeeperUnavailable, ZooKeeperRefused."""
    found = Preflight(connect)
    try:
        identity = await zookeeper.identity()
        found.ensemble = ensemble_name(identity)
        if identity.cluster_id is None:
            found.blocking.append(await explain_no_cluster(zookeeper, identity))
    except Misshaped as error:
        found.blocking.append(str(error))
    found.brokers, seen = await asyncio.gather(_brokers(zookeeper, found), observe_blocks(zookeeper, watch_s))
    await _look_at_block(zookeeper, found)
    await _look_at_permission(zookeeper, found)
    _note_blocks(found, seen, watch_s)
    await _look_around(zookeeper, found)
    return found


async def _look_at_permission(zookeeper: ZooKeeper, found: Preflight) -> None:
    """Nothing is written, so nothing is proved; but who may write at all can be seen."""
    try:
        acl = await zookeeper.acl(BLOCK_PATH)
    except ZooKeeperRefused as error:
        found.remarks.append(f"write permission not proved; the access list is not shown: {error}")
        return
    if acl is None:
        return
    found.acl = [str(entry) for entry in acl]
    listed = f"{BLOCK_PATH} has the access list {', '.join(found.acl)}"
    if is_write_granted(acl) is False:
        found.blocking.append(f"{listed}: it lets no one write, so the fence cannot be set")
    else:
        found.remarks.append(
            f"write permission not proved: {listed}; fence proves it before it logs anything"
        )


async def _look_at_block(zookeeper: ZooKeeper, found: Preflight) -> None:
    znode = await zookeeper.get(BLOCK_PATH)
    if znode is None:
        found.blocking.append(NO_BLOCK_SAID)
        return
    found.zk_version = znode.version
    try:
        parsed = parse_block(znode.data, znode.version)
    except Misshaped as error:
        found.blocking.append(str(error))
        return
    if isinstance(parsed, Fence):
        found.fence = {
            "cluster_id": parsed.cluster_id,
            "zk_version": parsed.zk_version,
            "block_end": parsed.block_last,
        }
    elif isinstance(parsed, ZnodeBlock):
        found.block = {"broker": parsed.broker, "first": parsed.first, "last": parsed.last, "end": parsed.end}
        if parsed.is_exhausted:
            found.blocking.append(
                f"the block ends at {parsed.last}, where all producer ids end, without a fence of ours"
            )
    else:
        found.blocking.append(NO_BLOCK_SAID)


async def _brokers(zookeeper: ZooKeeper, found: Preflight) -> list[BrokerSeen]:
    names = await zookeeper.children(BROKERS_PATH) or ()
    if not names:
        found.remarks.append(f"no broker is registered below {BROKERS_PATH}")
    limit = asyncio.Semaphore(BROKERS_AT_ONCE)

    async def one(name: str) -> BrokerSeen | None:
        async with limit:
            return await _broker(zookeeper, name)

    seen = await asyncio.gather(*map(one, names))
    return sorted((each for each in seen if each is not None), key=lambda each: each.broker_id)


async def _broker(zookeeper: ZooKeeper, name: str) -> BrokerSeen | None:
    path = f"{BROKERS_PATH}/{name}"
    znode = await zookeeper.get(path)
    if znode is None:
        return None  # it has just left
    try:
        registered = parse_broker(path, znode.data)
    except Misshaped as error:
        return BrokerSeen(int(name) if name.isdecimal() else -1, reasons=[str(error)])
    seen = BrokerSeen(registered.broker_id)
    await _ask_protocol(registered, seen)
    if seen.protocol is None and registered.version < _ZNODE_VERSION_27:
        seen.protocol, seen.known_from, seen.asks_controller = BELOW_27, ZNODE, False
    return seen


async def _ask_protocol(registered: ZnodeBroker, seen: BrokerSeen) -> None:
    """Its inter-broker protocol version, or the reason why it is not known from its configuration."""
    end_point = next((each for each in registered.end_points if each.security_protocol == "PLAINTEXT"), None)
    if end_point is None:
        listeners = ", ".join(each.security_protocol for each in registered.end_points)
        seen.reasons.append(f"{PROTOCOL} is not known from the broker: it listens with {listeners} only")
        return
    host = end_point.host or "127.0.0.1"
    seen.address = f"{host}:{end_point.port}"
    try:
        protocol = await _described(host, end_point.port, registered.broker_id)
    except (ApiError, ConnectionLost, RequestTimeout) as error:
        seen.reasons.append(f"{PROTOCOL} is not known from the broker: {error}")
        return
    version = _release(protocol or "")
    if protocol is None or version is None:
        seen.reasons.append(f"{PROTOCOL} is not known from the broker: it says {protocol}")
        return
    seen.protocol, seen.known_from, seen.asks_controller = protocol, CONFIG, version >= ASKING


async def _described(host: str, port: int, broker_id: int) -> str | None:
    """What the broker says. Raises ApiError, ConnectionLost, RequestTimeout."""
    connection = await Connection.open(host, port, timeout_s=ASK_SECONDS)
    try:
        resource = ConfigResource(BROKER_RESOURCE, str(broker_id), (PROTOCOL,))
        answer = await connection.call(DESCRIBE_CONFIGS, DescribeConfigs((resource,)), timeout_s=ASK_SECONDS)
    finally:
        connection.close()
    protocol = None
    for result in answer.results:
        raise_for(result.error_code, result.error_message)
        protocol = next((each.value for each in result.configs), None)
    return protocol


def _release(protocol: str) -> tuple[int, int] | None:
    """(3, 9) of ``3.9-IV0``; also (0, 11) of ``0.11.0``."""
    number = re.match(r"(\d+)\.(\d+)", protocol)
    return None if number is None else (int(number[1]), int(number[2]))


def _note_blocks(found: Preflight, seen: Observation, watch_s: float) -> None:
    """For whom blocks were taken while it was watched: notes, on which no verdict depends."""
    registered = {broker.broker_id for broker in found.brokers}
    found.blocks_seen = dict(sorted(seen.blocks_by_broker.items()))
    for broker_id, count in found.blocks_seen.items():
        whose = f"broker {broker_id}"
        if broker_id < 0:
            whose = "no broker (-1), by a bridge or a KRaft controller"
        elif broker_id not in registered:
            whose += f", not registered below {BROKERS_PATH},"
        found.remarks.append(f"{count} blocks for {whose} were written in the {watch_s:g} s watched")
    found.unseen_writes = seen.unseen
    if seen.unseen:
        found.remarks.append(f"{seen.unseen} more writes went by unseen, for whomever")


async def _look_around(zookeeper: ZooKeeper, found: Preflight) -> None:
    """What producer ids do not depend on; reported."""
    found.topics = len(await zookeeper.children(TOPICS_PATH) or ())
    for path in (CONTROLLER_PATH, CONTROLLER_EPOCH_PATH, FEATURE_PATH, MIGRATION_PATH):
        znode = await zookeeper.get(path)
        if znode is None:
            continue
        try:
            _note(found, path, znode.data)
        except Misshaped as error:
            found.remarks.append(str(error))


def _note(found: Preflight, path: str, content: bytes | None) -> None:
    if path == CONTROLLER_PATH:
        found.controller = BrokerId(parse_controller(content).broker_id)
    elif path == CONTROLLER_EPOCH_PATH:
        found.controller_epoch = parse_controller_epoch(content)
    elif path == FEATURE_PATH:
        found.features = parse_feature(content).levels
    else:
        migration = parse_migration(content)
        found.blocking.append(
            f"{MIGRATION_PATH} is there, of KRaft controller {migration.controller_id}: Kafka's own "
            "migration writes the block without a condition. End it, or roll it back and delete the znode"
        )
