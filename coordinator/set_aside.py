"""Set-aside work of the active controller: listed, explained, and ended when an operator requests it.

Kinds       wedged: a partition refuses the marker of a prepared transaction (coordinator/wedges.py).
            quarantined: a row whose timers fail. Both are soft, of one leadership, and retried.
APIs        ListSetAside (20066, DESCRIBE), ExplainTransaction (20065, DESCRIBE), ForceMarkers (20027, ALTER).
Answers     leave with an entry, which proves that this node leads.
"""

from functools import partial
from itertools import islice
from typing import Final

import msgspec

from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, TransactionalIdNotFound
from fencepost.controller.groups.offset_tables import PENDING, open_offsets
from fencepost.controller.transactions import states
from fencepost.controller.transactions.assignments import assigned, keys_of
from fencepost.controller.transactions.explain import CAUSES, explain
from fencepost.controller.transactions.pairs import client_pair
from fencepost.controller.transactions.states import FenceCause, Transaction
from fencepost.controller.view import View
from fencepost.coordinator.completions import COMPLETION
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.marker_sender import MarkerSender
from fencepost.coordinator.transaction_timers import EXPIRY, TIMEOUT
from fencepost.quorum.port import Outcome, Submit
from fencepost.quorum.quarantine import Quarantine
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k20027_force_markers import FORCE_MARKERS, ForcedMarkers, ForceMarkers
from fencepost.wire.k20065_explain_transaction import (
    EXPLAIN_TRANSACTION,
    UNKNOWN,
    Assignment,
    ExplainTransaction,
    Explanation,
    FenceExplained,
    PendingOffset,
    PendingOffsets,
)
from fencepost.wire.k20066_list_set_aside import (
    LIST_SET_ASIDE,
    QUARANTINED,
    ROWS_MAX,
    ListSetAside,
    SetAside,
    SetAsideList,
)

ASSIGNED_EXPLAINED_MAX: Final = 50  # partitions of the groups of one id: with the longest names 13 kB
GROUPS_EXPLAINED_MAX: Final = 10
PENDING_EXPLAINED_MAX: Final = 10  # offsets of one transaction: with the longest names 16 kB of the answer
EXPLAINED_MAX: Final = 50  # rows of one transaction: the answer is below the codec's bound

_OF_TRANSACTIONS: Final = frozenset({COMPLETION, EXPIRY, TIMEOUT})
"""The concerns whose rows are transactional ids."""


