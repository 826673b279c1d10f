"""A running voter: sockets, timers and threads around the driver (node/driver.py), which does the rest.

An event of the loop is one call of the driver. What it returns is carried out in order and to the last before
the loop comes to the next one.
"""

import asyncio
import os
import random
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

import structlog
from structlog.typing import FilteringBoundLogger

from fencepost.bridge.zookeeper_port import Relayed, ZookeeperPort
from fencepost.broker.exit_reason import ExitReason
from fencepost.broker.listeners import RoleListeners
from fencepost.coordinator.marker_links import AnnouncementLinks, MarkerLinks
from fencepost.coordinator.marker_sender import Done
from fencepost.node.coordinators import Coordinators
from fencepost.node.driver import (
    MAINTAIN_S,
    SWEEP_S,
    TICK_S,
    Background,
    CallAfter,
    Driver,
    Halt,
    Obligations,
    Send,
    TickAfter,
    Turn,
)
from fencepost.node.feature_server import features_of
from fencepost.node.metrics import NodeMetrics
from fencepost.node.server import ControllerServer
from fencepost.quorum import opened_store
from fencepost.quorum.crash_points import Reach, reach_in
from fencepost.quorum.handshake import LinkConfig
from fencepost.quorum.link_events import Events
from fencepost.quorum.links import Links
from fencepost.quorum.peer_clocks import PeerClocks
from fencepost.quorum.port import Decide, R, Reply, Task, Ts
from fencepost.quorum.raft_log import use_clock
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.quorum.start_progress import Progress
from fencepost.quorum.store_starts import count_start, remember_start
from fencepost.records.levels import LevelTooHigh
from fencepost.records.named_errors import described
from fencepost.records.types import BrokerId, Log, NodeId
from fencepost.settings.config import ConfigError, NodeConfig
from fencepost.settings.credentials import Credentials
from fencepost.settings.node_clock import NodeClock
from fencepost.settings.node_identity import Identity, StoreLost, remember_store
from fencepost.snapshots.sums import StoreDamaged
from fencepost.wire.dispatch import Closing
from fencepost.wire.k27_write_txn_markers import WriteTxnMarkers
from fencepost.wire.request_memory import RequestMemory

EXIT_HALTED: Final = 1
EXIT_UNREADABLE: Final = 3  # what is on disk, or comes from the leader, is of a later version


