"""Limits of one listener: Kafka's settings of sockets and connections, with this project's defaults.

Source   Kafka SocketServerConfigs; ``max.connections.per.ip`` counts loopback addresses like any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fencepost.wire.frame import FRAME_BYTES_MAX

QUEUED_REQUEST_BYTES_MAX: Final = 256 * 1024 * 1024
CONNECTIONS_MAX: Final = 4096
CONNECTIONS_IDLE_MS_MAX: Final = 600_000
FAILED_AUTHENTICATION_DELAY_MS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """Limits of one listener. None = no limit."""

    frame_bytes_max: int = FRAME_BYTES_MAX  # socket.request.max.bytes
    connections_max: int = CONNECTIONS_MAX  # max.connections
    connections_per_ip_max: int | None = None  # max.connections.per.ip
    idle_ms_max: int = CONNECTIONS_IDLE_MS_MAX  # connections.max.idle.ms
    failed_authentication_delay_ms: int = FAILED_AUTHENTICATION_DELAY_MS
    reauth_ms_max: int = 0  # connections.max.reauth.ms; 0: a login counts as long as its connection
    reauth_ms_by_mechanism: Mapping[str, int] = field(default_factory=dict)  # of those that have their own

    def reauth_ms(self, mechanism: str) -> int:
        """How long a login by ``mechanism`` counts."""
        return self.reauth_ms_by_mechanism.get(mechanism, self.reauth_ms_max)


DEFAULT_LIMITS: Final = ListenerLimits()
