"""A program that outlives a test run and cleans up after it: nodes killed, folder removed.

Run     by its text, with the folder as argument; it loads nothing of this project.
Waits   for the end of standard input, whose other end the test run holds, and for the end of its parent, as a
        child of the run may have inherited the pipe. It is in a session of its own: no Ctrl-C, no signal to
        the run's process group ends it.
Kills   processes that were started with a file of the folder as argument, as nodes are, or forked for a node
        in the folder (cluster/forked.py); where there is no /proc, those that the nodes' records name. Until
        none is left; then the folder goes, if it is to.
"""

import contextlib
import inspect
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

KEEP = "--keep"
ROUNDS_MAX = 500
ROUND_S = 0.01
QUIET_ROUNDS = 3
LOOK_S = 0.5
FORKED = b"fencepost-fork-server"  # an argument of processes that were forked for a node


def start(folder: str, *, keep: bool) -> "subprocess.Popen[bytes]":
    """Have a folder cleaned up when this process ends, or when the standard input of the result is closed."""
    program = inspect.getsource(sys.modules[__name__])
    command = [sys.executable, "-I", "-S", "-c", program, folder, *([KEEP] if keep else [])]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def main(arguments: "list[str]") -> None:
    """Wait for the end of the run, then clean up."""
    folder, keeps = arguments[0], KEEP in arguments[1:]
    await_end_of_run(os.getppid())
    quiet = 0  # rounds: what was being started when the run ended is not there yet
    for _ in range(ROUNDS_MAX):
        quiet = 0 if kill_all(folder) else quiet + 1
        if quiet == QUIET_ROUNDS:
            break
        time.sleep(ROUND_S)
    if not keeps:
        shutil.rmtree(folder, ignore_errors=True)


def await_end_of_run(parent: int) -> None:
    """Returns when standard input has ended, or this process has another parent."""
    while True:
        readable, _, _ = select.select([sys.stdin.fileno()], [], [], LOOK_S)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            return
        if os.getppid() != parent:
            return


def kill_all(folder: str) -> int:
    """Kill what was started with a file of the folder; how many there were."""
    found = started_with(folder) if Path("/proc/self").is_dir() else recorded_in(folder)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def started_with(folder: str) -> "list[int]":
    """Nodes of the folder: they have a file of it as an argument, or were forked and are in it."""
    inside = (os.fsencode(f"{folder}/"), os.fsencode(f"{Path(folder).resolve()}/"))
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                named = (process / "cmdline").read_bytes().split(b"\0")
                if FORKED in named:
                    named = [os.fsencode((process / "cwd").readlink())]
                if any(name.startswith(inside) for name in named):
                    found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def recorded_in(folder: str) -> "list[int]":
    """Processes that the nodes' records name and that are there."""
    found = []
    for record in Path(folder).rglob("pid.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = int(json.loads(record.read_text("utf-8"))["pid"])
            os.kill(pid, 0)
            found.append(pid)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
