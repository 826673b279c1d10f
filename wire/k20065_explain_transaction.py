"""ExplainTransaction, API key 20065, version 0: why a transaction is where it is, in a sentence.

A private API, for ``fencepost transactions describe``: Kafka's DescribeTransactions (65) has no place for it,
and a separate API disturbs no other client. docs/api-keys.md has its fields.

Refused     as in DescribeTransactions: 105 for an unknown id, 16 and 14 where it is not coordinated.
"""

from typing import Final

import msgspec

from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.k20066_list_set_aside import SetAside
from fencepost.wire.private_api import STRING, Fields, Json, private_api

UNKNOWN: Final = -1


class ExplainTransaction(msgspec.Struct, frozen=True):
    """A request for the explanation of one transaction (API key 20065)."""

    transactional_id: str


class FenceExplained(msgspec.Struct, frozen=True):
    """A fence of the id's bounded history.

    ``later_*``      the pair that the id had when it was fenced the next time, or has now.
    ``timeout_ms``   the id's timeout, where that is the cause; UNKNOWN where it is not.
    """

    at_ms: int
    cause: str
    producer_id: int
    epoch: int
    client_id: str = ""
    later_producer_id: int = UNKNOWN
    later_epoch: int = UNKNOWN
    timeout_ms: int = UNKNOWN


class PendingOffset(msgspec.Struct, frozen=True):
    """An offset that becomes a group's committed one if the transaction commits."""

    group_id: str
    topic: str
    partition: int
    offset: int


class PendingOffsets(msgspec.Struct, frozen=True):
    """The first offsets of a transaction, and how many it has."""

    offsets: tuple[PendingOffset, ...]
    count: int


class Assignment(msgspec.Struct, frozen=True):
    """Partitions of a group that the id's producer was assigned: the first of them, and how many it has."""

    group_id: str
    generation: int
    partitions: tuple[str, ...]
    count: int


class Explanation(msgspec.Struct, frozen=True):
    """What the coordinator says about it. ``pending``, ``assignments``: left out where there are none."""

    explanation: str
    fences: tuple[FenceExplained, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    pending: PendingOffsets | msgspec.UnsetType = msgspec.UNSET
    assignments: tuple[Assignment, ...] | msgspec.UnsetType = msgspec.UNSET


EXPLAIN_TRANSACTION: Final[Api[ExplainTransaction, Explanation]] = private_api(
    20065,
    "ExplainTransaction",
    Fields(ExplainTransaction, transactional_id=STRING),
    Json(Explanation),
    (BROKER, CONTROLLER),
)
