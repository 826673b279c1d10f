"""One node as an operating-system process: start it, know it again, signal it, read its last words.

Identity    a pid alone may belong to another process by now. The record beside the node's directory has pid,
            start time and boot id; only a process that matches all three is the node and gets signals.
Children    run the same interpreter by absolute path with ``-P`` and without PYTHONPATH, so that a
            ``fencepost/`` in the current directory is never theirs.
Platform    Linux: reads /proc.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from fencepost.settings.durable_file import write_durably
from fencepost.settings.log_file import LOG_FILE_VARIABLE, rotated_names

RECORD: Final = "pid.json"
LOG: Final = "log.txt"
MODULE: Final = "fencepost.cli.main"
LOG_TAIL_BYTES: Final = 16 * 1024
POLL_SECONDS: Final = 0.01

_NOT_INHERITED: Final = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PYTHONDONTWRITEBYTECODE",  # a node that compiles itself at every start takes seconds to serve
)

Status = Literal["running", "stopped", "dead", "down"]
"""``stopped`` by SIGSTOP; ``dead`` ended unasked; ``down`` never started, or ended by ``down``."""


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """A process that was started for a node. It may be gone by now."""

    pid: int
    start_ticks: int  # since boot, /proc/PID/stat field 22
    boot_id: str

    def status(self) -> Status:
        """What the process is doing now. A zombie is dead when its last thread has closed its ports."""
        if self.boot_id != _boot_id():
            return "dead"
        try:
            state, start_ticks = _read_stat(self.pid)
            ended = state in "ZX" and sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir()) <= 1
        except OSError:
            return "dead"
        if start_ticks != self.start_ticks or ended:
            return "dead"
        return "stopped" if state in "Tt" else "running"

    def send(self, number: signal.Signals) -> bool:
        """Signal the process. False if it is gone."""
        if self.status() == "dead":
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


Spawn = Callable[[Sequence[str], Path, dict[str, str]], subprocess.Popen[bytes]]
"""Run a command in a folder, with this environment: see ``spawn``."""


def start(directory: Path, arguments: list[str], spawned_by: Spawn | None = None) -> subprocess.Popen[bytes]:
    """Run ``fencepost ARGUMENTS`` in a session of its own, its output appended to ``directory``/log.txt."""
    environment = {**inherited(), LOG_FILE_VARIABLE: str((directory / LOG).absolute())}
    child = (spawned_by or spawn)([sys.executable, "-P", "-m", MODULE, *arguments], directory, environment)
    _, start_ticks = _read_stat(child.pid)
    record = {"pid": child.pid, "start_ticks": start_ticks, "boot_id": _boot_id()}
    write_durably(directory / RECORD, json.dumps(record) + "\n")
    return child


def inherited() -> dict[str, str]:
    """What a node has of this process's environment."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}


def spawn(command: Sequence[str], directory: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Run a command in ``directory``, in a session of its own, its output appended to log.txt there."""
    with (directory / LOG).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )


def recorded(directory: Path) -> NodeProcess | None:
    """The process last started for this node, None if there is none or it was ended by ``forget``."""
    try:
        record = json.loads((directory / RECORD).read_text("utf-8"))
        return NodeProcess(int(record["pid"]), int(record["start_ticks"]), str(record["boot_id"]))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError):
        return None  # torn by a crash of the machine: that process is gone, too


def forget(directory: Path) -> None:
    """The node ended on request: ``ps`` says ``down`` from now on, not ``dead``."""
    (directory / RECORD).unlink(missing_ok=True)


def log_tail(directory: Path, line_count: int = 12) -> str:
    """The last lines of the node's log, also where it was rotated a moment ago."""
    log = directory / LOG
    text = "".join(_tail(each) for each in (*rotated_names(log, 2), log))
    return "\n".join(text.splitlines()[-line_count:])


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def ending(return_code: int) -> str:
    """How a process ended, in words: ``exit status 1`` or ``SIGKILL``."""
    return signal.Signals(-return_code).name if return_code < 0 else f"exit status {return_code}"


def wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    """Look every POLL_SECONDS until ``holds()``; False after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _read_stat(pid: int) -> tuple[str, int]:
    """State letter and start time of a process. Raises OSError if there is none."""
    text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold spaces and parentheses
    return fields[0], int(fields[19])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown"  # a container without it: pid and start time must do
