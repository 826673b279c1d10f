"""Keys of the image's tables: each comes back from its bytes, and no two have the same."""

from typing import Any
from uuid import UUID

from fencepost.snapshots.rows import TABLES
from tests.together import table

ONE, OTHER = UUID(int=1), UUID(int=2**127 + 5)
NUMBERS = [0, 1, 255, 256, 2**31 - 1, 2**63 - 1, 2**64 - 1]
TEXTS = ["a", "a-0", "ab", "b", "\u00fc"]
PARTITIONS = [(ONE, 0), (ONE, 1), (ONE, 256), (ONE, 2**31 - 1), (OTHER, 0)]
OFFSETS = [
    ("", "a", 0),
    ("a", "a", 0),
    ("a", "a", 256),
    ("a", "b", 0),
    ("a", "bc", 2**31 - 1),
    ("ab", "a", 0),
]
NUMBERED = [(number, key) for number in NUMBERS for key in OFFSETS]
TIMED = [(number, text) for number in NUMBERS for text in TEXTS]
MEMBERS = [("a", "m"), ("a", "n"), ("ab", "a"), ("b", "\u00fc")]

KEYS: dict[str, list[Any]] = {
    "acls": [(2, 3, "a", ONE), (2, 3, "a", OTHER), (2, 3, "ab", ONE), (2, 4, "a", ONE), (7, 3, "", ONE)],
    "acl_keys": [ONE, OTHER],
    "acl_changes": NUMBERS,
    "acl_state": NUMBERS,
    "broker_configs": ["", "0", "1", "10", "2147483647"],
    "brokers": NUMBERS,
    "cluster_version": NUMBERS,
    "features": TEXTS,
    "migration": NUMBERS,
    "producer_ids": NUMBERS,
    "scram_credentials": [("a", 1), ("a", 2), ("ab", 1)],
    "scram_state": NUMBERS,
    "colliding_topics": TEXTS,
    "hosted_partitions": NUMBERS,
    "offline_partitions": PARTITIONS,
    "partitions": PARTITIONS,
    "partition_ends": PARTITIONS,
    "partition_starts": PARTITIONS,
    "topics": TEXTS,
    "topic_names": [ONE, OTHER],
    "quorum": NUMBERS,
    "groups": TEXTS,
    "group_rosters": TEXTS,
    "group_members": MEMBERS,
    "group_instances": MEMBERS,
    "offsets": OFFSETS,
    "offsets_pending": NUMBERED,
    "offsets_open": NUMBERS,
    "offsets_waiting": OFFSETS,
    "offset_counts": TEXTS,
    "offset_times": NUMBERED,
    "offset_expiries": NUMBERED,
    "offsets_by_topic": [(ONE, "a", 0), (ONE, "a", 256), (ONE, "ab", 0), (OTHER, "a", 2**31 - 1)],
    "offsets_producers": NUMBERS,
    "transactions": TEXTS,
    "transaction_deadlines": TIMED,
    "transaction_updates": TIMED,
    "transactions_prepared": TEXTS,
    "transactions_kept": TEXTS,
    "transaction_assignments": TEXTS,
    "transaction_owners": OFFSETS,
}
"""Of each table."""


@table("name", TABLES)
def test_a_key_comes_back_and_is_no_others(name: str) -> None:
    encode, decode = TABLES[name].encode_key, TABLES[name].decode_key
    encoded = [encode(key) for key in KEYS[name]]
    assert [decode(each) for each in encoded] == KEYS[name]
    assert len(set(encoded)) == len(encoded)
