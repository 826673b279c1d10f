"""The settings of consumer groups and of their log, a part of every node's configuration (config.py).

Spelling    Kafka's names where Kafka has the setting.
"""

from dataclasses import dataclass, field

from fencepost.settings.config_values import (
    BOOLEAN,
    INT32_MAX,
    INT64_MAX,
    MILLISECONDS,
    choice,
    integer,
    keyed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """What of a node's configuration concerns groups."""

    group_initial_rebalance_delay_ms: int = field(  # of an empty group, for more members to come
        default=3_000, metadata=keyed("group.initial.rebalance.delay.ms", integer(0, INT32_MAX))
    )
    group_session_timeout_ms_min: int = field(
        default=6_000, metadata=keyed("group.min.session.timeout.ms", MILLISECONDS)
    )
    group_session_timeout_ms_max: int = field(
        default=1_800_000, metadata=keyed("group.max.session.timeout.ms", MILLISECONDS)
    )
    group_members_max: int = field(  # see also MEMBERS_MAX, a bound of this project's own
        default=INT32_MAX, metadata=keyed("group.max.size", integer(1, INT32_MAX))
    )
    offset_metadata_characters_max: int = field(  # Kafka counts characters, whatever the name says
        default=4096, metadata=keyed("offset.metadata.max.bytes", integer(0, 32_767))
    )
    offsets_retention_minutes: int = field(
        default=7 * 24 * 60, metadata=keyed("offsets.retention.minutes", integer(1, INT32_MAX))
    )
    offsets_retention_check_interval_ms: int = field(
        default=600_000, metadata=keyed("offsets.retention.check.interval.ms", MILLISECONDS)
    )
    group_strict_identity: str = field(  # whose partitions a commit without a generation may not take
        default="generation",
        metadata=keyed("fencepost.group.strict.identity", choice("generation", "all")),
    )
    unstable_offsets_park_old_clients: bool = field(  # those that do not know UNSTABLE_OFFSET_COMMIT
        default=False, metadata=keyed("fencepost.offsets.unstable.parks.old.clients", BOOLEAN)
    )
    group_archive_retention_bytes: int = field(  # -1: keep all of it
        default=1024**3, metadata=keyed("log.retention.offsets.bytes", integer(-1, INT64_MAX))
    )
