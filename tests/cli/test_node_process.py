"""A node's process is known again by pid, start time and boot; nobody else's ever gets its signals."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cluster import node_process
from fencepost.cluster.node_process import (
    LOG,
    RECORD,
    NodeProcess,
    forget,
    log_tail,
    recorded,
    start,
    wait_until,
)
from tests.together import table


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is ended."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


def record(directory: Path, child: "subprocess.Popen[bytes]", **changes: object) -> NodeProcess:
    """What ``start`` writes, for a process that it did not start."""
    stat = Path(f"/proc/{child.pid}/stat").read_text()
    ticks = int(stat[stat.rindex(")") + 2 :].split()[19])
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    content = {"pid": child.pid, "start_ticks": ticks, "boot_id": boot_id} | changes
    (directory / RECORD).write_text(json.dumps(content))
    found = recorded(directory)
    assert found is not None
    return found


def test_a_process_is_followed_through_its_life(tmp_path: Path, sleeper: "subprocess.Popen[bytes]") -> None:
    process = record(tmp_path, sleeper)
    assert process.status() == "running"
    assert process.send(signal.SIGSTOP)
    assert wait_until(lambda: process.status() == "stopped", 10)
    assert process.send(signal.SIGCONT)
    assert wait_until(lambda: process.status() == "running", 10)
    assert process.send(signal.SIGKILL)
    assert wait_until(lambda: process.status() == "dead", 10)  # a zombie: nobody has reaped it yet
    assert not process.send(signal.SIGKILL)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"start_ticks": 1}, id="another-start-time"),
        pytest.param({"boot_id": "another"}, id="another-boot"),
    ],
)
def test_a_pid_that_belongs_to_somebody_else_gets_no_signal(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]", changes: dict[str, object]
) -> None:
    process = record(tmp_path, sleeper, **changes)
    assert process.status() == "dead"
    assert not process.send(signal.SIGKILL)
    assert sleeper.poll() is None


@table("text", ["", "{", "[]", '{"pid": 1}'], ids=["empty", "torn", "a-list", "no-start-time"])
def test_a_torn_record_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_text(text)
    assert recorded(tmp_path) is None


def test_a_node_that_was_told_to_end_is_forgotten(tmp_path: Path, sleeper: "subprocess.Popen[bytes]") -> None:
    record(tmp_path, sleeper)
    forget(tmp_path)
    assert recorded(tmp_path) is None
    forget(tmp_path)


def test_a_child_finds_the_installed_packages_wherever_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("fencepost", "click", "kio"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the wrong package')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = start(tmp_path, ["--version"])
    assert child.wait(60) == 0
    assert "fencepost, version" in log_tail(tmp_path)
    process = recorded(tmp_path)
    assert process is not None
    assert process.pid == child.pid
    assert process.status() == "dead"


def test_the_log_is_appended_to_and_its_end_is_shown(tmp_path: Path) -> None:
    assert log_tail(tmp_path) == ""
    lines = [f"line {number}" for number in range(node_process.LOG_TAIL_BYTES)]
    (tmp_path / LOG).write_text("\n".join(lines))
    assert log_tail(tmp_path, 2) == "\n".join(lines[-2:])


def test_waiting_ends_when_the_time_is_up() -> None:
    assert not wait_until(lambda: False, 0)
    assert wait_until(lambda: True, 0)


def test_an_ending_is_said_in_words() -> None:
    assert node_process.ending(4) == "exit status 4"
    assert node_process.ending(-signal.SIGKILL) == "SIGKILL"
