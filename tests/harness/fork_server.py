"""A program that has imported all that a node runs, and forks a node at each request: see forked.py.

In      lines of JSON: what to run, or the pid of a child whose end is asked for, or a string.
Out     lines of JSON: the pid; the return code, null while it runs; the string's hash in this process.
"""

import contextlib
import gc
import io
import json
import os
import sys
from typing import Any

from fencepost.cli.main import main
from fencepost.wire.registry import load_newest


def serve() -> None:
    """Until standard input ends. Returns in a child too, by SystemExit, when its node ends."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["node", "--help"])
    load_newest()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            answer = ended(request["pid"])
        elif "hash_of" in request:
            answer = hash(request["hash_of"])
        else:
            answer = os.fork()
            if answer == 0:
                run(**request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def ended(pid: int) -> int | None:
    """How a child ended, if it did."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def run(arguments: list[str], directory: str, log: str, environment: dict[str, str]) -> Any:
    """What ``node_process.spawn`` gives its child, but for the new program."""
    os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    appended = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for inherited, replacement in ((0, os.open(os.devnull, os.O_RDONLY)), (1, appended), (2, appended)):
        os.dup2(replacement, inherited)
    main(arguments)


if __name__ == "__main__":
    serve()