class SetAsideServer:
    """The endpoints for set-aside work, and the forced markers under way."""

    def __init__(
        self,
        submit: Submit,
        acls: Acls,
        markers: MarkerSender,
        quarantine: Quarantine,
        errors: CoordinatorErrors,
    ) -> None:
        self._submit = submit
        self._acls = acls
        self._markers = markers
        self._errors = errors
        self._quarantine = quarantine

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict(
            (
                served(EXPLAIN_TRANSACTION, self.explain),
                served(LIST_SET_ASIDE, self.list_set_aside),
                served(FORCE_MARKERS, self.force),
            )
        )

    def explain(self, request: ExplainTransaction, context: Context, reply: Reply[Explanation]) -> None:
        """API key 20065: why a transaction is where it is."""
        self._acls.require(context.principal, Operation.DESCRIBE)
        self._submit(partial(self._decide_explain, request), self._errors.before(reply), closing=reply)

    def _decide_explain(self, request: ExplainTransaction, view: View, now_ms: int) -> Decision[Explanation]:
        transactional_id = request.transactional_id
        row = states.get(view, transactional_id)
        if row is None:
            raise TransactionalIdNotFound(f"nothing is known of {transactional_id!r}")
        fences = _fences(row)
        wedged = islice(self._markers.wedges.rows(transactional_id), EXPLAINED_MAX)
        rows = (*wedged, *self._quarantined(transactional_id))
        refusing = tuple((each.partition, each.code, each.since_ms) for each in rows if each.partition)
        failing = tuple((each.reason, each.since_ms) for each in rows if not each.partition)
        said = explain(row, now_ms, refusing=refusing, failing=failing)
        pending = _pending(view, row.producer_id)
        return Decision(
            (), Explanation(said, fences, rows, pending, _assignments(view, row.transactional_id))
        )

    def list_set_aside(self, request: ListSetAside, context: Context, reply: Reply[SetAsideList]) -> None:
        """The wedged and quarantined rows (API key 20066)."""
        self._acls.require(context.principal, Operation.DESCRIBE)
        self._submit(
            lambda _view, _now_ms: Decision((), self._list()), self._errors.before(reply), closing=reply
        )

    def _list(self) -> SetAsideList:
        quarantined = self._quarantined()
        rows = (*islice(self._markers.wedges.rows(), ROWS_MAX), *quarantined)[:ROWS_MAX]
        return SetAsideList(rows, self._markers.wedges.partitions + len(quarantined))

    def _quarantined(self, transactional_id: str | None = None) -> tuple[SetAside, ...]:
        """All of them, or those of one transactional id; the oldest first."""
        return tuple(
            SetAside(
                kind=QUARANTINED,
                concern=each.concern,
                key=each.key,
                reason=each.reason,
                since_ms=each.since_ms,
            )
            for each in self._quarantine.rows()
            if transactional_id is None or (each.key == transactional_id and each.concern in _OF_TRANSACTIONS)
        )

    def force(self, request: ForceMarkers, context: Context, reply: Reply[ForcedMarkers]) -> None:
        """API key 20027: the markers that are refused are sent again, forced. What was decided stays so."""
        self._acls.require(context.principal, Operation.ALTER)

        def proven(outcome: Outcome[None], throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(self._errors.translate(outcome), throttle_ms)
                return
            parts = self._markers.force(request.transactional_id)
            reply(ForcedMarkers(tuple(f"{topic}-{index}" for topic, index in parts)), throttle_ms)

        self._submit(partial(_decide_known, request.transactional_id), proven, closing=reply)


def _decide_known(transactional_id: str, view: View, _now_ms: int) -> Decision[None]:
    if states.get(view, transactional_id) is None:
        raise TransactionalIdNotFound(f"nothing is known of {transactional_id!r}")
    return Decision((), None)


def _fences(row: Transaction) -> tuple[FenceExplained, ...]:
    client = client_pair(row)
    pairs = [*((each.producer_id, each.epoch) for each in row.fences), (client.producer_id, client.epoch)]
    return tuple(
        FenceExplained(
            each.at_ms,
            CAUSES.get(each.cause, "unknown"),
            each.producer_id,
            each.epoch,
            each.by,
            *pair,
            row.transaction_timeout_ms if each.cause == FenceCause.TIMEOUT else UNKNOWN,
        )
        for each, pair in zip(row.fences, pairs[1:], strict=True)
    )


def _pending(view: View, producer_id: int) -> PendingOffsets | msgspec.UnsetType:
    """What the transaction of a producer has committed for groups, so far."""
    keys = open_offsets(view, producer_id).keys
    if not keys:
        return msgspec.UNSET
    rows: list[PendingOffset] = []
    for key in sorted(keys)[:PENDING_EXPLAINED_MAX]:
        kept = view.get(PENDING, (producer_id, key))
        if kept is not None:
            rows.append(PendingOffset(*key, kept.offset))
    return PendingOffsets(tuple(rows), len(keys))


def _assignments(view: View, transactional_id: str) -> tuple[Assignment, ...] | msgspec.UnsetType:
    """What group-aware InitProducerIds of the id were given."""
    found, left = [], ASSIGNED_EXPLAINED_MAX
    for each in assigned(view, transactional_id)[:GROUPS_EXPLAINED_MAX]:
        named = [f"{key[1]}-{key[2]}" for key in keys_of((each,))]
        found.append(Assignment(each.group_id, each.generation, tuple(named[:left]), len(named)))
        left -= len(found[-1].partitions)
    return tuple(found) or msgspec.UNSET