class Controller:
    """The controller role of a node: ``await start()``, later ``await stop()``.

    Raises StoreInUse.
    """

    def __init__(
        self,
        config: NodeConfig,
        identity: Identity,
        credentials: Credentials,
        log: FilteringBoundLogger | None = None,
        metrics: NodeMetrics | None = None,
        zookeeper: ZookeeperPort | None = None,
        memory: RequestMemory | None = None,
        clock: NodeClock | None = None,
    ) -> None:
        self._config = config
        self._identity = identity
        self._log = log or structlog.get_logger()
        self._metrics = metrics or NodeMetrics()
        self._clock = clock or NodeClock(config.directory, self._log)
        self._rng = random.Random()
        self._loop = asyncio.get_running_loop()
        self.fatal: asyncio.Future[ExitReason] = self._loop.create_future()  # never done: a controller halts
        self._jobs: set[asyncio.Future[None]] = set()  # on other threads, reading the store
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._may_end = asyncio.Event()  # a clean stop
        self._controllers: dict[NodeId, tuple[str, int]] = config.controllers_at_first
        use_clock(time.monotonic, self._rng)
        self.driver = self._made_driver()
        self.replica = self.driver.replica
        self._clock.moved.append(self._move_clock)
        self.replica.firewall.clocks = PeerClocks(len(config.voters), time.monotonic, self._clock)
        at_start = self.replica.raft.commit_index
        self._applying = Progress("journal_applying", at_start, time.monotonic, self._log)
        self._require_own_store()
        self.server = ControllerServer(
            config,
            identity.cluster_id,
            self.replica,
            self.submit,
            self._metrics,
            credentials.acls,
            lambda: self._controllers,
            call_later=self._call_later,
            zookeeper=None if zookeeper is None else Relayed(zookeeper, self._completing),
            clock=time.monotonic,
            reach=_crash_points(),
            rng=self._rng,
            log=self._log,
        )
        tls = credentials.tls_for_brokers
        links = credentials.own_for_brokers, credentials.secret, self._metrics.stalls, tls
        self._marker_links, self._announcement_links = MarkerLinks(*links), AnnouncementLinks(*links)
        self.coordinators = self._made_coordinators(credentials)
        self.transactions = self.coordinators.transactions
        self.driver.services = (self.server, *self.coordinators.driven)
        self._links = self._made_links(credentials)
        self._listeners = self._made_listeners(credentials, memory)

    def _move_clock(self, by_ms: int) -> None:
        self.replica.proposer.clock_base_ms += by_ms

    def _made_driver(self) -> Driver:
        config, identity = self._config, self._identity
        return Driver(
            ReplicaConfig(
                node_id=config.node_id,
                directory_id=identity.voter_id,
                cluster_id=identity.cluster_id,
                voter_ids=frozenset(voter.node_id for voter in config.voters),
                initial_voters=identity.initial_voters,
                log_level_formatted=identity.log_level,
                users_formatted=identity.users,
                directory=config.directory,
                election_s=(config.election_timeout_ms_min / 1000, config.election_timeout_ms_max / 1000),
                heartbeat_s=config.raft_heartbeat_interval_ms / 1000,
                snapshot_entries=config.snapshot_entries_interval,
                archive_bytes_max=-1 if (bytes_max := config.archive_retention_bytes) is None else bytes_max,
                group_archive_bytes_max=config.group_archive_retention_bytes,
            ),
            disk_free_bytes_min=config.disk_free_bytes_min,
            migrating=config.zookeeper_migration_enabled,
            clock=time.monotonic,
            wall_ms=self._clock.now_ms,
            rng=self._rng,
            stalls=self._metrics.stalls,
            log=self._log,
        )

    def _made_coordinators(self, credentials: Credentials) -> Coordinators:
        return Coordinators(
            self._config,
            self.replica,
            self.submit,
            credentials.acls,
            send=self._send_markers,
            send_announcements=self._announcement_links.send_nowait,
            call_later=self._call_later,
            background=self._background,
            clock=time.monotonic,
            may_expire=self._clock.may_delete,
            rng=self._rng,
            log=self._log,
        )

    def _made_links(self, credentials: Credentials) -> Links:
        config, identity = self._config, self._identity
        return Links(
            LinkConfig(
                node_id=config.node_id,
                directory_id=identity.voter_id,
                cluster_id=identity.cluster_id,
                secret=credentials.secret.secret,
                second_secret=credentials.secret.second,
                tls=credentials.tls_for_controllers,
                controller=config.advertised_address(config.controller_listeners[0].name),
                addresses={each.node_id: (each.address.host, each.address.port) for each in config.voters},
            ),
            Events(
                bound=self.replica.electorate.bound,
                log_level=lambda: self.replica.log_level,
                met=self._met,
                connected=lambda peer: self._carry_out(self.driver.connected(peer, may_elect=True)),
                disconnected=lambda peer: self._carry_out(self.driver.disconnected(peer)),
                lost=lambda peer: self._carry_out(self.driver.lost(peer)),
                received=lambda peer, message: self._carry_out(self.driver.received(peer, message)),
            ),
            self._log,
            self._rng.random,
        )

    def _made_listeners(self, credentials: Credentials, memory: RequestMemory | None) -> RoleListeners:
        return RoleListeners(
            self._config.controller_listeners,
            self.coordinators.controller_service(self.server.service),
            self._config,
            credentials,
            log=self._log,
            features=features_of(lambda: self.replica.image),
            memory=memory,
            stalls=self._metrics.stalls,
            count_failed=self._metrics.requests_failed_total,
        )

    def _require_own_store(self) -> None:
        """Raises StoreLost, StoreDamaged, OSError, everything closed."""
        try:
            opened_store.take(self.replica.store, self._config.directory, self._identity)
        except (StoreLost, StoreDamaged, OSError):
            self.replica.archiver.close()
            self.replica.store.abandon()
            raise

    # -- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen to peers and brokers, and take part. Raises OSError if a port is taken."""
        directory = self._config.directory
        count_start(self.replica.store)
        self.replica.flush()
        if not self._identity.has_store:
            remember_store(directory, self._identity)
        remember_start(self.replica.store, directory, self._identity, self._log)
        await self._links.start()
        await self._listeners.start()
        self._sweep()
        self._every("tick", TICK_S, self._tick)
        self._every("maintain", MAINTAIN_S, self._maintain)
        self._every("sweep", SWEEP_S, self._sweep)
        self._log.info("controller_started", applied=self.replica.applied[0], term=self.replica.raft.term)

    async def stop(self) -> None:
        """Hand leadership over, reply to no one any more, put everything on disk."""
        self._carry_out(self.driver.hand_over())
        await self._may_end.wait()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        self.driver.stop()
        for timer in self._timers.values():
            timer.cancel()
        await self._listeners.stop()
        self.coordinators.flush_trail()
        await asyncio.gather(self._marker_links.stop(), self._announcement_links.stop())
        await self._links.stop()
        self.driver.close()
        self._log.info("controller_stopped", handed_over=self.driver.handed_over)

    def submit(
        self, decide: Decide[R], reply: Reply[R], *, deferrable: bool = False, closing: Closing | None = None
    ) -> None:
        """Submit a decision to the driver, and carry out what the driver returns."""
        if obligations := self.driver.submit(decide, reply, deferrable=deferrable, closing=closing):
            self._carry_out(obligations)

    # -- events -------------------------------------------------------------------------------------

    def _turn(self) -> None:
        if obligations := self.driver.turn():
            self._carry_out(obligations)

    def _tick(self) -> None:
        if obligations := self.driver.tick():
            self._carry_out(obligations)

    def _maintain(self) -> None:
        self._carry_out(self.driver.maintain())
        self._applying.at(self.replica.applied[0])
        self._links.require_level(self.replica.log_level)
        self._publish()

    def _resume(self, call: Callable[[*Ts], None], *outcome: *Ts) -> None:
        self._carry_out(self.driver.resume(call, *outcome))

    def _sweep(self) -> None:
        self._carry_out(self.driver.sweep(shutil.disk_usage(self._config.directory).free))

    def _met(
        self,
        peer: NodeId,
        directory: UUID,
        bound: Mapping[NodeId, UUID],
        controller: tuple[str, int],
        log_level_max: int,
    ) -> None:
        self._controllers[peer] = controller
        self._carry_out(self.driver.met(peer, directory, bound, log_level_max))

    def _completing(self, done: Callable[[R], None]) -> Callable[[R], None]:
        """What another system is to call in the place of ``done``."""
        return lambda outcome: self._carry_out(self.driver.completed(done, outcome))

    def _every(self, name: str, period_s: float, call: Callable[[], None]) -> None:
        def again() -> None:
            self._timers[name] = self._loop.call_later(period_s, again)
            call()

        self._timers[name] = self._loop.call_later(period_s, again)

    # -- obligations --------------------------------------------------------------------------------

    def _carry_out(self, obligations: Obligations) -> None:
        """In order and to the last; none of them calls back before this returns. Halts if one cannot be.

        A driver whose ``Turn`` was lost would wait for it for ever.
        """
        try:
            for each in obligations:
                if isinstance(each, Turn):  # the most frequent ones first
                    self._loop.call_soon(self._turn)
                elif isinstance(each, Send):
                    self._links.send(each.peer, each.frame)
                elif isinstance(each, TickAfter):
                    self._loop.call_later(each.seconds, self._tick)
                elif isinstance(each, CallAfter):
                    self._after(each.seconds, each.call)
                elif isinstance(each, Background):
                    self._work(each.task)
                elif isinstance(each, Halt):
                    self._halt(each.where, each.error)
                else:
                    self._may_end.set()
        except Exception as error:  # noqa: BLE001 - halts
            self._halt("obligations", error)

    def _halt(self, where: str, error: BaseException) -> None:
        if isinstance(error, LevelTooHigh):
            self._log.critical("log_level_too_high", where=where, reason=str(error))
            os._exit(EXIT_UNREADABLE)
        self._log.critical("node_halted", where=where, error=described(error), exc_info=error)
        os._exit(EXIT_HALTED)

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        if seconds:
            self._loop.call_later(seconds, self._resume, call)
        else:
            self._loop.call_soon(self._resume, call)

    def _work(self, task: Task) -> None:
        try:
            future = self._loop.run_in_executor(None, task.run)
        except RuntimeError as error:  # no thread can be started: as if the work had failed
            task.fail(error)
            self._loop.call_soon(self._ended, task)
            return
        self._jobs.add(future)

        def finished(ended: "asyncio.Future[None]") -> None:
            self._jobs.discard(ended)
            error = ended.exception()
            if error is not None:
                task.fail(error)
            self._ended(task)

        future.add_done_callback(finished)

    def _ended(self, task: Task) -> None:
        self._carry_out(self.driver.ended(task))

    # -- what the services ask for ------------------------------------------------------------------

    def _background(self, work: Callable[[], R], done: Callable[[R | BaseException], None]) -> None:
        self._carry_out(self.driver.background(work, done))

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._carry_out(self.driver.call_later(seconds, call))

    def _send_markers(
        self, broker_id: BrokerId, host: str, port: int, request: WriteTxnMarkers, done: Done
    ) -> None:
        self._marker_links.send(broker_id, host, port, request, lambda outcome: self._resume(done, outcome))

    # -- metrics ------------------------------------------------------------------------------------

    def _publish(self) -> None:
        replica, metrics = self.replica, self._metrics
        metrics.raft_role(("follower", "candidate", "leader")[replica.raft.role])
        metrics.raft_leader_id(replica.raft.leader_id)
        metrics.raft_epoch(replica.raft.term)
        self.server.publish()
        metrics.transactions(self.transactions.counts)
        metrics.groups(self.coordinators.group_counts())
        metrics.raft_high_watermark(replica.image.header.log_end(Log.METADATA))
        if replica.proposer.last_commit_s:
            metrics.commit_latency_seconds(replica.proposer.last_commit_s)
            replica.proposer.last_commit_s = 0.0


def _crash_points() -> Reach:
    try:
        return reach_in()
    except ValueError as error:
        raise ConfigError(str(error)) from error
