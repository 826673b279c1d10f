"""Gives the broker's clients producer ids: drives the pool with real requests and a real clock.

Allocation  of an id is answered at once, from memory. Blocks are requested beside it, in ``run``.
Unknown     outcomes (7, a lost connection, silence) are retried: a wasted block is fine (row 730.9).
Quota       the throttle time in a response is waited out. The controller mutes the connection for that
            long, so blocks are requested on a connection of their own (broker/controller_clients.py).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from fencepost.broker.exit_reason import Membership
from fencepost.broker.producer_ids import ProducerIdPool
from fencepost.broker.registration import Registration
from fencepost.broker.retry import CALL_FAILURES, Complaints
from fencepost.controller.errors import ApiError, StaleBrokerEpoch
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerId, ProducerId
from fencepost.wire.client import ControllerClient, RequestTimeout
from fencepost.wire.dispatch import Api
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.schema import Buffer

CALL_TIMEOUT_S: Final = 2.0
"""Of one request for a block, finding the controller included; retried at once after it."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A block, and how long to wait before the next request."""

    block: ProducerIdBlock
    throttle_ms: int


def _decode_granted(version: int, body: Buffer) -> Granted:
    # ThrottleTimeMs is the first field, and what ``ALLOCATE_PRODUCER_IDS`` has no place for.
    block = ALLOCATE_PRODUCER_IDS.decode_response(version, body)
    return Granted(block, int.from_bytes(body[:4], "big", signed=True))


ALLOCATE: Final[Api[AllocateProducerIds, Granted]] = Api(
    key=ALLOCATE_PRODUCER_IDS.key,
    name=ALLOCATE_PRODUCER_IDS.name,
    versions=ALLOCATE_PRODUCER_IDS.versions,
    flexible_from=ALLOCATE_PRODUCER_IDS.flexible_from,
    listeners=ALLOCATE_PRODUCER_IDS.listeners,
    request_bytes_max=ALLOCATE_PRODUCER_IDS.request_bytes_max,
    decode_request=ALLOCATE_PRODUCER_IDS.decode_request,
    encode_response=lambda version, granted, throttle_ms: ALLOCATE_PRODUCER_IDS.encode_response(
        version, granted.block, throttle_ms
    ),
    refusal=ALLOCATE_PRODUCER_IDS.refusal,
    encode_request=ALLOCATE_PRODUCER_IDS.encode_request,
    decode_response=_decode_granted,
)


class IdsLeftGauge(Protocol):
    """Where the number of ids at hand is shown."""

    def producer_ids_left(self, count: int) -> None:
        """Set the number of ids that are left."""


class ProducerIdSource:
    """The pool, the controllers, and the wish for the next block between them."""

    def __init__(
        self,
        pool: ProducerIdPool,
        controllers: ControllerClient,
        registration: Registration,
        membership: Membership,
        broker_id: BrokerId,
        *,
        clock_ms: Callable[[], int],
        metrics: IdsLeftGauge,
        log: FilteringBoundLogger,
    ) -> None:
        self._pool = pool
        self._controllers = controllers
        self._registration = registration
        self._membership = membership
        self._broker_id = broker_id
        self._clock_ms = clock_ms
        self._metrics = metrics
        self._log = log
        self._due = asyncio.Event()
        self._complaints = Complaints("producer_id_block_not_granted", log)

    def allocate(self) -> ProducerId:
        """A producer id that is not in use. Raises CoordinatorLoadInProgress, at once, if none is at hand."""
        producer_id = self._pool.allocate()
        if self._pool.request_due_ms() is not None:
            self._due.set()
        self._metrics.producer_ids_left(self._pool.ids_left())
        return producer_id

    async def run(self) -> None:
        """Ask for a block whenever one is due; forever. Raises BrokerRefused."""
        while True:
            due_ms = self._pool.request_due_ms()
            if due_ms is None:
                self._due.clear()
                await self._due.wait()
                continue
            early_ms = due_ms - self._clock_ms()
            if early_ms > 0:
                await asyncio.sleep(early_ms / 1000)
                continue
            await self._ask()

    async def _ask(self) -> None:
        epoch = await self._registration.registered()
        self._pool.request_sent(self._clock_ms())
        request = AllocateProducerIds(self._broker_id, epoch)
        try:
            granted = await self._controllers.call(ALLOCATE, request, timeout_s=CALL_TIMEOUT_S)
        except RequestTimeout as error:
            self._pool.timed_out()
            self._complaints.failed(error)
        except CALL_FAILURES as error:
            self._pool.refused(now_ms=self._clock_ms())
            self._complaints.failed(error)
            if isinstance(error, StaleBrokerEpoch):
                self._registration.went_stale(epoch)
            elif isinstance(error, ApiError):
                self._membership.require_curable(error, "give this broker a block of producer ids")
        else:
            block, throttle_ms = granted.block, granted.throttle_ms
            now_ms = self._clock_ms()
            defect = self._pool.granted(block.first, block.length, now_ms=now_ms, throttle_ms=throttle_ms)
            if defect is not None:
                self._log.error("producer_id_block_refused", reason=defect)
                return
            self._complaints.succeeded()
            self._metrics.producer_ids_left(self._pool.ids_left())
            self._log.info(
                "producer_id_block_granted", first=block.first, length=block.length, throttle_ms=throttle_ms
            )
