"""Expiry: transactions that are open for too long are aborted, ids that are not used are forgotten.

Timeout     PrepareAbort at the next epoch. The instance goes on: the row remembers the epoch that it holds,
            and InitProducerId with it is given the new one (KIP-588; Kafka's would be fenced). Until then no
            producer has it.
            A transaction of two-phase commit has none: an external coordinator ends it (KIP-939).
Clocks      ``now_ms`` is this leader's; ``started_ms`` and ``updated_ms`` may be a former leader's, whose
            clock went otherwise (controller/clocks.py). The time left to a transaction is clamped to
            [0, timeout]; an id is forgotten when it was idle for sure.
Source      KIP-588; Kafka TransactionStateManager; docs/kafka-notes.md B6; docs/design.md 2 (time).
"""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final

import msgspec

from fencepost.controller import clocks
from fencepost.controller.decision import Decision
from fencepost.controller.transactions.ending import cost_of_end, records_of_end
from fencepost.controller.transactions.fencing import (
    RECOVERY_INIT_VERSION,
    fenced,
    fenced_pairs,
    is_given_out,
    of_known_instance,
)
from fencepost.controller.transactions.pairs import client_pair
from fencepost.controller.transactions.states import (
    DEADLINES,
    EXPIRABLE_STATES,
    NEVER_MS,
    TRANSACTIONS,
    UPDATES,
    FenceCause,
    State,
    Transaction,
)
from fencepost.controller.view import View
from fencepost.records.logged import StateRecord, cost_of, encode_record
from fencepost.records.transaction_log import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionForgotten,
)

TIMEOUTS_MAX: Final = 100  # found by one look; as many are aborted at once as an entry has room for
SKEWED_MAX: Final = 1000  # open transactions looked at by one decision for the clock they began under
EXPIRED_MAX: Final = 500  # forgotten by one decision: some 10 ms of the loop


class TimedOut(msgspec.Struct, frozen=True):
    """What is being aborted. ``more``: the entry was full, so some are left over."""

    transactional_ids: tuple[str, ...]
    more: bool = False


class Expired(msgspec.Struct, frozen=True):
    """What was forgotten. ``more``: ask again, and go on from ``after``."""

    transactional_ids: tuple[str, ...]
    more: bool = False
    after: tuple[int, str] | None = None


class Due(msgspec.Struct, frozen=True):
    """Ids that a sweep is to decide on. ``more``: look again at once. ``after``: go on there next time."""

    transactional_ids: tuple[str, ...] = ()
    more: bool = False
    after: tuple[int, str] | None = None


def due_timeouts(
    view: View,
    now_ms: int,
    *,
    activated_ms: int,
    grace_ms: int,
    after: tuple[int, str] | None = None,
    passed_by: frozenset[str] = frozenset(),
) -> Due:
    """What is open past its timeout, at most TIMEOUTS_MAX; nothing within ``grace_ms`` of activation.

    ``after``       what the last look of this leadership answered: the walk over those whose clock was
                    ahead goes on from there, and begins anew after its end.
    ``passed_by``   ids that are not to be tried now.
    """
    if now_ms < activated_ms + grace_ms:
        return Due()
    due: list[str] = []
    for (deadline_ms, transactional_id), _ in view.scan(DEADLINES):
        if deadline_ms > now_ms or len(due) == TIMEOUTS_MAX:
            break
        if transactional_id not in passed_by:
            due.append(transactional_id)
    if len(due) == TIMEOUTS_MAX:
        return Due(tuple(due), more=True, after=after)
    beyond = (now_ms + 1, "") if after is None else max(after, (now_ms + 1, ""))
    timed = takewhile(lambda row: row[0][0] < NEVER_MS, view.scan(DEADLINES, beyond))
    walked = list(islice(timed, SKEWED_MAX))
    for (_, transactional_id), started_ms in walked:
        if started_ms <= activated_ms or len(due) == TIMEOUTS_MAX or transactional_id in passed_by:
            continue
        if _is_due(view, view.get(TRANSACTIONS, transactional_id), now_ms, activated_ms):
            due.append(transactional_id)
    ended = len(walked) < SKEWED_MAX
    return Due(tuple(due), after=None if ended else walked[-1][0])


