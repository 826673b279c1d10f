"""Who ends a transaction that is open on a partition: what its log says, held against its coordinator.

Open        a partition has data of a producer without a marker behind it. The first offset of the oldest one
            is the last stable offset, where read_committed consumers stop.
Hanging     no coordinator will write the marker: none has the producer id, or its transaction does not
            include the partition.
Ending      the outcome is decided, and the marker is still to be written: nothing else may end it.
Source      KIP-664; Kafka TransactionsCommand (FindHangingTransactionsCommand), TransactionState.
"""

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

NO_TIMEOUT_MS: Final = 2**31 - 1  # two-phase commit: only its external coordinator ends it (KIP-939)
ONGOING: Final = "Ongoing"
DECIDED: Final = frozenset(("PrepareCommit", "PrepareAbort", "PrepareEpochFence"))


class Holding(enum.StrEnum):
    """What an open transaction waits for."""

    HANGING = "hanging"
    ONGOING = "ongoing"
    TWO_PHASE = "two-phase"
    ENDING = "ending"
    UNKNOWN = "unknown"


class OpenTransaction(NamedTuple):
    """A producer's data on a partition without a marker behind it. -1: not known.

    ``last_ms``            when the producer says that it wrote its last batch; ``first_ms``: its first one.
    ``coordinator_epoch``  of the last marker that the producer got on the partition.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_ms: int = -1
    coordinator_epoch: int = -1
    first_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """A transactional id as its coordinator has it. ``partitions``: those that still lack a marker.

    ``coordinator``   the coordinator's node id; -1: not known.
    ``home``          the partition of __transaction_state that has it; -1: not known.
    ``started_ms``    -1: no transaction is open.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int = -1
    partitions: frozenset[tuple[str, int]] = frozenset()
    coordinator: int = -1
    home: int = -1

    @property
    def due_ms(self) -> int | None:
        """When the coordinator may abort it; None: it has no transaction that times out."""
        if self.state != ONGOING or self.started_ms < 0 or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.started_ms + self.timeout_ms


class Judged(NamedTuple):
    """What an open transaction waits for, and why, as the end of a sentence."""

    holding: Holding
    reason: str


def judge(opened: OpenTransaction, owner: Coordinated | None, *, is_whole: bool) -> Judged:
    """What an open transaction waits for.

    ``owner``     the transactional id that has its producer id; None: none is known.
    ``is_whole``  every coordinator could be read.
    """
    if owner is None:
        if not is_whole:
            return Judged(
                Holding.UNKNOWN,
                f"not every coordinator could be read, and one may have producer {opened.producer_id}",
            )
        return Judged(Holding.HANGING, f"no coordinator has producer {opened.producer_id}")
    named = f"transactional id {owner.transactional_id!r}"
    if (opened.topic, opened.partition) not in owner.partitions:
        return Judged(
            Holding.HANGING,
            f"{named} has the producer, is {owner.state}, and has no transaction on this partition",
        )
    at_epoch = ""
    if opened.producer_epoch > owner.producer_epoch:
        at_epoch = (
            f"; the partition is at epoch {opened.producer_epoch} of the producer, and refuses markers of "
            f"epoch {owner.producer_epoch}"
        )
    if owner.state in DECIDED:
        reason = f"{named} is {owner.state}: its marker is still to be written here{at_epoch}"
        return Judged(Holding.ENDING, reason)
    if owner.state != ONGOING:
        return Judged(
            Holding.UNKNOWN, f"{named} is in state {owner.state!r} and still has the partition{at_epoch}"
        )
    if owner.timeout_ms == NO_TIMEOUT_MS:
        reason = f"{named} is {owner.state} in a two-phase commit: only its application ends it{at_epoch}"
        return Judged(Holding.TWO_PHASE, reason)
    return Judged(Holding.ONGOING, f"{named} is {owner.state}{at_epoch}")
