"""Where fencepost answers otherwise than Kafka (``kafka_rules.py``), and why: one name for each reason.

Each function has its rule's name. It returns what is answered instead, or None where Kafka's rule holds.
"""

from typing import Final, NamedTuple

from fencepost.controller.transactions.states import State
from tests.controller.transactions.kafka_rules import (
    CONCURRENT,
    EXHAUSTED,
    FENCED,
    FRESH,
    NONE,
    PREPARED,
    Known,
    Outcome,
    Pair,
    refused,
)

TIMED_OUT: Final = 59
ABORTABLE: Final = 120

REASONS: Final = {
    "given-out": "The pair of an abort that the coordinator decided is no producer's before it is answered.",
    "reserved": "32767 is given to none, so it is refused, also of an id that is unknown.",
    "own": "Below the current epoch only pairs of its own instance go on. Another is fenced at once, where "
    "Kafka says 51, or aborts what is open without a look at the epoch; and it is no retry of an EndTxn.",
    "retry": "Each pair of the instance is a retry (KIP-360 as proposed): what is open stays as it is. "
    "Kafka knows the last one, forgets it at a failover, and aborts its own producer's transaction.",
    "late": "A timeout is no fence (KIP-588): 59 says so; InitProducerId or a V2 abort give the next pair.",
    "unnamed": "Kafka's row does not say whether its producer could name its epoch: after a timeout it is "
    "fenced until it does.",
    "same": "An InitProducerId aborted its own open transaction: the next one with that pair goes on.",
    "remembered": "A producer id that the row remembers is fenced, not unknown: librdkafka repeats after 49.",
    "kept": "What is kept takes no more, also not from the instance that began it.",
}


class Deviation(NamedTuple):
    """A key of ``REASONS``, and the answer."""

    reason: str
    outcome: Outcome


def _fenced(reason: str) -> Deviation:
    return Deviation(reason, refused(FENCED))


def _own_last(row: Known) -> Pair | None:
    """What its producer held before the current pair, by its own bump or not."""
    if row.is_given:
        return row.last
    return row.instance[-1] if row.instance else None


def init_producer_id_instead(row: Known, given: Pair, *, keeps: bool) -> Deviation | None:
    """Of a pair that is not the current one, or that no producer has."""
    if given == NONE or -1 in given or keeps:
        return None
    if given[1] > EXHAUSTED:
        return _fenced("reserved")
    if row.state is None:
        return None
    if given == row.client:
        return None if row.is_given else _fenced("given-out")
    is_own = given == _own_last(row) or (given in row.instance and given[0] == row.client[0])
    if not is_own:
        return _fenced("own")
    if row.state in PREPARED:
        return Deviation("late", refused(CONCURRENT))
    if row.is_given:
        return Deviation("retry", Outcome(0, row.client))
    pair = (FRESH, 0) if row.client[1] > EXHAUSTED else row.client
    reason = "late" if row.late == row.instance[-1] else "same"
    return Deviation(reason, Outcome(0, pair, (State.EMPTY, pair, pair)))


def _not_current(row: Known, pair: Pair, late: Outcome) -> Deviation | None:
    """What every request has in common that only the current pair may send."""
    if row.state is None:
        return None
    if pair == row.client:
        return None if row.is_given else _fenced("given-out")
    if pair == row.late:
        return Deviation("late", late)
    if pair[0] in row.remembered:
        return _fenced("remembered")
    return None


def end_v1_instead(
    row: Known, pair: Pair, *, committed: bool, knows_abortable: bool = True
) -> Deviation | None:
    """An abort after the timeout is what happened, for who knows no better: see EndTxn.knows_abortable."""
    late = refused(TIMED_OUT)
    if not committed and knows_abortable:
        late = refused(CONCURRENT) if row.state is State.PREPARE_ABORT else Outcome()
    return _not_current(row, pair, late)


def end_v2_instead(row: Known, pair: Pair, *, committed: bool) -> Deviation | None:
    """The retry of an abort that the coordinator decided gives out its pair."""
    if row.state is None or pair == row.client:
        return _not_current(row, pair, refused(TIMED_OUT))
    if pair == row.unnamed:
        return _fenced("unnamed")
    if pair == _own_last(row):
        reason = "late" if pair == row.late else "same"
        if committed and pair == row.late:
            return Deviation("late", refused(TIMED_OUT))
        if not row.is_given and not committed and row.state is State.COMPLETE_ABORT:
            given = (FRESH, 0) if row.client[1] > EXHAUSTED else row.client
            return Deviation(reason, Outcome(0, given, (State.EMPTY, given, given)))
        if pair == row.late and not committed and row.state is State.EMPTY:
            return Deviation("late", Outcome(0, row.client))
        return None
    if pair == row.late:
        return None
    if pair[0] == row.client[0]:
        return _fenced("own")
    return _fenced("remembered") if pair[0] in row.remembered else None


def add_partitions_instead(
    row: Known, pair: Pair, *, is_in: bool = False, late: int = TIMED_OUT
) -> Deviation | None:
    """AddPartitionsToTxn, and TxnOffsetCommit with ``late`` 120: there clients have no meaning for 59."""
    if row.is_kept and pair == row.transaction:
        return _fenced("kept")
    return _not_current(row, pair, refused(late))
