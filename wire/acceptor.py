"""What a connection needs of the listener that accepted it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from fencepost.wire.admission import Admission
from fencepost.wire.dispatch import Service
from fencepost.wire.isolation import Isolation
from fencepost.wire.k18_api_versions import ApiVersionsAnswer
from fencepost.wire.limited_log import LimitedLog
from fencepost.wire.limits import ListenerLimits
from fencepost.wire.request_memory import RequestMemory
from fencepost.wire.stalls import Stalls

if TYPE_CHECKING:
    from fencepost.wire.server_connection import ServerConnection


class Acceptor(Protocol):
    """The listener, as far as its connections need one."""

    apis: Service
    key_limits: Mapping[int, int]  # bytes of a request, by API key
    name: str
    log: LimitedLog
    credentials: Mapping[str, str] | None
    limits: ListenerLimits
    memory: RequestMemory
    stalls: Stalls
    isolation: Isolation
    admission: "Admission[ServerConnection]"

    def admit(self, connection: "ServerConnection", descriptor: int, *, authenticated: bool) -> bool:
        """Take a new connection in, or refuse it. ``descriptor``: its number, -1 if it has none."""

    def forget(self, connection: "ServerConnection") -> None:
        """A connection is gone."""

    def api_versions(self) -> ApiVersionsAnswer:
        """What is served."""
