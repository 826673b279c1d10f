"""Only the driver that ships drives a voter: tests give it events, and never call its Replica themselves.

A test that turned a Replica by hand would show what no process does: another order of flush,
acknowledgement and tick than that of node/driver.py. So each method that the driver owns refuses a test as
its caller.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

from fencepost.quorum.proposer import Proposer
from fencepost.quorum.replica import Replica

DRIVEN: Final[tuple[tuple[type, str], ...]] = (
    (Replica, "received"),
    (Replica, "met"),
    (Replica, "connected"),
    (Replica, "disconnected"),
    (Replica, "lost"),
    (Replica, "turn"),
    (Replica, "maintenance_tick"),
    (Replica, "flush"),
    (Replica, "hand_over"),
    (Replica, "close"),
    (Proposer, "submit"),
    (Proposer, "pump"),
    (Proposer, "answer"),
)
"""What node/driver.py calls, or what it leads to."""


def watch() -> None:
    """From now on these methods raise AssertionError if a test is their caller."""
    for owner, name in DRIVEN:
        method = getattr(owner, name)
        if not hasattr(method, "is_watched"):
            setattr(owner, name, _watched(f"{owner.__name__}.{name}", method))


def _watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        assert not caller.startswith("tests."), (
            f"{caller} calls {name}; expected an event of the driver: Voters and Stage have methods for them"
        )
        return method(*arguments, **named)

    call.is_watched = True  # type: ignore[attr-defined]
    return call
