"""Keys of the image's tables: each comes back from its bytes, and no two have the same."""

from typing import Any

from fencepost.snapshots.rows import TABLES
from tests.table_keys import NUMBERS, ONE, OTHER, TEXTS, require_keys
from tests.together import table

PARTITIONS = [(ONE, 0), (ONE, 1), (ONE, 256), (ONE, 2**31 - 1), (OTHER, 0)]
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
}


def test_each_table_is_there() -> None:
    assert set(KEYS) == {name for name in TABLES if not name.startswith(("group", "offset", "transaction"))}


@table("name", KEYS)
def test_a_key_comes_back_and_is_no_others(name: str) -> None:
    require_keys(name, KEYS[name])
