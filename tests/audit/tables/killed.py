"""An ingest that ends by SIGKILL: before the n-th thing it does to its folder."""

import os
import signal
import sys
from typing import Any

from fencepost.audit.tables.ingest import ingest
from tests.audit.tables.workers import Here

_TOUCHES = frozenset({"open", "os.link", "os.remove", "os.mkdir", "os.rmdir"})


def ingest_killed_at(root: str, tables: str, moment: int) -> None:
    """Run in a process of its own. Ends well if there are less than ``moment`` moments."""
    left = moment

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in _TOUCHES and str(arguments[0]).startswith(tables) and not _only_reads(event, arguments):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    ingest(Here(), [root], tables)


def _only_reads(event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "open" and not int(arguments[2]) & (os.O_WRONLY | os.O_RDWR)
