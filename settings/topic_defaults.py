"""What the properties of a node say of its topics: the defaults of their settings.

Source   Kafka ServerTopicConfigSynonyms.
"""

from fencepost.settings.config import NodeConfig


def topic_defaults(config: NodeConfig) -> tuple[tuple[str, str], ...]:
    """By the broker's settings, in the order of names."""
    return (
        ("log.flush.interval.messages", str(config.log_flush_messages)),
        ("log.retention.bytes", str(config.log_retention_bytes)),
        ("log.retention.ms", str(config.log_retention_ms)),
        ("log.segment.bytes", str(config.log_segment_bytes)),
        ("message.max.bytes", str(config.message_bytes_max)),
    )
