"""AddPartitionsToTxn as brokers send it, with many transactions: decided a few at a time.

A broker comes again by itself for what it is refused, so no request is parked; what of it is, see
coordinator/early_additions.py.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress, ErrorCode
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    decide_add_partitions,
    decide_verify,
    same_for_all,
)
from fencepost.controller.view import View
from fencepost.coordinator.parts import Parts
from fencepost.quorum.port import Reply, Submit
from fencepost.records.logged import ENTRY_COST_MAX, StateRecord, cost_of, encode_record
from fencepost.wire.dispatch import Closing

Results: TypeAlias = tuple[tuple[str, AddPartitionsAnswer], ...]
"""By transactional id."""

AT_ONCE_MAX: Final = 50
"""Transactions in one decision, which takes some 2 ms."""


def submit(
    submit: Submit,
    request: AddPartitionsToTxn,
    reply: Reply[AddPartitionsToTxnAnswer],
    closing: Closing,
    *,
    early: Results = (),
) -> None:
    """Submit the request in parts. Its ids are there once each, so that no part sees what another writes.

    ``early``: of other transactions of the same request, answered before these.
    """
    transactions = request.transactions
    starts = range(0, len(transactions), AT_ONCE_MAX) or (0,)
    several = [transactions[start : start + AT_ONCE_MAX] for start in starts]
    parts = Parts(len(several), reply, partial(_joined, several, early))
    for position, some in enumerate(several):
        submit(partial(_decide_batch, some), partial(parts.take, position), closing=closing)


def _joined(
    requested: Sequence[Sequence[AddPartitions]],
    early: Results,
    outcomes: Sequence[AddPartitionsToTxnAnswer | ApiError],
) -> AddPartitionsToTxnAnswer:
    """The answers of all parts; of one that failed, its code for each of its transactions."""
    results: list[tuple[str, AddPartitionsAnswer | ErrorCode]] = [*early]
    for part, outcome in zip(requested, outcomes, strict=True):
        if isinstance(outcome, ApiError):
            results += [(each.transactional_id, same_for_all(each, outcome.code)) for each in part]
        else:
            results += outcome.results
    return AddPartitionsToTxnAnswer(tuple(results))


def _decide_batch(
    transactions: Sequence[AddPartitions], view: View, now_ms: int
) -> Decision[AddPartitionsToTxnAnswer]:
    """Each id is there once, so that none sees what another one writes.

    What the entry has no room for is answered COORDINATOR_LOAD_IN_PROGRESS (14): brokers come again, and then
    what is in already takes no room. Only large transactions take so much.
    """
    records: list[StateRecord] = []
    room = ENTRY_COST_MAX  # what does not fit beside others is decided again, for the next entry
    results: list[tuple[str, AddPartitionsAnswer | ErrorCode]] = []
    for each in transactions:
        try:
            if each.verify_only:
                decided = decide_verify(view, each)
            else:
                decided = decide_add_partitions(view, each, now_ms=now_ms)
            cost = sum(cost_of(record, encode_record(record)[1]) for record in decided.records)
            if records and cost > room:
                raise CoordinatorLoadInProgress("the entry is full; retry with what is left")
            room -= cost
        except ApiError as refusal:
            results.append((each.transactional_id, same_for_all(each, refusal.code)))
        else:
            records += decided.records
            results.append((each.transactional_id, decided.response))
    return Decision(tuple(records), AddPartitionsToTxnAnswer(tuple(results)))
