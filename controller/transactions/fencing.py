"""Fencing: whether a (producer id, epoch) is current for its transactional id, and its error code if not.

Pairs       what a request presents is compared with the client's pair, or the one before it (pairs.py);
            never with the transaction's.
Given out   a pair counts from the moment that its record answers a producer with it. An abort that is not
            the producer's own (a timeout, an InitProducerId while a transaction is open) bumps the epoch
            before a producer requests it: until then that pair is refused, as is 32767 in every state.
Refusals    of a pair that is not current: its transaction timed out and it may request the new epoch (59,
            if its InitProducerId can: row 588.2); another instance has the id (90, row 588.4); the producer
            id is unknown (49). A producer id before a rotation is fenced, not unknown, for as long as the row
            remembers it: librdkafka would abort and try again on Kafka's 49.
Deviation   Kafka accepts the epoch of its own fencing from a producer that it never gave it to.
Source      KIP-360, KIP-588; Kafka TransactionCoordinator.
"""

from typing import Final

import msgspec

from fencepost.controller.errors import (
    ApiError,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
    TransactionTimedOut,
)
from fencepost.controller.transactions.pairs import (
    client_id_if_other,
    client_pair,
    has_two,
    pair_before,
)
from fencepost.controller.transactions.states import (
    CLIENT_EPOCH_MAX,
    EPOCH_MAX,
    FenceCause,
    State,
    Transaction,
    get,
)
from fencepost.controller.view import View
from fencepost.records.transaction_log import (
    FENCED_BY_CHARACTERS_MAX,
    FENCES_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Fence,
)
from fencepost.records.types import ProducerId

RECOVERY_INIT_VERSION: Final = 3  # InitProducerId's, from which on a producer can ask with its own epoch


def find(view: View, transactional_id: str) -> Transaction:
    """The row of an id. Raises InvalidRequest if it is empty, InvalidProducerIdMapping if it is unknown."""
    if not transactional_id:
        raise InvalidRequest("the transactional id is empty")
    row = get(view, transactional_id)
    if row is None:
        raise InvalidProducerIdMapping(f"nothing is known of transactional id {transactional_id!r}")
    return row


def require_current(row: Transaction, producer_id: ProducerId, epoch: int) -> None:
    """Raises what ``refusal`` says, unless the pair is current and was given out."""
    if not is_current(row, producer_id, epoch):
        raise refusal(row, producer_id, epoch)


def is_current(row: Transaction, producer_id: ProducerId, epoch: int) -> bool:
    """The pair is the client's, and a producer was answered with it."""
    return (producer_id, epoch) == client_pair(row) and is_given_out(row)


def require_not_kept(row: Transaction) -> None:
    """Raises InvalidTxnState if the open transaction was begun by another instance: it takes nothing more."""
    if row.state is State.ONGOING and has_two(row):
        raise InvalidTxnState(
            f"{row.transactional_id!r} keeps the transaction of ({row.producer_id}, {row.producer_epoch}), "
            "which is to be ended before anything is added"
        )


def is_given_out(row: Transaction) -> bool:
    """A producer was answered with the client's pair.

    Every record that is answered with a pair has the version of the InitProducerId behind it; an abort that
    bumps the epoch before a producer requests it has none. Kafka's own rows say neither that nor where the
    instance began: they count as given out.
    """
    if client_pair(row).epoch > CLIENT_EPOCH_MAX:
        return False
    return row.init_version >= 0 or row.instance_epoch == NO_EPOCH


def of_known_instance(row: Transaction) -> Transaction:
    """``row``; one of Kafka's own with its current epoch as its instance's first, for what comes after it."""
    if row.instance_epoch != NO_EPOCH:
        return row
    return msgspec.structs.replace(row, instance_epoch=client_pair(row).epoch)


