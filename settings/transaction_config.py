"""The settings of transactions and producer ids, a part of every node's configuration (config.py).

Spelling    Kafka's names where Kafka has the setting.
"""

from dataclasses import dataclass, field

from fencepost.settings.config_values import (
    BOOLEAN,
    DAY_MS,
    MILLISECONDS,
    REPLICATION_FACTOR_MAX,
    integer,
    keyed,
)
from fencepost.settings.group_config import GroupConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig(GroupConfig):  # a class with slots inherits from one such class alone
    """What of a node's configuration concerns transactions, and groups."""

    transaction_timeout_ms_max: int = field(
        default=900_000, metadata=keyed("transaction.max.timeout.ms", MILLISECONDS)
    )
    two_phase: bool = field(default=False, metadata=keyed("transaction.two.phase.commit.enable", BOOLEAN))
    transactional_id_expiration_ms: int = field(
        default=7 * DAY_MS, metadata=keyed("transactional.id.expiration.ms", MILLISECONDS)
    )
    transaction_timeouts_interval_ms: int = field(  # Kafka's default is 10000
        default=1000,
        metadata=keyed("transaction.abort.timed.out.transaction.cleanup.interval.ms", MILLISECONDS),
    )
    transactional_id_expiry_interval_ms: int = field(
        default=3_600_000,
        metadata=keyed("transaction.remove.expired.transaction.cleanup.interval.ms", MILLISECONDS),
    )
    transaction_log_replication_factor: int | None = field(  # None: the quorum's voters, whatever they are
        default=None,
        metadata=keyed("transaction.state.log.replication.factor", integer(1, REPLICATION_FACTOR_MAX)),
    )
    transaction_log_isr_min: int | None = field(  # None: the quorum's majority
        default=None, metadata=keyed("transaction.state.log.min.isr", integer(1, REPLICATION_FACTOR_MAX))
    )
    partition_verification: bool = field(
        default=True, metadata=keyed("transaction.partition.verification.enable", BOOLEAN)
    )
    producer_id_expiration_ms: int = field(
        default=DAY_MS, metadata=keyed("producer.id.expiration.ms", MILLISECONDS)
    )
    producer_id_expiration_check_ms: int = field(
        default=600_000, metadata=keyed("producer.id.expiration.check.interval.ms", MILLISECONDS)
    )
