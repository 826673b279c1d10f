"""How Kafka below protocol version 3.0 takes its next block from the znode: bridge/ is held to it.

No code of ours is behind it.

Source   Kafka 0.11.0.0, 2.8.0 ProducerIdManager; 3.0.0 ZkProducerIdManager.
"""

import json
from typing import Final

KAFKA_BLOCK_LENGTH: Final = 1000
KAFKA_EXHAUSTED_AFTER: Final = 2**63 - 1 - KAFKA_BLOCK_LENGTH


class KafkaExhausted(Exception):
    """Have exhausted all producerIds as the next producerId block exceeds the long type limit."""


def next_block_of_kafka(content: bytes | None) -> tuple[int, int]:
    """First and last id that Kafka takes after what the znode says. Raises KafkaExhausted."""
    if content is None:
        return 0, KAFKA_BLOCK_LENGTH - 1
    end = int(json.loads(content)["block_end"])
    if end > KAFKA_EXHAUSTED_AFTER:
        raise KafkaExhausted
    return end + 1, end + KAFKA_BLOCK_LENGTH


def kafkas_content(broker: int, first: int, last: int) -> bytes:
    """What a broker writes for itself."""
    document = {"version": 1, "broker": broker, "block_start": str(first), "block_end": str(last)}
    return json.dumps(document, separators=(",", ":")).encode()
