"""ZooKeeper under virtual time: one znode, and everything that can come between a client and its answer.

A request takes its time to the server and the answer its time back. On the way a request may be lost, or be
so late that its client has long been told "unknown"; an answer may be lost; for a while nobody is connected,
or our nodes may not write.
Reads of the quorum are synced; the look that comes with a conflict, and the reads of brokers, may be old, but
never older than what the same client saw before.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fencepost.bridge.live_port import block_content, fence_content, seen
from fencepost.bridge.zookeeper_port import (
    Conflict,
    Fence,
    Migrating,
    Named,
    Outcome,
    Permission,
    Permitted,
    Refused,
    Registered,
    Seen,
    Unavailable,
    Unknown,
    Written,
    Znode,
)
from fencepost.controller.producer_ids import ProducerIdBlock
from tests.simulation.agenda import Agenda
from tests.zookeeper.model import ZnodeModel

Told = Callable[[Any], None]
NAME = "simulated@0x1"
OLD_MAX = 3  # a lagging server is so many writes behind


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperWeather:
    """Probabilities are per request, rates per second. Spans are (shortest, longest) in seconds."""

    latency_s: tuple[float, float] = (0.0003, 0.004)
    patience_s: float = 0.4
    request_lost: float = 0.03
    answer_lost: float = 0.03
    late: float = 0.03
    late_s: tuple[float, float] = (0.2, 4.0)
    mimics: float = 0.5  # of the bridge's lost writes: somebody else writes the very same bytes
    old: float = 0.2  # of the reads that are not synced
    outages: float = 0.15
    outage_s: tuple[float, float] = (0.1, 1.5)
    crash_at_point: float = 0.03  # the controller dies at a crash point that it comes by

    def calmed(self) -> "ZookeeperWeather":
        """The same distances, no faults."""
        return replace(
            self, request_lost=0.0, answer_lost=0.0, late=0.0, old=0.0, outages=0.0, crash_at_point=0.0
        )


class SimulatedEnsemble:
    """The znode, reached by ``ask``."""

    def __init__(self, agenda: Agenda, rng: random.Random, weather: ZookeeperWeather) -> None:
        self.model = ZnodeModel()
        self.weather = weather
        self._agenda = agenda
        self._rng = rng
        self._down_until = 0.0
        self._read_only_until = 0.0
        self._outages = 0
        if weather.outages:
            agenda.after(rng.expovariate(weather.outages), self._outage)

    def heal(self) -> None:
        """No further fault. What is late still comes."""
        self.weather = self.weather.calmed()
        self._down_until = self._read_only_until = 0.0

    @property
    def is_read_only(self) -> bool:
        """The access list lets brokers write, and not our nodes."""
        return self._agenda.now < self._read_only_until

    def ask(
        self,
        do: Callable[[], Any],
        told: Told,
        *,
        lost: Any,
        mimic: Callable[[], None] = lambda: None,
    ) -> None:
        """``do`` at the server, and ``told`` what came of it; ``lost`` if that is not heard in time.

        ``mimic`` is what somebody else may do in the place of a request that is lost.
        """
        rng, weather, agenda = self._rng, self.weather, self._agenda
        if agenda.now < self._down_until:
            agenda.after(rng.uniform(*weather.latency_s), told, Unavailable("no connection"))
            return
        waiting = [True]

        def tell(answer: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                told(answer)

        def arrive() -> None:
            result = do()
            if rng.random() >= weather.answer_lost:
                agenda.after(rng.uniform(*weather.latency_s), tell, result)

        agenda.after(weather.patience_s, tell, lost)
        if rng.random() >= weather.request_lost:
            is_late = rng.random() < weather.late
            agenda.after(rng.uniform(*(weather.late_s if is_late else weather.latency_s)), arrive)
        elif rng.random() < weather.mimics:
            agenda.after(rng.uniform(*weather.latency_s), mimic)

    def look(self, version_min: int) -> tuple[bytes | None, int]:
        """Content and version as some server has them, for a client that has seen ``version_min``."""
        model = self.model
        back = self._rng.randint(1, OLD_MAX) if self._rng.random() < self.weather.old else 0
        version = max(version_min, model.version - back)
        return (model.writes[version - 1] if version else None), version

    def _outage(self) -> None:
        """Nobody is connected, what was asked is answered to nobody; or, in turn, our nodes may not write."""
        weather = self.weather
        if weather.outages:
            until = self._agenda.now + self._rng.uniform(*weather.outage_s)
            self._outages += 1
            if self._outages % 2:
                self._down_until = until
            else:
                self._read_only_until = until
            self._agenda.after(self._rng.expovariate(weather.outages), self._outage)


class SimulatedPort:
    """The quorum's port. ``tell`` gives an answer to the process that asked, if it still lives.

    ``mimicked`` is told of a block that another bridge took with the very bytes of a lost write.
    """

    def __init__(
        self,
        ensemble: SimulatedEnsemble,
        tell: Callable[[Told, Any], None],
        mimicked: Callable[[ProducerIdBlock], None],
    ) -> None:
        self._ensemble = ensemble
        self._tell = tell
        self._mimicked = mimicked

    def identity(self, told: Callable[[Named], None]) -> None:
        self._ask(lambda: NAME, told, Unavailable("no answer"))

    def registered(self, told: Callable[[Registered], None]) -> None:
        self._ask(tuple, told, Unavailable("no answer"))

    def permission(self, told: Callable[[Permitted], None]) -> None:
        self._ask(lambda: Permission("world:anyone:cdrwa", is_granted=True), told, Unavailable("no answer"))

    def kafka_migrates(self, told: Callable[[Migrating], None]) -> None:
        self._tell(told, False)

    def read(self, told: Callable[[Seen], None]) -> None:
        self._ask(self._ensemble.model.look, told, Unavailable("no answer"))

    def create(self, told: Callable[[Outcome], None]) -> None:
        self._ask(self._ensemble.model.create, told, Unknown("no answer"))

    def write_block(self, block: ProducerIdBlock, version: int, told: Callable[[Outcome], None]) -> None:
        content = block_content(block)

        def mimic() -> None:
            model = self._ensemble.model
            is_next = block.first == model.block_end + 1  # not one of the writes that give nobody anything
            if is_next and isinstance(model.set(content, version), Written):
                self._mimicked(block)

        self._write(content, version, told, mimic)

    def write_fence(self, fence: Fence, version: int, told: Callable[[Outcome], None]) -> None:
        self._write(fence_content(fence), version, told)

    def _write(
        self,
        content: bytes,
        version: int,
        told: Callable[[Outcome], None],
        mimic: Callable[[], None] = lambda: None,
    ) -> None:
        def write() -> Written | Conflict | Refused:
            if self._ensemble.is_read_only:
                return Refused("NoAuthError")
            outcome = self._ensemble.model.set(content, version)
            if isinstance(outcome, Written):
                return outcome
            found = seen(*self._ensemble.look(version + 1))
            return Conflict(outcome.reason, found if isinstance(found, Znode) else None)

        self._ask(write, told, Unknown("no answer"), mimic)

    def _ask(
        self, do: Callable[[], Any], told: Told, lost: Any, mimic: Callable[[], None] = lambda: None
    ) -> None:
        self._ensemble.ask(do, lambda answer: self._tell(told, answer), lost=lost, mimic=mimic)
