"""Nodes that are forked from one process (cluster/forked.py), here of a program that is no node."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cluster import fork_server, forked, node_process
from fencepost.cluster.forked import Forked, Server
from fencepost.testing import reaper

PLAYED = """
import os, sys, time
def main(arguments):
    if arguments == ["node", "--help"]:
        sys.exit(0)
    print(os.getsid(0) == os.getpid(), os.getcwd(), sorted(os.environ), sys.stdin.read(), flush=True)
    if arguments == ["stays"]:
        time.sleep(600)
    sys.exit(3)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "played.py").write_text(PLAYED)
    started = Server("played", {"PYTHONPATH": str(tmp_path)})
    yield started
    started.close()


def played(server: Server, folder: Path, *arguments: str) -> Forked:
    folder.mkdir(parents=True)
    return Forked(
        server, arguments, directory=str(folder), log=str(folder / "log.txt"), environment={"ONE": "1"}
    )


def test_a_forked_process_is_one_of_its_own_and_its_end_is_known(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "nodes/1"
    assert played(server, folder).wait(60) == 3
    assert (folder / "log.txt").read_text().split() == ["True", str(folder), "['ONE']"]


def test_the_reaper_finds_what_was_forked_in_its_folder_and_nothing_else(
    server: Server, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    child = played(server, folder / "nodes/1", "stays")
    with subprocess.Popen(["sleep", "60"], cwd=folder / "nodes/1") as another:
        try:
            log = folder / "nodes/1/log.txt"
            while not log.exists() or not log.read_text():
                time.sleep(0.01)
            assert reaper.started_with(str(folder)) == [child.pid]
            assert reaper.started_with(str(tmp_path / "other")) == []
        finally:
            another.kill()
            reaper.kill_all(str(folder))
    assert child.wait(60) == -9
    assert forked.NAME.encode() == reaper.FORKED


def test_what_is_forked_for_a_dead_run_does_not_start(tmp_path: Path) -> None:
    log = str(tmp_path / "log.txt")
    call = f"fork_server.run(print, ['started'], {str(tmp_path)!r}, {log!r}, {{}})"
    program = f"from fencepost.cluster import fork_server; {call}"
    for writer_lives in (True, False):
        reading, writing = os.pipe()
        if not writer_lives:
            os.close(writing)
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, stdin=reading, timeout=60, check=False)
        os.close(reading)
        if writer_lives:
            os.close(writing)
            assert (ended.returncode, Path(log).read_text()) == (0, "['started']\n")
            Path(log).unlink()
        else:
            assert (ended.returncode, Path(log).exists()) == (1, False)


def test_a_server_with_another_parent_takes_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(parent: int) -> list[object]:
        reading, writing = os.pipe()
        os.write(writing, b'{"pid": 1}\n')
        os.close(writing)
        with io.TextIOWrapper(io.FileIO(reading)) as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            return list(fork_server.requests(parent))

    assert taken(os.getppid()) == [{"pid": 1}]
    assert taken(os.getppid() + 1) == []


def test_another_server_takes_the_place_of_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "played.py").write_text(PLAYED)
    monkeypatch.setattr(node_process, "MODULE", "played")
    monkeypatch.setattr(node_process, "inherited", lambda: {"PYTHONPATH": str(tmp_path)})
    monkeypatch.setattr(forked, "_SERVERS", [])
    first = forked.prepare()
    assert forked.prepare() is first
    child = played(first, tmp_path / "one", "stays")
    os.kill(first.pid, signal.SIGKILL)
    while first.is_alive:
        time.sleep(0.01)
    with pytest.raises(OSError, match=r"pipe|has ended"):
        first.call(pid=child.pid)
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    while Path(f"/proc/{child.pid}/cwd").exists():
        time.sleep(0.01)
    second = forked.prepare()
    assert second is not first
    second.close()
    assert not second.is_alive
