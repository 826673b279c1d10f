"""A broker: one client of the quorum, its client listener, and the tasks between them.

Sockets   it reaches the controllers over sockets also in the leader's process (docs/design.md 6): what works
          here works as a process of its own.
Start     listens, recovers its logs, then registers; requests the first block of producer ids, and takes
          a picture of the cluster. ``start`` waits for none of these, ``ready`` does.
Stop      requests to be fenced and released, within LEAVE_S_MAX; the registration stays for the next start.
End       ``fatal`` gets a reason when the cluster refuses this broker, or when one of its tasks has a bug.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from fencepost.broker.access.door import Door, rules_of
from fencepost.broker.access.needs import guarded
from fencepost.broker.access.trail import Trail, trail_of
from fencepost.broker.access.unguarded import open_to_all
from fencepost.broker.acl_follower import AclFollower, standstill_s
from fencepost.broker.controller_clients import ControllerClients
from fencepost.broker.data_plane import DataPlane, DataPlaneGauges, after
from fencepost.broker.exit_reason import EXIT_FAILED, BrokerRefused, ExitReason, Membership
from fencepost.broker.listeners import RoleListeners
from fencepost.broker.metadata_cache import MetadataCache
from fencepost.broker.producer_id_source import IdsLeftGauge, ProducerIdSource
from fencepost.broker.producer_ids import ProducerIdPool
from fencepost.broker.registration import Registration
from fencepost.broker.scram_follower import ScramFollower
from fencepost.broker.server import BrokerServer
from fencepost.controller.authorization import ANONYMOUS
from fencepost.controller.brokers import Endpoint, Feature, RegisterBroker
from fencepost.controller.features import SUPPORTED
from fencepost.records.invariant import InvariantViolation
from fencepost.records.named_errors import sentence
from fencepost.records.types import BrokerId, ProducerId
from fencepost.settings.config import NodeConfig
from fencepost.settings.config_values import SECURITY_PROTOCOLS
from fencepost.settings.credentials import Credentials
from fencepost.settings.node_clock import NodeClock
from fencepost.settings.node_identity import Identity
from fencepost.wire.dispatch import BROKER, Service
from fencepost.wire.k60_describe_cluster import ClusterNode
from fencepost.wire.k20024_announce_partitions import Announcement
from fencepost.wire.request_memory import RequestMemory
from fencepost.wire.stalls import Stalls

LEAVE_S_MAX: Final = 1.0
"""Short: when the whole cluster stops, no controller is left to respond."""


class BrokerGauges(IdsLeftGauge, DataPlaneGauges, Protocol):
    """Where a broker's numbers are shown."""


