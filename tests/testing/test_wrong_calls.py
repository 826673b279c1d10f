"""Calls in the wrong order, and wrong arguments: each says what was expected, and nothing is left."""

import asyncio
import json
import os
import pickle
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from fencepost.client import Admin
from fencepost.settings.short_path import short_path
from fencepost.testing import AsyncCluster, Cluster, ClusterFailed, RunningCluster
from fencepost.testing.reaper import started_with
from tests.together import Together

pytestmark = pytest.mark.slow

ENDED = "this cluster ended with its with block"
USES: list[Callable[[RunningCluster], object]] = [
    lambda cluster: cluster.bootstrap,
    lambda cluster: cluster.faults,
    lambda cluster: cluster.leader(),
    lambda cluster: cluster.status(1),
    lambda cluster: cluster.log(1),
    lambda cluster: cluster.kill("leader"),
    lambda cluster: cluster.kill(1),
    lambda cluster: cluster.pause(1),
    lambda cluster: cluster.resume(),
    lambda cluster: cluster.start(),
    lambda cluster: cluster.start(1),
    lambda cluster: cluster.move_leader(),
    lambda cluster: cluster.cut(1, 2),
    lambda cluster: cluster.isolate(1),
    lambda cluster: cluster.heal(),
    lambda cluster: cluster.advance_clock(1),
    lambda cluster: cluster.wait_stable(),
    lambda cluster: cluster.create_topic("x"),
    lambda cluster: cluster.transactions(),
    lambda cluster: cluster.groups(),
    lambda cluster: cluster.read("t"),
    lambda cluster: cluster.explain("app"),
    lambda cluster: cluster.ask(Admin.list_topics),
]


def refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ClusterFailed, match=words):
        call()


def test_what_a_cluster_is_not_made_of_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    cases = {
        "nodes: expected a number, got '3'": lambda: Cluster(nodes="3"),  # type: ignore[arg-type]
        r"write: topics=\['orders'\]": lambda: Cluster(topics="orders"),
        "config: expected settings by name": lambda: Cluster(config=["a=b"]),  # type: ignore[arg-type]
        "used is there already; expected an empty folder": Cluster(directory=tmp_path / "used").__enter__,
        "file is there already": Cluster(directory=tmp_path / "used" / "file").__enter__,
    }
    with Together() as together:
        for words, call in cases.items():
            with together.case(words):
                refused(call, words)
        with (
            together.case("not started"),
            pytest.raises(AttributeError, match=r"with Cluster\(\) as c: c.kill"),
        ):
            Cluster().kill("leader")  # type: ignore[attr-defined]
        with together.case("no such name"), pytest.raises(AttributeError, match="no attribute 'kil'"):
            Cluster().kil("leader")  # type: ignore[attr-defined]


def test_calls_in_the_wrong_order_say_what_to_do_and_leave_nothing() -> None:
    made = Cluster(nodes=2, topics={"t": 1, "by-default": -1}, faults=True)
    with made as cluster:
        folder = cluster.directory.parent
        refused(made.__enter__, "this cluster runs already")
        follower = cluster.pause("follower")
        refused(cluster.wait_stable, f"node {follower} is stopped; resume it first")
        refused(lambda: cluster.start(follower), f"node {follower} is stopped: let it go on with resume")
        cluster.start()  # it starts what is dead: nothing
        cluster.kill(follower)
        refused(lambda: cluster.resume(follower), f"node {follower} is dead: start it")
        refused(lambda: cluster.leader(timeout_s=0.5), f"a node leads .*node {follower} is dead")
        cluster.start(follower)
        cluster.start(follower)
        cluster.heal()
        refused(lambda: cluster.explain("--help"), "^'--help' is no partition")
        for wrong in (-1, float("nan"), float("inf"), 1e12):
            refused(partial(cluster.advance_clock, wrong), "expected 0 s or more, all calls together")
        cluster.advance_clock(1e9)
        refused(lambda: cluster.advance_clock(1), "at most 1000000000 s")
        cluster.wait_stable()
        for each in (cluster, made):
            with pytest.raises(
                TypeError, match=r"cannot be pickled; give the other process cluster.bootstrap"
            ):
                pickle.dumps(each)
        in_a_fork(made, cluster)
        assert cluster.status(1) == "running", "a fork that leaves the block ends nothing"
    made.__exit__(None, None, None)
    with Together() as together:
        for number, use in enumerate(USES):
            with together.case(str(number)):
                refused(partial(use, cluster), ENDED)
    assert not folder.exists()
    assert not started_with(str(folder))


