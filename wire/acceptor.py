"""What a connection needs of the listener that accepted it."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from fencepost.wire.admission import Admission, C
from fencepost.wire.auth import Logins
from fencepost.wire.dispatch import Api, Service
from fencepost.wire.isolation import Isolation
from fencepost.wire.k18_api_versions import ApiVersionsAnswer
from fencepost.wire.limited_log import LimitedLog
from fencepost.wire.limits import ListenerLimits
from fencepost.wire.request_memory import RequestMemory
from fencepost.wire.stalls import Stalls


class Acceptor(Protocol[C]):
    """The listener, as far as its connections, of type C, need one."""

    apis: Service
    key_limits: Mapping[int, int]  # bytes of a request, by API key
    name: str
    log: LimitedLog
    logins: Logins | None
    limits: ListenerLimits
    memory: RequestMemory
    stalls: Stalls
    isolation: Isolation
    admission: Admission[C]

    def admit(self, connection: C, descriptor: int, *, authenticated: bool) -> bool:
        """Take a new connection in, or refuse it. ``descriptor``: its number, -1 if it has none."""

    def principal(self, transport: asyncio.BaseTransport) -> str:
        """Of a client that has just connected: by its certificate, if it shows one."""

    def forget(self, connection: C) -> None:
        """Drop a connection that has ended."""

    def api_versions(self) -> ApiVersionsAnswer:
        """The answer to ApiVersions: the APIs of this listener."""

    def versions_frame(self, api: Api[Any, Any], correlation_id: int) -> bytes:
        """The answer to a version of ApiVersions that is not served."""
