"""A node is killed or stopped now and then, in a thread of its own, while something else runs.

One at a time. Which node, what and for how long: by the seed. The next one comes when a while has passed.
"""

import random
import signal
import threading
from typing import Final

from tests.harness.nodes import Nodes

AWAY_S: Final = (0.2, 1.5)
STOPPED: Final = 0.3  # the share of faults that are a SIGSTOP


class NodeFaults:
    """``with`` starts it; at its end all nodes run. ``failed``: why it ended before."""

    def __init__(self, nodes: Nodes, seed: int, every_s: float) -> None:
        self.nodes, self.every_s = nodes, every_s
        self.choose = random.Random(seed)
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = self.stops = 0
        self.failed: AssertionError | None = None

    def __enter__(self) -> "NodeFaults":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()

    def one(self) -> float:
        """Seconds until the next one. Here a kill (SIGKILL, by pid) or a stop; then all nodes are live."""
        victim = self.choose.choice(self.nodes.node_ids)
        if self.choose.random() < STOPPED:
            self.stops += 1
            self.nodes.send(victim, signal.SIGSTOP)
            self.away()
            self.nodes.send(victim, signal.SIGCONT)
        else:
            self.kills += 1
            self.nodes.kill(victim)
            self.away()
            self.nodes.start(victim)
        self.nodes.up()
        return self.every_s

    def away(self) -> None:
        """The while in which the node does not answer; no longer than this object's life."""
        self.over.wait(self.choose.uniform(*AWAY_S))

    def _run(self) -> None:
        left = self.every_s
        try:
            while not self.over.wait(left):
                left = self.one()
        except AssertionError as failed:
            self.failed = failed