def in_force(cluster: RunningCluster, node: int) -> dict[str, object]:
    path = cluster.directory / "nodes" / str(node) / "data" / "testing.sock"
    with short_path(path) as short, socket.socket(socket.AF_UNIX) as asking:
        asking.connect(short)
        asking.sendall(b"?\n")
        said = json.loads(asking.makefile("rb").readline())
    assert isinstance(said, dict)
    return said


def test_a_paused_node_takes_cuts_and_clocks_when_it_goes_on() -> None:
    with Cluster(nodes=2) as cluster:
        follower = cluster.pause("follower")
        cluster.isolate(follower)
        cluster.advance_clock(5)
        cluster.resume()
        seen = in_force(cluster, follower)
        assert (bool(seen["cut"]), seen["advanced_ms"]) == (True, 5000)
        cluster.heal()
        assert in_force(cluster, follower)["cut"] == []


def test_threads_that_break_a_cluster_at_once_do_not_meet() -> None:
    """A node that is killed and started again, while cuts and clocks are said to it."""
    with Cluster(nodes=2) as cluster:
        enough = threading.Event()

        def killer() -> None:
            for _ in range(10):
                cluster.kill(2)
                cluster.start(2)
            enough.set()

        def breaker() -> None:
            while not enough.is_set():
                cluster.cut(1, 2)
                cluster.heal()
                cluster.advance_clock(0.01)

        with ThreadPoolExecutor(3) as threads:
            for each in [threads.submit(each) for each in (killer, breaker, breaker)]:
                each.result(120)


def test_what_starts_nodes_while_the_block_ends_starts_none_after_it() -> None:
    with ThreadPoolExecutor(1) as threads:
        with Cluster(nodes=1) as cluster:
            folder = cluster.directory.parent
            began = threading.Event()

            def again_and_again() -> None:
                while True:
                    cluster.kill(1)
                    began.set()
                    cluster.start(1)

            broken = threads.submit(again_and_again)
            assert began.wait(60)
        with pytest.raises(ClusterFailed):
            broken.result(60)
    assert not started_with(str(folder))


def in_a_fork(made: Cluster, cluster: RunningCluster) -> None:
    """A child process that uses the cluster, and leaves the block."""
    child = os.fork()
    if child == 0:
        try:
            refused(cluster.start, f"start nodes in process {os.getppid()}")
            assert cluster.leader() in cluster.node_ids
            made.__exit__(None, None, None)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_start_that_is_cancelled_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cluster(nodes=1)
    start, began, cancelled = made._started, threading.Event(), threading.Event()

    def started() -> RunningCluster:
        began.set()
        assert cancelled.wait(60)
        return start()

    monkeypatch.setattr(made, "_started", started)
    seen: list[str] = []

    async def story() -> None:
        entering = asyncio.ensure_future(made.__aenter__())
        await asyncio.to_thread(began.wait)
        entering.cancel()
        await asyncio.sleep(0)
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await entering
        seen.extend(str(each) for each in [made._undo] if each is not None)

    asyncio.run(story())
    assert seen == []


def test_on_an_event_loop_there_are_the_same_methods() -> None:
    mine = {name for name in dir(RunningCluster) if not name.startswith("_")}
    not_for_tests = {"bring_up", "kill_all", "proxies"}
    assert mine - not_for_tests == {name for name in dir(AsyncCluster) if not name.startswith("_")}
