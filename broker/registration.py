"""Keeps one broker registered with the active controller, and alive.

Life        unregistered -> registered, fenced -> unfenced; back to unregistered when an answer says
            77 (stale epoch), to any request. Leaving: fenced by its own wish, the registration stays.
Incarnation one random id per process: a repeated registration is the same one to the controller.
Fenced      is not stopped: a fenced but registered broker may allocate producer ids, as in Kafka.
Retries     everything but what no retry cures (``Membership``), a duplicate (101) included: the session of
            the process that holds the id may end.
At once     a heartbeat is sent when the controller announces a change.
Source      Kafka BrokerLifecycleManager; docs/kafka-notes.md G5.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from fencepost.broker.exit_reason import Membership
from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.brokers import Heartbeat, HeartbeatStatus, RegisterBroker
from fencepost.controller.errors import ApiError, StaleBrokerEpoch
from fencepost.records.partition_report import PartitionReport
from fencepost.records.types import BrokerEpoch
from fencepost.wire.client import ControllerClient
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT

CALL_TIMEOUT_S: Final = 2.0
"""Of one call, finding the controller included. A session (9 s) has room for several."""

HEARTBEAT_MS_WHILE_FENCED: Final = 100
"""Until unfenced, so that a start takes no heartbeat interval."""

HEARTBEAT_MS_MIN: Final = 20
"""From an answer to a heartbeat that is sent at once: changes may be announced at any rate."""


class Reports(Protocol):
    """What heartbeats say of the broker's partitions (partition_reports.py)."""

    def next(self, epoch: BrokerEpoch, *, leaving: bool = False) -> tuple[PartitionReport, ...]:
        """For the next heartbeat."""

    def answered(self) -> None:
        """The controller has what ``next`` returned last."""


class Registration:
    """The broker's standing with the active controller. ``run`` until cancelled, then maybe ``leave``."""

    def __init__(
        self,
        controllers: ControllerClient,
        request: RegisterBroker,
        membership: Membership,
        *,
        heartbeat_interval_ms: int,
        on_heartbeat: Callable[[], None],
        reports: Reports,
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        self.is_fenced = True
        self.cluster_version = -1  # by the last heartbeat
        self.agreed_ms = -1  # likewise: what time a majority of voters has
        self.settings_digest = -1  # likewise: of what is set for this broker while it runs
        self._controllers = controllers
        self._request = request
        self._membership = membership
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._on_heartbeat = on_heartbeat
        self._reports = reports
        self._rng = rng
        self._log = log
        self._epoch: BrokerEpoch | None = None
        self._last_epoch = BrokerEpoch(-1)
        self._registered = asyncio.Event()
        self._wanted = asyncio.Event()  # the next heartbeat, or registration, at once
        self._unfenced = asyncio.Event()

    @property
    def epoch(self) -> BrokerEpoch | None:
        """The epoch of the registration; None while there is none."""
        return self._epoch

    async def registered(self) -> BrokerEpoch:
        """Waits until the broker is registered. Returns its epoch."""
        while self._epoch is None:
            await self._registered.wait()
        return self._epoch

    async def unfenced(self) -> None:
        """Waits until the controller lets clients see this broker."""
        await self._unfenced.wait()

    def went_stale(self, epoch: BrokerEpoch) -> None:
        """An answer said 77 to ``epoch``: register again, unless that has happened meanwhile."""
        if epoch != self._epoch:
            return
        self._log.warning("registration_lost", broker_epoch=epoch)
        self._epoch = None
        self._registered.clear()
        self._note_fenced(True)
        self._wanted.set()

    def heartbeat_soon(self) -> None:
        """The cluster has changed: send a heartbeat now. One that is under way may not have seen it."""
        self._wanted.set()

    async def run(self) -> None:
        """Register, send heartbeats, register again when stale; forever. Raises BrokerRefused."""
        while True:
            await self._register()
            await self._send_heartbeats()

    async def leave(self, timeout_s: float) -> bool:
        """Ask the controller to fence this broker and let it go; True if it agreed in time.

        To be called when ``run`` has ended. The registration stays: the broker will be back.
        """
        retry = self._retry("leave")
        try:
            async with asyncio.timeout(timeout_s):
                while self._epoch is not None:
                    try:
                        if (await self._heartbeat(self._epoch, want_shut_down=True)).should_shut_down:
                            break
                    except StaleBrokerEpoch:
                        break  # the controller has dropped this registration
                    except CALL_FAILURES as error:
                        await asyncio.sleep(retry.failed(error))
        except TimeoutError:
            return False
        self._epoch = None
        return True

    async def _register(self) -> None:
        retry = self._retry("register")
        request = dataclasses.replace(self._request, previous_epoch=self._last_epoch)
        while self._epoch is None:
            try:
                epoch = await self._controllers.call(BROKER_REGISTRATION, request, timeout_s=CALL_TIMEOUT_S)
            except CALL_FAILURES as error:
                self._require_curable(error, "register this broker")
                await asyncio.sleep(retry.failed(error))
                continue
            retry.succeeded()
            self._epoch = self._last_epoch = epoch
            self._registered.set()
            self._log.info("broker_registered", broker_epoch=epoch)

    async def _send_heartbeats(self) -> None:
        retry = self._retry("heartbeat")
        while self._epoch is not None:
            epoch = self._epoch
            self._wanted.clear()
            try:
                status = await self._heartbeat(epoch)
            except StaleBrokerEpoch:
                self.went_stale(epoch)
                return
            except CALL_FAILURES as error:
                self._require_curable(error, "take this broker's heartbeat")
                await self._pause(retry.failed(error))
                continue
            retry.succeeded()
            if epoch != self._epoch:
                return  # it went stale while this answer travelled
            self._note_fenced(status.is_fenced)
            self.cluster_version, self.agreed_ms = status.cluster_version, status.agreed_ms
            self.settings_digest = status.settings_digest
            self._on_heartbeat()
            pause_ms = HEARTBEAT_MS_WHILE_FENCED if status.is_fenced else self._heartbeat_interval_ms
            await self._pause(min(pause_ms, self._heartbeat_interval_ms) / 1000)

    async def _heartbeat(self, epoch: BrokerEpoch, *, want_shut_down: bool = False) -> HeartbeatStatus:
        # The epoch is the offset of our own RegisterBrokerRecord: a broker that replicates no metadata
        # has seen as much of the log as concerns it.
        request = Heartbeat(
            self._request.broker_id,
            epoch,
            epoch,
            want_shut_down=want_shut_down,
            reports=self._reports.next(epoch, leaving=want_shut_down),
        )
        status = await self._controllers.call(BROKER_HEARTBEAT, request, timeout_s=CALL_TIMEOUT_S)
        self._reports.answered()
        return status

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless the registration goes stale, or a heartbeat is wanted, meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.sleep(HEARTBEAT_MS_MIN / 1000)
                await self._wanted.wait()
        except TimeoutError:
            return

    def _note_fenced(self, is_fenced: bool) -> None:
        if is_fenced == self.is_fenced:
            return
        self.is_fenced = is_fenced
        self._log.info("broker_fenced" if is_fenced else "broker_unfenced", broker_epoch=self._last_epoch)
        if is_fenced:
            self._unfenced.clear()
        else:
            self._unfenced.set()

    def _require_curable(self, error: Exception, attempt: str) -> None:
        if isinstance(error, ApiError):
            self._membership.require_curable(error, attempt)

    def _retry(self, attempt: str) -> Retry:
        return Retry(attempt, rng=self._rng, log=self._log)
