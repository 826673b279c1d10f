"""The quorum's port to ZooKeeper, by way of bridge/: the words of one side in those of the other.

Each call of ``LivePort`` runs as a task of the event loop; its callback is called when the task is done.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import fencepost.bridge.znodes as kafka
from fencepost.bridge import access
from fencepost.bridge.access import Access, Identity, ZooKeeperRefused, ZooKeeperUnavailable
from fencepost.bridge.kafka_znodes import BROKERS_PATH, CLUSTER_ID_PATH, MIGRATION_PATH
from fencepost.bridge.strict_json import Misshaped
from fencepost.bridge.znodes import BLOCK_PATH, ON_BEHALF, ZnodeBlock
from fencepost.bridge.zookeeper_port import (
    Conflict,
    Fence,
    Migrating,
    Named,
    NoZnode,
    Outcome,
    Permission,
    Permitted,
    Refused,
    Registered,
    Seen,
    Unavailable,
    Unknown,
    Unnamed,
    Unreadable,
    Written,
    Znode,
)
from fencepost.controller.migration import NO_BLOCK
from fencepost.controller.migration_phase import Intent
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import ProducerId
from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.wire.setting_files import SettingFileError, read_setting_file, require_private

if TYPE_CHECKING:
    from fencepost.bridge.zookeeper import ZooKeeper  # it needs kazoo, which only those who upgrade install

T = TypeVar("T")

NAMED_MAX: Final = 10  # chroots, or entries of an access list, in one sentence
FAILURES: Final = (ZooKeeperUnavailable, ZooKeeperRefused)


def access_of(config: NodeConfig) -> Access:
    """How to reach the ZooKeeper that the settings ``zookeeper.*`` name. Raises ConfigError."""
    try:
        connect = access.parse_connect(config.zookeeper_connect or "")
    except access.ConnectStringInvalid as error:
        raise ConfigError(f"zookeeper.connect: {error}") from error
    sasl = None
    if config.zookeeper_sasl_username is not None and config.zookeeper_sasl_password_file is not None:
        sasl = {
            "mechanism": "DIGEST-MD5",
            "username": config.zookeeper_sasl_username,
            "password": _password(config.zookeeper_sasl_password_file),
        }
    store = _keystore(config.zookeeper_keystore)
    tls = access.Tls(ca=config.zookeeper_truststore, certificate=store, key=store)
    return Access(
        connect=connect,
        session_timeout_s=config.zookeeper_session_timeout_ms / 1000,
        sasl=sasl,
        tls=tls if config.zookeeper_tls else None,
    )


def _password(file: Path) -> str:
    try:
        return read_setting_file("zookeeper.sasl.password.file", file, is_secret=True).strip()
    except SettingFileError as error:
        raise ConfigError(str(error)) from error


def _keystore(file: Path | None) -> Path | None:
    """The file of this client's key, which the TLS library reads."""
    if file is None:
        return None
    try:
        require_private("zookeeper.ssl.keystore.location", file)
    except SettingFileError as error:
        raise ConfigError(str(error)) from error
    return file


def seen(content: bytes | None, version: int) -> Znode | Unreadable:
    """What the znode of the current block says."""
    try:
        parsed = kafka.parse_block(content, version)
    except Misshaped as error:
        return Unreadable(str(error))
    if parsed is None:
        return Znode(version)
    if isinstance(parsed, ZnodeBlock):
        return Znode(version, parsed.last)
    block_end = NO_BLOCK if parsed.block_last is None else parsed.block_last
    return Znode(version, block_end, Fence(parsed.cluster_id, Intent(block_end, parsed.zk_version)))


def block_content(block: ProducerIdBlock) -> bytes:
    """A block without a broker: see ``ON_BEHALF``."""
    return kafka.format_block(ZnodeBlock(ON_BEHALF, block.first, ProducerId(block.first + block.length - 1)))


def fence_content(fence: Fence) -> bytes:
    """Our fence. Inverse of ``seen``."""
    block_end = fence.intent.block_end
    last = None if block_end == NO_BLOCK else ProducerId(block_end)
    return kafka.format_fence(kafka.Fence(fence.cluster_id, fence.intent.zk_version, last))


def outcome(of: access.Outcome) -> Outcome:
    """What came of a write."""
    if isinstance(of, access.Written):
        return Written(of.version)
    return Conflict(of.reason) if isinstance(of, access.Conflict) else Unknown(of.reason)


def ensemble_name(identity: Identity) -> str:
    """The name that the log keeps; see ``cluster_name``."""
    members = None if identity.members is None else sorted(identity.members.values())
    place = (identity.servers if members is None else ",".join(members)) + identity.chroot
    return cluster_name(identity.cluster_id, identity.created_zxid, place)


async def explain_no_cluster(zookeeper: "ZooKeeper", identity: Identity) -> str:
    """Why a ZooKeeper without /cluster/id is refused, and where in the same ensemble there is one."""
    chroots = [each or "/" for each in await zookeeper.kafka_chroots()][:NAMED_MAX]
    there = f"; there is one below {' and '.join(chroots)}" if chroots else ""
    return (
        f"there is no {CLUSTER_ID_PATH} below {identity.chroot or '/'} of {identity.servers}, so no Kafka "
        f"cluster keeps its znodes there{there}: look at the chroot in zookeeper.connect"
    )


