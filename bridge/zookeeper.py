"""A live ensemble: reads, conditional writes, changes. The event loop never waits for it.

Writes      are sent once. A write without a definite response is Unknown, whatever the error, and is never
            repeated here; what was not even queued is ZooKeeperUnavailable. See ``access.Unknown``.
Reads       see every write that was acknowledged before them: each is sent behind a ``sync``, unless the
            caller turns that off. They are repeated until there is an answer or the time is over.

Source      ZooKeeper Programmer's Guide (consistency guarantees); docs/design.md 7.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from structlog.typing import FilteringBoundLogger

from fencepost.bridge.access import (
    Access,
    AclEntry,
    Conflict,
    Identity,
    Outcome,
    Unknown,
    Written,
    ZooKeeperRefused,
    ZooKeeperUnavailable,
)
from fencepost.bridge.data_tree import Znode, Znodes
from fencepost.bridge.ensemble import CONFIG_PATH, members
from fencepost.bridge.kafka_znodes import CLUSTER_ID_PATH, parse_cluster_id
from fencepost.bridge.session import REFUSALS, Session, Unanswered, said
from fencepost.records.invariant import invariant

CHROOT_DEPTH_MAX: Final = 4  # names in a chroot that is looked for
CHROOT_ZNODES_MAX: Final = 1_000  # that are looked at for one
CHROOT_S_MAX: Final = 3.0  # a command waits for it
READ_RETRY_S: Final = 0.05
CHANGES_POLL_S: Final = 2.0  # a watch may be lost unseen
WALK_AT_ONCE: Final = 32
ZNODES_MAX: Final = 2_000_000
PERMISSIONS: Final = {"c": 4, "d": 8, "r": 1, "w": 2, "a": 16}
CLUSTER_NAME, CLUSTER_ID_NAME = CLUSTER_ID_PATH[1:].split("/")
NO_CHROOTS: Final = frozenset(
    ("zookeeper", "admin", "brokers", "cluster", "config", "consumers", "isr_change_notification")
)
"""Names of ZooKeeper's own znodes and of Kafka's, below which no cluster keeps its own."""


class ZooKeeper:
    """An ensemble. ``start`` before use; operations may overlap; ``stop`` at the end."""

    def __init__(self, access: Access, log: FilteringBoundLogger) -> None:
        """Raises ModuleNotFoundError if SASL is configured and pure-sasl is not installed."""
        self._access = access
        self._session = Session(access, log.bind(ensemble=str(access.connect)))

    @property
    def is_connected(self) -> bool:
        """Whether a request would be sent now."""
        return self._session.is_connected

    async def start(self) -> None:
        """Begin to connect; returns at once."""
        self._session.begin()

    async def stop(self) -> None:
        """End the session. Writes in flight are Unknown."""
        await self._session.end()

    async def get(self, path: str, *, is_synced: bool = True) -> Znode | None:
        """The znode, no older than what was acknowledged before; None if there is none.

        Without the ``sync`` it takes half as long, and is no older than this client's earlier requests.
        Raises   ZooKeeperUnavailable after ``operation_timeout_s``, ZooKeeperRefused.
        """
        found = await self._read(
            self._full(path), lambda kazoo, full: kazoo.get_async(full), is_synced=is_synced
        )
        return None if found is None else _znode(*found)

    async def children(self, path: str) -> tuple[str, ...] | None:
        """Names of the znodes below, in order; None if there is no such znode. Raises as ``get``."""
        found = await self._read(self._full(path), lambda kazoo, full: kazoo.get_children_async(full))
        return None if found is None else tuple(sorted(found))

    async def acl(self, path: str) -> tuple[AclEntry, ...] | None:
        """The znode's access list; None if there is no such znode. Raises as ``get``."""
        found = await self._read(self._full(path), lambda kazoo, full: kazoo.get_acls_async(full))
        if found is None:
            return None
        return tuple(AclEntry(each.id.scheme, each.id.id, _letters(each.perms)) for each in found[0])

    async def kafka_chroots(self) -> tuple[str, ...]:
        """Paths of the ensemble below which there is a /cluster/id, "" for the top, in order.

        Looks ``CHROOT_DEPTH_MAX`` names deep, at ``CHROOT_ZNODES_MAX`` znodes, for ``CHROOT_S_MAX``.
        Raises   as ``get``.
        """
        found: list[str] = []
        level, left = [""], CHROOT_ZNODES_MAX
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CHROOT_S_MAX
        for _ in range(CHROOT_DEPTH_MAX + 1):
            below: list[str] = []
            while level and left > 0 and loop.time() < deadline:
                some, level = level[:WALK_AT_ONCE], level[WALK_AT_ONCE:]
                left -= len(some)
                for path, names in zip(some, await self._names_below(some), strict=True):
                    below += [f"{path}/{name}" for name in names if name not in NO_CHROOTS]
                    if CLUSTER_NAME in names:
                        (inside,) = await self._names_below([f"{path}/{CLUSTER_NAME}"])
                        found += [path] if CLUSTER_ID_NAME in inside else []
            level = below
        return tuple(sorted(found))

    async def _names_below(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """Of the znodes below each of these, paths of the whole ensemble; none below one not to be read."""

        async def one(path: str) -> tuple[str, ...]:
            try:
                found = await self._read(
                    path or "/", lambda kazoo, full: kazoo.get_children_async(full), is_synced=False
                )
            except ZooKeeperRefused:
                return ()
            return tuple(sorted(found or ()))

        return await asyncio.gather(*map(one, paths))

    async def conditional_set(self, path: str, content: bytes, version: int) -> Outcome:
        """Replace the data of a znode that is at ``version``.

        Raises   ZooKeeperUnavailable if it was not sent, ZooKeeperRefused if it was refused: not done.
                 InvariantViolation for a version below 0: to ZooKeeper -1 is no condition.
        """
        invariant(version >= 0, "a conditional write needs a version", path=path, version=version)
        return await self._write(
            path,
            lambda kazoo, full: kazoo.set_async(full, content, version),
            lambda stat: Written(stat.version, stat.mzxid),
        )

    async def create(self, path: str, content: bytes | None) -> Outcome:
        """Make a persistent znode. Conflict: there is one already, or none above. Raises as above."""
        return await self._write(
            path, lambda kazoo, full: kazoo.create_async(full, content), lambda _: Written(0, None)
        )

    async def changes(self, path: str) -> AsyncIterator[Znode | None]:
        """The znode now, and again whenever it is seen changed; gaps in its version went unseen.

        While the ensemble cannot be reached it waits. Raises ZooKeeperRefused.
        """
        full = self._full(path)
        changed = asyncio.Event()

        def report(_: object) -> None:  # one object, so that kazoo keeps one watch
            self._session.soon(changed.set)

        def look(kazoo: Any, full: str) -> Any:
            return kazoo.exists_async(full, watch=report)

        seen: list[Znode | None] = []
        while True:
            changed.clear()
            with contextlib.suppress(ZooKeeperUnavailable):
                await self._read(full, look)
                found = await self.get(path)
                if seen != [found]:
                    yield found
                seen = [found]
            await _first_of(changed.wait(), self._session.changed(), timeout_s=CHANGES_POLL_S)

    async def read_tree(self, path: str = "/") -> tuple[Znodes, tuple[str, ...]]:
        """Every znode from ``path`` down, and the paths that we may not read. Not of one moment.

        Raises   ZooKeeperUnavailable, or ZooKeeperRefused if there are more than ``ZNODES_MAX``.
        """
        found: Znodes = {}
        forbidden: list[str] = []
        await self.get(path)  # what is read after it is no older
        level = [path]
        while level:
            below: list[str] = []
            for first in range(0, len(level), WALK_AT_ONCE):
                some = level[first : first + WALK_AT_ONCE]
                for each, seen in zip(some, await asyncio.gather(*map(self._look, some)), strict=True):
                    if seen is None:
                        forbidden.append(each)
                    elif seen[0] is not None:
                        found[each] = seen[0]
                        below += [f"{each.rstrip('/')}/{name}" for name in seen[1]]
            if len(found) + len(below) > ZNODES_MAX:
                raise ZooKeeperRefused(f"more than {ZNODES_MAX} znodes below {path}")
            level = below
        return found, tuple(forbidden)

    async def identity(self) -> Identity:
        """Which ensemble this is. Raises as ``get``, and Misshaped for an id that Kafka did not write."""
        connect = self._access.connect
        cluster = await self.get(CLUSTER_ID_PATH)
        config = await self._read(CONFIG_PATH, lambda kazoo, full: kazoo.get_async(full))
        return Identity(
            cluster_id=None if cluster is None else parse_cluster_id(cluster.data),
            created_zxid=None if cluster is None else cluster.created_zxid,
            chroot=connect.chroot,
            members=None if config is None else members({CONFIG_PATH: _znode(*config)}),
            servers=connect.servers,
        )

    async def _read(self, full: str, submit: Callable[[Any, str], Any], *, is_synced: bool = True) -> Any:
        """kazoo's answer; None: there is no such znode."""
        deadline = self._deadline()
        while True:
            try:
                sync = (
                    await self._session.queue(lambda kazoo: kazoo.sync_async(full), deadline)
                    if is_synced
                    else None
                )
                request = await self._session.queue(lambda kazoo: submit(kazoo, full), deadline)
                if sync is not None:
                    await sync.answer(deadline)  # else the answer may come from a server that lags behind
                return await request.answer(deadline)
            except NoNodeError:
                return None
            except REFUSALS as error:
                raise ZooKeeperRefused(f"{full} may not be read: {said(error)}") from error
            except Unanswered as error:
                if asyncio.get_running_loop().time() + READ_RETRY_S >= deadline:
                    raise ZooKeeperUnavailable(f"{full}: {error}") from error
                await asyncio.sleep(READ_RETRY_S)

    async def _write(
        self, path: str, submit: Callable[[Any, str], Any], done: Callable[[Any], Written]
    ) -> Outcome:
        full = self._full(path)
        deadline = self._deadline()
        request = await self._session.queue(lambda kazoo: submit(kazoo, full), deadline)
        try:
            return done(await request.answer(deadline))
        except (BadVersionError, NodeExistsError, NoNodeError) as error:
            return Conflict(said(error))
        except REFUSALS as error:
            raise ZooKeeperRefused(f"{full} may not be written: {said(error)}") from error
        except Unanswered as error:
            return Unknown(f"{full}: {error}")

    async def _look(self, path: str) -> tuple[Znode | None, list[str]] | None:
        """A znode and the names below it; None if we may not read it."""
        full = self._full(path)
        try:
            found = await self._read(full, lambda kazoo, full: kazoo.get_async(full), is_synced=False)
            if found is None:
                return None, []
            znode, names = _znode(*found), None
            if found[1].numChildren:
                names = await self._read(
                    full, lambda kazoo, full: kazoo.get_children_async(full), is_synced=False
                )
        except ZooKeeperRefused:
            return None
        return znode, sorted(names or ())

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._access.operation_timeout_s

    def _full(self, path: str) -> str:
        return (self._access.connect.chroot + path).rstrip("/") or "/"


async def _first_of(*waits: Any, timeout_s: float) -> None:
    """Returns when one of them does, or after ``timeout_s``."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _letters(permissions: int) -> str:
    """As ZooKeeper's shell shows them."""
    return "".join(letter for letter, bit in PERMISSIONS.items() if permissions & bit)


def _znode(data: bytes | None, stat: Any) -> Znode:
    return Znode(data, stat.version, stat.mzxid, stat.czxid, stat.ephemeralOwner != 0)
