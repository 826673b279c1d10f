"""This broker's ACLs: all of them once, then what changes, from the active controller.

Ready       once it has the ACLs as of its registration or later: before, the broker serves super users alone.
Confirms    each request says up to which change the broker decides; the controller answers a change of ACLs
            when every unfenced broker has said so (coordinator/acl_server.py).
Cut off     it goes on with what it has.
Doubt       after it stood still for longer than ``standstill_s``, or registered anew: the controllers may
            have fenced it meanwhile and answered changes without it. It serves super users alone until a
            request that it sends from then on is answered, or fails, as of one that is cut off.
Parked      others' requests meanwhile, for ``PARKED_S_MAX`` at most: a client that comes while its broker
            starts is answered late, as by Kafka's, whose listeners open when the ACLs are there.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.exit_reason import Membership
from fencepost.broker.registration import Registration
from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.acl_book import AclBook
from fencepost.controller.acls import AclChange
from fencepost.controller.errors import ApiError
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.client import ControllerClient
from fencepost.wire.k20029_follow_acls import FOLLOW_ACLS, FollowAcls, FollowedAcls

_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
STANDSTILL_S_MAX: Final = 4.0

CALL_TIMEOUT_S: Final = 4.0
"""Of one request: it may be parked for a second, and a page of long names takes a while."""

PARKED_S_MAX: Final = 5.0
PARKED_MAX: Final = 1000


def _boot_time_s() -> float:
    """It goes on while the machine sleeps."""
    return time.clock_gettime(_BOOTTIME)


def standstill_s(session_timeout_ms: int, heartbeat_interval_ms: int) -> float:
    """Half of the shortest time in which a broker that stands still is fenced, by these settings."""
    return min(STANDSTILL_S_MAX, (session_timeout_ms - heartbeat_interval_ms) / 2000)


class AclFollower:
    """``run`` until cancelled."""

    def __init__(
        self,
        controllers: ControllerClient,
        registration: Registration,
        membership: Membership,
        broker_id: BrokerId,
        rng: Random,
        log: FilteringBoundLogger,
        *,
        standstill_s: float,
        clock: Callable[[], float] = _boot_time_s,
    ) -> None:
        self._controllers = controllers
        self._registration = registration
        self._membership = membership
        self._broker_id = broker_id
        self._log = log
        self._retry = Retry("follow the ACLs", rng=rng, log=log)
        self._book = AclBook()
        self._is_ready = False
        self._standstill_s = standstill_s
        self._clock = clock
        self._turned_s = clock()  # when the loop ran last
        self._doubted_s: float | None = None  # an answer to a request from then on is wanted
        self._epoch: BrokerEpoch | None = None
        self._parked: deque[tuple[float, Callable[[], None]]] = deque()  # with the latest time of each
        self._begin()

    def _begin(self) -> None:
        self._rows: list[AclChange] = []  # of the pages so far
        self._first = -1  # the last change when the first page was read
        self._is_loaded = False
        self._ready_at = -1  # the change from which on the book is as new as the registration

    def book(self) -> AclBook | None:
        """The ACLs; None until they are as new as the broker's registration, or in doubt."""
        self._turn()
        return self._book if self._is_ready and self._doubted_s is None else None

    def park(self, then: Callable[[], None]) -> bool:
        """Call ``then`` once ``book`` is known, at the latest in ``PARKED_S_MAX``. False: too many wait."""
        if len(self._parked) >= PARKED_MAX:
            return False
        self._parked.append((self._clock() + PARKED_S_MAX, then))
        return True

    def _release(self) -> None:
        is_known, now_s = self.book() is not None, self._clock()
        while self._parked and (is_known or self._parked[0][0] <= now_s):
            asyncio.get_running_loop().call_soon(self._parked.popleft()[1])

    async def watch(self) -> None:
        """Notice when this process stood still, and what was parked for too long; forever."""
        while True:
            self._turn()
            self._release()
            await asyncio.sleep(self._standstill_s / 4)

    def _turn(self) -> None:
        now_s = self._clock()
        if now_s - self._turned_s > self._standstill_s:
            self._doubted_s = now_s
        self._turned_s = now_s

    async def run(self) -> None:
        """Follow, for ever. Raises BrokerRefused."""
        while True:
            epoch = await self._registration.registered()
            self._turn()
            sent_s = self._turned_s
            if epoch != self._epoch:
                self._epoch, self._doubted_s = epoch, sent_s
            known = self._book.changes if self._is_loaded else -1
            after = self._rows[-1] if self._rows else None
            request = FollowAcls(self._broker_id, epoch, known, after)
            try:
                answer = await self._controllers.call(FOLLOW_ACLS, request, timeout_s=CALL_TIMEOUT_S)
            except CALL_FAILURES as error:
                if isinstance(error, ApiError):
                    self._membership.require_curable(error, "give the ACLs to this broker")
                self._settle(sent_s)
                self._release()
                await asyncio.sleep(self._retry.failed(error))
                continue
            self._retry.succeeded()
            self._take(answer)
            if self._is_current:
                self._settle(sent_s)
                self._release()

    @property
    def _is_current(self) -> bool:
        """The book is as new as the registration, at least."""
        return self._is_loaded and self._book.changes >= self._ready_at

    def _settle(self, sent_s: float) -> None:
        """A request of then was answered, or failed: no doubt of before counts any more."""
        self._turn()
        if self._doubted_s is not None and sent_s >= self._doubted_s:
            self._doubted_s = None

    def _take(self, answer: FollowedAcls) -> None:
        if answer.is_lost:
            self._begin()  # what is here decides until all are here again
            return
        if self._is_loaded:
            self._book.take(answer.rows, answer.changes)
        else:
            self._take_page(answer)
        if self._is_current and not self._is_ready:
            self._is_ready = True
            self._log.info("acls_loaded", acls=len(self._book.acls), change=self._book.changes)

    def _take_page(self, answer: FollowedAcls) -> None:
        if not self._rows:
            self._first = answer.changes
        self._rows += answer.rows
        if answer.has_more:
            return
        self._book.load(
            ((each.acl_id, each.added) for each in self._rows if each.added is not None), self._first
        )
        self._rows, self._is_loaded, self._ready_at = [], True, answer.changes
