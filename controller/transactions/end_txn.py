"""EndTxn: commit or abort. Once the PrepareX record is committed, the outcome can never change (I7).

The client is answered then; the markers follow. Requests below version 5 leave the epoch as it is: a delayed
EndTxn can end a later transaction of the same epoch, the protocol's own hole. From version 5 on (KIP-890)
each end bumps the epoch, and past 32766 the next transaction has a new producer id.

Pairs    requests present the client's pair, or the one before it in a retry (pairs.py). Markers have the
         transaction's, an epoch further if the end bumps, or if the transaction was kept (KIP-939): the
         instance that began it is fenced by them. Below version 5 the client's own pair stays as it is.
Source   Kafka TransactionCoordinator.endTransaction; KIP-890, KIP-939; docs/kafka-notes.md B4.
"""

from typing import TypeAlias

import msgspec

from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    InvalidTxnState,
    ProducerFenced,
    TransactionTimedOut,
)
from fencepost.controller.transactions.ending import cost_of_end, records_of_end
from fencepost.controller.transactions.fencing import (
    RECOVERY_INIT_VERSION,
    find,
    is_given_out,
    is_last,
    refusal,
    require_current,
)
from fencepost.controller.transactions.init_producer_id import allocated, given_out
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.controller.transactions.pairs import (
    Pair,
    client_id_before,
    client_id_if_other,
    client_pair,
    has_two,
)
from fencepost.controller.transactions.states import (
    CLIENT_EPOCH_MAX,
    EPOCH_MAX,
    KEPT_TIMEOUTS,
    PREPARED_STATES,
    TRANSACTIONS_V2,
    TWO_PHASE_INIT_VERSION,
    TWO_PHASE_TIMEOUT_MS,
    State,
    Transaction,
    record_of,
)
from fencepost.controller.view import View
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID
from fencepost.records.types import ProducerId


class EndTxn(msgspec.Struct, frozen=True):
    """API key 26.

    ``knows_abortable``    the client knows TRANSACTION_ABORTABLE. Its abort after the timeout is answered as
                           what it is, done: the Java client (3.8 and later) would count on this transaction's
                           partitions in its next one, and add none, if it were answered with an error; it
                           bumps its epoch then. So does librdkafka (version 1) after 59; kafka-python (3)
                           cannot, and ends.
    ``bumps_epoch``        the client uses transactions V2: each end bumps the epoch (KIP-890).
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    knows_abortable: bool = True
    bumps_epoch: bool = False


class EndTxnAnswer(msgspec.Struct, frozen=True):
    """Who the producer is in its next transaction; version 5 alone carries it."""

    producer_id: ProducerId
    producer_epoch: int


EndDecision: TypeAlias = Decision[EndTxnAnswer | None]


def decide_end_txn(
    view: View, request: EndTxn, *, now_ms: int, fresh: ProducerId | None = None
) -> EndDecision:
    """The open transaction ends so, from now on for ever. One that bumps is answered with the next pair.

    ``fresh``: see ``needs_producer_id_at_end``.
    Raises   InvalidRequest, InvalidProducerIdMapping, ProducerFenced, TransactionTimedOut, InvalidTxnState,
             ConcurrentTransactions (its markers are being written), CoordinatorLoadInProgress (no fresh id).
    """
    row = find(view, request.transactional_id)
    if request.bumps_epoch:
        return _decide_bumping(view, row, request, now_ms, fresh)
    try:
        require_current(row, request.producer_id, request.producer_epoch)
    except TransactionTimedOut:
        if request.committed or not request.knows_abortable:
            raise
        if row.state is State.PREPARE_ABORT:
            raise _still_ending(row) from None
        return Decision((), None)
    if row.state is State.ONGOING:
        prepared = _prepared(row, request, now_ms, client_transaction_version=0)
        if has_two(row):
            prepared = msgspec.structs.replace(
                prepared,
                producer_epoch=min(row.producer_epoch + 1, EPOCH_MAX),
                previous_producer_id=client_id_if_other(row),
            )
        return Decision(records_of_end(view, prepared), None, extra_cost=cost_of_end(view, prepared))
    ended = State.COMPLETE_COMMIT if request.committed else State.COMPLETE_ABORT
    if row.state is ended:
        return Decision((), None)  # a retry
    ending = State.PREPARE_COMMIT if request.committed else State.PREPARE_ABORT
    raise _still_ending(row) if row.state is ending else _wrong_state(row, request)


def _prepared(
    row: Transaction, request: EndTxn, now_ms: int, *, client_transaction_version: int
) -> Transaction:
    return msgspec.structs.replace(
        row,
        state=State.PREPARE_COMMIT if request.committed else State.PREPARE_ABORT,
        updated_ms=now_ms,
        client_transaction_version=client_transaction_version,
    )


def _still_ending(row: Transaction) -> ApiError:
    return ConcurrentTransactions(f"{row.transactional_id!r} is in {row.state.wire_name}: retry later")


def _wrong_state(row: Transaction, request: EndTxn) -> ApiError:
    wanted = "commit" if request.committed else "abort"
    return InvalidTxnState(f"{row.transactional_id!r} is in {row.state.wire_name}: nothing to {wanted}")


# -- transactions V2 -------------------------------------------------------------------------------------


def needs_producer_id_at_end(view: View, request: EndTxn) -> bool:
    """Whether the decision will want a fresh producer id: a V2 end at the last epoch, or a retry past it."""
    if not request.bumps_epoch:
        return False
    try:
        row = find(view, request.transactional_id)
        if _bumps(row, request):
            return client_pair(row).epoch >= CLIENT_EPOCH_MAX
        return client_pair(row).epoch > CLIENT_EPOCH_MAX
    except ApiError:
        return False


def _decide_bumping(
    view: View, row: Transaction, request: EndTxn, now_ms: int, fresh: ProducerId | None
) -> EndDecision:
    if not _bumps(row, request):
        return _again(row, request, now_ms, fresh)
    client = client_pair(row)
    bumped = msgspec.structs.replace(
        _prepared(row, request, now_ms, client_transaction_version=TRANSACTIONS_V2),
        producer_epoch=min(row.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=client.epoch,
        previous_producer_id=client_id_if_other(row),
        timed_out=False,
        started_ms=row.started_ms if row.state is State.ONGOING else now_ms,
    )
    if client.epoch >= CLIENT_EPOCH_MAX:
        bumped = _with_next(bumped, Pair(allocated(fresh), 0))
    elif has_two(row):
        bumped = _with_next(bumped, Pair(client.producer_id, client.epoch + 1))
    answer = EndTxnAnswer(*client_pair(bumped))
    return Decision(records_of_end(view, bumped), answer, extra_cost=cost_of_end(view, bumped))


def _with_next(row: Transaction, pair: Pair) -> Transaction:
    return msgspec.structs.replace(row, next_producer_id=pair.producer_id, next_producer_epoch=pair.epoch)


def _again(row: Transaction, request: EndTxn, now_ms: int, fresh: ProducerId | None) -> EndDecision:
    """A retry: the current pair. That of an abort which was not the producer's own is given out with it."""
    if is_given_out(row):
        return Decision((), EndTxnAnswer(*client_pair(row)))
    is_two_phase = row.transaction_timeout_ms == TWO_PHASE_TIMEOUT_MS
    init = InitProducerId(
        row.transactional_id,
        row.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        TWO_PHASE_INIT_VERSION if is_two_phase else RECOVERY_INIT_VERSION,
        enables_two_phase=is_two_phase,
    )
    given = given_out(row, init, fresh, now_ms)
    return Decision((record_of(given),), EndTxnAnswer(given.producer_id, given.producer_epoch))


