"""What links ask of the voter that owns them, and what they report to it."""

import uuid
from collections.abc import Callable, Mapping

from fencepost.quorum.messages import Message
from fencepost.records.types import NodeId

Bound = Mapping[NodeId, uuid.UUID]


class Events:
    """Callbacks of one node's links. All calls come from the event loop.

    ``bound`` and ``log_level`` are called for the next handshake: the voters' directories, and the log level
    that a peer must be able to read. ``met`` has a peer's directory, bindings, controller and highest level.
    """

    def __init__(
        self,
        *,
        bound: Callable[[], Bound],
        log_level: Callable[[], int] = lambda: 0,
        met: Callable[[NodeId, uuid.UUID, Bound, tuple[str, int], int], None],
        connected: Callable[[NodeId], None],
        disconnected: Callable[[NodeId], None],
        lost: Callable[[NodeId], None],
        received: Callable[[NodeId, Message], None],
    ) -> None:
        self.bound = bound
        self.log_level = log_level
        self.met = met
        self.connected = connected
        self.disconnected = disconnected
        self.lost = lost
        self.received = received
