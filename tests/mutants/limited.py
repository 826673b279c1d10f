"""Runs of pytest over broken code, which may never end, on a machine that may be busy with other things.

Hangs    it took its CPU time, or one test took that of a test, or a test has waited WAITED_S_MAX for nothing
         that this machine could give: that is what the broken code does, and it has been noticed.
Ended    WALL_S_MAX went by, or something else ended the run: that says nothing of the code.
Waited   the time in which no thread of the run and of what it started computed, or wanted to (Linux:
         ``schedstat``; elsewhere it is always 0). Time for which the machine kept it from computing is none.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple

WALL_S_MAX: Final = 3600
WAITED_S_MAX: Final = 180
POLLED_S: Final = 1.0

_PROC: Final = Path("/proc")


class Ended(Exception):
    """The tests did not come to an end, which says nothing of the code."""


class Died(Ended):
    """A signal ended the tests: by chance, unless it does so again."""


class Hangs(Exception):
    """The tests do not come to an end with this code."""


class Ran(NamedTuple):
    """How pytest ended: its exit status (negative: a signal), and what it printed."""

    status: int
    printed: str
    errors: str


def run_pytest(
    copy: Path,
    words: Iterable[str],
    *,
    cpu_s_max: int,
    test_cpu_s_max: float = math.inf,
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Run pytest in a copy of the tree, in one process. Raises Hangs, Died, Ended.

    test_cpu_s_max   of one test, in this process; elsewhere than on Linux there is no such bound.
    """
    command = ["/bin/sh", "-c", f'ulimit -S -t {cpu_s_max} && exec "$@"', "sh"]
    command += [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
    command += ["-o", f"faulthandler_timeout={WALL_S_MAX}"]  # of one test: of a busy machine, too
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    with TemporaryFile() as printed, TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, *words],
            cwd=copy,
            env={**kept, "PYTHONPATH": str(copy), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=errors,
        )
        try:
            status = _await(process, lambda: os.fstat(printed.fileno()).st_size, test_cpu_s_max)
        finally:
            if process.poll() is None:
                for pid in _family(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
        texts = [file.read().decode(errors="replace") for file in (printed, errors) if not file.seek(0)]
    if status == -signal.SIGXCPU:
        raise Hangs(f"it took {cpu_s_max} s of CPU time")
    if status < 0:
        raise Died(f"pytest ended with {status}, which says nothing: {texts[1][-200:]}")
    if "\nTimeout (" in f"\n{texts[1]}":  # faulthandler's
        raise Ended(f"one test took {WALL_S_MAX} s, which says nothing")
    return Ran(status, *texts)


def _await(process: subprocess.Popen[bytes], progress: Callable[[], int], test_cpu_s_max: float) -> int:
    """Its exit status. Raises Hangs, Ended. ``progress`` is another number when one more test has ended."""
    waited_s, before, seen_s = 0.0, dict[Path, _Used](), time.monotonic()
    test_cpu_s = 0.0
    until_s, reached = seen_s + WALL_S_MAX, 0
    while True:
        try:
            return process.wait(POLLED_S)
        except subprocess.TimeoutExpired:
            now_s, used = time.monotonic(), _used(process.pid)
        since = [each.since(before.get(thread)) for thread, each in used.items()]
        test_cpu_s += sum(each.computed_s for each in since if each.pid == process.pid)
        wanted_s = sum(each.wanted_s for each in since)
        waited_s += max(0.0, now_s - seen_s - wanted_s) if used else 0.0
        before, seen_s = used, now_s
        if progress() != reached:
            waited_s, test_cpu_s, reached = 0.0, 0.0, progress()
        if test_cpu_s > test_cpu_s_max:
            raise Hangs(f"a test has computed for {test_cpu_s_max} s")
        if waited_s > WAITED_S_MAX:
            raise Hangs(f"a test has waited for {WAITED_S_MAX} s")
        if now_s > until_s:
            raise Ended(f"ended after {WALL_S_MAX} s, which says nothing")


class _Used(NamedTuple):
    """For how long a thread of a process has computed, and computed or wanted to."""

    pid: int
    computed_s: float
    wanted_s: float

    def since(self, before: "_Used | None") -> "_Used":
        """What has come to it."""
        if before is None:
            return self
        return _Used(self.pid, self.computed_s - before.computed_s, self.wanted_s - before.wanted_s)


def _used(root: int) -> dict[Path, _Used]:
    """Of each thread of a process and all that it started."""
    return {thread: used for pid in _family(root) for thread, used in _threads(pid)}


def _family(root: int) -> set[int]:
    """A process, those that it started, and those that these started."""
    parents = dict(_parents())
    family = {root}
    for _ in range(10):  # generations
        family |= {pid for pid, parent in parents.items() if parent in family}
    return family


def _parents() -> Iterator[tuple[int, int]]:
    """Process -> its parent."""
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            words = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        yield int(path.parent.name), int(words[1])


def _threads(pid: int) -> Iterator[tuple[Path, _Used]]:
    for path in (_PROC / str(pid) / "task").glob("*/schedstat"):
        try:
            computed_ns, kept_waiting_ns, _ = path.read_text().split()
        except (OSError, ValueError):
            continue
        yield path, _Used(pid, int(computed_ns) / 1e9, (int(computed_ns) + int(kept_waiting_ns)) / 1e9)
