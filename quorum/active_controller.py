"""A running voter: one event loop that reads, decides, journals, applies and answers.

Turns       anything that happens (frames, requests, the timer) asks for a turn of the replica. A turn
            that proposed asks for another, so that what it wrote reaches the sockets before the flush
            blocks the loop: entries leave first, the leader's own flush overlaps with its followers'.
Halting     an exception in a turn is our bug or a disk that fails: the process ends at once, with
            nothing further said to anyone. A restart recovers from what is on disk.
"""

import asyncio
import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog

from controller import features, migration
from controller.decision import Decision
from controller.errors import StorageFull
from controller.view import View
from quorum.config import CONTROLLER_LISTENER, ConfigError, NodeConfig
from quorum.crash_points import Reach, reach_in
from quorum.credentials import read_acls, read_own, read_secret, read_users
from quorum.gather import GATHER_S
from quorum.handshake import LinkConfig
from quorum.links import Events, Links
from quorum.marker_links import AnnouncementLinks, MarkerLinks
from quorum.messages import Message
from quorum.metrics import NodeMetrics
from quorum.node_identity import Identity, StoreLost, remember_store
from quorum.proposer import Answer, Decide, Reply
from quorum.raft_log import FOLLOWER, use_clock
from quorum.replica import Replica, ReplicaConfig
from quorum.server import ControllerServer
from quorum.transaction_server import TransactionServer
from quorum.transaction_timers import TransactionTimes
from quorum.zookeeper_port import Heard, ZookeeperPort
from records.types import Log, NodeId
from wire.listener import Listener

_STORE_OF: Final = "directory"  # store meta: the directory id of the node whose store it is
TICK_S: Final = 0.01
BEAT_S: Final = 0.05
SWEEP_S: Final = 0.5  # sessions, disk space
HAND_OVER_S: Final = 1.0  # patience of a clean stop
EXIT_HALTED: Final = 1


