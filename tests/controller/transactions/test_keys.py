"""Keys of the tables of transactions: each comes back from its bytes, and no two have the same."""

from typing import Any

from fencepost.snapshots.rows import TABLES
from tests.table_keys import IN_TOPICS, NUMBERS, TEXTS, require_keys
from tests.together import table

TIMED = [(number, text) for number in NUMBERS for text in TEXTS]
KEYS: dict[str, list[Any]] = {
    "transactions": TEXTS,
    "transaction_deadlines": TIMED,
    "transaction_updates": TIMED,
    "transactions_prepared": TEXTS,
    "transactions_kept": TEXTS,
    "transaction_assignments": TEXTS,
    "transaction_owners": IN_TOPICS,
}


def test_each_table_is_there() -> None:
    assert set(KEYS) == {name for name in TABLES if name.startswith("transaction")}


@table("name", KEYS)
def test_a_key_comes_back_and_is_no_others(name: str) -> None:
    require_keys(name, KEYS[name])
