"""One node after the other is killed (SIGKILL, by pid) and started again, in a thread of its own."""

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from tests.checker.findings import Finding
from tests.checker.history import History
from tests.harness.nodes import Nodes

SILENCE_SECONDS_MAX: Final = 60.0  # from a kill to the next commit; sessions, timeouts and restarts are in it
UP_SECONDS_MIN: Final = 1.5  # on a slow machine a restart takes as long as the interval
LOOK_SECONDS: Final = 0.05


class NodeFaults:
    """``with`` starts it; at its end all nodes run. A kill waits for a commit since the last one."""

    def __init__(
        self,
        nodes: Nodes,
        history: History,
        seed: int,
        every_seconds: float,
        committed_at: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._history = history
        self._random = random.Random(seed)
        self._every_seconds = every_seconds
        self._committed_at = committed_at
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.findings: list[Finding] = []

    def __enter__(self) -> "NodeFaults":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        left = self._every_seconds
        try:
            while not self._over.wait(left):
                left = self._kill_one()
        except AssertionError as failed:
            self.findings.append(Finding("stuck", f"a node was not killed or did not start: {failed}"))

    def _kill_one(self) -> float:
        """Seconds until the next one is due."""
        victim = self._random.choice(self._nodes.node_ids)
        self._nodes.kill(victim)
        killed_at = time.monotonic()
        self._history.write("node_killed", node=victim)
        self._over.wait(self._random.uniform(0.2, 1.5))
        self._nodes.start(victim)
        self._history.write("node_started", node=victim)
        while self._committed_at() < killed_at and not self._over.wait(LOOK_SECONDS):
            if time.monotonic() - killed_at > SILENCE_SECONDS_MAX:
                facts = (
                    f"nothing was committed for {SILENCE_SECONDS_MAX:.0f} s after node {victim} was killed"
                )
                self.findings.append(Finding("stuck", facts))
                break
        return max(UP_SECONDS_MIN, self._every_seconds - (time.monotonic() - killed_at))