def cluster_name(cluster_id: str | None, created_zxid: int | None, place: str) -> str:
    """Kafka's cluster id and the transaction that wrote it; without /cluster/id only a ``place`` is left."""
    if cluster_id is None or created_zxid is None:
        return f"unnamed@{place}"
    return f"{cluster_id}@{created_zxid:#x}"


class LivePort:
    """A quorum.zookeeper_port.ZookeeperPort to a live ensemble. ``start`` before use, ``stop`` at the end."""

    def __init__(self, zookeeper: "ZooKeeper") -> None:
        self._zookeeper = zookeeper
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to connect; returns at once."""
        await self._zookeeper.start()

    async def stop(self) -> None:
        """End the session. No further results are given."""
        for task in self._tasks:
            task.cancel()
        await self._zookeeper.stop()

    def identity(self, reply: Callable[[Named], None]) -> None:
        """Implements ``ZookeeperPort.identity``."""
        self._ask(self._identity(), reply)

    def registered(self, reply: Callable[[Registered], None]) -> None:
        """Implements ``ZookeeperPort.registered``."""
        self._ask(self._registered(), reply)

    def permission(self, reply: Callable[[Permitted], None]) -> None:
        """Implements ``ZookeeperPort.permission``."""
        self._ask(self._permission(), reply)

    def kafka_migrates(self, reply: Callable[[Migrating], None]) -> None:
        """Implements ``ZookeeperPort.kafka_migrates``."""
        self._ask(self._kafka_migrates(), reply)

    def read(self, reply: Callable[[Seen], None]) -> None:
        """Implements ``ZookeeperPort.read``."""
        self._ask(self._read(), reply)

    def create(self, reply: Callable[[Outcome], None]) -> None:
        """Implements ``ZookeeperPort.create``."""
        self._ask(self._write(self._zookeeper.create(BLOCK_PATH, None)), reply)

    def write_block(self, block: ProducerIdBlock, version: int, reply: Callable[[Outcome], None]) -> None:
        """Implements ``ZookeeperPort.write_block``."""
        self._ask(self._set(block_content(block), version), reply)

    def write_fence(self, fence: Fence, version: int, reply: Callable[[Outcome], None]) -> None:
        """Implements ``ZookeeperPort.write_fence``."""
        self._ask(self._set(fence_content(fence), version), reply)

    def _ask(self, answer: Coroutine[Any, Any, T], reply: Callable[[T], None]) -> None:
        async def ask() -> None:
            reply(await answer)

        task = asyncio.get_running_loop().create_task(ask())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # what is raised here is our bug: it goes to the loop's exception handler

    async def _identity(self) -> Named:
        try:
            identity = await self._zookeeper.identity()
            if identity.cluster_id is None:
                return Unnamed(ensemble_name(identity), await explain_no_cluster(self._zookeeper, identity))
        except FAILURES as error:
            return _failed(error)
        except Misshaped as error:
            return Unreadable(str(error))
        return ensemble_name(identity)

    async def _registered(self) -> Registered:
        if not self._zookeeper.is_connected:
            return Unavailable("no connection")
        try:
            names = await self._zookeeper.children(BROKERS_PATH) or ()
        except FAILURES as error:
            return Unavailable(str(error))
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    async def _permission(self) -> Permitted:
        if not self._zookeeper.is_connected:
            return Unavailable("no connection")
        try:
            acl = await self._zookeeper.acl(BLOCK_PATH)
        except FAILURES as error:
            return Unavailable(str(error))
        if acl is None:
            return Unavailable("there is no znode")
        return Permission(",".join(map(str, acl[:NAMED_MAX])), access.is_write_granted(acl))

    async def _kafka_migrates(self) -> Migrating:
        try:
            return await self._zookeeper.get(MIGRATION_PATH) is not None
        except FAILURES as error:
            return _failed(error)

    async def _read(self, *, is_synced: bool = True) -> Seen:
        try:
            znode = await self._zookeeper.get(BLOCK_PATH, is_synced=is_synced)
        except FAILURES as error:
            return _failed(error)
        return NoZnode() if znode is None else seen(znode.data, znode.version)

    async def _set(self, content: bytes, version: int) -> Outcome:
        """A conditional write, with a look sent right behind it: among rivals that is half the way."""
        write = self._write(self._zookeeper.conditional_set(BLOCK_PATH, content, version))
        written, seen = await asyncio.gather(write, self._read(is_synced=False))
        if isinstance(written, Conflict) and isinstance(seen, Znode):
            return Conflict(written.reason, seen)
        return written

    async def _write(self, written: Coroutine[Any, Any, access.Outcome]) -> Outcome:
        try:
            return outcome(await written)
        except FAILURES as error:
            return _failed(error)


def _failed(error: ZooKeeperUnavailable | ZooKeeperRefused) -> Unavailable | Refused:
    """Which of both it was: they have different ways out."""
    return Refused(str(error)) if isinstance(error, ZooKeeperRefused) else Unavailable(str(error))
