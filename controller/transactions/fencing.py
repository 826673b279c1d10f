"""Fencing: whether a (producer id, epoch) still speaks for its transactional id, and what it is told if not.

Three answers to a pair that is not current: its transaction timed out and it may ask for the new epoch
(59, if its InitProducerId knew how: row 588.2); somebody took over (90, row 588.4); nobody knows it (49).
A producer id before a rotation is fenced, not unknown, for as long as the row remembers it: librdkafka
would abort and try again on Kafka's 49.

Source   KIP-360, KIP-588; spec/kafka.md B3, E3.
"""

from typing import Final

from controller.errors import (
    ApiError,
    InvalidProducerIdMapping,
    InvalidRequest,
    ProducerFenced,
    TransactionTimedOut,
)
from controller.transactions.states import FenceCause, Transaction, get
from controller.view import View
from records.transaction_log import FENCED_BY_CHARACTERS_MAX, FENCES_MAX, Fence
from records.types import ProducerId

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
    """Raises what ``refusal`` says, unless the pair is current."""
    if producer_id != row.producer_id or epoch != row.producer_epoch:
        raise refusal(row, producer_id, epoch)


def refusal(row: Transaction, producer_id: ProducerId, epoch: int) -> ApiError:
    """Why a pair that is not current is refused: one of the three answers above."""
    current = f"({row.producer_id}, {row.producer_epoch})"
    who = f"{row.transactional_id!r} has {current}, not ({producer_id}, {epoch})"
    if row.timed_out and is_last(row, producer_id, epoch) and row.init_version >= RECOVERY_INIT_VERSION:
        return TransactionTimedOut(f"{who}: its transaction timed out; InitProducerId gives the new epoch")
    if was_of(row, producer_id):
        return ProducerFenced(f"{who}: another instance took over")
    return InvalidProducerIdMapping(f"{who}: that producer id was never its own, as far as is known")


def is_last(row: Transaction, producer_id: ProducerId, epoch: int) -> bool:
    """The pair is the one before the last bump, and its instance may go on with the current one.

    A rotation starts at epoch 0, so a last epoch above the current one belongs to the previous id.
    """
    rotated = row.last_producer_epoch > row.producer_epoch
    owner = row.previous_producer_id if rotated else row.producer_id
    return row.last_producer_epoch >= 0 and (producer_id, epoch) == (owner, row.last_producer_epoch)


def was_of(row: Transaction, producer_id: ProducerId) -> bool:
    """The producer id is, or is remembered to have been, this transactional id's."""
    if producer_id in (row.producer_id, row.previous_producer_id):
        return True
    return any(fence.producer_id == producer_id for fence in row.fences)


def fenced(row: Transaction, cause: FenceCause, now_ms: int, by: str = "") -> tuple[Fence, ...]:
    """The row's fences with one more: its current epoch is lost. The oldest goes past FENCES_MAX."""
    fence = Fence(now_ms, cause, row.producer_id, row.producer_epoch, by[:FENCED_BY_CHARACTERS_MAX])
    return (*row.fences, fence)[-FENCES_MAX:]
