"""The migrator: gives the active controller's callers producer ids from the side that allocates.

Bridge      while ZooKeeper allocates, requests wait for a range: one conditional write takes it for all that
            wait, then each part is recorded for its broker. A block is answered when its record is applied,
            so a deposed leader sends no response.
Unknown     after a write whose outcome is unknown what the znode holds is never taken for ours. The range is
            wasted if it was written; the next one comes after it.
One         thing at a time is done with ZooKeeper: a range or a command. Status, which only reads, comes
            between. A command that is repeated while it runs is answered together with the first.
Leadership  when it is lost, what runs is abandoned where it stands: the next leader goes on from the log.

Source      KIP-730 (bridge release); Kafka ZkProducerIdManager.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from structlog.typing import FilteringBoundLogger

from fencepost.bridge.steps import Run, Running, Steps
from fencepost.bridge.upgrade import Upgrade
from fencepost.bridge.upgrade_ensemble import Ensemble, not_written, require_unfenced, seen_after
from fencepost.bridge.zookeeper_port import Written, Znode, ZookeeperPort
from fencepost.controller import brokers, migration, producer_ids
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    InvalidRequest,
    NotController,
    StaleBrokerEpoch,
)
from fencepost.controller.migration_phase import MIGRATION, THROUGH_ZOOKEEPER, current
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.controller.view import View
from fencepost.quorum.crash_points import Reach
from fencepost.quorum.port import Decide, Outcome, R, Reply, Submit
from fencepost.records.types import BrokerId
from fencepost.wire.k20021_migrate import Migrate, Migrated

WAITING_MAX: Final = 10_000  # requests that wait for a range; one more is refused, and clients retry it
RANGE_BLOCKS_MAX: Final = 256  # blocks in one range
RANGE_IDS_MAX: Final = 2**31 - 1  # Kafka computes a block's length as an int32
RANGE_TRIES_MAX: Final = 100  # conditional writes for one range, when rivals are faster
RANGE_S_MAX: Final = 2.0  # no further try after so long: brokers ask again
COMMANDS_MAX: Final = 16  # commands that wait, and answers that wait for one command


class Waiting(NamedTuple):
    """A request that waits for its part of a range."""

    request: AllocateProducerIds
    length: int
    reply: Reply[ProducerIdBlock]


class Migrator:
    """See the module. Used on the node's one thread; ``activated`` and ``deposed`` say who leads."""

    def __init__(
        self,
        cluster_id: str,
        zookeeper: ZookeeperPort | None,
        image: Callable[[], View],
        submit: Submit,
        *,
        charge: Callable[[BrokerId, int], int],
        clock: Callable[[], float],
        reach: Reach,
        log: FilteringBoundLogger,
    ) -> None:
        self._zookeeper = Ensemble(zookeeper)
        self._image = image
        self._submit = submit
        self._charge = charge
        self._clock = clock
        self._reach = reach
        self._log = log
        self._upgrade = Upgrade(
            cluster_id,
            self._zookeeper,
            image,
            submit,
            clock=clock,
            reach=reach,
            on_left=self._let_go,
            log=log,
        )
        self._active = False
        self._waiting: list[Waiting] = []
        self._taking: list[Waiting] = []  # those for whom a range is being taken
        self._commands: dict[Migrate, list[Reply[Migrated]]] = {}  # one runs: the first
        self._run: Running | None = None
        self._looks: dict[Run[Migrated], Reply[Migrated]] = {}  # status
        self._checked_ensemble = False  # since the beginning of this leadership
        self._known: Znode | None = None  # the newest that this node knows; a write on it is conditional
        self._complaint = ""  # logged last, about ranges

    # -- leadership ---------------------------------------------------------------------------------

    def activated(self) -> None:
        """This node is the active controller from now on."""
        self._active, self._checked_ensemble, self._known, self._complaint = True, False, None, ""

    def deposed(self) -> None:
        """It is no more. Of the blocks that wait nothing is in the log; commands go on elsewhere."""
        self._active = False
        runs: list[Running] = [*self._looks, *([] if self._run is None else [self._run])]
        for run in runs:
            run.abandon()
        waiting = (*self._taking, *self._waiting)
        asking = [*self._looks.values(), *(reply for replies in self._commands.values() for reply in replies)]
        self._run = None
        self._waiting, self._taking, self._commands, self._looks = [], [], {}, {}
        self._upgrade.progress = ""
        for each in waiting:
            each.reply(NotController("this node lost its leadership; nothing was recorded"), 0)
        for reply in asking:
            reply(NotController("this node lost its leadership; the next controller goes on from the log"), 0)

    # -- producer ids -------------------------------------------------------------------------------

    @property
    def is_bridge(self) -> bool:
        """Blocks come from ZooKeeper, as far as this node knows."""
        row = self._image().get(MIGRATION, 0)
        return row is not None and row.phase in THROUGH_ZOOKEEPER

    def allocate(self, request: AllocateProducerIds, length: int, reply: Reply[ProducerIdBlock]) -> None:
        """A block of ``length`` ids: from the quorum, or through ZooKeeper."""
        if not self._active or not self.is_bridge:
            self._pass(Waiting(request, length, reply))
        elif len(self._waiting) >= WAITING_MAX:
            reply(CoordinatorLoadInProgress(f"{WAITING_MAX} requests wait for ZooKeeper already"), 0)
        else:
            self._waiting.append(Waiting(request, length, reply))
            self._next()

    def _pass(self, parked: Waiting) -> None:
        """The quorum decides: it gives a block, or says why it does not."""
        request, length, reply = parked
        self._submit(
            self._charged(request, lambda view: producer_ids.decide_allocate(view, request, length)), reply
        )

    def _let_go(self) -> None:
        """ZooKeeper is left: those who wait for it are answered by the quorum."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._pass(each)

    def _charged(
        self, request: AllocateProducerIds, decide: Callable[[View], Decision[ProducerIdBlock]]
    ) -> Decide[ProducerIdBlock]:
        """The decision, with the time for which the broker's connection is muted."""

        def charged(view: View, now_ms: int) -> Decision[ProducerIdBlock]:
            decided = decide(view)
            throttle_ms = self._charge(request.broker_id, now_ms)
            if not throttle_ms:
                return decided
            return Decision(decided.records, decided.response, throttle_ms=throttle_ms)

        return charged

    # -- what is done next ----------------------------------------------------------------------------

    def _next(self) -> None:
        if self._run is not None:
            return
        if self._commands:
            request = next(iter(self._commands))
            self._known = None
            self._start(self._upgrade.steps(request), partial(self._commanded, request))
        elif self._waiting:
            self._begin_range()

    def _start(self, steps: Steps[R], done: Callable[[Outcome[R]], None]) -> None:
        def ended(outcome: Outcome[R]) -> None:
            self._run = None
            done(outcome)
            self._next()

        run = self._run = Run(steps, ended)
        run.go_on()

    # -- commands -----------------------------------------------------------------------------------

    def command(self, request: Migrate, reply: Reply[Migrated]) -> None:
        """A command of the upgrade; see wire/k20021_migrate.py."""
        if not self._active:
            reply(NotController("this node is not the active controller"), 0)
        elif request.command == "status":
            self._look(request, reply)
        elif len(self._commands) >= COMMANDS_MAX or len(self._commands.get(request, ())) >= COMMANDS_MAX:
            reply(CoordinatorLoadInProgress(f"{COMMANDS_MAX} commands wait already"), 0)
        else:
            self._commands.setdefault(request, []).append(reply)
            self._next()

    def _commanded(self, request: Migrate, outcome: Outcome[Migrated]) -> None:
        for reply in self._commands.pop(request):
            reply(outcome, 0)

    def _look(self, request: Migrate, reply: Reply[Migrated]) -> None:
        if len(self._looks) >= COMMANDS_MAX:
            reply(CoordinatorLoadInProgress(f"{COMMANDS_MAX} ask for the status already"), 0)
            return

        def seen(outcome: Outcome[Migrated]) -> None:
            del self._looks[run]
            reply(outcome, 0)

        run = Run(self._upgrade.steps(request), seen)
        self._looks[run] = reply
        run.go_on()

    # -- ranges -------------------------------------------------------------------------------------

    def _begin_range(self) -> None:
        """Choose for whom the next range is. Who gets none from ZooKeeper is answered by the quorum."""
        view, ids = self._image(), 0
        is_bridge = self.is_bridge
        waiting, self._waiting, self._taking = self._waiting, [], []
        for at, each in enumerate(waiting):
            if not is_bridge or _is_stale(view, each.request):
                self._pass(each)
            elif len(self._taking) < RANGE_BLOCKS_MAX and (ids == 0 or ids + each.length <= RANGE_IDS_MAX):
                self._taking.append(each)
                ids += each.length
            else:
                self._waiting = waiting[at:]
                break
        if self._taking:
            self._start(self._range(tuple(each.length for each in self._taking)), self._ranged)

    def _ranged(self, outcome: tuple[ProducerIdBlock, ...] | ApiError) -> None:
        parked, self._taking = self._taking, []
        if isinstance(outcome, ApiError):
            for each in parked:
                self._submit(partial(_refuse, outcome), each.reply)
            return
        for each, block in zip(parked, outcome, strict=False):
            self._record(each, block)
        self._waiting = parked[len(outcome) :] + self._waiting  # for them there was no room

    def _record(self, parked: Waiting, block: ProducerIdBlock) -> None:
        def applied(outcome: Outcome[ProducerIdBlock], throttle_ms: int) -> None:
            self._reach("allocate:record-applied")
            parked.reply(outcome, throttle_ms)

        decide = partial(migration.decide_bridged_block, request=parked.request, block=block)
        self._submit(self._charged(parked.request, decide), applied)

    async def _range(self, lengths: tuple[int, ...]) -> tuple[ProducerIdBlock, ...]:
        """Blocks of these lengths, from ZooKeeper. Raises CoordinatorLoadInProgress, ProducerIdsExhausted."""
        try:
            if not self._checked_ensemble:
                row = current(self._image())
                migration.require_same_ensemble(row, (await self._zookeeper.name(row.ensemble)))
                self._checked_ensemble = True
            blocks = await self._written(lengths)
        except (InvalidRequest, CoordinatorLoadInProgress) as error:
            if str(error) != self._complaint:
                self._log.error("bridge_gives_no_blocks", reason=str(error))
            self._complaint = str(error)
            raise CoordinatorLoadInProgress(str(error)) from error  # brokers ask again
        self._complaint = ""
        return blocks

    async def _written(self, lengths: tuple[int, ...]) -> tuple[ProducerIdBlock, ...]:
        """Write a range into ZooKeeper until it is known to be written."""
        deadline = self._clock() + RANGE_S_MAX
        reason = ""
        for _ in range(RANGE_TRIES_MAX):
            znode = require_unfenced(self._known or (await self._zookeeper.look()))
            self._known = None
            end = producer_ids.latest(self._image()).end
            blocks = migration.next_range(end, znode.block_end, lengths)
            whole = ProducerIdBlock(blocks[0].first, sum(block.length for block in blocks))
            outcome = await self._zookeeper.write_block(whole, znode.version)
            if isinstance(outcome, Written):
                self._reach("allocate:range-written")
                if migration.after(znode.block_end) < end:
                    self._log.warning("zookeeper_was_behind", block_end=znode.block_end, producer_id_end=end)
                self._known = Znode(outcome.version, whole.first + whole.length - 1)
                return blocks
            reason = not_written(outcome).reason
            self._known = seen_after(outcome)
            if self._clock() > deadline:
                break
        raise CoordinatorLoadInProgress(f"ZooKeeper gave no block, others were faster: {reason}")


def _is_stale(view: View, request: AllocateProducerIds) -> bool:
    """Its broker would be refused: no ids need be wasted on it."""
    try:
        brokers.require_epoch(view, request.broker_id, request.broker_epoch)
    except StaleBrokerEpoch:
        return True
    return False


def _refuse(refusal: ApiError, _view: View, _now_ms: int) -> Decision[ProducerIdBlock]:
    """The refusal, as a decision: it leaves when an entry is applied, so only a real leader tells it."""
    raise refusal