def _is_due(view: View, row: Transaction | None, now_ms: int, activated_ms: int) -> bool:
    if row is None or row.state is not State.ONGOING or row.is_two_phase:
        return False
    if row.deadline_ms <= now_ms:
        return True
    inherited = row.started_epoch < view.header.controller_epoch
    began_ms = clocks.began_ms(row.started_ms, activated_ms, inherited=inherited)
    return began_ms + row.transaction_timeout_ms <= now_ms


def decide_timeouts(
    view: View, now_ms: int, transactional_ids: tuple[str, ...], *, activated_ms: int
) -> Decision[TimedOut]:
    """Abort those of these that are still open past their timeout: as many as the entry holds, at least one.

    The response says which, and whether some are left over.
    """
    records: list[StateRecord] = []
    aborted: list[str] = []
    room, extra = view.room, 0
    for transactional_id in transactional_ids:
        row = view.get(TRANSACTIONS, transactional_id)
        if row is None or not _is_due(view, row, now_ms, activated_ms):
            continue
        aborting = timed_out(row, now_ms)
        ending, moving = records_of_end(view, aborting), cost_of_end(view, aborting)
        cost = moving + sum([cost_of(each, encode_record(each)[1]) for each in ending])
        if records and cost > room:
            return Decision(tuple(records), TimedOut(tuple(aborted), more=True), extra_cost=extra)
        room -= cost
        extra += moving
        records += ending
        aborted.append(transactional_id)
    return Decision(tuple(records), TimedOut(tuple(aborted)), extra_cost=extra)


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
    bumped = msgspec.structs.replace(
        fenced_pairs(aborting),
        last_producer_epoch=client_pair(row).epoch,
        timed_out=True,
        init_version=-1,
    )
    if row.init_version >= RECOVERY_INIT_VERSION:
        return bumped
    return msgspec.structs.replace(bumped, last_producer_epoch=NO_EPOCH)  # its client cannot name its epoch


def decide_expire(
    view: View,
    idle: clocks.IdleStamps,
    *,
    after: tuple[int, str] | None = None,
    passed_by: frozenset[str] = frozenset(),
) -> Decision[Expired]:
    """Forget ids that were last used at an idle stamp, at most EXPIRED_MAX, the oldest first.

    ``after``       what the last decision of this sweep answered: it is not walked over again.
    ``passed_by``   ids that are not to be tried now.
    """
    expired = list(islice((key for key in _idle(view, idle, after) if key[1] not in passed_by), EXPIRED_MAX))
    ids = tuple(transactional_id for _, transactional_id in expired)
    return Decision(
        tuple(TransactionForgotten(transactional_id) for transactional_id in ids),
        Expired(ids, len(expired) == EXPIRED_MAX, expired[-1] if expired else after),
    )


def _idle(view: View, idle: clocks.IdleStamps, after: tuple[int, str] | None) -> Iterator[tuple[int, str]]:
    """The keys of UPDATES beyond ``after`` whose stamps are idle, in their order."""
    for key, _ in view.scan(UPDATES, after):
        if key[0] > idle.last_ms:
            break
        yield key
    if idle.first_future_ms is not None:
        future = (idle.first_future_ms, "")
        for key, _ in view.scan(UPDATES, future if after is None else max(after, future)):
            yield key


def decide_forget(
    view: View, idle: clocks.IdleStamps, transactional_ids: tuple[str, ...]
) -> Decision[Expired]:
    """Forget those of these ids that were still last used at an idle stamp."""
    rows = ((each, view.get(TRANSACTIONS, each)) for each in transactional_ids)
    ids = tuple(
        each
        for each, row in rows
        if row is not None and row.state in EXPIRABLE_STATES and idle.holds(max(0, row.updated_ms))
    )
    return Decision(tuple(TransactionForgotten(each) for each in ids), Expired(ids))
