"""The settings of a partition's log: the broker's, and what its topic sets for itself.

What a topic does not set is this broker's. The controller has
checked names and values; what cannot be read all the same is left at the broker's.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Final

from fencepost.broker.log.shapes import LogConfig
from fencepost.controller.topics import TopicConfig
from fencepost.records.compression import BY_NAME
from fencepost.settings.config import NodeConfig

SET_FOR_THE_TOPIC: Final = 1  # Kafka's ConfigSource DYNAMIC_TOPIC_CONFIG

_READ: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "segment.bytes": ("segment_bytes", int),
    "segment.ms": ("segment_ms", int),
    "retention.ms": ("retention_ms", int),
    "retention.bytes": ("retention_bytes", int),
    "max.message.bytes": ("message_bytes_max", int),
    "flush.messages": ("flush_messages", int),
    "delete.retention.ms": ("delete_retention_ms", int),
    "min.compaction.lag.ms": ("min_compaction_lag_ms", int),
    "max.compaction.lag.ms": ("max_compaction_lag_ms", int),
    "min.cleanable.dirty.ratio": ("min_cleanable_dirty_ratio", float),
    "compression.type": ("codec", BY_NAME.get),
    "message.timestamp.type": ("log_append_time", lambda value: value == "LogAppendTime"),
}


def log_config(config: NodeConfig) -> LogConfig:
    """The settings of a partition's log whose topic sets none of its own."""
    return LogConfig(
        segment_bytes=config.log_segment_bytes,
        retention_ms=config.log_retention_ms,
        retention_bytes=config.log_retention_bytes,
        message_bytes_max=config.message_bytes_max,
        flush_messages=config.log_flush_messages,
        producer_expiration_ms=config.producer_id_expiration_ms,
        verification=config.partition_verification,
    )


def with_topic_settings(config: LogConfig, settings: Iterable[TopicConfig]) -> LogConfig:
    """``config`` with what is set for the topic."""
    changed: dict[str, Any] = {}
    for each in settings:
        if each.name == "cleanup.policy" and each.value is not None:
            policies = {policy.strip() for policy in each.value.split(",")}
            changed |= {"compact": "compact" in policies, "delete": "delete" in policies}
        known = _READ.get(each.name)
        if known is None or each.source != SET_FOR_THE_TOPIC or each.value is None:
            continue
        field, read = known
        try:
            changed[field] = read(each.value)
        except ValueError:
            continue
    return dataclasses.replace(config, **changed)
