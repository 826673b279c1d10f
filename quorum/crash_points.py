"""Places between two steps at which a test can make a process end as by kill -9.

``FENCEPOST_CRASH_AT=fence:intent-applied`` ends the process when it gets there, ``...:3`` at the third time.
Nothing is flushed, and no response is sent.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

from fencepost.records.invariant import invariant

VARIABLE: Final = "FENCEPOST_CRASH_AT"

CONTROLLER_POINTS: Final = (
    "allocate:range-written",  # ZooKeeper gave a range; nothing of it is in the log
    "allocate:record-applied",  # a bridged block is in the log; its broker has no response yet
    "bridge:znode-ready",  # the znode is there; the phase is not in the log
    "bridge:phase-applied",
    "import:block-read",  # the block is known; the floor is not in the log
    "import:floor-applied",
    "fence:block-read",  # block and version are known; the intent is not in the log
    "fence:intent-applied",  # the intent is in the log; the fence is not written
    "fence:fence-written",  # the fence is in ZooKeeper; the switch is not in the log
    "fence:switch-applied",
    "finalize:phase-applied",
    "rollback:stop-applied",  # no ids are allocated; ZooKeeper has no block above all yet
    "rollback:block-written",  # ZooKeeper has it; the phase is not in the log
    "rollback:phase-applied",
)
"""In the active controller, in the order in which an upgrade comes by them."""

COMMAND_POINTS: Final = (
    "command:before-request",
    "command:after-answer",  # the controller is done; nothing was printed
)
"""In the process of ``fencepost migrate``."""

Reach = Callable[[str], None]


def reach_in(environment: Mapping[str, str] = os.environ) -> Reach:
    """What a process calls at each point. Raises ValueError if the variable names none."""
    wanted, count = _parse(environment.get(VARIABLE, ""))
    reached = 0

    def reach(point: str) -> None:
        nonlocal reached
        invariant(point in (*CONTROLLER_POINTS, *COMMAND_POINTS), "an unnamed crash point", point=point)
        if point != wanted:
            return
        reached += 1
        if reached == count:
            print(f"{VARIABLE}: {point} reached", file=sys.stderr, flush=True)  # noqa: T201 - the last words
            os.kill(os.getpid(), signal.SIGKILL)

    return reach


def _parse(text: str) -> tuple[str, int]:
    """``name`` or ``name:n``; "" is none."""
    known = (*CONTROLLER_POINTS, *COMMAND_POINTS)
    if not text or text in known:
        return text, 1
    point, _, count = text.rpartition(":")
    if point not in known or not (count.isascii() and count.isdecimal() and int(count) > 0):
        raise ValueError(f"{VARIABLE}={text}: expected POINT or POINT:COUNT, a point of {', '.join(known)}")
    return point, int(count)
