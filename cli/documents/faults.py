"""Documents of ``fencepost fault``."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from fencepost.cli.documents.base import Document, Part


class Fault(Part):
    """A fault that was armed; ``text`` is the same as a sentence."""

    number: int
    action: str
    api: str
    match: dict[str, str]
    times: int | None
    fired: int
    is_armed: bool
    text: str


class Faults(Document):
    """``fault``: those that were armed, cleared or waited for."""

    faults: list[Fault]


class FaultedNode(Part):
    """A node, after what was done to it."""

    node_id: int
    status: Literal["running", "stopped", "dead", "down"]


class FaultedNodes(Document):
    """``fault`` with what happens to nodes."""

    nodes: list[FaultedNode]


class FaultRun(Document):
    """``fault run`` without a command."""

    bootstrap: str
    socket: str


_ARMING: Final = ("drop-answer", "disconnect", "delay", "fail", "list", "clear", "wait")
_OF_NODES: Final = ("kill", "start", "pause", "resume", "cut", "isolate", "heal", "advance-clock")

FAULTS: Final[Mapping[str, Any]] = {
    "fault run": FaultRun,
    **{f"fault {name}": Faults for name in _ARMING},
    **{f"fault {name}": FaultedNodes for name in _OF_NODES},
}
