"""How many bytes a request may have, by API key: looked at as soon as its first six bytes are here.

A frame may have ``socket.request.max.bytes``, because Produce carries records; no other request comes near
that. What a request of a key can hold follows from the limits that its reader and its decision have anyway;
past it the connection is closed before the rest is stored or decoded.

Header      the client id (32 KiB at most) and 32 tagged fields count, too: no limit is below SMALL.
Elements    ELEMENTS_MAX array elements are read of one request. A topic costs an element, and 249 bytes of
            name at most; a transactional id 400. Lists that are longer than a decision takes are read as far
            as these sizes reach, and refused with their Kafka code.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.wire.frame import FRAME_BYTES_MAX, KEYLESS_BYTES_MAX

SMALL: Final = KEYLESS_BYTES_MAX
"""A handful of numbers, ids and names. Frames of this size have memory reserved (wire/request_memory.py)."""
TOPIC_LISTS: Final = 4 * 1024 * 1024
"""10,000 topics of the longest names, with a partition and some numbers each."""
TOPIC_NAMES: Final = 6 * 1024 * 1024
"""ELEMENTS_MAX topics of the longest names, by name and id."""
TRANSACTION_LISTS: Final = 8 * 1024 * 1024
"""ELEMENTS_MAX transactional ids of the longest kind."""

REQUEST_BYTES_MAX: Final[Mapping[int, int | None]] = {
    0: None,  # Produce: records; socket.request.max.bytes is its limit
    1: TOPIC_LISTS,  # Fetch: partitions, and those forgotten
    2: TOPIC_LISTS,  # ListOffsets
    3: TOPIC_NAMES,  # Metadata
    10: TRANSACTION_LISTS,  # FindCoordinator: ids of transactions and groups
    17: SMALL,  # SaslHandshake: a mechanism's name
    18: SMALL,  # ApiVersions: a client's name and version
    19: TOPIC_LISTS,  # CreateTopics: 10,000 topics, or fewer with replicas and configs
    20: TOPIC_NAMES,  # DeleteTopics
    22: SMALL,  # InitProducerId: one transactional id
    23: TOPIC_LISTS,  # OffsetForLeaderEpoch
    24: TRANSACTION_LISTS,  # AddPartitionsToTxn: up to 5,000 transactions of a broker's, each with topics
    26: SMALL,  # EndTxn: one transactional id
    27: TOPIC_LISTS,  # WriteTxnMarkers: 5,000 partitions, each with a marker of its own at worst
    32: TOPIC_LISTS,  # DescribeConfigs: 1,000 resources with the names of settings
    36: 2 * SMALL,  # SaslAuthenticate: a token of 64 KiB
    55: SMALL,  # DescribeQuorum: one partition
    60: SMALL,  # DescribeCluster: flags
    61: TOPIC_LISTS,  # DescribeProducers
    62: 2 * SMALL,  # BrokerRegistration: 16 endpoints, 100 features, 255 characters per name
    63: SMALL,  # BrokerHeartbeat: numbers, and the ids of directories
    64: SMALL,  # UnregisterBroker: one number
    65: TRANSACTION_LISTS,  # DescribeTransactions
    66: 4 * SMALL,  # ListTransactions: ELEMENTS_MAX producer ids, states, a pattern
    67: SMALL,  # AllocateProducerIds: two numbers
    20021: 2 * SMALL,  # Migrate: JSON of 64 KiB
    20024: TOPIC_LISTS,  # AnnouncePartitions: 5,000 partitions, each with an id of its own at worst
    20027: 2 * SMALL,  # ForceMarkers: JSON of 64 KiB
    20037: SMALL,  # ProveSecret: three short fields
    20057: 2 * SMALL,  # LogLevels: JSON of 64 KiB
    20065: 2 * SMALL,  # ExplainTransaction: an id of 32 KiB
    20066: 2 * SMALL,  # ListSetAside: JSON of 64 KiB
}
"""By API key; None: as much as a frame may have. A test finds each key of wire/ here."""


def request_limits(keys: Iterable[int]) -> dict[int, int]:
    """The limits of a listener that serves these keys. KeyError: a key has none."""
    return {key: FRAME_BYTES_MAX if (most := REQUEST_BYTES_MAX[key]) is None else most for key in keys}
