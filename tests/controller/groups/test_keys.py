"""Keys of the tables of groups and offsets: each comes back from its bytes, and no two have the same."""

from typing import Any

from fencepost.snapshots.rows import TABLES
from tests.table_keys import IN_TOPICS, NUMBERS, ONE, OTHER, TEXTS, require_keys
from tests.together import table

NUMBERED = [(number, key) for number in NUMBERS for key in IN_TOPICS]
MEMBERS = [("a", "m"), ("a", "n"), ("ab", "a"), ("b", "\u00fc")]
KEYS: dict[str, list[Any]] = {
    "groups": TEXTS,
    "group_rosters": TEXTS,
    "group_members": MEMBERS,
    "group_instances": MEMBERS,
    "offsets": IN_TOPICS,
    "offsets_pending": NUMBERED,
    "offsets_open": NUMBERS,
    "offsets_waiting": IN_TOPICS,
    "offset_counts": TEXTS,
    "offset_times": NUMBERED,
    "offset_expiries": NUMBERED,
    "offsets_by_topic": [(ONE, "a", 0), (ONE, "a", 256), (ONE, "ab", 0), (OTHER, "a", 2**31 - 1)],
    "offsets_producers": NUMBERS,
}


def test_each_table_is_there() -> None:
    assert set(KEYS) == {name for name in TABLES if name.startswith(("group", "offset"))}


@table("name", KEYS)
def test_a_key_comes_back_and_is_no_others(name: str) -> None:
    require_keys(name, KEYS[name])
