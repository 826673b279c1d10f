"""The producer id of a producer without transactions.

A sequence number that was lost (a record was refused) leaves a gap that no later batch may pass. The
partition then goes on with a producer id of its own, from any broker, at sequence 0.
"""

import asyncio
from typing import Final

from fencepost.client.backoff import Backoff
from fencepost.client.batches import ProducerIdentity
from fencepost.client.coordinators import cancelled
from fencepost.client.errors import FatalError, NotReachable, Refused, number_of, refused
from fencepost.client.network import LOST, Network
from fencepost.client.sender import Sender
from fencepost.client.types import TopicPartition
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.requests import ApiError, ErrorCode, InitProducerId

NO_TIMEOUT_MS: Final = 2**31 - 1

_SOON: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)


class Idempotence:
    """Implements ``Rules`` of a sender for a producer without transactions."""

    transactional_id: str | None = None
    adds_partitions = False

    def __init__(self, network: Network, max_block_s: float) -> None:
        self._network = network
        self._max_block_s = max_block_s
        self._renewing: asyncio.Task[None] | None = None
        self._lost_again = False
        self._sender: Sender | None = None

    def attach(self, sender: Sender) -> None:
        """The sender of the producer's batches."""
        self._sender = sender

    def may_send(self, partition: TopicPartition) -> bool:
        """Implements ``Rules.may_send``."""
        return True

    def on_refused(self, error: Exception) -> None:
        """Implements ``Rules.on_refused``."""
        if isinstance(error, FatalError) and self._sender is not None:
            self._sender.end(error)

    def on_sequence_lost(self) -> None:
        """Implements ``Rules.on_sequence_lost``."""
        self._lost_again = True
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())

    async def close(self) -> None:
        """End what is under way."""
        await cancelled(self._renewing)

    async def new_identity(self, timeout_s: float) -> ProducerIdentity:
        """A producer id of its own, from any broker. Raises NotReachable, Refused."""
        backoff = Backoff(timeout_s, self._network.rng)
        while True:
            try:
                answer = await self._network.call_any(INIT_PRODUCER_ID, InitProducerId(None, NO_TIMEOUT_MS))
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            except ApiError as error:
                obstacle: Exception = error
                if number_of(error) not in _SOON:
                    raise refused(number_of(error), f"InitProducerId: {error}") from error
            except LOST as error:
                obstacle = error
            if not await backoff.pause():
                raise NotReachable(f"no producer id in {timeout_s:.1f} s: {obstacle}")

    async def _renew(self) -> None:
        while self._lost_again and self._sender is not None:
            self._lost_again = False
            try:
                self._sender.renew(await self.new_identity(self._max_block_s))
            except (NotReachable, Refused):
                self._lost_again = True  # until batches are too old
