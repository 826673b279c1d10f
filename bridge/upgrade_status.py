"""Where the upgrade stands, what is in its way, what stands still, and what an operator can do.

Seen        the log, and ZooKeeper as it is now. Nothing is written.
"""

from typing import Final, NamedTuple

from fencepost.bridge.upgrade_ensemble import (
    NO_BLOCK_SAID,
    Ensemble,
    explained,
    require_block,
    require_block_or_word,
    require_ours,
)
from fencepost.bridge.upgrade_log import UpgradeLog
from fencepost.bridge.upgrade_ways import Obstacle, Obstructed, ways
from fencepost.bridge.zookeeper_port import Znode
from fencepost.controller import migration, producer_ids
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress
from fencepost.controller.migration_phase import NEXT_COMMAND, THROUGH_ZOOKEEPER, Migration, Phase, current
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.controller.view import View
from fencepost.wire.k20021_migrate import LoggedFence, Migrate, Migrated, SeenZnode

BEFORE_THE_FENCE: Final = (Phase.WAITING, *THROUGH_ZOOKEEPER, Phase.FENCING)
STANDING_MAX: Final = 1_000  # ids in one answer, which is one document of 64 KiB
NAMED_MAX: Final = 20  # of them in a sentence


class Trouble(NamedTuple):
    """An obstacle, in words."""

    obstacle: Obstacle
    reason: str


class UpgradeStatus:
    """What ``migrate status`` says, and the standing that every command ends with."""

    def __init__(self, cluster_id: str, ensemble: Ensemble, log: UpgradeLog) -> None:
        self._cluster_id = cluster_id
        self._zookeeper = ensemble
        self._log = log

    async def standing(self, request: Migrate, message: str) -> Migrated:
        """Where the log says that it stands. Raises ApiError."""

        def standing(view: View, _now_ms: int) -> Decision[Migrated]:
            row = current(view)
            fence = None if row.intent is None else LoggedFence(row.intent.block_end, row.intent.zk_version)
            return Decision(
                (),
                Migrated(
                    phase=row.phase.label,
                    next_command=NEXT_COMMAND[row.phase],
                    floor=row.floor,
                    producer_id_end=producer_ids.latest(view).end,
                    ensemble=row.ensemble,
                    fence=fence,
                    dry_run=request.dry_run,
                    message=message,
                ),
            )

        stood: Migrated = await self._log.submitted(standing)
        return stood

    async def status(self, request: Migrate, progress: str, refused: str) -> Migrated:
        """All of it. ``refused``: why ZooKeeper refused the last command, if it did."""
        standing = await self.standing(request, "")
        row = self._log.row
        seen, trouble = await self._look(row, refused)
        waiting = await self._standing_still(row, seen)
        blocking = [] if trouble is None else [trouble.reason]
        if waiting:
            blocking.append(
                f"{brokers_are(waiting)} registered in ZooKeeper, which is fenced: no new producer ids there"
            )
        block = migration.block_to_hand_back(self._log.image(), migration.NO_BLOCK)
        znode = None if seen is None else SeenZnode(seen.version, seen.block_end, seen.fence is not None)
        return Migrated(
            phase=standing.phase,
            next_command=standing.next_command,
            floor=standing.floor,
            producer_id_end=standing.producer_id_end,
            ensemble=standing.ensemble,
            fence=standing.fence,
            blocking=tuple(blocking),
            ways=ways(row.phase, None if trouble is None else trouble.obstacle, block),
            standing_still=waiting[:STANDING_MAX],
            zookeeper=znode,
            progress=progress,
            dry_run=request.dry_run,
            message=_sentence(row, standing.producer_id_end),
        )

    async def _look(self, row: Migration, refused: str) -> tuple[Znode | None, Trouble | None]:
        """The znode, if it can be seen, and what is in the way of the next command."""
        if row.phase in (Phase.NONE, Phase.FINALIZED):
            return None, None
        is_said_to_be_stopped = row.phase is Phase.QUORUM and row.intent is None
        znode: Znode | None = None
        try:
            znode = await self._zookeeper.look_at(row)
            if is_said_to_be_stopped:
                reason = "ZooKeeper was said to be stopped, but it answers: brokers can take ids from it"
                return znode, Trouble(Obstacle.ANSWERS, reason)
            self.require_in_order(row, znode)
            if row.phase in BEFORE_THE_FENCE and znode.fence is None:
                await self._zookeeper.require_no_migration()
        except Obstructed as refusal:
            if is_said_to_be_stopped and refusal.obstacle is Obstacle.NOT_CONFIGURED:
                return None, None
            if row.phase is Phase.WAITING and refusal.obstacle is Obstacle.GONE:
                return None, Trouble(Obstacle.GONE, NO_BLOCK_SAID)
            return znode, Trouble(refusal.obstacle, str(refusal))
        except CoordinatorLoadInProgress as silence:
            return None, None if is_said_to_be_stopped else Trouble(Obstacle.DOWN, str(silence))
        except ApiError as refusal:  # the ensemble is another one
            return None, Trouble(Obstacle.ELSEWHERE, str(refusal))
        if not self._next_step_writes(row, znode):
            return znode, None
        return znode, Trouble(Obstacle.FORBIDDEN, refused) if refused else await self._forbidden()

    def require_in_order(self, row: Migration, znode: Znode) -> None:
        """Raises Obstructed if the next command of this phase cannot go on from this znode."""
        if row.phase is Phase.QUORUM:
            self.require_fenced(row, znode)
        elif row.phase is Phase.FENCING and znode.fence is not None:
            explained(znode, znode.fence, row, self._cluster_id)
        elif row.phase is Phase.ROLLING_BACK and znode.fence is not None:
            require_ours(znode.fence, self._cluster_id)
        else:
            end = producer_ids.latest(self._log.image()).end
            is_rolling_back = row.phase is Phase.ROLLING_BACK
            require_block_or_word(
                require_block(znode), no_block_yet=is_rolling_back, end=0 if is_rolling_back else end
            )

    def require_fenced(self, row: Migration, znode: Znode) -> None:
        """Raises Obstructed if the logged fence is not the one in the znode."""
        fence = znode.fence
        require_ours(fence, self._cluster_id)
        if fence is None and znode.is_exhausted:
            require_block(znode)
        if fence is None or fence.intent != row.intent:
            raise Obstructed(
                Obstacle.UNFENCED,
                "the fence is gone from ZooKeeper: brokers can take ids from it that are given out here",
            )

    def _next_step_writes(self, row: Migration, znode: Znode) -> bool:
        if row.phase is Phase.FENCING:
            return znode.fence is None  # else the switch is all that is left
        if row.phase is Phase.ROLLING_BACK:
            return not goes_on(row, znode, migration.block_to_hand_back(self._log.image(), znode.block_end))
        return row.phase in (Phase.WAITING, *THROUGH_ZOOKEEPER)

    async def _forbidden(self) -> Trouble | None:
        """Whether the access list lets no one write."""
        permission = await self._zookeeper.permission()
        if permission is None or permission.is_granted is not False:
            return None
        reason = f"the access list of /latest_producer_id_block lets no one write it: {permission.acl}"
        return Trouble(Obstacle.FORBIDDEN, reason)

    async def require_permission(self) -> None:
        """For steps that prove nothing by writing. Raises Obstructed."""
        trouble = await self._forbidden()
        if trouble is not None:
            raise Obstructed(trouble.obstacle, trouble.reason)

    async def _standing_still(self, row: Migration, seen: Znode | None) -> tuple[int, ...]:
        """Brokers that are registered at a fenced ZooKeeper."""
        is_fenced = seen is not None and seen.fence is not None
        if not is_fenced and row.phase is not Phase.FINALIZED:
            return ()
        return await self._zookeeper.registered()


