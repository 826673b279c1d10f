"""An active controller on a bench: image, log and ZooKeeper in memory, everything moved by a script.

What is submitted waits until ``apply`` decides and applies it, as an entry would. A crash loses what waits;
the next leader starts on the same image and the same znode.
"""

from typing import Any, cast

from structlog.typing import FilteringBoundLogger

from fencepost.bridge.migrator import Migrator
from fencepost.bridge.zookeeper_port import ZookeeperPort
from fencepost.controller import migration_phase, producer_ids
from fencepost.controller.errors import ApiError, NotController
from fencepost.controller.migration_phase import Migration, Phase
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.controller.replay import replay_record
from fencepost.controller.view import Overlay
from fencepost.quorum.port import Decide, Reply
from fencepost.records.logged import StateRecord
from fencepost.records.schema import ZkMigrationStateRecord
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from fencepost.wire.k20021_migrate import Migrate, Migrated, Stopped
from tests.controller.worlds import allocated, image, registered
from tests.quorum.clients import Answers, Silence
from tests.zookeeper.model import ScriptedPort, ZnodeModel

CLUSTER = "the-cluster"
ROUNDS_MAX = 10_000


class Crash(Exception):
    """The process dies at a crash point."""


class Bench:
    """Broker 1 (epoch 100) and broker 2 (epoch 200) are registered. ``bench.znode`` is ZooKeeper's."""

    def __init__(
        self, phase: Phase = Phase.WAITING, *, znode: ZnodeModel | None = None, end: int = 0
    ) -> None:
        self.znode = znode or ZnodeModel()
        self.image: Overlay = image(
            registered(1, 100), registered(2, 200), *([allocated(end)] if end else []), _waiting(phase)
        )
        self.records: list[StateRecord] = []
        self.crash_at = ""
        self.reached: list[str] = []
        self.now = 0.0
        self.log = Lines()
        self.lead()

    def lead(self, *, configured: bool = True) -> None:
        """A new leader, which knows nothing but the image."""
        self.port = ScriptedPort(self.znode)
        port: ZookeeperPort | None = self.port if configured else None
        self.pending: list[tuple[Decide[Any], Reply[Any]]] = []
        self.leads = True
        self.migrator = Migrator(
            CLUSTER,
            port,
            lambda: self.image,
            self._submit,
            charge=lambda _broker, _now_ms: 0,
            clock=lambda: self.now,
            reach=self._reach,
            log=cast(FilteringBoundLogger, self.log),
        )
        self.migrator.activated()

    def depose(self) -> None:
        """It loses its leadership: what waits to be decided is not done."""
        self.leads = False
        pending, self.pending = self.pending, []
        for _, reply in pending:
            reply(NotController("deposed"), 0)
        self.migrator.deposed()

    def _submit(self, decide: Decide[Any], reply: Reply[Any], **_how: Any) -> None:
        if self.leads:
            self.pending.append((decide, reply))
        else:
            reply(NotController("not the active controller"), 0)

    def _reach(self, point: str) -> None:
        self.reached.append(point)
        if point == self.crash_at:
            self.crash_at = ""
            raise Crash(point)

    # -- what scripts say -------------------------------------------------------------------------

    def apply(self) -> None:
        """Decide what waits, as one entry, and apply it."""
        pending, self.pending = self.pending, []
        answers: list[tuple[Reply[Any], Any]] = []
        for decide, reply in pending:
            try:
                decided = decide(self.image, 0)
            except ApiError as refusal:
                answers.append((reply, refusal))
                continue
            for record in decided.records:
                replay_record(self.image, record)
                self.records.append(record)
            answers.append((reply, decided.response))
        for reply, answer in answers:
            reply(answer, 0)

    def settle(self) -> None:
        """Apply until nothing waits."""
        for _ in range(ROUNDS_MAX):
            if not self.pending:
                return
            self.apply()
        raise AssertionError("it never comes to rest")

    def ask(self, *brokers: int, length: int = 1000) -> list[Answers]:
        """Requests for a block, by brokers that are registered; one of -1 has a stale epoch."""
        asked = []
        for broker in brokers or (1,):
            answers = Answers()
            request = AllocateProducerIds(BrokerId(abs(broker)), BrokerEpoch(100 * broker))
            self.migrator.allocate(request, length, answers)
            asked.append(answers)
        return asked

    def allocate(self, *brokers: int, length: int = 1000) -> list[str]:
        """Ask, settle, and what was told."""
        asked = self.ask(*brokers, length=length)
        self.settle()
        return [answer for answers in asked for answer in answers.codes]

    def command(self, name: str, **options: Any) -> Answers:
        """Send a command; nothing is applied yet."""
        answers = Answers()
        self.migrator.command(Migrate(name, **options), answers)
        return answers

    def run(self, name: str, **options: Any) -> Migrated:
        """A command until it is done. Raises ApiError."""
        answers = self.command(name, **options)
        self.settle()
        (answer,) = answers.all
        if isinstance(answer, ApiError):
            raise answer
        assert isinstance(answer, Migrated)
        return answer

    def go_to(self, phase: Phase) -> None:
        """The way forward to a phase, undisturbed; also where there is no block yet."""
        way = {
            Phase.BRIDGE: "bridge",
            Phase.IMPORTED: "import",
            Phase.QUORUM: "fence",
            Phase.FINALIZED: "finalize",
        }
        for step, command in way.items():
            if self.row.phase >= phase:
                return
            self.run(command, no_block_yet=True)
            assert self.row.phase is step

    @property
    def row(self) -> Migration:
        """Where the upgrade stands."""
        return migration_phase.current(self.image)

    @property
    def end(self) -> ProducerId:
        """The first id that the log does not know as given out."""
        return producer_ids.latest(self.image).end


def stopped(block_end: int, *, is_stopped: bool = True, ensemble: str = "zk") -> Stopped:
    """What files said."""
    return Stopped(ensemble, block_end, is_stopped)


def _waiting(phase: Phase) -> ZkMigrationStateRecord:
    return ZkMigrationStateRecord(zk_migration_state=1, phase=phase)


class Lines(Silence):
    """Keeps events of warnings and errors."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **facts: object) -> None:
        self.events.append(event)

    def error(self, event: str, **facts: object) -> None:
        self.events.append(event)
