"""The audit trail: denied requests, and administrative ones, in a log of their own (kafka.authorizer.logger).

Line        a JSON object: time, node, decision, principal, host, request, operation, resource, count.
Denied      equal denials within a second are one line with their number, when the second is over. At most
            LINES_MAX lines are written for a second; what else was denied is one line with its number.
Allowed     of requests that change the cluster, before they are carried out. They are never left out: where
            the file cannot be written they are lines of the node's log.
File        ``fencepost.authorizer.log.file``, which grows: one that is moved away is made anew. Without it
            both are lines of the node's log.
"""

import asyncio
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.settings.config import NodeConfig

SECOND_S: Final = 1.0
LINES_MAX: Final = 50  # of denials, in a second
NAME_CHARACTERS_MAX: Final = 300  # of what a client names


class Act(NamedTuple):
    """What a principal wanted to do to a resource."""

    principal: str
    host: str
    request: str
    operation: Operation
    of: ResourceType
    resource: str


class Noted(NamedTuple):
    """What the ACLs answered about one resource."""

    operation: Operation
    of: ResourceType
    resource: str
    is_allowed: bool


class Sink(Protocol):
    """Where lines go."""

    def write(self, fields: dict[str, Any]) -> None:
        """One line."""


class Trail:
    """All calls on one thread. ``call_later``: of its event loop."""

    def __init__(self, sink: Sink, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._sink = sink
        self._call_later = call_later
        self._denied: dict[Act, int] = {}
        self._others = 0  # denials of this second that have no line
        self._due = False

    def denied(self, act: Act) -> None:
        """Count it; its line is due within a second."""
        if act in self._denied or len(self._denied) < LINES_MAX:
            self._denied[act] = self._denied.get(act, 0) + 1
        else:
            self._others += 1
        if not self._due:
            self._due = True
            self._call_later(SECOND_S, self.flush)

    def administered(self, act: Act) -> None:
        """Write it now."""
        self._sink.write(_fields("allowed", act, 1))

    def flush(self) -> None:
        """Write what was denied."""
        self._due = False
        denied, self._denied = self._denied, {}
        others, self._others = self._others, 0
        for act, count in denied.items():
            self._sink.write(_fields("denied", act, count))
        if others:
            self._sink.write({"decision": "denied", "others": others})


def _fields(decision: str, act: Act, count: int) -> dict[str, Any]:
    return {
        "decision": decision,
        "principal": act.principal[:NAME_CHARACTERS_MAX],
        "host": act.host,
        "request": act.request,
        "operation": act.operation.name,
        "resource_type": act.of.name,
        "resource": act.resource[:NAME_CHARACTERS_MAX],
        "count": count,
    }


class NodeLog:
    """Lines of the node's own log."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def write(self, fields: dict[str, Any]) -> None:
        """Implements ``Sink.write``."""
        self._log.warning("authorizer", **fields)


class AppendedFile:
    """Lines at the end of a file, each by one call of the system."""

    def __init__(self, path: Path, node_id: int, log: FilteringBoundLogger) -> None:
        self._path = path
        self._node_id = node_id
        self._log = log
        self._instead = NodeLog(log)
        self._is_broken = False

    def write(self, fields: dict[str, Any]) -> None:
        """Implements ``Sink.write``."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, "node_id": self._node_id, **fields}) + "\n"
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
            if written < len(line.encode()):
                raise OSError(f"{written} bytes of a line were written")
        except OSError as error:
            if not self._is_broken:
                self._log.error("authorizer_log_failed", path=str(self._path), reason=str(error))
            self._is_broken = True
            if fields["decision"] == "allowed":
                self._instead.write(fields)
            return
        self._is_broken = False


def trail_of(config: NodeConfig, log: FilteringBoundLogger) -> Trail:
    """The node's, as its properties say."""
    file = config.authorizer_log_file
    sink: Sink = NodeLog(log) if file is None else AppendedFile(file, config.node_id, log)
    return Trail(sink, lambda delay_s, call: asyncio.get_running_loop().call_later(delay_s, call))
