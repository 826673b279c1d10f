"""Preflight: what prevents the fence on a Kafka cluster with ZooKeeper. Reads only, changes nothing.

Ready       a broker whose inter.broker.protocol.version is 3.0 or above, and that was not seen to write the
            block znode itself while it was watched. Of any other its ``reasons`` say why not.
Protocol    read from each broker by DescribeConfigs on a listener that needs no login; else unknown.
Kafka's     migration to KRaft writes the block without a condition (docs/kafka-notes.md A6): it would write
            over our fence, so a /migration znode blocks.
"""

import asyncio
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final

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
from fencepost.bridge.live_port import ensemble_name
from fencepost.bridge.strict_json import Misshaped
from fencepost.bridge.writers import Observation, observe_writers
from fencepost.bridge.znodes import BLOCK_PATH, Fence, ZnodeBlock, parse_block
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
PROTOCOL_MIN: Final = (3, 0)
ASK_SECONDS: Final = 5.0
BROKERS_AT_ONCE: Final = 32
_ZNODE_VERSION_27: Final = 5  # /brokers/ids/N of version 5 is written from 2.7 on


@dataclass(slots=True)
class BrokerSeen:
    """One broker. ``reasons`` is empty for a broker that is ready."""

    broker_id: int
    address: str | None = None
    protocol: str | None = None
    blocks_taken: int = 0  # from ZooKeeper itself, while it was watched
    reasons: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Preflight:
    """What was seen. ``blocking``: what is in the way beside brokers that are not ready."""

    zookeeper: str
    ensemble: str = ""
    block: dict[str, int] | None = None  # broker, first, last (inclusive) and end, the first id after it
    zk_version: int | None = None
    fence: dict[str, Any] | None = None
    brokers: list[BrokerSeen] = field(default_factory=list)
    unseen_writes: int = 0
    blocking: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    controller: int | None = None
    controller_epoch: int | None = None
    topics: int = 0
    features: dict[str, int] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether the whole upgrade could be made now."""
        return not self.blocking and not any(broker.reasons for broker in self.brokers)

    def to_json(self) -> dict[str, Any]:
        """The fields of ``--format json``."""
        return {
            "verdict": "ready" if self.is_ready else "blocked",
            **asdict(self),
            "brokers": [{**asdict(each), "ready": not each.reasons} for each in self.brokers],
        }


async def look(zookeeper: ZooKeeper, connect: str, watch_s: float) -> Preflight:
    """Read what ZooKeeper and the brokers show. Raises ZooKeeperUnavailable, ZooKeeperRefused."""
    found = Preflight(connect)
    try:
        found.ensemble = ensemble_name(await zookeeper.identity())
    except Misshaped as error:
        found.blocking.append(str(error))
    registered, writers = await asyncio.gather(
        _brokers(zookeeper, found), observe_writers(zookeeper, watch_s)
    )
    found.brokers = registered
    await _look_at_block(zookeeper, found)
    _name_writers(found, writers, watch_s)
    await _look_around(zookeeper, found)
    return found


async def _look_at_block(zookeeper: ZooKeeper, found: Preflight) -> None:
    znode = await zookeeper.get(BLOCK_PATH)
    if znode is None:
        found.remarks.append(f"there is no znode {BLOCK_PATH}: no id was ever given out; bridge makes it")
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
        found.remarks.append(f"ZooKeeper is fenced by fencepost cluster {parsed.cluster_id}")
    elif isinstance(parsed, ZnodeBlock):
        found.block = {"broker": parsed.broker, "first": parsed.first, "last": parsed.last, "end": parsed.end}
        if parsed.is_exhausted:
            found.blocking.append(
                f"the block ends at {parsed.last}, where all producer ids end, without a fence of ours"
            )
    else:
        found.remarks.append(f"{BLOCK_PATH} is empty: no id was ever given out, ids begin at 0")


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
    if seen.protocol is not None and not _is_new(seen.protocol):
        seen.reasons.append(
            f"{PROTOCOL}={seen.protocol}: below 3.0 it takes its blocks from ZooKeeper itself"
        )
    return seen


async def _ask_protocol(registered: ZnodeBroker, seen: BrokerSeen) -> None:
    """Its inter-broker protocol version, or the reason why it is unknown."""
    older = "" if registered.version >= _ZNODE_VERSION_27 else "; by its registration it is below 2.7"
    end_point = next((each for each in registered.end_points if each.security_protocol == "PLAINTEXT"), None)
    if end_point is None:
        listeners = ", ".join(each.security_protocol for each in registered.end_points)
        seen.reasons.append(f"{PROTOCOL} is unknown: it listens with {listeners} only{older}")
        return
    host = end_point.host or "127.0.0.1"
    seen.address = f"{host}:{end_point.port}"
    try:
        connection = await Connection.open(host, end_point.port, timeout_s=ASK_SECONDS)
        try:
            resource = ConfigResource(BROKER_RESOURCE, str(registered.broker_id), (PROTOCOL,))
            answer = await connection.call(
                DESCRIBE_CONFIGS, DescribeConfigs((resource,)), timeout_s=ASK_SECONDS
            )
        finally:
            connection.close()
        for result in answer.results:
            raise_for(result.error_code, result.error_message)
            seen.protocol = next((each.value for each in result.configs), None)
    except ApiError as error:
        seen.reasons.append(f"{PROTOCOL} is unknown: {error}{older}")
        return
    except (ConnectionLost, RequestTimeout) as error:
        seen.reasons.append(f"unreachable, so its {PROTOCOL} is unknown: {error}{older}")
        return
    if seen.protocol is None:
        seen.reasons.append(f"{PROTOCOL} is unknown: it does not tell{older}")


def _is_new(protocol: str) -> bool:
    number = re.match(r"(\d+)\.(\d+)", protocol)
    return number is not None and (int(number[1]), int(number[2])) >= PROTOCOL_MIN


def _name_writers(found: Preflight, writers: Observation, watch_s: float) -> None:
    """Direct writers, registered or not, by name."""
    known = {broker.broker_id: broker for broker in found.brokers}
    for broker_id, count in sorted(writers.blocks_by_broker.items()):
        if broker_id < 0:
            found.remarks.append(f"{count} blocks were taken by a controller while it was watched")
            continue
        broker = known.get(broker_id)
        if broker is None:
            broker = BrokerSeen(broker_id, reasons=[f"not registered below {BROKERS_PATH}"])
            found.brokers.append(broker)
        broker.blocks_taken = count
        broker.reasons.append(f"wrote {BLOCK_PATH} itself: {count} blocks seen in {watch_s:g} s")
    found.unseen_writes = writers.unseen
    if writers.unseen:
        found.remarks.append(f"{writers.unseen} more writes went by unseen, by whomever")


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
