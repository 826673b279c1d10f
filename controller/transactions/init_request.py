"""The request for a producer id, its answer, and what is wrong with a request whatever the image holds.

Source   Kafka InitProducerIdRequest; KIP-360, KIP-447, KIP-939.
"""

import msgspec

from fencepost.controller import levels
from fencepost.controller.errors import InvalidRequest, InvalidTransactionTimeout
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.states import TRANSACTIONAL_ID_BYTES_MAX, is_key
from fencepost.controller.view import View
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID
from fencepost.records.types import ProducerId


class InitProducerId(msgspec.Struct, frozen=True):
    """API key 22. Of ``producer_id`` and ``producer_epoch`` both are -1, or neither.

    ``transactional_id`` None: idempotent only; its timeout then means nothing (librdkafka sends -1).
    ``init_version``     logged with the instance, as ``client_id`` is; what it means is read from the row
                         (row 588.2: from ``RECOVERY_INIT_VERSION`` on the client can name its epoch later).
    ``client_id``        of the request's header, for the history of fences.
    ``enables_two_phase``   its transactions end when an external coordinator says so: they never time out.
    ``keeps_prepared``   a transaction that is open stays open, to be ended by the new instance.
    ``member``           of a group whose partitions it writes for. With one the transactional id may be None,
                         too: the coordinator makes one.
    """

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    init_version: int = 4
    client_id: str = ""
    enables_two_phase: bool = False
    keeps_prepared: bool = False
    member: MemberAssignment | None = None


class InitProducerIdAnswer(msgspec.Struct, frozen=True):
    """The producer's new pair. ``ongoing_*``: the pair of the transaction that was kept, or -1.

    ``transactional_id``   of a group-aware request, made here if it had none; else None.
    """

    producer_id: ProducerId
    producer_epoch: int
    ongoing_producer_id: ProducerId = NO_PRODUCER_ID
    ongoing_producer_epoch: int = NO_EPOCH
    transactional_id: str | None = None


def require_valid(view: View, request: InitProducerId, max_timeout_ms: int) -> None:
    """Raises UnsupportedVersion (the log level), InvalidRequest, InvalidTransactionTimeout."""
    transactional_id = request.transactional_id
    if transactional_id is not None and not is_key(transactional_id):
        raise InvalidRequest(
            f"a transactional id of {len(transactional_id)} characters; expected 1 to "
            f"{TRANSACTIONAL_ID_BYTES_MAX} bytes"
        )
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise InvalidRequest(
            f"producer id {request.producer_id} with epoch {request.producer_epoch}: both are -1, or neither"
        )
    if request.keeps_prepared and request.producer_id != NO_PRODUCER_ID:
        raise InvalidRequest(
            f"({request.producer_id}, {request.producer_epoch}) is given, and the open transaction is to be "
            "kept: a new instance keeps it, which has no pair yet"
        )
    if request.member is not None and request.producer_id != NO_PRODUCER_ID:
        raise InvalidRequest(
            f"({request.producer_id}, {request.producer_epoch}) is given with a group: "
            "an assignment begins a new instance, which has no pair yet"
        )
    if request.enables_two_phase or request.keeps_prepared:
        levels.require_two_phase(view)
    if request.enables_two_phase:
        return  # its timeout means nothing
    if not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        raise InvalidTransactionTimeout(
            f"a transaction timeout of {request.transaction_timeout_ms} ms; expected 1 to {max_timeout_ms} "
            "(transaction.max.timeout.ms)"
        )
