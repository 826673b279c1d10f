"""The ZooKeeper of an upgrade as steps ask it: the answer is what is needed, or an ApiError says why not."""

from functools import partial
from typing import Final, TypeVar

from fencepost.bridge.steps import Call
from fencepost.bridge.upgrade_ways import Obstacle, Obstructed
from fencepost.bridge.zookeeper_port import (
    Conflict,
    Fence,
    NoZnode,
    Outcome,
    Permission,
    Refused,
    Seen,
    Unavailable,
    Unknown,
    Unnamed,
    Unreadable,
    Znode,
    ZookeeperPort,
)
from fencepost.controller import migration
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress
from fencepost.controller.migration import NO_BLOCK
from fencepost.controller.migration_phase import Intent, Migration, Phase
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import ProducerId

CREATE_TRIES_MAX: Final = 5
NO_BLOCK_SAID: Final = (
    "there is no producer-id block in ZooKeeper. If this Kafka cluster never gave out a producer id, say so: "
    "--no-block-yet. If it did, this is the wrong ZooKeeper or chroot: look at zookeeper.connect"
)

T = TypeVar("T")


class Ensemble:
    """What ``zookeeper.connect`` names, or nothing."""

    def __init__(self, port: ZookeeperPort | None) -> None:
        self._port = port

    @property
    def is_configured(self) -> bool:
        """Whether there is a port."""
        return self._port is not None

    @property
    def port(self) -> ZookeeperPort:
        """Raises Obstructed if there is none."""
        if self._port is None:
            raise Obstructed(Obstacle.NOT_CONFIGURED, "zookeeper.connect is not set on the active controller")
        return self._port

    async def name(self, began_with: str) -> str:
        """The ensemble's name. ``began_with``: the name in the log, the only one that a place may have.

        Raises   Obstructed, also where there is no /cluster/id; CoordinatorLoadInProgress.
        """
        name = await Call(self.port.identity)
        if isinstance(name, Unreadable):
            raise Obstructed(Obstacle.ELSEWHERE, name.reason)
        if isinstance(name, Unnamed):
            if name.name == began_with:  # an upgrade that began when /cluster/id was not required
                return began_with
            raise Obstructed(Obstacle.ELSEWHERE, name.reason)
        return require_answered(name)

    async def look_at(self, row: Migration) -> Znode:
        """The znode now, if this is the ensemble of ``row``. Raises as ``name`` and ``znode``."""
        migration.require_same_ensemble(row, await self.name(row.ensemble))
        return await self.look()

    async def look(self) -> Znode:
        """The znode now. Raises as ``znode``."""
        return self.znode(await self.read())

    async def read(self) -> Seen:
        """What the znode holds. Raises Obstructed if no ensemble is configured."""
        return await Call(self.port.read)

    async def registered(self) -> tuple[int, ...]:
        """Ids of the registered brokers; none if ZooKeeper is not reached."""
        ids = () if self._port is None else await Call(self._port.registered)
        return () if isinstance(ids, Unavailable) else ids

    async def require_no_migration(self) -> None:
        """Raises Obstructed while Kafka's own migration is under way; as ``require_answered``."""
        if require_answered(await Call(self.port.kafka_migrates)):
            raise Obstructed(
                Obstacle.KAFKA_MIGRATES,
                "/migration is there: Kafka's own migration to KRaft writes the block without a condition, "
                "over a fence, too",
            )

    async def permission(self) -> Permission | None:
        """Who may write the znode; None if that is not known."""
        found = None if self._port is None else await Call(self._port.permission)
        return None if isinstance(found, Unavailable) else found

    async def write_block(self, block: ProducerIdBlock, version: int) -> Outcome:
        """See ZookeeperPort."""
        call: Call[Outcome] = Call(partial(self.port.write_block, block, version))
        return await call

    async def write_fence(self, fence: Fence, version: int) -> Outcome:
        """See ZookeeperPort."""
        call: Call[Outcome] = Call(partial(self.port.write_fence, fence, version))
        return await call

    async def write_again(self, znode: Znode) -> Outcome:
        """Write what the znode holds already: no id is given out, and who may not write is refused.

        Where there is no block yet it is the first one, for no broker: its ids are wasted.
        """
        if znode.fence is not None:
            return await self.write_fence(znode.fence, znode.version)
        return await self.write_block(same_block(znode.block_end), znode.version)

    @staticmethod
    def znode(seen: Seen) -> Znode:
        """Raises Obstructed if it cannot be read, CoordinatorLoadInProgress if no server answers."""
        if isinstance(seen, NoZnode):
            raise Obstructed(
                Obstacle.GONE,
                "the znode /latest_producer_id_block is gone, and with it which ids brokers took themselves",
            )
        if isinstance(seen, Unreadable):
            raise Obstructed(Obstacle.UNREADABLE, seen.reason)
        return require_answered(seen)

    async def make_znode(self) -> None:
        """Make the znode, unless it is there. Raises Obstructed, CoordinatorLoadInProgress."""
        for _ in range(CREATE_TRIES_MAX):
            require_answered(await Call(self.port.create))
            if not isinstance(await self.read(), NoZnode):
                return
        raise CoordinatorLoadInProgress("the znode /latest_producer_id_block could not be made; try again")


