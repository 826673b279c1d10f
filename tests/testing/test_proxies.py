"""The process of the proxies: it goes on while the test's stands still, and ends with it."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fencepost.testing import asking, proxies, proxy_process, reaper
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.proxies import Proxies
from tests.harness.nodes import wait_for
from tests.ports import free_port
from tests.testing.conversation import END_TXN, ask
from tests.testing.scripted_node import ScriptedNode

HOLDS_THE_LOCK = """
import ctypes, sys
from pathlib import Path
from fencepost.cluster import forked
from fencepost.testing.proxies import Proxies
proxies = Proxies(Path(sys.argv[1]), [int(sys.argv[2])], [int(sys.argv[3])])
proxies.start()
proxies.await_ready()
print(forked.prepare().pid, flush=True)
ctypes.PyDLL(None).pause()  # as a library that keeps Python's lock: no thread of this process runs
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Proxies]:
    before_none = Proxies(tmp_path / "proxy", [free_port()], [free_port()])
    before_none.start()
    before_none.await_ready()
    yield before_none
    before_none.close()


def process_of(folder: Path) -> int:
    (pid,) = reaper.started_with(str(folder))
    return pid


def test_a_test_that_stands_still_stops_no_client_and_takes_its_proxies_with_it(tmp_path: Path) -> None:
    node, port = ScriptedNode(), free_port()
    command = [sys.executable, "-P", "-c", HOLDS_THE_LOCK, "proxy", str(node.port), str(port)]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    try:
        fork_server = int(run.stdout.readline())
        ask(port)
        assert node.seen.count(END_TXN.key) == 1
        assert process_of(tmp_path) != run.pid
        os.kill(fork_server, signal.SIGKILL)  # it would end what it has forked
    finally:
        run.kill()
        run.wait()
        run.stdout.close()
    wait_for("the proxies are gone", lambda: not reaper.started_with(str(tmp_path)))
    node.close()


def test_the_process_ends_with_the_connection_that_its_test_holds(tmp_path: Path) -> None:
    setup = msgspec.json.encode(
        proxy_process.Setup(upstreams=[free_port()], ports=[free_port()], keys=[], authority=None)
    )
    program = "import sys; from fencepost.testing.proxy_process import main; main(sys.argv[1:])"
    with subprocess.Popen([sys.executable, "-P", "-c", program, setup.decode()], cwd=tmp_path) as process:
        path = tmp_path / proxy_process.SOCKET
        wait_for("it listens", path.exists)
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        with asking.opened(path, "hold", {}, 30):
            with pytest.raises(ClusterFailed, match="this is no question: KeyError"):
                asking.ask(path, "burn", {}, 30)
            assert process.poll() is None
        assert process.wait(30) == 0


def test_an_answer_that_does_not_come_is_an_error(
    started: Proxies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = started.faults.disconnect("Produce")
    pid = process_of(tmp_path)
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(proxies, "ANSWER_S_MAX", 0.1)
    with pytest.raises(ClusterFailed, match=f"after 0.1 s the proxies do not answer; .* {pid} runs"):
        fault.clear()
    with pytest.raises(ClusterFailed, match=r"after 0\.2 s the proxies do not answer"):
        fault.wait_fired(timeout_s=0.1)
    os.kill(pid, signal.SIGCONT)


def test_proxies_that_were_killed_are_named(started: Proxies, tmp_path: Path) -> None:
    pid = process_of(tmp_path)
    os.kill(pid, signal.SIGKILL)
    wait_for("they are gone", lambda: not reaper.started_with(str(tmp_path)))
    with pytest.raises(ClusterFailed, match=f"take no request: .*; their process {pid} has ended: SIGKILL"):
        started.requests(0)
    with pytest.raises(ClusterFailed, match="the proxies take no request"):
        started.faults.disconnect("Produce")


def test_proxies_that_cannot_listen_say_why(tmp_path: Path) -> None:
    taken = ScriptedNode()
    late = Proxies(tmp_path / "proxy", [free_port()], [taken.port])
    late.start()
    with pytest.raises(ClusterFailed, match=r"(?s)do not listen; .* exit status 1.*address already in use"):
        late.await_ready()
    late.close()
    taken.close()


def test_who_waits_for_a_fault_keeps_no_other_waiting(tmp_path: Path) -> None:
    node, port = ScriptedNode(), free_port()
    before = Proxies(tmp_path / "proxy", [node.port], [port])
    before.start()
    before.await_ready()
    faults = before.faults
    never = faults.disconnect("Produce")
    twice = faults.delay("EndTxn", 1)
    seen: list[int] = []

    def wait() -> None:
        with pytest.raises(ClusterFailed, match="not 1 times"):
            never.wait_fired(timeout_s=1)
        seen.append(0)

    def wait_twice() -> None:
        twice.wait_fired(2)
        seen.append(twice.fired)

    threads = [threading.Thread(target=each) for each in (wait, *[wait_twice] * 4)]
    for each in threads:
        each.start()
    ask(port)
    wait_for("it fired", lambda: twice.fired == 1)
    assert 2 not in seen
    ask(port)
    for each in threads:
        each.join()
    assert sorted(seen) == [0, 2, 2, 2, 2]
    before.close()
    assert (never.fired, twice.fired, twice.is_armed) == (0, 2, False)
    twice.clear()
    assert faults.clear() == []
    assert [each.delayed_ms for each in before.requests(0)] == [1, 1]
    node.close()
