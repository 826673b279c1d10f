"""A program that has imported all that a node runs, and forks a node at each request: see forked.py.

Named   the module of ``fencepost``'s commands, in the tree that is first on PYTHONPATH.
In      lines of JSON: what to run, or the pid of a child whose end is asked for, or a string.
Out     lines of JSON: the pid; the return code, null while it runs; the string's hash in this process.
End     of standard input: the tests are over, or were killed. Nodes that still run are killed, too.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable


def serve(module: str) -> None:
    """Until standard input ends. Leaves a child too, by SystemExit, when its node ends."""
    main = importlib.import_module(module).main
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["node", "--help"])
    with contextlib.suppress(ImportError, AttributeError):  # an earlier version may not have it
        importlib.import_module(module.replace("cli.main", "wire.registry")).load_newest()
    gc.freeze()
    running: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            answer = ended(request["pid"])
            if answer is not None:
                running.discard(request["pid"])
        elif "hash_of" in request:
            answer = hash(request["hash_of"])
        else:
            answer = os.fork()
            if answer == 0:
                run(main, **request)
            running.add(answer)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in running:
        os.kill(pid, signal.SIGKILL)


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
) -> None:
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
    serve(sys.argv[1])
