"""The upgrade's commands, step by step: what is read, what is logged, what is written into ZooKeeper.

Resumable   each command looks at the log and at ZooKeeper and goes on from there. Run again after a crash at
            any point (quorum/crash_points.py) it ends where it would have ended.
Fence       the intent is applied before the fence is written, the fence before the switch is submitted. After
            a conflict or an unknown outcome the znode is read again. Against rivals at full speed the znode's
            block is first written again as it is: for a moment all other writers have the wrong version.
Rollback    always writes the znode: a fence that is still on its way cannot be written after it.
Source      docs/design.md 7.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.bridge.steps import Call, Steps
from fencepost.bridge.upgrade_ensemble import Ensemble, not_written, require_block, seen_after
from fencepost.bridge.zookeeper_port import Conflict, Fence, NoZnode, Seen, Unknown, Written, Znode
from fencepost.controller import migration, producer_ids
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress, InvalidRequest
from fencepost.controller.migration_phase import NEXT_COMMAND, Intent, Migration, Phase, current
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.controller.view import View
from fencepost.quorum.crash_points import Reach
from fencepost.quorum.port import Decide, Outcome, R, Submit
from fencepost.records.types import ProducerId
from fencepost.wire.k20021_migrate import LoggedFence, Migrate, Migrated, SeenZnode

FENCE_TRIES_MAX: Final = 10_000  # intents, when rivals write between an intent and its fence
FENCE_S_MAX: Final = 60.0  # no further intent after so long
WRITE_TRIES_MAX: Final = 1_000  # other conditional writes, when rivals are faster

DecideRow = Callable[[View], Decision[Migration]]


class Upgrade:
    """The steps of each command. The caller runs one command at a time."""

    def __init__(
        self,
        cluster_id: str,
        ensemble: Ensemble,
        image: Callable[[], View],
        submit: Submit,
        *,
        clock: Callable[[], float],
        reach: Reach,
        on_left: Callable[[], None],
        log: FilteringBoundLogger,
    ) -> None:
        """``on_left`` is called when ZooKeeper is not allocated through any more."""
        self._cluster_id = cluster_id
        self._zookeeper = ensemble
        self._image = image
        self._submit = submit
        self._clock = clock
        self._reach = reach
        self._on_left = on_left
        self._log = log
        self.progress = ""  # of the command that runs
        self._commands: dict[str, Callable[[Migrate], Steps[str]]] = {
            "bridge": self._bridge,
            "import": self._import,
            "fence": self._fence,
            "finalize": self._finalize,
            "rollback": self._rollback,
        }

    async def steps(self, request: Migrate) -> Migrated:
        """Run the command. Raises InvalidRequest with the reason, CoordinatorLoadInProgress: retry later."""
        if request.command == "status":
            return await self._status(request)
        self._log.info("migration_command_begun", command=request.command, dry_run=request.dry_run)
        try:
            message = await self._commands[request.command](request)
        except ApiError as refusal:
            self._log.warning("migration_command_refused", command=request.command, reason=str(refusal))
            raise
        finally:
            self.progress = ""
        self._log.info("migration_command_done", command=request.command, message=message)
        return await self._standing(request, message)

    # -- there --------------------------------------------------------------------------------------

    async def _bridge(self, request: Migrate) -> str:
        name = await self._zookeeper.name()
        decide: DecideRow = partial(migration.decide_bridge, ensemble=name)
        await self._preview(decide)
        remark = ""
        seen = await self._zookeeper.read()
        if not isinstance(seen, NoZnode):
            require_block(self._zookeeper.znode(seen))
        elif request.dry_run:
            remark = "; there is no block znode, it would be made"
        else:
            remark = "; there was no block znode, so it was made"
            await self._zookeeper.make_znode()
        if request.dry_run:
            return f"would give out the blocks of Kafka cluster {name} through its ZooKeeper{remark}"
        self._reach("bridge:znode-ready")
        await self._applied(decide)
        self._reach("bridge:phase-applied")
        return (
            f"blocks come from the ZooKeeper of Kafka cluster {name}: "
            f"brokers that write it themselves may run beside{remark}"
        )

    async def _import(self, request: Migrate) -> str:
        if request.stopped is not None:
            return await self._import_from_stopped(request)
        name = await self._zookeeper.name()
        await self._preview(partial(migration.decide_import, block_end=migration.NO_BLOCK, ensemble=name))
        znode = require_block(await self._zookeeper.look())
        self._reach("import:block-read")
        decide: DecideRow = partial(
            migration.decide_import, block_end=znode.block_end, ensemble=name, at_least=request.at_least
        )
        if request.dry_run:
            row = await self._preview(decide)
            return f"would set the floor to {row.floor}: the block in ZooKeeper {_ends(znode.block_end)}"
        row = await self._applied(decide)
        self._reach("import:floor-applied")
        return f"the floor is {row.floor}: the block in ZooKeeper {_ends(znode.block_end)}; ZooKeeper goes on"

    async def _import_from_stopped(self, request: Migrate) -> str:
        stopped = request.stopped
        if stopped is None or not (stopped.is_stopped or request.dry_run):
            raise InvalidRequest(
                "files cannot fence ZooKeeper: say that it is stopped (--zookeeper-is-stopped)"
            )
        decide: DecideRow = partial(
            migration.decide_import_from_stopped,
            block_end=stopped.block_end,
            ensemble=stopped.ensemble,
            at_least=request.at_least,
        )
        if request.dry_run:
            row = await self._preview(decide)
            return (
                f"would give out ids from {row.floor} on: the block in the files {_ends(stopped.block_end)}"
            )
        row = await self._applied(decide)
        self._on_left()
        self._reach("import:floor-applied")
        return f"the quorum gives out ids, none below {row.floor}; ZooKeeper must stay stopped"

    async def _fence(self, request: Migrate) -> str:
        name = await self._zookeeper.name()
        row = current(self._image())
        if row.phase is Phase.QUORUM and row.intent is not None:
            await self._preview(partial(migration.decide_switch, intent=row.intent))
            return f"ZooKeeper is fenced already; its last block {_ends(row.intent.block_end)}"
        some = Intent(migration.NO_BLOCK, 0)
        await self._preview(partial(migration.decide_fence_intent, intent=some, ensemble=name))
        began, known = self._clock(), None
        for tries in range(1, FENCE_TRIES_MAX + 1):
            znode = known or (await self._zookeeper.look())
            if znode.fence is not None:
                intent = self._explained(znode, znode.fence)
                return f"would switch after {intent}" if request.dry_run else (await self._switch(intent))
            require_block(znode)
            if request.dry_run:
                intent = Intent(znode.block_end, znode.version)
                await self._preview(partial(migration.decide_fence_intent, intent=intent, ensemble=name))
                return f"would fence ZooKeeper at version {znode.version}; its block {_ends(znode.block_end)}"
            fenced = await self._fence_at(znode, name, is_contended=tries > 1)
            if isinstance(fenced, Intent):
                return await self._switch(fenced)
            known = seen_after(fenced)
            self.progress = (
                f"fence: {tries} tries in {self._clock() - began:.1f} s; the last: {fenced.reason}"
            )
            if self._clock() - began > FENCE_S_MAX:
                break
        raise CoordinatorLoadInProgress(
            f"{self.progress}. Until it is fenced the quorum gives out no ids: run fence again, or rollback"
        )

    async def _fence_at(self, znode: Znode, name: str, *, is_contended: bool) -> Intent | Conflict | Unknown:
        """The intent whose fence is in ZooKeeper; or what came of the write that failed."""
        intent = Intent(znode.block_end, znode.version)
        is_logged = current(self._image()).intent == intent
        if is_contended and not is_logged and znode.block_end != migration.NO_BLOCK:
            same = _same_block(znode.block_end)
            outcome = await self._zookeeper.write_block(same, znode.version)
            if not isinstance(outcome, Written):
                return not_written(outcome)
            intent = Intent(znode.block_end, outcome.version)
        self._reach("fence:block-read")
        await self._applied(partial(migration.decide_fence_intent, intent=intent, ensemble=name))
        self._on_left()
        self._reach("fence:intent-applied")
        outcome = await self._zookeeper.write_fence(Fence(self._cluster_id, intent))
        return intent if isinstance(outcome, Written) else not_written(outcome)

    async def _switch(self, intent: Intent) -> str:
        """The fence of ``intent`` is in ZooKeeper."""
        self._reach("fence:fence-written")
        row = await self._applied(partial(migration.decide_switch, intent=intent))
        self._reach("fence:switch-applied")
        return (
            f"ZooKeeper is fenced, its last block {_ends(intent.block_end)}; "
            f"the quorum gives out ids, none below {row.floor}"
        )

    def _explained(self, znode: Znode, fence: Fence) -> Intent:
        """The logged intent, if this is its fence. Raises InvalidRequest."""
        row = current(self._image())
        in_place = fence.intent == row.intent and znode.version == fence.intent.zk_version + 1
        if fence.cluster_id == self._cluster_id and row.phase is Phase.FENCING and in_place:
            return fence.intent
        self._require_ours(fence)
        raise InvalidRequest(
            f"ZooKeeper is fenced at version {znode.version} for {fence.intent}, but the log holds "
            f"{row.intent} in phase {row.phase.label}: the znode was written by hand"
        )

    async def _finalize(self, request: Migrate) -> str:
        if request.dry_run:
            await self._preview(migration.decide_finalize)
            return "would leave ZooKeeper for good: after it there is no rollback"
        await self._applied(migration.decide_finalize)
        self._reach("finalize:phase-applied")
        return "the upgrade is over; ZooKeeper is not needed any more"

    # -- and back -----------------------------------------------------------------------------------

    async def _rollback(self, request: Migrate) -> str:
        name = await self._zookeeper.name()
        stop: DecideRow = partial(migration.decide_stop, ensemble=name)
        if request.dry_run:
            row = await self._preview(stop)
            if row.phase is Phase.BRIDGE:
                return "ZooKeeper gives out the ids; nothing would be written there"
            znode = await self._zookeeper.look()
            self._require_ours(znode.fence)
            block = migration.block_to_hand_back(self._image(), znode.block_end)
            return f"would let ZooKeeper go on from {block.first + block.length}"
        row = await self._applied(stop)
        self._on_left()
        self._reach("rollback:stop-applied")
        if row.phase is Phase.BRIDGE:
            return "ZooKeeper gives out the ids; nothing had to be written there"
        known = None
        for tries in range(1, WRITE_TRIES_MAX + 1):
            znode = known or (await self._zookeeper.look())
            self._require_ours(znode.fence)
            block = migration.block_to_hand_back(self._image(), znode.block_end)
            outcome = await self._zookeeper.write_block(block, znode.version)
            if isinstance(outcome, Written):
                self._reach("rollback:block-written")
                await self._applied(migration.decide_rolled_back)
                self._reach("rollback:phase-applied")
                return f"ZooKeeper gives out the ids again, from {block.first + block.length} on"
            known = seen_after(outcome)
            self.progress = f"rollback: {tries} tries; the last: {not_written(outcome).reason}"
        raise CoordinatorLoadInProgress(f"{self.progress}; run rollback again")

    def _require_ours(self, fence: Fence | None) -> None:
        """Raises InvalidRequest for the fence of another cluster."""
        if fence is not None and fence.cluster_id != self._cluster_id:
            raise InvalidRequest(
                f"ZooKeeper is fenced by fencepost cluster {fence.cluster_id}, this is {self._cluster_id}"
            )

    # -- where it stands ----------------------------------------------------------------------------

    async def _status(self, request: Migrate) -> Migrated:
        standing = await self._standing(request, "")
        row = current(self._image())
        blocking: list[str] = []
        seen: Seen | None = None
        if not self._zookeeper.is_configured:
            if row.phase not in (Phase.NONE, Phase.QUORUM, Phase.FINALIZED):
                blocking.append("zookeeper.connect is not set on the active controller")
        elif row.phase not in (Phase.NONE, Phase.FINALIZED):
            try:
                migration.require_same_ensemble(row, (await self._zookeeper.name()))
                seen = await self._zookeeper.read()
                blocking += self._obstacles(row, seen)
            except ApiError as refusal:
                if row.phase is not Phase.QUORUM:  # then ZooKeeper need not be there
                    blocking.append(str(refusal))
        znode = None
        if isinstance(seen, Znode):
            znode = SeenZnode(seen.version, seen.block_end, seen.fence is not None)
        return Migrated(
            phase=standing.phase,
            next_command=standing.next_command,
            floor=standing.floor,
            producer_id_end=standing.producer_id_end,
            ensemble=standing.ensemble,
            fence=standing.fence,
            blocking=tuple(blocking),
            zookeeper=znode,
            progress=self.progress,
            dry_run=request.dry_run,
            message=_sentence(row, standing.producer_id_end),
        )

    def _obstacles(self, row: Migration, seen: Seen) -> list[str]:
        """Why the next command cannot work. Raises ApiError for one more reason."""
        if row.phase is Phase.QUORUM:
            if isinstance(seen, Znode) and row.intent is None:
                return ["ZooKeeper was said to be stopped, but it answers: brokers can take ids from it"]
            if isinstance(seen, Znode) and (seen.fence is None or seen.fence.intent != row.intent):
                return [
                    "the fence is gone from ZooKeeper: brokers can take ids from it that are given out here"
                ]
            return []
        if isinstance(seen, NoZnode) and row.phase is Phase.WAITING:
            return []
        znode = self._zookeeper.znode(seen)
        if row.phase is Phase.ROLLING_BACK:
            self._require_ours(znode.fence)
        elif row.phase is Phase.FENCING and znode.fence is not None:
            self._explained(znode, znode.fence)
        else:
            require_block(znode)
        return []

    async def _standing(self, request: Migrate, message: str) -> Migrated:
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

        stood: Migrated = await self._submitted(standing)
        return stood

    # -- deciding -----------------------------------------------------------------------------------

    async def _applied(self, decide: DecideRow) -> Migration:
        """Decide, and wait until it is applied. Raises ApiError."""
        return await self._submitted(lambda view, _now_ms: decide(view))

    async def _preview(self, decide: DecideRow) -> Migration:
        """What would come of it; nothing is written. Raises ApiError."""
        return await self._submitted(lambda view, _now_ms: Decision((), decide(view).response))

    async def _submitted(self, decide: Decide[R]) -> R:
        def submit(applied: Callable[[Outcome[R]], None]) -> None:
            self._submit(decide, lambda outcome, _ms: applied(outcome))

        outcome = await Call(submit)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome


def _same_block(block_end: int) -> ProducerIdBlock:
    """The block that the znode holds already, for no broker: none of its ids is given out by writing it."""
    end = migration.after(block_end)
    length = min(end, migration.ZOOKEEPER_BLOCK_LENGTH)
    return ProducerIdBlock(ProducerId(end - length), length)


def _ends(block_end: int) -> str:
    return f"ends at {block_end}" if block_end >= 0 else "was never written"


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
