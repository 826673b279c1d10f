"""The listeners of one role of a node: each serves the same, at its own address and by its own protocol."""

from collections.abc import Callable, Sequence

from structlog.typing import FilteringBoundLogger

from fencepost.settings.config import ListenerAddress, NodeConfig
from fencepost.settings.credentials import Credentials
from fencepost.snapshots.store import STORE_FAILURES
from fencepost.wire.dispatch import Service
from fencepost.wire.k18_api_versions import Features
from fencepost.wire.listener import Listener
from fencepost.wire.request_memory import RequestMemory
from fencepost.wire.stalls import Stalls


class RoleListeners:
    """``addresses``: the listeners of the role. The other arguments are those of each Listener."""

    def __init__(
        self,
        addresses: Sequence[ListenerAddress],
        service: Service,
        config: NodeConfig,
        credentials: Credentials,
        *,
        log: FilteringBoundLogger,
        features: Callable[[], Features],
        memory: RequestMemory | None,
        stalls: Stalls,
        count_failed: Callable[[str], None],
    ) -> None:
        self._listeners = [
            (
                each.address,
                Listener(
                    service,
                    name=each.name,
                    log=log,
                    security_protocol=config.security_protocol(each.name),  # type: ignore[arg-type]
                    logins=credentials.users[each.name],
                    tls=credentials.tls_of[each.name],
                    client_auth=config.client_auth(each.name),
                    features=features,
                    limits=config.limits(each.name),
                    memory=memory,
                    secret=credentials.secret,
                    stalls=stalls,
                    halting=STORE_FAILURES,
                    count_failed=count_failed,
                ),
            )
            for each in addresses
        ]

    @property
    def all(self) -> tuple[Listener, ...]:
        """Every listener of the role, in the order of ``addresses``."""
        return tuple(listener for _address, listener in self._listeners)

    async def start(self) -> None:
        """Listen on each address. Raises OSError if one cannot be had."""
        for address, listener in self._listeners:
            await listener.start(*address)

    async def stop(self) -> None:
        """Stop listening and close every connection; what was answered before is still sent."""
        for _address, listener in self._listeners:
            await listener.stop()
