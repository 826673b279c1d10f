"""Which clients wait for what, in a test that does not end: said by the process of the proxies.

Works     also where the test's process runs no Python, as a library keeps its lock.
Ends      the test's process, if that was asked for, by SIGABRT: pytest prints the stacks of its threads then.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.testing.proxy import Proxy, Waiting
from fencepost.wire.registry import APIS

NOTICE_S: Final = 60.0  # a test that takes as long is named, once
OLD_S: Final = 1.0  # a long poll waits for less
ROWS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A test. ``report``: a file for what is said; ``ends``: its process is ended then."""

    name: str
    pid: int
    report: str
    after_s: float
    ends: bool


async def watch(proxy: Proxy, watched: Watched) -> None:
    """Say it after a while, if it is not cancelled before."""
    await asyncio.sleep(watched.after_s)
    text = "".join(f"{line}\n" for line in lines(proxy, watched))
    try:
        file = os.open(watched.report, os.O_WRONLY | os.O_APPEND)
    except OSError:
        file = os.dup(2)  # the log of this process
    with os.fdopen(file, "wb") as report:
        report.write(text.encode())
    if watched.ends:
        with contextlib.suppress(ProcessLookupError):
            os.kill(watched.pid, signal.SIGABRT)


def lines(proxy: Proxy, watched: Watched) -> Iterator[str]:
    """What is said of a test."""
    yield f"\nfencepost: {watched.name} has not ended after {watched.after_s:g} s."
    yield from _clients([each for each in proxy.waiting() if each.for_s >= OLD_S])
    for each in proxy.armory.armed()[:ROWS_MAX]:
        yield f"  armed: {each.text}, fired {each.fired} times"
    if watched.ends:
        yield "  The run is ended, with the stacks of its threads."
    else:
        yield f"  To end it, with its stacks: kill -ABRT {watched.pid}, or pytest --fencepost-within SECONDS"


def _clients(waiting: Sequence[Waiting]) -> Iterator[str]:
    for each in waiting[:ROWS_MAX]:
        api = APIS[each.key].name if each.key in APIS else f"API key {each.key}"
        yield f"  client {each.client_id!r} waits for node {each.node}: {api}, for {each.for_s:.1f} s"
    if len(waiting) > ROWS_MAX:
        yield f"  and {len(waiting) - ROWS_MAX} more"
    if not waiting:
        yield "  No client waits for an answer: the test, or a library that it uses, waits for itself."


def standard_error(descriptor: int) -> str:
    """A file descriptor of this process, as another process of its owner may open it.

    A file (``pytest > out 2>&1``) is appended to from here on, by all who have it open: they would go on
    where they were, over what the other process wrote.
    """
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_APPEND)
    return str(Path(f"/proc/{os.getpid()}/fd/{descriptor}"))
