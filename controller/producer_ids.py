"""Producer ids: give each broker a block of ids that no broker is ever given again.

Invariant   the end only grows; record k gives out [previous end, record.producer_id_end).
Gaps        are fine. A lost response wastes its block; it is never given out a second time.
Source      KIP-730; Kafka ProducerIdControlManager (generateNextProducerId, replay).
"""

from typing import Final

import msgspec

from fencepost.controller import brokers
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ProducerIdsExhausted
from fencepost.controller.migration_phase import require_quorum_allocates
from fencepost.controller.view import MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.invariant import invariant
from fencepost.records.schema import AllocateProducerIdsRecord, allocated
from fencepost.records.types import PRODUCER_ID_MAX, BrokerEpoch, BrokerId, ProducerId

BLOCK_LENGTH_DEFAULT: Final = 1000
BLOCK_LENGTH_MAX: Final = 2**31 - 1  # ProducerIdLen is an int32


class AllocateProducerIds(msgspec.Struct, frozen=True):
    """A broker's request for its next block (API key 67). Not idempotent: a repeat wastes a block."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """The ids [first, first + length)."""

    first: ProducerId
    length: int


class ProducerIds(msgspec.Struct, frozen=True, array_like=True):
    """The latest block, with who got it. Row 730.6: snapshots hold this and no earlier block."""

    broker_id: BrokerId = BrokerId(-1)
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    first: ProducerId = ProducerId(0)
    end: ProducerId = ProducerId(0)  # exclusive: the first id not yet allocated


PRODUCER_IDS: Final[Table[int, ProducerIds]] = Table(
    "producer_ids", ProducerIds, encode_int_key, decode_int_key
)
NOTHING_ALLOCATED: Final = ProducerIds()


def latest(view: View) -> ProducerIds:
    """The latest block; ``NOTHING_ALLOCATED`` before the first."""
    return view.get(PRODUCER_IDS, 0) or NOTHING_ALLOCATED


def decide_allocate(view: View, request: AllocateProducerIds, block_length: int) -> Decision[ProducerIdBlock]:
    """The next ``block_length`` ids. Raises StaleBrokerEpoch, ProducerIdsExhausted.

    CoordinatorLoadInProgress while ZooKeeper gives out the ids, or neither does (migration_phase.py).
    The last block that can be given ends exactly at 2^63 - 1, as in Kafka.
    """
    brokers.require_epoch(view, request.broker_id, request.broker_epoch)
    require_quorum_allocates(view)
    before = view.get(PRODUCER_IDS, 0)
    first = ProducerId(0) if before is None else before.end
    if first > PRODUCER_ID_MAX - block_length:
        raise ProducerIdsExhausted(producer_id_end=first, block_length=block_length)
    record = allocated(request.broker_id, request.broker_epoch, ProducerId(first + block_length))
    return Decision((record,), ProducerIdBlock(first, block_length))


def replay(view: MutableView, record: AllocateProducerIdsRecord) -> None:
    """Total: a committed record always applies. One that cannot is our bug, not an error."""
    before = view.get(PRODUCER_IDS, 0)
    end = ProducerId(0) if before is None else before.end
    if record.producer_id_end <= end:
        invariant(False, "producer ids went back", end=end, record=record)
    view.put(
        PRODUCER_IDS,
        0,
        ProducerIds(record.broker_id, record.broker_epoch, end, record.producer_id_end),
    )
