"""The settings of a partition's log: its broker's, and what its topic sets for itself.

What a topic does not set is this broker's: what is set for it while it runs, else what its properties say.
The controller has checked names and values; what cannot be read all the same is left as it was.
"""

import dataclasses
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.partition import Partition
from fencepost.controller.topic_configs import CLEANUP_POLICY, SETTINGS, SOURCE_TOPIC
from fencepost.controller.topics import TopicConfig, configs_digest
from fencepost.records.compression import BY_NAME
from fencepost.settings.config import NodeConfig

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
    "compression.gzip.level": ("gzip_level", int),
    "compression.lz4.level": ("lz4_level", int),
    "compression.zstd.level": ("zstd_level", int),
    "index.interval.bytes": ("index_interval_bytes", int),
    "segment.index.bytes": ("index_bytes_max", int),
    "segment.jitter.ms": ("segment_jitter_ms", int),
    "message.timestamp.type": ("log_append_time", lambda value: value == "LogAppendTime"),
    "message.timestamp.after.max.ms": ("timestamp_after_ms_max", int),
    "message.timestamp.before.max.ms": ("timestamp_before_ms_max", int),
}
_OF_TOPICS: Final = {each.of_broker: name for name, each in SETTINGS.items() if each.of_broker}


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
    own = ((each.name, each.value) for each in settings if each.source == SOURCE_TOPIC)
    return _changed(config, own)


def with_broker_settings(config: LogConfig, settings: Iterable[tuple[str, str | None]]) -> LogConfig:
    """``config`` with what is set for the broker while it runs, by the names of its settings."""
    return _changed(config, ((_OF_TOPICS.get(name, ""), value) for name, value in settings))


def _changed(config: LogConfig, settings: Iterable[tuple[str, str | None]]) -> LogConfig:
    changed: dict[str, Any] = {}
    for name, value in settings:
        if value is None:
            continue
        if name == CLEANUP_POLICY:
            policies = {policy.strip() for policy in value.split(",")}
            changed |= {"compact": "compact" in policies, "delete": "delete" in policies}
        field, read = _READ.get(name, ("", str))
        if not field:
            continue
        try:
            changed[field] = read(value)
        except ValueError:
            continue
    return dataclasses.replace(config, **changed)


class LogSettings:
    """The settings of every log of a broker.

    ``is_complete``: what is set for the broker while it runs is known. Until then nothing may be deleted by
    what its properties say.
    """

    def __init__(self, config: LogConfig) -> None:
        self._properties = config
        self._own = config
        self._topics: dict[uuid.UUID, tuple[int, tuple[TopicConfig, ...]]] = {}  # with their digest
        self._of_topics: dict[uuid.UUID, LogConfig] = {}
        self.is_complete = False

    def of(self, topic_id: uuid.UUID | None) -> LogConfig:
        """Of the logs of that topic; the broker's own for one that is not known."""
        return self._own if topic_id is None else self._of_topics.get(topic_id, self._own)

    def apply_to(self, partition: Partition) -> None:
        """Give the partition's log what is known now."""
        partition.log.config = self.of(partition.topic_id)
        partition.is_configured = self.is_complete and partition.topic_id in self._topics

    def digest(self, topic_id: uuid.UUID) -> int | None:
        """Of the topic's settings as they were taken last, whatever had been announced before."""
        return self._topics.get(topic_id, (None,))[0]

    def configure(self, topic_id: uuid.UUID, settings: Iterable[TopicConfig]) -> None:
        """What a topic sets."""
        own = tuple(each for each in settings if each.source == SOURCE_TOPIC)
        digest = configs_digest(tuple(sorted((each.name, each.value) for each in own)))
        self._topics[topic_id] = digest, own
        self._of_topics[topic_id] = with_topic_settings(self._own, own)

    def forget(self, topic_id: uuid.UUID) -> None:
        """Of a topic that is no more."""
        self._topics.pop(topic_id, None)
        self._of_topics.pop(topic_id, None)

    def set_own(self, settings: Iterable[tuple[str, str | None]]) -> None:
        """What is set for the broker while it runs, all of it."""
        self._own, self.is_complete = with_broker_settings(self._properties, settings), True
        for topic_id, (_, own) in self._topics.items():
            self._of_topics[topic_id] = with_topic_settings(self._own, own)
