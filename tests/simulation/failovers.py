"""Failovers at chosen moments: at each step of each request that the coordinator serves, in several ways.

Steps     it arrives; it is served (decided or parked); a moment later (its entry may be proposed, or
          committed); its answer leaves. And at the answer FENCED_INSTANCE_ID, which ends a process: that
          answer is lost.
Ways      the node dies; it is cut off from the other voters, while clients still reach it; it hands over.
"""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from fencepost.controller.errors import ApiError, ErrorCode
from tests.simulation.process import Process
from tests.simulation.thread import Killed

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

ARRIVES, SERVED, LATER, ANSWERED, FENCED = "arrives", "served", "later", "answered", "fenced"
STEPS: Final = (ARRIVES, SERVED, LATER, ANSWERED)
DIES, CUT_OFF, HANDS_OVER = "dies", "cut off", "hands over"
WAYS: Final = (DIES, CUT_OFF, HANDS_OVER)
LATER_S: Final = (0.0003, 0.006)
CUT_OFF_S: Final = (0.4, 1.2)
REST_S: Final = (0.15, 0.4)  # between two: the cluster finds a leader meanwhile

Moment = tuple[str, str]
"""(name of the request's class, step)"""


class Failovers:
    """``left``: what has not happened yet, way by way; when nothing is left it begins again."""

    def __init__(self, sim: "Simulation", requests: Sequence[type], ways: Sequence[str] = WAYS) -> None:
        self._sim = sim
        self._rng = random.Random(f"failovers {sim.seed}")
        moments = [(each.__name__, step) for each, step in product(requests, STEPS)]
        self._all: tuple[tuple[Moment, str], ...] = tuple(product([*moments, ("JoinGroup", FENCED)], ways))
        self.left = {moment: self._ways_of(moment) for moment, _ in self._all}
        self.counts: Counter[tuple[Moment, str]] = Counter()
        self.on = True
        self._next_s = 0.0

    def _ways_of(self, moment: Moment) -> list[str]:
        ways = [way for each, way in self._all if each == moment]
        self._rng.shuffle(ways)
        return ways

    @property
    def missing(self) -> list[tuple[Moment, str]]:
        """What never happened; nothing must be fenced."""
        return [each for each in self._all if not self.counts[each] and each[0][1] != FENCED]

    def meets(self, process: Process, request: object, step: str) -> None:
        """A request is at that step, on the process's thread. Raises Killed."""
        way = self._drawn(process, (type(request).__name__, step))
        if way == DIES and step in (ARRIVES, SERVED):
            raise Killed
        if way is not None:
            wait_s = self._rng.uniform(*LATER_S) if step == LATER else 0.0
            self._sim.agenda.after(wait_s, self._strike, process, process.life, way)

    def loses(self, process: Process, request: object, answer: Any) -> bool:
        """The answer to a request leaves, and its node may fail: whether it is lost."""
        if isinstance(answer, ApiError):
            if answer.code != ErrorCode.FENCED_INSTANCE_ID:
                return False
            before = sum(self.counts.values())
            self.meets(process, request, FENCED)
            return sum(self.counts.values()) > before
        before = sum(self.counts.values())
        self.meets(process, request, ANSWERED)
        return sum(self.counts.values()) > before and self._rng.random() < 0.5

    def _drawn(self, process: Process, moment: Moment) -> str | None:
        replica, now = process.replica, self._sim.agenda.now
        if not self.on or now < self._next_s or replica is None or not replica.proposer.active:
            return None
        ways = self.left.get(moment)
        if not ways:
            return None
        way = ways.pop()
        self.counts[moment, way] += 1
        self._sim.said(f"{process.node_id} {way} as {moment[0]} is at {moment[1]!r}")
        self._next_s = now + self._rng.uniform(*REST_S)
        if not any(self.left.values()):
            self.left = {each: self._ways_of(each) for each in self.left}
        return way

    def _strike(self, process: Process, life: int, way: str) -> None:
        if not process.up or process.life != life:
            return
        if way == DIES:
            process.kill()
            self._sim.faults.restart_later(process)
        elif way == CUT_OFF:
            self._sim.faults.cut_off(process.node_id, self._rng.uniform(*CUT_OFF_S))
        else:
            process.end()
