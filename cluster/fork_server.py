"""A program that has imported all that a node runs, and forks a node at each request: see forked.py.

Run     by its text, with its name and the module of ``fencepost``'s commands as arguments.
In      lines of JSON: what to run, or the pid of a child whose end is asked for.
Out     lines of JSON: the pid; the return code, null while it runs.
Ends    with its standard input, or its parent, as a child of the parent may have inherited the pipe. Nodes
        that still run are killed. One that is forked while the parent dies is in its folder, where the reaper
        looks for it (testing/reaper.py), before it looks whether the parent lives.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

LOOK_S = 0.5


def serve(module: str) -> None:
    """Until the parent ends. Leaves a child too, by SystemExit, when its node ends."""
    parent = os.getppid()
    main = importlib.import_module(module).main
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["node", "--help"])
    with contextlib.suppress(ImportError, AttributeError):  # an earlier version may not have it
        importlib.import_module(module.replace("cli.main", "wire.registry")).load_newest()
    gc.freeze()
    running: set[int] = set()
    for request in requests(parent):
        if "pid" in request:
            answer = ended(request["pid"])
            if answer is not None:
                running.discard(request["pid"])
        else:
            answer = os.fork()
            if answer == 0:
                run(main, **request)
            running.add(answer)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def requests(parent: int) -> Iterator[dict[str, Any]]:
    """One at a time: the next is written when this one is answered."""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_S)
        if os.getppid() != parent:
            return
        if readable:
            line = sys.stdin.readline()
            if not line:
                return
            yield json.loads(line)


def parent_ended() -> bool:
    """Whether no process can write to standard input any more."""
    watched = select.poll()
    watched.register(0, 0)
    return bool(watched.poll(0))


def ended(pid: int) -> int | None:
    """How a child ended, if it did."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def run(
    main: Callable[[list[str]], None],
    arguments: list[str],
    directory: str,
    log: str,
    environment: dict[str, str],
    module: str | None = None,
) -> None:
    """What ``node_process.spawn`` gives its child, but for the new program. ``module``: whose main it is."""
    os.setsid()
    os.chdir(directory)
    if parent_ended():
        sys.exit(1)
    os.environ.clear()
    os.environ.update(environment)
    appended = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for inherited, replacement in ((0, os.open(os.devnull, os.O_RDONLY)), (1, appended), (2, appended)):
        os.dup2(replacement, inherited)
    (importlib.import_module(module).main if module else main)(arguments)


if __name__ == "__main__":
    serve(sys.argv[2])
