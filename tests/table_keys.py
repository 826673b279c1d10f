"""Keys of the image's tables: each comes back from its bytes, and no two have the same."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from fencepost.snapshots.rows import TABLES

ONE, OTHER = UUID(int=1), UUID(int=2**127 + 5)
NUMBERS = [0, 1, 255, 256, 2**31 - 1, 2**63 - 1, 2**64 - 1]
TEXTS = ["a", "a-0", "ab", "b", "\u00fc"]
IN_TOPICS = [
    ("", "a", 0),
    ("a", "a", 0),
    ("a", "a", 256),
    ("a", "b", 0),
    ("a", "bc", 2**31 - 1),
    ("ab", "c", 0),
]


def require_keys(name: str, keys: Iterable[Any]) -> None:
    """Of a table."""
    encode, decode = TABLES[name].encode_key, TABLES[name].decode_key
    encoded = [encode(key) for key in keys]
    assert [decode(each) for each in encoded] == [*keys]
    assert len(set(encoded)) == len(encoded)
