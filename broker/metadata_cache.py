"""What this broker tells clients about the cluster: its brokers, the active controller, and features.

Source of it  DescribeCluster and ApiVersions of the active controller, requested after every heartbeat, and
              every REFRESH_MS while something changes; once for each listener, as brokers have an address
              on each.
Doubt         a picture is doubted as soon as the connection it came over is lost or a refresh fails: the
              brokers in it stay, but no controller is named until one certainly leads.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.exit_reason import Membership
from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.errors import ApiError
from fencepost.wire.client import ControllerClient
from fencepost.wire.connection import SOFTWARE
from fencepost.wire.k18_api_versions import API_VERSIONS, SUPPORTED_FEATURES, Features
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, ClusterNode, DescribeCluster

REFRESH_MS: Final = 500
SETTLING_MS: Final = 5_000
"""How long after a change more changes are looked for: brokers of a cluster come and go together."""

REFRESH_MS_MIN: Final = 50
"""Between two refreshes: clients that see doubt may ask for one at any rate."""

CALL_TIMEOUT_S: Final = 2.0
NO_NODE: Final = -1


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster at one moment. ``brokers`` in ascending order of id, fenced ones included."""

    brokers: tuple[ClusterNode, ...]
    controller_id: int = NO_NODE

    @property
    def visible(self) -> tuple[ClusterNode, ...]:
        """The brokers that clients may use: those that are not fenced."""
        return tuple(broker for broker in self.brokers if not broker.is_fenced)

    @property
    def coordinator(self) -> ClusterNode | None:
        """The active controller's broker; None if no node leads for certain, or it is no visible broker."""
        return next((broker for broker in self.visible if broker.broker_id == self.controller_id), None)


class MetadataCache:
    """The last picture of each listener. Before the first it has this broker alone: see ``first_picture.py``.

    ``itself``: this broker, by the name of each of its listeners.
    """

    def __init__(
        self,
        controllers: ControllerClient,
        itself: Mapping[str, ClusterNode],
        membership: Membership,
        *,
        clock_ms: Callable[[], int],
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        self._controllers = controllers
        self._itself = itself
        self._membership = membership
        self._clock_ms = clock_ms
        self._retry = Retry("describe the cluster", rng=rng, log=log)
        self._pictures = {name: Picture((node,)) for name, node in itself.items()}
        self._features = Features(SUPPORTED_FEATURES)
        self._source: str | None = None  # which controller the picture came from
        self._wanted = asyncio.Event()
        self._first = asyncio.Event()
        self._settled_at_ms = 0

    @property
    def has_picture(self) -> bool:
        """An active controller has listed the brokers since this one started."""
        return self._first.is_set()

    async def first_picture(self) -> None:
        """Wait until ``has_picture``."""
        await self._first.wait()

    def picture(self, listener: str) -> Picture:
        """The cluster as it is known now, with the addresses of a listener. Doubt starts a refresh."""
        picture = self._pictures[listener]
        if self._source is not None and self._controllers.active == self._source:
            return picture
        self.refresh()
        return Picture(picture.brokers)

    def _take_features(self, found: Features) -> None:
        """Only what has changed, so that the epoch rises with a change alone; nothing of a deposed leader."""
        known = self._features
        if found.epoch > known.epoch and found.finalized != known.finalized:
            self._features = replace(found, supported=SUPPORTED_FEATURES)

    def itself_in(self, picture: Picture) -> ClusterNode | None:
        """This broker, if clients may use it; else another one, or None."""
        itself = next(iter(self._itself.values())).broker_id
        return min(picture.visible, key=lambda each: each.broker_id != itself, default=None)

    @property
    def features(self) -> Features:
        """What the cluster supports and has finalized, as far as is known."""
        return self._features

    def refresh(self) -> None:
        """Ask for a new picture soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Keep the picture fresh; forever. Raises BrokerRefused."""
        while True:
            self._wanted.clear()
            pause_s = await self._ask()
            await asyncio.sleep(REFRESH_MS_MIN / 1000)
            try:
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _ask(self) -> float | None:
        """Take a new picture. Returns the seconds until the next is due; None: only when it is wanted."""
        pictures = {}
        try:
            for name, itself in self._itself.items():
                request = DescribeCluster(include_fenced_brokers=True, listener_name=name)
                answer = await self._controllers.call(DESCRIBE_CLUSTER, request, timeout_s=CALL_TIMEOUT_S)
                brokers = tuple(sorted(answer.brokers, key=lambda broker: broker.broker_id))
                pictures[name] = Picture(brokers or (itself,), answer.controller_id)
            versions = await self._controllers.call(API_VERSIONS, SOFTWARE, timeout_s=CALL_TIMEOUT_S)
        except CALL_FAILURES as error:
            if isinstance(error, ApiError):
                self._membership.require_curable(error, "describe the cluster to this broker")
            self._source = None
            return self._retry.failed(error)
        self._retry.succeeded()
        self._take_features(versions.features)
        if pictures != self._pictures:
            self._settled_at_ms = self._clock_ms() + SETTLING_MS
        self._pictures = pictures
        self._first.set()
        self._source = self._controllers.active
        return REFRESH_MS / 1000 if self._clock_ms() < self._settled_at_ms else None
