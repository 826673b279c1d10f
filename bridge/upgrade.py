"""The upgrade's commands, step by step: what is read, what is logged, what is written into ZooKeeper.

Resumable   each command looks at the log and at ZooKeeper and goes on from there. Run again after a crash at
            any point (quorum/crash_points.py) it ends where it would have ended.
Fence       the intent is applied before the fence is written, the fence before the switch is submitted. After
            a conflict or an unknown outcome the znode is read again.
Proof       before an intent is logged the block is written again as it is: who may not write is refused while
            ZooKeeper still allocates, and for a moment all rivals have the wrong version. A rollback of the
            quorum does the same before its stop record.
Rollback    writes the znode, so that a fence that is still on its way cannot be written after it; only where
            that is refused, and the znode has gone past the fence's version, the phase goes back without.
Source      docs/design.md 7.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.bridge.steps import Steps
from fencepost.bridge.upgrade_ensemble import (
    Ensemble,
    explained,
    not_written,
    require_block,
    require_block_or_word,
    require_ours,
    same_block,
    seen_after,
)
from fencepost.bridge.upgrade_log import DecideRow, UpgradeLog
from fencepost.bridge.upgrade_status import UpgradeStatus, brokers_are, goes_on
from fencepost.bridge.upgrade_ways import Obstacle, Obstructed
from fencepost.bridge.zookeeper_port import Conflict, Fence, NoZnode, Refused, Unknown, Written, Znode
from fencepost.controller import migration, producer_ids
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress, InvalidRequest
from fencepost.controller.migration_phase import THROUGH_ZOOKEEPER, Intent, Migration, Phase
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.controller.view import View
from fencepost.quorum.crash_points import Reach
from fencepost.quorum.port import Submit
from fencepost.wire.k20021_migrate import Migrate, Migrated

FENCE_TRIES_MAX: Final = 10_000  # intents, when rivals write between an intent and its fence
FENCE_S_MAX: Final = 60.0  # no further intent after so long
WRITE_TRIES_MAX: Final = 1_000  # other conditional writes, when rivals are faster


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
        self._upgrade = UpgradeLog(image, submit)
        self._status = UpgradeStatus(cluster_id, ensemble, self._upgrade)
        self._clock = clock
        self._reach = reach
        self._on_left = on_left
        self._log = log
        self.progress = ""  # of the command that runs
        self._refused = ""  # why ZooKeeper refused the last command, as far as this node knows
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
            return await self._status.status(request, self.progress, self._refused)
        self._log.info("migration_command_begun", command=request.command, dry_run=request.dry_run)
        try:
            message = await self._commands[request.command](request)
        except ApiError as refusal:
            is_forbidden = isinstance(refusal, Obstructed) and refusal.obstacle is Obstacle.FORBIDDEN
            self._refused = str(refusal) if is_forbidden else ""
            self._log.warning("migration_command_refused", command=request.command, reason=str(refusal))
            raise
        finally:
            self.progress = ""
        self._refused = ""
        self._log.info("migration_command_done", command=request.command, message=message)
        return await self._status.standing(request, message)

    # -- there --------------------------------------------------------------------------------------

    async def _bridge(self, request: Migrate) -> str:
        name = await self._zookeeper.name(self._upgrade.row.ensemble)
        decide: DecideRow = partial(migration.decide_bridge, ensemble=name)
        await self._upgrade.preview(decide)
        await self._zookeeper.require_no_migration()
        remark = ""
        seen = await self._zookeeper.read()
        znode = seen if isinstance(seen, NoZnode) else require_block(self._zookeeper.znode(seen))
        self._require_block_or_word(znode, request)
        await self._status.require_permission()
        if isinstance(znode, NoZnode) and request.dry_run:
            remark = "; there is no block znode, it would be made"
        elif isinstance(znode, NoZnode):
            remark = "; there was no block znode, so it was made"
            await self._zookeeper.make_znode()
        if request.dry_run:
            return f"would give out the blocks of Kafka cluster {name} through its ZooKeeper{remark}"
        self._reach("bridge:znode-ready")
        await self._upgrade.applied(decide)
        self._reach("bridge:phase-applied")
        return (
            f"blocks come from the ZooKeeper of Kafka cluster {name}: "
            f"brokers that write it themselves may run beside{remark}"
        )

    def _require_block_or_word(self, seen: Znode | NoZnode, request: Migrate) -> None:
        end = producer_ids.latest(self._upgrade.image()).end
        require_block_or_word(seen, no_block_yet=request.no_block_yet, end=end)

    async def _import(self, request: Migrate) -> str:
        if request.stopped is not None:
            return await self._import_from_stopped(request)
        name = await self._zookeeper.name(self._upgrade.row.ensemble)
        await self._upgrade.preview(
            partial(migration.decide_import, block_end=migration.NO_BLOCK, ensemble=name)
        )
        await self._zookeeper.require_no_migration()
        znode = require_block(await self._zookeeper.look())
        self._require_block_or_word(znode, request)
        self._reach("import:block-read")
        decide: DecideRow = partial(
            migration.decide_import, block_end=znode.block_end, ensemble=name, at_least=request.at_least
        )
        if request.dry_run:
            row = await self._upgrade.preview(decide)
            return f"would set the floor to {row.floor}: the block in ZooKeeper {_ends(znode.block_end)}"
        row = await self._upgrade.applied(decide)
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
            row = await self._upgrade.preview(decide)
            return (
                f"would give out ids from {row.floor} on: the block in the files {_ends(stopped.block_end)}"
            )
        row = await self._upgrade.applied(decide)
        self._on_left()
        self._reach("import:floor-applied")
        return f"the quorum gives out ids, none below {row.floor}; ZooKeeper must stay stopped"

    async def _fence(self, request: Migrate) -> str:
        row = self._upgrade.row
        name = await self._zookeeper.name(row.ensemble)
        if row.phase is Phase.QUORUM and row.intent is not None:
            await self._upgrade.preview(partial(migration.decide_switch, intent=row.intent))
            self._status.require_fenced(row, await self._zookeeper.look_at(row))
            return f"ZooKeeper is fenced already; its last block {_ends(row.intent.block_end)}"
        some = Intent(migration.NO_BLOCK, 0)
        await self._upgrade.preview(partial(migration.decide_fence_intent, intent=some, ensemble=name))
        began, known = self._clock(), None
        for tries in range(1, FENCE_TRIES_MAX + 1):
            znode = known or (await self._zookeeper.look())
            if znode.fence is not None:
                intent = explained(znode, znode.fence, self._upgrade.row, self._cluster_id)
                return f"would switch after {intent}" if request.dry_run else (await self._switch(intent))
            require_block(znode)
            self._require_block_or_word(znode, request)
            if tries == 1:
                await self._zookeeper.require_no_migration()
            if request.dry_run:
                await self._status.require_permission()
                intent = Intent(znode.block_end, znode.version)
                await self._upgrade.preview(
                    partial(migration.decide_fence_intent, intent=intent, ensemble=name)
                )
                return (
                    f"would write ZooKeeper's block again at version {znode.version}, then fence it; "
                    f"the block {_ends(znode.block_end)}"
                )
            fenced = await self._fence_at(znode, name)
            if isinstance(fenced, Intent):
                return await self._switch(fenced)
            known = seen_after(fenced)
            self.progress = (
                f"fence: {tries} tries in {self._clock() - began:.1f} s; the last: {fenced.reason}"
            )
            if self._clock() - began > FENCE_S_MAX:
                break
        raise CoordinatorLoadInProgress(f"{self.progress}. {self._after_no_fence()}")

    def _after_no_fence(self) -> str:
        if self._upgrade.row.phase is Phase.FENCING:
            return "Until it is fenced the quorum gives out no ids: run fence again, or rollback"
        return "ZooKeeper goes on giving out ids: run fence again"

    async def _fence_at(self, znode: Znode, name: str) -> Intent | Conflict | Unknown:
        """The intent whose fence is in ZooKeeper; or what came of the write that failed."""
        intent = Intent(znode.block_end, znode.version)
        if self._upgrade.row.intent != intent:
            again = await self._zookeeper.write_again(znode)
            if not isinstance(again, Written):
                return not_written(again)
            block = same_block(znode.block_end)
            intent = Intent(block.first + block.length - 1, again.version)
        self._reach("fence:block-read")
        await self._upgrade.applied(partial(migration.decide_fence_intent, intent=intent, ensemble=name))
        self._on_left()
        self._reach("fence:intent-applied")
        outcome = await self._zookeeper.write_fence(Fence(self._cluster_id, intent), intent.zk_version)
        return intent if isinstance(outcome, Written) else not_written(outcome)

    async def _switch(self, intent: Intent) -> str:
        """The fence of ``intent`` is in ZooKeeper."""
        self._reach("fence:fence-written")
        row = await self._upgrade.applied(partial(migration.decide_switch, intent=intent))
        self._reach("fence:switch-applied")
        return (
            f"ZooKeeper is fenced, its last block {_ends(intent.block_end)}; "
            f"the quorum gives out ids, none below {row.floor}"
        )

    async def _finalize(self, request: Migrate) -> str:
        row = self._upgrade.row
        seen, is_stopped = None, False
        if row.phase is Phase.QUORUM:
            is_stopped = not await self._answers(row, request)
            seen = None if is_stopped else row.intent
        decide: DecideRow = partial(migration.decide_finalize, seen=seen, is_stopped=is_stopped)
        waiting = await self._zookeeper.registered()
        left = (
            f"; {brokers_are(waiting)} still registered there and get no new producer ids" if waiting else ""
        )
        if request.dry_run:
            await self._upgrade.preview(decide)
            return f"would leave ZooKeeper for good: after it there is no rollback{left}"
        await self._upgrade.applied(decide)
        self._reach("finalize:phase-applied")
        return f"the upgrade is over; ZooKeeper is not needed any more{left}"

    async def _answers(self, row: Migration, request: Migrate) -> bool:
        """Whether ZooKeeper answers, with the logged fence. False: it is silent, and said to be stopped.

        Raises   Obstructed if it answers anything else, CoordinatorLoadInProgress if its silence is news.
        """
        is_said_to_be_stopped = request.zookeeper_is_stopped or row.intent is None
        if is_said_to_be_stopped and not self._zookeeper.is_configured:
            return False
        try:
            znode = await self._zookeeper.look_at(row)
        except CoordinatorLoadInProgress as silence:
            if is_said_to_be_stopped:
                return False
            raise CoordinatorLoadInProgress(
                f"finalize has to see the fence: {silence}. If it is stopped for good, say so: "
                "--zookeeper-is-stopped"
            ) from silence
        self._status.require_fenced(row, znode)
        return True

    # -- and back -----------------------------------------------------------------------------------

    async def _rollback(self, request: Migrate) -> str:
        row = self._upgrade.row
        is_bridge = row.phase in THROUGH_ZOOKEEPER  # then nothing in ZooKeeper is to be undone
        name = row.ensemble if is_bridge else await self._zookeeper.name(row.ensemble)
        stop: DecideRow = partial(migration.decide_stop, ensemble=name)
        after_it = await self._upgrade.preview(stop)
        if request.dry_run:
            if after_it.phase is Phase.BRIDGE:
                return "ZooKeeper gives out the ids; nothing would be written there"
            znode = await self._zookeeper.look()
            block = self._block_to_hand_back(znode)
            if not goes_on(row, znode, block):
                await self._status.require_permission()
            return f"would let ZooKeeper go on from {block.first + block.length}"
        if row.phase is Phase.QUORUM:
            await self._prove_writable()  # no stop, and no outage, for who could not go on
        row = await self._upgrade.applied(stop)
        self._on_left()
        self._reach("rollback:stop-applied")
        if row.phase is Phase.BRIDGE:
            return "ZooKeeper gives out the ids; nothing had to be written there"
        return await self._hand_back(row)

    async def _prove_writable(self) -> None:
        """Write what is there again. Raises Obstructed while the quorum still gives out ids."""
        for _ in range(WRITE_TRIES_MAX):
            znode = await self._zookeeper.look()
            if znode.fence is not None and znode.fence.cluster_id != self._cluster_id:
                return  # another cluster gives out ids too: the stop comes first, whatever comes then
            self._block_to_hand_back(znode)
            again = await self._zookeeper.write_again(znode)
            if isinstance(again, Written):
                return
            not_written(again)
        raise CoordinatorLoadInProgress("ZooKeeper could not be written, others were faster; run it again")

    async def _hand_back(self, row: Migration) -> str:
        """Let ZooKeeper go on above all ids."""
        known = None
        for tries in range(1, WRITE_TRIES_MAX + 1):
            znode = known or (await self._zookeeper.look())
            block = self._block_to_hand_back(znode)
            end = block.first + block.length
            outcome = await self._zookeeper.write_block(block, znode.version)
            need_not = isinstance(outcome, Refused) and goes_on(row, znode, block)
            if need_not or isinstance(outcome, Written):
                self._reach("rollback:block-written")
                await self._upgrade.applied(migration.decide_rolled_back)
                self._reach("rollback:phase-applied")
                return f"ZooKeeper gives out the ids again, from {end} on"
            known = seen_after(outcome)
            self.progress = f"rollback: {tries} tries; the last: {not_written(outcome).reason}"
        raise CoordinatorLoadInProgress(f"{self.progress}; run rollback again")

    def _block_to_hand_back(self, znode: Znode) -> ProducerIdBlock:
        """Raises Obstructed if the znode does not say where ids go on."""
        if znode.fence is None:
            require_block(znode)
        require_ours(znode.fence, self._cluster_id)
        return migration.block_to_hand_back(self._upgrade.image(), znode.block_end)


def _ends(block_end: int) -> str:
    return f"ends at {block_end}" if block_end >= 0 else "was never written"