class Controller:
    """The controller role of a node: ``await start()``, later ``await stop()``.

    Raises ConfigError for files that the configuration names, StoreInUse.
    """

    def __init__(
        self,
        config: NodeConfig,
        identity: Identity,
        log: Any = None,
        metrics: NodeMetrics | None = None,
        zookeeper: ZookeeperPort | None = None,
    ) -> None:
        self._config = config
        self._identity = identity
        self._log = log or structlog.get_logger()
        self._metrics = metrics or NodeMetrics()
        self._rng = random.Random()
        self._loop = asyncio.get_running_loop()
        self.fatal: asyncio.Future[Any] = (
            self._loop.create_future()
        )  # a controller halts, it does not give up
        self._turn_wanted = False
        self._disk_full = False
        self._stopped = False
        self._jobs: set[asyncio.Future[Any]] = set()  # on other threads, reading the store
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._controllers: dict[NodeId, tuple[str, int]] = self._configured_controllers()
        use_clock(time.monotonic, self._rng)
        addresses = {voter.node_id: (voter.address.host, voter.address.port) for voter in config.voters}
        self.replica = Replica(
            ReplicaConfig(
                node_id=config.node_id,
                directory_id=identity.directory_id,
                cluster_id=identity.cluster_id,
                voter_ids=frozenset(addresses),
                initial_voters=identity.initial_voters,
                directory=Path(config.directory),
                election_s=(config.election_timeout_ms_min / 1000, config.election_timeout_ms_max / 1000),
                heartbeat_s=config.raft_heartbeat_interval_ms / 1000,
                snapshot_entries=config.snapshot_entries_interval,
                archive_bytes_max=-1
                if config.archive_retention_bytes is None
                else config.archive_retention_bytes,
            ),
            send=self._send,
            clock=time.monotonic,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            background=self._background,
            rng=self._rng,
            on_active=self._on_active,
            on_deposed=self._on_deposed,
            on_answering=self._on_answering,
            log=self._log,
        )
        self._require_own_store()
        acls = read_acls(config)
        self.server = ControllerServer(
            config,
            identity.cluster_id,
            self.replica,
            self.submit,
            self._metrics,
            acls,
            lambda: self._controllers,
            zookeeper=None if zookeeper is None else Heard(zookeeper, self._waking),
            clock=time.monotonic,
            reach=_crash_points(),
            rng=self._rng,
            log=self._log,
        )
        self._marker_links = MarkerLinks(read_own(config))
        self._announcement_links = AnnouncementLinks(read_own(config))
        self.transactions = TransactionServer(
            TransactionTimes(
                timeout_ms_max=config.transaction_timeout_ms_max,
                timeouts_interval_ms=config.transaction_timeouts_interval_ms,
                expiration_ms=config.transactional_id_expiration_ms,
                expiry_interval_ms=config.transactional_id_expiry_interval_ms,
            ),
            self.replica,
            self.submit,
            acls,
            send=self._marker_links.send,
            send_announcements=self._announcement_links.tell,
            call_later=self._call_later,
            background=self._background,
            clock=time.monotonic,
            log=self._log,
        )
        listener = config.controller_listener
        own = ("", 0) if listener is None else (listener.address.host, listener.address.port)
        self._links = Links(
            LinkConfig(
                node_id=config.node_id,
                directory_id=identity.directory_id,
                cluster_id=identity.cluster_id,
                secret=read_secret(config),
                controller=own,
                addresses=addresses,
            ),
            Events(
                bound=self.replica.electorate.bound,
                met=self._met,
                connected=self._waking(self.replica.connected),
                disconnected=self._waking(self.replica.disconnected),
                lost=self._waking(self.replica.lost),
                received=self._received,
            ),
            self._log,
            self._rng.random,
        )
        self._address = own
        self._listener = Listener(
            {**self.server.service, **self.transactions.service},
            name=CONTROLLER_LISTENER,
            log=self._log,
            security_protocol=config.security_protocol(CONTROLLER_LISTENER),  # type: ignore[arg-type]
            credentials=read_users(config, CONTROLLER_LISTENER),
            frame_bytes_max=config.frame_bytes_max,
            connections_max=config.connections_max,
        )

    def _require_own_store(self) -> None:
        """Raises StoreLost: another store in its place would let this voter vote twice in a term."""
        store, own = self.replica.store, self._identity.directory_id.bytes
        found = store.meta_get(_STORE_OF)
        if found != own and (self._identity.has_store or found is not None):
            store.abandon()
            raise StoreLost(
                f"{self._config.directory}/store is not the store of this directory: it was replaced. Put "
                "the right one there, or remove it: the other voters then take this node in as a new one"
            )
        if found is None:
            store.meta_put(_STORE_OF, own)

    # -- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen to peers and brokers, and take part. Raises OSError if a port is taken."""
        if not self._identity.has_store:
            self.replica.flush()
            remember_store(Path(self._config.directory), self._identity)
        await self._links.start()
        await self._listener.start(*self._address)
        self._every("tick", TICK_S, self._wake)
        self._every("beat", BEAT_S, self._beat)
        self._every("sweep", SWEEP_S, self._sweep)
        self._log.info("controller_started", applied=self.replica.applied[0], term=self.replica.raft.term)

    async def stop(self) -> None:
        """Hand leadership over, answer nobody any more, put everything on disk."""
        deadline = self._loop.time() + HAND_OVER_S
        asked = False
        while self._loop.time() < deadline and self.replica.raft.role != FOLLOWER and self.replica.peers:
            asked = asked or self.replica.hand_over()
            self._wake()
            await asyncio.sleep(TICK_S)
        await asyncio.gather(*self._jobs, return_exceptions=True)
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        await self._listener.stop()
        await self._marker_links.stop()
        await self._announcement_links.stop()
        await self._links.stop()
        self.replica.close()
        self._log.info("controller_stopped", handed_over=asked)

    def submit(self, decide: Decide, reply: Reply, *, patient: bool = False) -> None:
        """Decide as active controller and answer when it is applied."""
        if self._disk_full:
            least = self._config.disk_free_bytes_min
            reply(StorageFull(f"less than {least} bytes are free (disk.free.min.bytes)"), 0)
            return
        proposer = self.replica.proposer
        proposer.submit(decide, reply, patient=patient)
        if not proposer.in_flight and not patient:  # the turn that settles an entry proposes what waits
            self._wake()

    # -- turns --------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._turn_wanted and not self._stopped:
            self._turn_wanted = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_wanted = False
        if self._stopped:
            return
        try:
            if self.replica.turn():
                self._wake()
            elif self.replica.proposer.gathering:
                self._loop.call_later(GATHER_S, self._wake)
        except BaseException as error:  # noqa: BLE001 - halts
            self._halt("turn", error)

    def _received(self, peer: NodeId, message: Message) -> None:
        """A peer's frame: its turn comes at once, an acknowledgement waits for it."""
        if self._stopped:
            return
        try:
            due = self.replica.received(peer, message)
        except BaseException as error:  # noqa: BLE001 - halts
            self._halt("received", error)
        if due and not self._turn_wanted:
            self._turn()

    def _waking(self, told: Callable[..., None]) -> Callable[..., None]:
        def tell(*facts: Any) -> None:
            if self._stopped:
                return
            try:
                told(*facts)
            except BaseException as error:  # noqa: BLE001 - halts
                self._halt(getattr(told, "__name__", "step"), error)
            self._wake()

        return tell

    def _every(self, name: str, period_s: float, call: Callable[[], None]) -> None:
        def again() -> None:
            if self._stopped:
                return
            self._timers[name] = self._loop.call_later(period_s, again)
            call()

        self._timers[name] = self._loop.call_later(period_s, again)

    def _beat(self) -> None:
        replica, metrics = self.replica, self._metrics
        try:
            replica.beat()
        except BaseException as error:  # noqa: BLE001 - halts
            self._halt("beat", error)
        metrics.raft_role(("follower", "candidate", "leader")[replica.raft.role])
        metrics.raft_leader_id(replica.raft.leader_id)
        metrics.raft_epoch(replica.raft.term)
        self.server.publish()
        if replica.proposer.active:
            self.transactions.beat(replica.proposer.now_ms())
        metrics.transactions(self.transactions.counts)
        metrics.raft_high_watermark(replica.image.header.log_end(Log.METADATA))
        if replica.proposer.last_commit_s:
            metrics.commit_latency_seconds(replica.proposer.last_commit_s)
            replica.proposer.last_commit_s = 0.0

    def _sweep(self) -> None:
        free = shutil.disk_usage(self._config.directory).free
        full = free < self._config.disk_free_bytes_min
        if full != self._disk_full:
            self._disk_full = full
            event = "disk_full" if full else "disk_has_room"
            self._log.error(event, free_bytes=free, needed_bytes=self._config.disk_free_bytes_min)
        if self.replica.proposer.active:
            self.server.expire(self.replica.proposer.now_ms())

    def _halt(self, where: str, error: BaseException) -> NoReturn:
        self._log.critical("node_halted", where=where, error=repr(error), exc_info=error)
        os._exit(EXIT_HALTED)

    # -- what the replica and the links tell ----------------------------------------------------------

    def _send(self, peer: NodeId, frame: bytes) -> None:
        self._links.send(peer, frame)

    def _met(self, peer: NodeId, directory: Any, bound: Any, controller: tuple[str, int]) -> None:
        self._controllers[peer] = controller
        self._waking(self.replica.met)(peer, directory, bound)

    def _on_active(self, now_ms: int) -> None:
        self._log.info("controller_activated", epoch=self.replica.raft.term)
        self.server.activated(now_ms)
        self.transactions.activated(now_ms)
        self.replica.submit(self._bootstrap, lambda _outcome, _ms: None)

    def _bootstrap(self, view: View, _now_ms: int) -> Decision[None]:
        """What a new cluster's first leader writes."""
        migrating = self._config.zookeeper_migration_enabled
        upgrade = migration.bootstrap_records(view, migrating=migrating)
        return Decision((*features.bootstrap_records(view), *upgrade), None)

    def _on_deposed(self) -> None:
        self.server.deposed()
        self.transactions.deposed()

    def _on_answering(self, answers: Sequence[Answer]) -> None:
        self.server.count(answers)

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        if delay_s:
            self._loop.call_later(delay_s, self._unless_stopped, call)
        else:
            self._loop.call_soon(self._unless_stopped, call)

    def _unless_stopped(self, call: Callable[[], None]) -> None:
        if not self._stopped:
            call()

    def _background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        future = self._loop.run_in_executor(None, work)
        self._jobs.add(future)

        def finished(ended: "asyncio.Future[Any]") -> None:
            self._jobs.discard(ended)
            error = ended.exception()
            self._waking(done)(error if error is not None else ended.result())

        future.add_done_callback(finished)

    def _configured_controllers(self) -> dict[NodeId, tuple[str, int]]:
        """Where the others' controller listeners should be, until each says so itself."""
        voters, servers = self._config.voters, self._config.controller_bootstrap
        if len(voters) != len(servers):
            return {}
        return {v.node_id: (a.host, a.port) for v, a in zip(sorted(voters), servers, strict=True)}


def _crash_points() -> Reach:
    try:
        return reach_in()
    except ValueError as error:
        raise ConfigError(str(error)) from error