def _bumps(row: Transaction, request: EndTxn) -> bool:
    """True to end the transaction and bump, False for a retry that is answered with the current pair.

    A retry has the pair before the last bump, if that was its own instance's: Kafka takes any epoch that is
    one too low, and would hand the epoch of a new instance's abort to the one that was fenced by it.
    """
    ended = State.COMPLETE_COMMIT if request.committed else State.COMPLETE_ABORT
    ending = State.PREPARE_COMMIT if request.committed else State.PREPARE_ABORT
    if is_last(row, request.producer_id, request.producer_epoch):
        if row.timed_out and request.committed:
            raise refusal(row, request.producer_id, request.producer_epoch)
        if row.state is ended:
            return False
        if row.state is ending:
            raise _still_ending(row)
        if row.state is State.EMPTY and row.timed_out and not request.committed:
            return False  # its pair was given out by the first such retry, or by InitProducerId
        if row.state in (State.EMPTY, State.ONGOING):
            raise ProducerFenced(f"{row.transactional_id!r} has epoch {client_pair(row).epoch} since")
        raise _wrong_state(row, request)
    require_current(row, request.producer_id, request.producer_epoch)
    if row.state in PREPARED_STATES:
        raise _still_ending(row)
    if row.state is not State.ONGOING and request.committed:
        raise _wrong_state(row, request)
    return True


# -- the end ---------------------------------------------------------------------------------------------


def completed(view: View, row: Transaction, now_ms: int) -> Transaction:
    """The row after its last marker was written: CompleteX, with the client's pair as its only one."""
    ended = State.COMPLETE_COMMIT if row.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
    done = msgspec.structs.replace(row, state=ended, partitions=(), updated_ms=now_ms)
    if not has_two(row):
        return done
    client, before = client_pair(row), client_id_before(row)
    is_same = client.producer_id == before or row.instance_epoch == NO_EPOCH  # Kafka's row: not known
    kept_timeout_ms = view.get(KEPT_TIMEOUTS, row.transactional_id)
    return msgspec.structs.replace(
        done,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        previous_producer_id=before,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        instance_epoch=row.instance_epoch if is_same else client.epoch,
        transaction_timeout_ms=row.transaction_timeout_ms if kept_timeout_ms is None else kept_timeout_ms,
    )
