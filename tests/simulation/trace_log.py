"""What the product logs, in the trace of a simulation."""

from collections.abc import Callable
from typing import Any

from fencepost.records.types import NodeId


class Log:
    """In the place of a structlog logger: events go to the trace of one node."""

    def __init__(self, node_id: NodeId, trace: Callable[[str], None]) -> None:
        self._node_id = node_id
        self._trace = trace

    def _said(self, level: str, event: str, facts: dict[str, Any]) -> None:
        told = " ".join(f"{name}={fact}" for name, fact in facts.items())
        self._trace(f"{self._node_id} {level}: {event} {told}")

    def info(self, event: str, **facts: Any) -> None:
        self._said("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._said("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        self._said("error", event, facts)
