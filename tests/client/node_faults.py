"""A node of the cluster is killed or stopped now and then, while other tests run.

One at a time: SIGKILL, and the node is started again a moment later; or SIGSTOP, then SIGCONT. Which node,
what and for how long: by the seed. The next one comes when all nodes are live again and a while has passed.
"""

import random
import signal
import threading
from typing import Final

from tests.harness.nodes import Nodes

EVERY_S: Final = 1.5
AWAY_S: Final = (0.2, 1.5)
STOPPED: Final = 0.3  # the share of faults that are a SIGSTOP


class NodeFaults:
    """``with`` runs them in a thread; at its end all nodes run. ``failed``: what ended them before."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self._nodes, self._choose = nodes, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = self.stops = 0
        self.failed: AssertionError | None = None

    def __enter__(self) -> "NodeFaults":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(EVERY_S):
                self._one(self._choose.choice(self._nodes.node_ids))
        except AssertionError as failed:
            self.failed = failed

    def _one(self, victim: int) -> None:
        if self._choose.random() < STOPPED:
            self.stops += 1
            self._nodes.send(victim, signal.SIGSTOP)
            self._over.wait(self._choose.uniform(*AWAY_S))
            self._nodes.send(victim, signal.SIGCONT)
        else:
            self.kills += 1
            self._nodes.kill(victim)
            self._over.wait(self._choose.uniform(*AWAY_S))
            self._nodes.start(victim)
        self._nodes.up()