def goes_on(row: Migration, znode: Znode, block: ProducerIdBlock) -> bool:
    """Whether ZooKeeper goes on above all ids by itself.

    It is at ``block`` or above, and no fence of ours is there, or can still be written: its version is over.
    """
    is_past_fence = row.intent is None or znode.version > row.intent.zk_version
    return znode.fence is None and is_past_fence and znode.block_end + 1 >= block.first + block.length


def brokers_are(ids: tuple[int, ...]) -> str:
    """Their names, with the verb."""
    names = ", ".join(map(str, ids[:NAMED_MAX]))
    more = f" and {len(ids) - NAMED_MAX} more" if len(ids) > NAMED_MAX else ""
    return f"broker {names} is" if len(ids) == 1 else f"brokers {names}{more} are"


def _sentence(row: Migration, end: int) -> str:
    """The phase as a sentence."""
    bridged = f"blocks come from the ZooKeeper of Kafka cluster {row.ensemble}"
    return {
        Phase.NONE: "the quorum gives out producer ids; this cluster is not upgrading from ZooKeeper",
        Phase.WAITING: "this cluster gives out no producer ids until the bridge",
        Phase.BRIDGE: bridged,
        Phase.IMPORTED: f"{bridged}; the floor is {row.floor}",
        Phase.FENCING: "ZooKeeper's allocation is being fenced; until then this cluster gives out no ids",
        Phase.QUORUM: f"the quorum gives out producer ids, next {end}; a rollback is still possible",
        Phase.FINALIZED: f"the upgrade is over: the quorum gives out producer ids, next {end}",
        Phase.ROLLING_BACK: "on the way back to ZooKeeper; until then this cluster gives out no ids",
    }[row.phase]
