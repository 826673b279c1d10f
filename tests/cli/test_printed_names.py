"""What commands print of a client's words: a table's row is a line, whatever the names in it."""

from fencepost.cluster.console import table
from fencepost.records.printable import printable

HOSTILE = "a\x1b[2J\nb\u202e\ud800\u00e9"
SHOWN = "a\\x1b[2J\\nb\\u202e\\ud800\u00e9"


def test_a_name_neither_moves_the_cursor_nor_ends_the_line() -> None:
    assert printable(HOSTILE) == SHOWN


def test_a_row_is_a_line() -> None:
    head, row = table(("ID", "STATE"), [(HOSTILE, "Ongoing")]).splitlines()
    assert row == f"{SHOWN}  Ongoing"
    assert head == f"{'ID':{len(SHOWN)}}  STATE"