def require_answered(answer: T | Refused | Unavailable) -> T:
    """Raises Obstructed if ZooKeeper refused, CoordinatorLoadInProgress if it was not reached."""
    if isinstance(answer, (Refused, Unavailable)):
        raise unanswered(answer)
    return answer


def unanswered(answer: Refused | Unavailable) -> ApiError:
    """What is raised for it; while ZooKeeper does not answer clients retry."""
    if isinstance(answer, Refused):
        return Obstructed(Obstacle.FORBIDDEN, f"ZooKeeper refuses: {answer.reason}")
    return CoordinatorLoadInProgress(f"ZooKeeper does not answer: {answer.reason}")


def not_written(outcome: Conflict | Unknown | Refused | Unavailable) -> Conflict | Unknown:
    """Raises as ``require_answered``."""
    if isinstance(outcome, (Refused, Unavailable)):
        raise unanswered(outcome)
    return outcome


def seen_after(outcome: Outcome) -> Znode | None:
    """What a write that conflicted found there."""
    return outcome.seen if isinstance(outcome, Conflict) else None


def require_unfenced(znode: Znode) -> Znode:
    """The znode, if it holds no fence. Raises Obstructed."""
    if znode.fence is not None:
        raise Obstructed(
            Obstacle.OTHERS_FENCE,
            f"ZooKeeper is fenced by fencepost cluster {znode.fence.cluster_id} "
            f"since version {znode.version}",
        )
    return znode


def require_block(znode: Znode) -> Znode:
    """Raises Obstructed unless Kafka's own loop would go on from here."""
    require_unfenced(znode)
    if znode.is_exhausted:
        raise Obstructed(
            Obstacle.UNREADABLE,
            f"the block in ZooKeeper ends at {znode.block_end}, where all producer ids end, and no fence of "
            "this cluster explains it: there is nothing to go on from. Is it another program's fence?",
        )
    return znode


def require_block_or_word(seen: Znode | NoZnode, *, no_block_yet: bool, end: int) -> None:
    """Raises Obstructed where there is no block, unless the operator says that there never was one.

    ``end``: the first id that the log does not know as given out. Above 0 there was a block.
    """
    if isinstance(seen, Znode) and seen.block_end != NO_BLOCK:
        return
    if end > 0:
        lost = Obstacle.GONE if isinstance(seen, NoZnode) else Obstacle.UNREADABLE
        raise Obstructed(
            lost,
            f"there is no producer-id block in ZooKeeper, but ids up to {end - 1} are given out: it was "
            "deleted, and with it which ids brokers took themselves",
        )
    if not no_block_yet:
        raise Obstructed(Obstacle.NO_BLOCK, NO_BLOCK_SAID)


def require_ours(fence: Fence | None, cluster_id: str) -> None:
    """Raises Obstructed for the fence of another cluster."""
    if fence is not None and fence.cluster_id != cluster_id:
        raise Obstructed(
            Obstacle.OTHERS_FENCE,
            f"ZooKeeper is fenced by fencepost cluster {fence.cluster_id}, this is {cluster_id}",
        )


def explained(znode: Znode, fence: Fence, row: Migration, cluster_id: str) -> Intent:
    """The logged intent, if this is its fence. Raises Obstructed."""
    in_place = fence.intent == row.intent and znode.version == fence.intent.zk_version + 1
    if fence.cluster_id == cluster_id and row.phase is Phase.FENCING and in_place:
        return fence.intent
    require_ours(fence, cluster_id)
    raise Obstructed(
        Obstacle.UNREADABLE,
        f"ZooKeeper is fenced at version {znode.version} for {fence.intent}, but the log holds "
        f"{row.intent} in phase {row.phase.label}: the znode was written by hand",
    )


def same_block(block_end: int) -> ProducerIdBlock:
    """A block for no broker that ends where the last one ends; the first one where there is none."""
    end = migration.after(block_end) or migration.ZOOKEEPER_BLOCK_LENGTH
    length = min(end, migration.ZOOKEEPER_BLOCK_LENGTH)
    return ProducerIdBlock(ProducerId(end - length), length)
