"""Who kills nodes again and again, on a cluster that is scripted here."""

import threading
from typing import Any

import pytest

from fencepost.testing.chaos import Killer
from fencepost.testing.cluster_failed import ClusterFailed


class Scripted:
    """Says what was done, in order; it is stable when the test lets it be."""

    def __init__(self, *, stops_another: bool = False) -> None:
        self.done: list[str] = []
        self.waits = threading.Semaphore(0)
        self.is_stable = threading.Semaphore(0)
        self.stops_another = stops_another

    def kill(self, which: str) -> int:
        self.done.append(f"kill {which}")
        return 1

    def start(self, node: int) -> None:
        self.done.append(f"start {node}")

    def wait_stable(self, *, timeout_s: float) -> None:
        self.done.append("wait")
        self.waits.release()
        if self.stops_another:
            raise ClusterFailed("it cannot get stable: node 2 is stopped; resume it first")
        assert self.is_stable.acquire(timeout=timeout_s)


def test_the_next_kill_waits_for_a_cluster_that_is_stable() -> None:
    """Where each kill came after a time, an application on a busy machine got nothing done in between."""
    cluster: Any = Scripted()
    with Killer(cluster, "leader", every_s=0.001) as killer:
        assert cluster.waits.acquire(timeout=10)
        assert not cluster.waits.acquire(timeout=0.2), cluster.done
        cluster.is_stable.release()
        assert cluster.waits.acquire(timeout=10)
        cluster.is_stable.release(100)
    assert cluster.done[:6] == ["kill leader", "start 1", "wait"] * 2
    assert killer.killed[:2] == [1, 1]


def test_it_goes_on_where_the_test_stopped_another_node() -> None:
    cluster: Any = Scripted(stops_another=True)
    with Killer(cluster, "leader", every_s=0.001):
        for _ in range(3):
            assert cluster.waits.acquire(timeout=10)
    assert cluster.done.count("kill leader") >= 3


def test_a_kill_that_fails_is_raised_at_the_end() -> None:
    cluster: Any = Scripted()

    def kill(_which: str) -> int:
        cluster.waits.release()
        raise ClusterFailed("node 1 is dead")

    cluster.kill = kill
    with pytest.raises(ClusterFailed, match="node 1 is dead"), Killer(cluster, every_s=0.001):
        assert cluster.waits.acquire(timeout=10)
