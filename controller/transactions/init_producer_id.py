"""InitProducerId: who is this producer from now on. Nobody else is it any more.

Source   KIP-360, KIP-588; Kafka TransactionCoordinator.handleInitProducerId; spec/kafka.md B2 and B11.
"""

from typing import Final

import msgspec

from records.transaction_log import NO_EPOCH, NO_PRODUCER_ID
from records.types import ProducerId

RECOVERY_INIT_VERSION: Final = 3  # from this version on a producer can ask with its own epoch


class InitProducerId(msgspec.Struct, frozen=True):
    """API key 22. Of ``producer_id`` and ``producer_epoch`` both are -1, or neither.

    ``transactional_id`` None: idempotent only; its timeout then means nothing (librdkafka sends -1).
    ``version``          of the request: it tells what the instance understands later (row 588.2).
    ``client_id``        of the request's header, for the history of fences.
    """

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    version: int = 4
    client_id: str = ""


class InitProducerIdAnswer(msgspec.Struct, frozen=True):
    """Who the producer is from now on."""

    producer_id: ProducerId
    producer_epoch: int
