"""A thread that kills a node again and again, and starts it again each time."""

import contextlib
import threading
from typing import Final

from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.running import RunningCluster, Which

DOWN_S: Final = 0.3
STABLE_S_MAX: Final = 10.0


class Killer:
    """``with Killer(cluster, "leader", every_s=2.0) as killer: ...``; ``killed`` says whom, in order.

    Between two kills the cluster is stable (``wait_stable``) for ``every_s`` seconds, so that an application
    gets on, however busy the machine is. It is waited for at most STABLE_S_MAX, and not if the test itself
    stopped another node. At its end every node runs. A kill that fails ends the thread, and is raised at
    the end of the block.
    """

    def __init__(self, cluster: RunningCluster, which: Which = "leader", *, every_s: float = 2.0) -> None:
        self.killed: list[int] = []
        self._cluster = cluster
        self._which = which
        self._every_s = every_s
        self._over = threading.Event()
        self._failure: ClusterFailed | None = None
        self._thread = threading.Thread(target=self._kill, name="fencepost-killer", daemon=True)

    def __enter__(self) -> "Killer":
        """Begin. The first kill is after ``every_s`` seconds."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End. Raises ClusterFailed if a kill or a start did."""
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _kill(self) -> None:
        try:
            while not self._over.wait(self._every_s):
                node = self._cluster.kill(self._which)
                self.killed.append(node)
                self._over.wait(DOWN_S)
                self._cluster.start(node)
                if not self._over.is_set():
                    with contextlib.suppress(ClusterFailed):
                        self._cluster.wait_stable(timeout_s=STABLE_S_MAX)
        except ClusterFailed as failure:
            self._failure = failure