class Broker:
    """One broker. To be made, started and stopped on the event loop.

    ``coordinator``: what the transaction coordinator of this very node serves, if the node has one.
    ``memory``: the node's, which all its listeners share.
    ``fatal`` is done when the broker cannot go on; its owner stops it and ends with that exit code.
    """

    def __init__(
        self,
        config: NodeConfig,
        identity: Identity,
        credentials: Credentials,
        log: FilteringBoundLogger,
        metrics: BrokerGauges,
        *,
        rng: Random | None = None,
        coordinator: Service | None = None,
        stalls: Stalls | None = None,
        memory: RequestMemory | None = None,
        count_failed: Callable[[str], None] = lambda _request: None,
        clock: NodeClock | None = None,
    ) -> None:
        if config.client_listener is None:
            raise InvariantViolation("a broker without a client listener")
        rng, memory = rng or Random(), memory or RequestMemory()
        self._broker_id = BrokerId(config.node_id)
        sasl, acls = credentials.own, credentials.acls
        membership = Membership(ANONYMOUS if sasl is None else f"User:{sasl[0]}", identity.cluster_id)
        self.fatal: asyncio.Future[ExitReason] = asyncio.get_running_loop().create_future()
        self._log = log
        self._stalls = stalls = stalls or Stalls()
        self._tasks: list[asyncio.Task[None]] = []
        self._clients = _controller_clients(config, credentials, rng, stalls)
        self._clock = clock or NodeClock(config.directory, log)
        self._data = DataPlane(
            config,
            identity,
            acls,
            self._clients,
            self._clock,
            is_unfenced=lambda: not self._registration.is_fenced,
            on_change=self._on_change,
            rng=rng,
            log=log,
            stalls=stalls,
            memory=memory,
            gauges=metrics,
        )
        itself = _by_listener(config)
        self._cache = MetadataCache(
            self._clients.reading, itself, membership, clock_ms=_monotonic_ms, rng=rng, log=log
        )
        self._registration = self._made_registration(config, identity, membership, rng)
        self._producer_ids = self._made_producer_ids(membership, rng, metrics)
        self._server = BrokerServer(
            identity.cluster_id,
            self._cache,
            self._producer_ids,
            self._clients.reading,
            self._data,
            log=log,
            coordinator=coordinator,
        )
        self._acls = self._made_follower(config, membership, rng)
        self._users = self._made_users(config, credentials, rng)
        self._listeners = self._made_listeners(config, credentials, memory, count_failed)

    def _made_listeners(
        self,
        config: NodeConfig,
        credentials: Credentials,
        memory: RequestMemory,
        count_failed: Callable[[str], None],
    ) -> RoleListeners:
        return RoleListeners(
            config.client_listeners,
            self._service(config),
            config,
            credentials,
            log=self._log,
            features=lambda: self._cache.features,
            memory=memory,
            stalls=self._stalls,
            count_failed=count_failed,
        )

    def _made_producer_ids(
        self, membership: Membership, rng: Random, metrics: IdsLeftGauge
    ) -> ProducerIdSource:
        return ProducerIdSource(
            ProducerIdPool(rng),
            self._clients.allocation,
            self._registration,
            membership,
            self._broker_id,
            clock_ms=_monotonic_ms,
            metrics=metrics,
            log=self._log,
        )

    def _made_registration(
        self, config: NodeConfig, identity: Identity, membership: Membership, rng: Random
    ) -> Registration:
        return Registration(
            self._clients.membership,
            RegisterBroker(
                broker_id=self._broker_id,
                cluster_id=identity.cluster_id,
                incarnation_id=uuid.uuid4(),
                directory_id=identity.directory_id,
                endpoints=tuple(_endpoint(config, each.name) for each in config.client_listeners),
                features=tuple(Feature(name, *levels) for name, levels in SUPPORTED.items()),
            ),
            membership,
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            on_heartbeat=self._on_heartbeat,
            reports=self._data.reports,
            rng=rng,
            log=self._log,
        )

    def _made_follower(self, config: NodeConfig, membership: Membership, rng: Random) -> AclFollower:
        return AclFollower(
            self._clients.acls,
            self._registration,
            membership,
            self._broker_id,
            rng,
            self._log,
            standstill_s=standstill_s(config.broker_session_timeout_ms, config.broker_heartbeat_interval_ms),
        )

    def _made_users(self, config: NodeConfig, credentials: Credentials, rng: Random) -> ScramFollower | None:
        """None where the node's own store has them, or no one logs in by SCRAM."""
        if config.is_controller or not config.serves_scram:
            return None
        users = ScramFollower(self._clients.users, rng, self._log)
        credentials.look_up_recorded(users.find)
        return users

    def _service(self, config: NodeConfig) -> Service:
        rules, topics = rules_of(config), self._data.topics
        self._trail: Trail | None = None
        self._follows_acls = rules is not None
        if rules is None:
            service = self._server.service()
            return open_to_all(service) if self._data.acls.allowed is None else service
        self._trail = trail_of(config, self._log)
        door = Door(
            rules,
            self._acls.book,
            topic_name=lambda topic_id: (
                None if (found := topics.find_by_id(topic_id)) is None else found.name
            ),
            has_topic=lambda name: topics.find(name) is not None,
            park=self._acls.park,
            trail=self._trail,
        )
        return guarded(self._server.service(), door, BROKER)

    async def start(self) -> None:
        """Listen, and begin to seek the controllers. Raises OSError: the port, or the logs are in use."""
        self._data.lock()
        await self._listeners.start()
        registering = after(self._data.recover(), self._registration.run())
        if self._follows_acls:
            self._supervise(self._acls.run())
            self._supervise(self._acls.watch())
        if self._users is not None:
            self._supervise(self._users.run())
        for running in (registering, self._producer_ids.run(), self._cache.run(), *self._data.loops()):
            self._supervise(running)

    async def ready(self) -> None:
        """Waits until the broker is registered and not fenced."""
        await self._registration.unfenced()

    @property
    def is_fenced(self) -> bool:
        """Whether clients are sent elsewhere, as far as this broker knows: its last heartbeat's answer."""
        return self._registration.is_fenced

    def take_announcements(self, announcements: Sequence[Announcement]) -> None:
        """What the coordinator of this node announces."""
        self._data.announcements.take(announcements)

    def allocate_producer_id(self) -> ProducerId:
        """One of this broker's ids, for the node's own coordinator. Raises CoordinatorLoadInProgress."""
        return self._producer_ids.allocate()

    async def stop(self) -> None:
        """Leave the cluster cleanly if it answers in time, then close everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks and not self.fatal.done() and not await self._registration.leave(LEAVE_S_MAX):
            self._log.warning("broker_left_unnoticed", waited_s=LEAVE_S_MAX)
        self._data.release()
        await self._listeners.stop()
        if self._trail is not None:
            self._trail.flush()
        await self._server.stop()
        await self._data.stop()
        await self._clients.close()

    def _on_heartbeat(self) -> None:
        if self._registration.agreed_ms >= 0:
            self._clock.agree(self._registration.agreed_ms)
        self._cache.refresh()
        self._data.own_settings.heartbeat_answered(self._registration.settings_digest)
        self._data.topics.heartbeat_answered(self._registration.cluster_version)

    def _on_change(self) -> None:
        self._registration.heartbeat_soon()

    def _supervise(self, running: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(running)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task ends only when it is cancelled, the cluster refuses us, or by a bug of ours."""
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, BrokerRefused):
            reason = error.reason
            self._log.error("broker_refused", exit_code=reason.exit_code, reason=reason.message)
        else:
            reason = ExitReason(EXIT_FAILED, f"a task of the broker ended by itself: {error!r}")
            if isinstance(error, OSError) and error.filename is not None:
                reason, error = ExitReason(EXIT_FAILED, sentence(error)), None
            self._log.error("broker_task_failed", reason=reason.message, exc_info=error)
        if not self.fatal.done():
            self.fatal.set_result(reason)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _controller_clients(
    config: NodeConfig, credentials: Credentials, rng: Random, stalls: Stalls
) -> ControllerClients:
    return ControllerClients.of(
        config.controller_bootstrap,
        sasl=credentials.own,
        tls=credentials.tls_for_controllers,
        secret=credentials.secret,
        rng=rng,
        stalls=stalls,
    )


def _endpoint(config: NodeConfig, name: str) -> Endpoint:
    """What a registration says of a listener. The first one is what brokers use among themselves."""
    return Endpoint(
        name, *config.advertised_address(name), SECURITY_PROTOCOLS.index(config.security_protocol(name))
    )


def _by_listener(config: NodeConfig) -> dict[str, ClusterNode]:
    """This broker as clients of each of its listeners reach it, by the listener's name."""
    return {
        each.name: ClusterNode(config.node_id, *config.advertised_address(each.name))
        for each in config.client_listeners
    }
