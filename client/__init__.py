"""The asyncio client that applications import: ``from fencepost.client import Producer``.

It speaks Kafka's protocol to any cluster, ours or Apache Kafka 4, and knows nothing of our nodes.
"""

if __name__ != "fencepost.client":
    raise ImportError(f"import fencepost.client, not {__name__}: no class may exist twice")

from fencepost.client.admin import Admin
from fencepost.client.consumer import Consumer
from fencepost.client.errors import (
    AbortableError,
    AuthorizationFailed,
    ClientError,
    CommitFailed,
    DeliveryTimedOut,
    FatalError,
    IllegalState,
    InvalidSetting,
    NotReachable,
    OutcomeUnknown,
    ProducerFenced,
    RecordRefused,
    Refused,
    RequestTimedOut,
    TransactionTimedOut,
    UnknownTopic,
)
from fencepost.client.producer import Producer
from fencepost.client.rebalances import RebalanceListener
from fencepost.client.types import (
    ConsumerRecord,
    GroupAssignment,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PreparedTxnState,
    RecordMetadata,
    TopicPartition,
)
from fencepost.wire.tls import Tls, TlsError, TlsSettings

__all__ = [
    "AbortableError",
    "Admin",
    "AuthorizationFailed",
    "ClientError",
    "CommitFailed",
    "Consumer",
    "ConsumerRecord",
    "DeliveryTimedOut",
    "FatalError",
    "GroupAssignment",
    "GroupMetadata",
    "IllegalState",
    "InvalidSetting",
    "NotReachable",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OutcomeUnknown",
    "PreparedTxnState",
    "Producer",
    "ProducerFenced",
    "RebalanceListener",
    "RecordMetadata",
    "RecordRefused",
    "Refused",
    "RequestTimedOut",
    "Tls",
    "TlsError",
    "TlsSettings",
    "TopicPartition",
    "TransactionTimedOut",
    "UnknownTopic",
]