def refusal(row: Transaction, producer_id: ProducerId, epoch: int) -> ApiError:
    """Why a pair that is not current is refused: see the module."""
    client = client_pair(row)
    current = f"({client.producer_id}, {client.epoch})"
    who = f"{row.transactional_id!r} has {current}, not ({producer_id}, {epoch})"
    if row.timed_out and is_last(row, producer_id, epoch) and _may_recover(row):
        return TransactionTimedOut(f"{who}: its transaction timed out; InitProducerId gives the new epoch")
    if (producer_id, epoch) == client:
        return ProducerFenced(f"{row.transactional_id!r} has {current}, which no producer was given")
    if was_of(row, producer_id):
        return ProducerFenced(f"{who}: another instance took over")
    return InvalidProducerIdMapping(f"{who}: that producer id was never its own, as far as is known")


def is_last(row: Transaction, producer_id: ProducerId, epoch: int) -> bool:
    """The pair is the client's before the last bump, and its instance may go on with the current one."""
    return pair_before(row) == (producer_id, epoch)


def _may_recover(row: Transaction) -> bool:
    """Its InitProducerId can name its epoch. Before the new one is given out, ``is_last`` alone says so."""
    return row.init_version < 0 or row.init_version >= RECOVERY_INIT_VERSION


def was_of(row: Transaction, producer_id: ProducerId) -> bool:
    """The producer id is, or is remembered to have been, this transactional id's. -1 is no producer's."""
    if producer_id == NO_PRODUCER_ID:
        return False
    if producer_id in (row.producer_id, row.previous_producer_id, row.next_producer_id):
        return True
    return any(fence.producer_id == producer_id for fence in row.fences)


def fenced(row: Transaction, cause: FenceCause, now_ms: int, by: str = "") -> tuple[Fence, ...]:
    """The row's fences with one more: the client's pair is lost. The oldest goes past FENCES_MAX."""
    fence = Fence(now_ms, cause, *client_pair(row), by[:FENCED_BY_CHARACTERS_MAX])
    return (*row.fences, fence)[-FENCES_MAX:]


def is_held(row: Transaction) -> bool:
    """An instance has the client's pair, or may be given it. Not so after a fence that ended the instance."""
    return row.init_version >= 0 or row.instance_epoch != client_pair(row).epoch


def fenced_open(row: Transaction, cause: FenceCause, now_ms: int, by: str) -> Transaction:
    """``row``, open, in PrepareAbort at the next epoch, which no producer has: its instance is over."""
    past = fenced_pairs(of_known_instance(row))
    return msgspec.structs.replace(
        past,
        state=State.PREPARE_ABORT,
        updated_ms=now_ms,
        last_producer_epoch=NO_EPOCH,
        timed_out=False,
        instance_epoch=client_pair(past).epoch,
        init_version=-1,
        fences=fenced(row, cause, now_ms, by),
    )


def fenced_idle(row: Transaction, cause: FenceCause, now_ms: int, by: str) -> Transaction:
    """``row``, without a transaction, in Empty at the next epoch, which no producer has."""
    epoch = min(row.producer_epoch + 1, EPOCH_MAX)
    return msgspec.structs.replace(
        row,
        state=State.EMPTY,
        partitions=(),
        updated_ms=now_ms,
        started_ms=-1,
        producer_epoch=epoch,
        previous_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=NO_EPOCH,
        timed_out=False,
        client_transaction_version=0,
        instance_epoch=epoch,
        init_version=-1,
        fences=fenced(row, cause, now_ms, by),
    )


def fenced_pairs(row: Transaction) -> Transaction:
    """``row``, open, with the pairs of an end that is not the producer's own: each an epoch further.

    The markers get the transaction's, which no batch has; the client's is given out later, or never.
    """
    past = msgspec.structs.replace(
        row,
        producer_epoch=min(row.producer_epoch + 1, EPOCH_MAX),
        previous_producer_id=client_id_if_other(row),
    )
    if not has_two(row):
        return past
    return msgspec.structs.replace(past, next_producer_epoch=min(row.next_producer_epoch + 1, EPOCH_MAX))
