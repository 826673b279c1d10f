"""The kit's clusters: real processes that are broken, and of which nothing is left."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.client import Admin, Producer
from fencepost.testing import Cluster, ClusterFailed
from fencepost.testing.reaper import started_with
from tests.harness.nodes import wait_for

pytestmark = pytest.mark.slow

ABANDONED = """
import os, sys, time
from fencepost.testing import Cluster
with Cluster(nodes=2, faults=True) as cluster:
    if sys.argv[1] == "fork" and os.fork() == 0:
        time.sleep(600)  # a child that has the pipe to the reaper, too
    print(cluster.directory.parent, os.getpid(), flush=True)
    time.sleep(600)
"""


async def write(
    bootstrap: str, topic: str, values: list[bytes], transactional_id: str, partition: int | None = None
) -> None:
    async with Producer(bootstrap, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for value in values:
                await producer.send(topic, value, partition=partition)


@pytest.mark.row("beyond.9")
def test_a_cluster_is_broken_and_heals_and_leaves_nothing() -> None:
    with Cluster(topics={"orders": 2}) as cluster:
        folder = cluster.directory.parent
        asyncio.run(write(cluster.bootstrap, "orders", [b"1"], "app"))
        leader = cluster.kill("leader")
        assert cluster.status(leader) == "dead"
        with pytest.raises(ClusterFailed, match=f"node {leader} is dead: there is nothing to send SIGKILL"):
            cluster.kill(leader)
        with pytest.raises(ClusterFailed, match=f"node {leader} is dead; start it first"):
            cluster.wait_stable()
        cluster.start()
        paused = cluster.pause("follower")
        assert cluster.status(paused) == "stopped"
        cluster.resume()
        asyncio.run(write(cluster.bootstrap, "orders", [b"2"], "app"))
        cluster.wait_stable()
        assert sorted(each.value or b"" for each in cluster.read("orders")) == [b"1", b"2"]
        assert [(each.transactional_id, each.state) for each in cluster.transactions()] == [
            ("app", "CompleteCommit")
        ]
        assert cluster.groups() == []
        assert "'app' is CompleteCommit" in cluster.explain("app")
        assert "node" in cluster.log(1)
        with pytest.raises(ClusterFailed, match="there is no node 9"):
            cluster.kill(9)
    assert not folder.exists()
    assert not started_with(str(folder))


def test_on_an_event_loop_it_is_awaited(tmp_path: Path) -> None:
    async def story() -> None:
        async with Cluster(nodes=1, topics=["t"], directory=tmp_path / "kept") as cluster:
            producer = Producer(cluster.bootstrap, transactional_id="open")
            async with producer:
                await producer.init_transactions()
                producer.begin_transaction()
                await producer.send_and_wait("t", b"unfinished")
                with pytest.raises(ClusterFailed, match=r"not read to the end .* t-0 \(end 1\)"):
                    await cluster.read("t", timeout_s=1)
                (seen,) = await cluster.read("t", isolation="read_uncommitted")
                assert (seen.value, seen.producer_id) == (
                    b"unfinished",
                    (await cluster.transactions())[0].producer_id,
                )
                await producer.abort_transaction()
            await cluster.kill(1)
            await cluster.start()
            assert await cluster.leader() == 1
            assert await cluster.read("t") == []
            with pytest.raises(
                ClusterFailed, match=r"write: await asyncio.to_thread\(METHOD, ...\), or: async with"
            ):
                Cluster().__enter__()

    asyncio.run(story())
    assert (tmp_path / "kept" / "nodes" / "1" / "log.txt").exists(), "the folder was asked for"
    assert not started_with(str(tmp_path))
    with pytest.raises(ClusterFailed, match="is a cluster already"), Cluster(directory=tmp_path / "kept"):
        pass


@pytest.mark.row("beyond.9")
def test_nodes_are_cut_off_and_clocks_move_on() -> None:
    with Cluster(topics={"t": 3}) as cluster:
        led = cluster.ask(Admin.list_topics)["t"].leaders
        moved = cluster.move_leader()
        assert cluster.leader() == moved
        assert cluster.move_leader(moved) == moved
        with pytest.raises(ClusterFailed, match="node 9"):
            cluster.move_leader(9)
        isolated = cluster.isolate("leader")
        reached = next(partition for partition, by in led.items() if by.node_id != isolated)
        wait_for("another leads", lambda: cluster.leader() != isolated)
        successor = cluster.leader()
        asyncio.run(write(cluster.bootstrap, "t", [b"meanwhile"], "app", reached))
        assert cluster.leader() == successor
        cluster.kill(successor)
        with pytest.raises(ClusterFailed, match="still not: a node leads"):
            cluster.leader(timeout_s=2)  # one of those that are left is cut off: no majority
        cluster.start()
        cluster.heal()
        cluster.wait_stable()
        asyncio.run(left_open(cluster.bootstrap))
        cluster.advance_clock(120)
        wait_for("it timed out", lambda: "CompleteAbort" in {each.state for each in cluster.transactions()})
        assert [each.value for each in cluster.read("t")] == [b"meanwhile"]
        with pytest.raises(ClusterFailed, match=r"expected 0 s or more, .* got -1"):
            cluster.advance_clock(-1)
        with pytest.raises(ClusterFailed, match="cannot be cut off from itself"):
            cluster.cut(1, 1)
        for node in cluster.node_ids:
            socket_file = cluster.directory / "nodes" / str(node) / "data" / "testing.sock"
            assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600


async def left_open(bootstrap: str) -> None:
    producer = Producer(bootstrap, transactional_id="open", transaction_timeout_ms=60_000)
    async with producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait("t", b"never")


def test_what_cannot_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(ClusterFailed, match=r"log\.retention\.hours"),
        Cluster(config={"log.retention.hours": "x"}),
    ):
        pass
    with pytest.raises(ClusterFailed, match="expected 1 to"), Cluster(nodes=0):
        pass
    with (
        pytest.raises(ClusterFailed, match=r"cannot write to .*less than 1\d* bytes are free .*make room"),
        Cluster(config={"disk.free.min.bytes": 10**15}),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["kill", "fork"])
def test_a_test_run_that_is_killed_leaves_neither_process_nor_folder(how: str) -> None:
    run = subprocess.Popen(
        [sys.executable, "-P", "-c", ABANDONED, how],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    folder, pid = run.stdout.readline().split()
    assert len(started_with(folder)) == 3, "two nodes, and the process of the proxies"
    os.kill(int(pid), signal.SIGKILL)
    run.wait()
    run.stdout.close()
    wait_for("the folder is gone", lambda: not Path(folder).exists())
    wait_for("no node runs", lambda: not started_with(folder))
    if how == "fork":
        os.killpg(run.pid, signal.SIGKILL)  # the child that slept
