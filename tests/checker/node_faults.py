"""One node after the other is killed (SIGKILL, by pid) and started again, and the history says so."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from tests.checker.findings import Finding
from tests.checker.history import History
from tests.harness.node_faults import NodeFaults
from tests.harness.nodes import Nodes

SILENCE_SECONDS_MAX: Final = 60.0  # from a kill to the next commit; sessions, timeouts and restarts are in it
UP_SECONDS_MIN: Final = 1.5  # on a slow machine a restart takes as long as the interval
LOOK_SECONDS: Final = 0.05


class NodeKills(NodeFaults):
    """A kill waits for a commit since the last one."""

    def __init__(
        self,
        nodes: Nodes,
        history: History,
        seed: int,
        every_s: float,
        committed_at: Callable[[], float],
    ) -> None:
        super().__init__(nodes, seed, every_s)
        self._history = history
        self._committed_at = committed_at
        self._silences: list[str] = []

    def findings(self) -> Iterator[Finding]:
        """Where the cluster was stuck."""
        yield from (Finding("stuck", each) for each in self._silences)
        if self.failed is not None:
            yield Finding("stuck", f"a node was not killed or did not start: {self.failed}")

    def one(self) -> float:
        """Seconds until the next kill is due."""
        victim = self.choose.choice(self.nodes.node_ids)
        self.kills += 1
        self.nodes.kill(victim)
        killed_at = time.monotonic()
        self._history.write("node_killed", node=victim)
        self.away()
        self.nodes.start(victim)
        self._history.write("node_started", node=victim)
        while self._committed_at() < killed_at and not self.over.wait(LOOK_SECONDS):
            if time.monotonic() - killed_at > SILENCE_SECONDS_MAX:
                self._silences.append(
                    f"nothing was committed for {SILENCE_SECONDS_MAX:.0f} s after node {victim} was killed"
                )
                break
        return max(UP_SECONDS_MIN, self.every_s - (time.monotonic() - killed_at))
