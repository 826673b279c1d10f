"""Expiry: transactions that are open for too long are aborted, ids that nobody uses are forgotten.

Timeout     PrepareAbort at the next epoch. The instance goes on: the row remembers the epoch that it holds,
            and InitProducerId with it is given the new one (KIP-588; Kafka's would be fenced). Until then no
            producer has it.
Clocks      ``now_ms`` is this leader's; ``started_ms`` may be a former leader's, whose clock went otherwise.
            The time left is clamped to [0, timeout]: a transaction of a former leadership that seems to
            begin after this one's activation began at the activation.
Source      KIP-588; Kafka TransactionStateManager; spec/kafka.md B6; DESIGN 2 (time).
"""

from itertools import islice
from typing import Final

import msgspec

from controller.decision import Decision
from controller.transactions.fencing import (
    RECOVERY_INIT_VERSION,
    fenced,
    is_given_out,
    of_known_instance,
)
from controller.transactions.states import (
    DEADLINES,
    TRANSACTIONS,
    UPDATES,
    FenceCause,
    State,
    Transaction,
    record_of,
)
from controller.view import View
from records.invariant import InvariantViolation
from records.transaction_log import NO_PRODUCER_ID, TransactionForgotten

TIMEOUTS_MAX: Final = 100  # aborted by one decision: some 10 ms of the loop
SKEWED_MAX: Final = 1000  # open transactions looked at by one decision for the clock they began under
EXPIRED_MAX: Final = 500  # forgotten by one decision: some 10 ms of the loop


class TimedOut(msgspec.Struct, frozen=True):
    """What is being aborted. ``more``: ask again at once. ``after``: go on there next time."""

    transactional_ids: tuple[str, ...]
    more: bool = False
    after: tuple[int, str] | None = None


class Expired(msgspec.Struct, frozen=True):
    """What was forgotten. ``more``: ask again, and go on from ``after``."""

    transactional_ids: tuple[str, ...]
    more: bool = False
    after: tuple[int, str] | None = None


def decide_timeouts(
    view: View,
    now_ms: int,
    *,
    activated_ms: int,
    grace_ms: int,
    after: tuple[int, str] | None = None,
) -> Decision[TimedOut]:
    """Abort what is open past its timeout, at most TIMEOUTS_MAX; nothing within ``grace_ms`` of activation.

    ``after``   what the last decision of this leadership answered: the walk over those whose clock was
                ahead goes on from there, and begins anew after its end.
    """
    if now_ms < activated_ms + grace_ms:
        return Decision((), TimedOut(()))
    due: list[Transaction] = []
    for (deadline_ms, transactional_id), _ in view.scan(DEADLINES):
        if deadline_ms > now_ms or len(due) == TIMEOUTS_MAX:
            break
        due.append(_ongoing(view, transactional_id))
    if len(due) == TIMEOUTS_MAX:
        return _timed_out(due, now_ms, more=True, after=after)
    beyond = (now_ms + 1, "") if after is None else max(after, (now_ms + 1, ""))
    walked = list(islice(view.scan(DEADLINES, beyond), SKEWED_MAX))
    for (_, transactional_id), started_ms in walked:
        if started_ms <= activated_ms or len(due) == TIMEOUTS_MAX:
            continue
        row = _ongoing(view, transactional_id)
        inherited = row.started_epoch < view.header.controller_epoch
        if inherited and activated_ms + row.transaction_timeout_ms <= now_ms:
            due.append(row)
    ended = len(walked) < SKEWED_MAX
    return _timed_out(due, now_ms, more=False, after=None if ended else walked[-1][0])


def _timed_out(
    due: list[Transaction], now_ms: int, *, more: bool, after: tuple[int, str] | None
) -> Decision[TimedOut]:
    records = tuple(record_of(timed_out(row, now_ms)) for row in due)
    return Decision(records, TimedOut(tuple(row.transactional_id for row in due), more, after))


def timed_out(row: Transaction, now_ms: int) -> Transaction:
    """PrepareAbort at the next epoch; the instance that holds the one before may ask for it.

    A transaction with a pair that was never given out (older versions accepted 32767) is aborted without a
    bump: there is no producer to fence, and past 32767 there is no epoch.
    """
    aborting = msgspec.structs.replace(
        of_known_instance(row),
        state=State.PREPARE_ABORT,
        updated_ms=now_ms,
        previous_producer_id=NO_PRODUCER_ID,
        fences=fenced(row, FenceCause.TIMEOUT, now_ms),
    )
    if not is_given_out(row):
        return aborting
    return msgspec.structs.replace(
        aborting,
        producer_epoch=row.producer_epoch + 1,
        last_producer_epoch=row.producer_epoch,
        timed_out=row.init_version >= RECOVERY_INIT_VERSION,
        init_version=-1,
    )


def decide_expire(
    view: View, now_ms: int, expiration_ms: int, *, after: tuple[int, str] | None = None
) -> Decision[Expired]:
    """Forget ids that nobody used for ``expiration_ms``, at most EXPIRED_MAX, the oldest first.

    ``after``   what the last decision of this sweep answered: what was forgotten is not walked over again.
    """
    expired: list[tuple[int, str]] = []
    for key, _ in view.scan(UPDATES, after):
        if key[0] > now_ms - expiration_ms or len(expired) == EXPIRED_MAX:
            break
        expired.append(key)
    ids = tuple(transactional_id for _, transactional_id in expired)
    return Decision(
        tuple(TransactionForgotten(transactional_id) for transactional_id in ids),
        Expired(ids, len(expired) == EXPIRED_MAX, expired[-1] if expired else after),
    )


def _ongoing(view: View, transactional_id: str) -> Transaction:
    row = view.get(TRANSACTIONS, transactional_id)
    if row is None or row.state is not State.ONGOING:
        raise InvariantViolation(f"the index of deadlines has what is not open: {transactional_id!r}, {row}")
    return row
