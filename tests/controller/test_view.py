"""The overlay: whatever is done to it is what would have been done to the image under it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.controller.replay import replay_record
from fencepost.controller.view import (
    EmptyView,
    EntryOverlay,
    Overlay,
    Table,
    View,
    decode_int_key,
    encode_int_key,
)
from fencepost.records.invariant import InvariantViolation
from tests.controller.worlds import Step, allocated, histories, image, live_through, rows

WORDS: Table[int, str] = Table("words", str, encode_int_key, decode_int_key)

keys = st.integers(0, 9)
changes = st.lists(st.tuples(keys, st.text(max_size=3) | st.none()), max_size=20)  # None deletes


def change(view: Overlay, done: list[tuple[int, str | None]]) -> None:
    for key, word in done:
        if word is None:
            view.delete(WORDS, key)
        else:
            view.put(WORDS, key, word)


def seen(view: View) -> tuple[list[tuple[int, str]], list[str | None]]:
    """What a decision can see of the table: all of it in order, and each key."""
    return list(view.items(WORDS)), [view.get(WORDS, key) for key in range(10)]


def scanned(view: View) -> list[list[tuple[int, str]]]:
    """The rows beyond each key."""
    return [list(view.scan(WORDS, after)) for after in range(10)]


@given(changes, changes)
def test_an_overlay_over_an_image_is_the_image(
    first: list[tuple[int, str]], then: list[tuple[int, str]]
) -> None:
    direct = Overlay(EmptyView())
    change(direct, [*first, *then])
    base = Overlay(EmptyView())
    change(base, [*first])
    over = Overlay(base)
    change(over, [*then])
    assert seen(over) == seen(direct)
    assert scanned(over) == scanned(direct)
    assert scanned(over) == [[row for row in over.items(WORDS) if row[0] > after] for after in range(10)]


@given(changes, changes)
def test_nothing_reaches_the_image_before_it_is_written(
    first: list[tuple[int, str]], then: list[tuple[int, str]]
) -> None:
    base = Overlay(EmptyView())
    change(base, [*first])
    before = seen(base)
    over = Overlay(base)
    change(over, [*then])
    assert seen(base) == before
    wanted = seen(over)
    over.write_to(base)
    assert seen(base) == wanted
    assert seen(over) == wanted, "and nothing is left in the overlay that differs"


@given(changes, changes)
def test_an_overlay_of_one_entry_reads_as_any_other(
    first: list[tuple[int, str | None]], then: list[tuple[int, str | None]]
) -> None:
    base = Overlay(EmptyView())
    change(base, [*first])
    plain, once = Overlay(base), EntryOverlay(base)
    for at in range(len(then) + 1):
        for key in {each for each, _ in (*first, *then)}:
            assert once.get(WORDS, key) == plain.get(WORDS, key)
        for each in (plain, once):
            change(each, then[at : at + 1])
    assert seen(once) == seen(plain)


@given(changes, changes, changes)
def test_what_is_undone_never_was(
    first: list[tuple[int, str]], undone: list[tuple[int, str]], then: list[tuple[int, str]]
) -> None:
    base = Overlay(EmptyView())
    change(base, [*first[:10]])
    direct, view = Overlay(base), Overlay(base)
    for each in (direct, view):
        change(each, [*first])
    view.begin()
    change(view, [*undone])
    view.undo()
    assert (seen(view), scanned(view)) == (seen(direct), scanned(direct))
    view.begin()
    change(view, [*then])
    view.begin()
    change(direct, [*then])
    assert seen(view) == seen(direct)
    written = [Overlay(EmptyView()), Overlay(EmptyView())]
    for each, target in zip((direct, view), written, strict=True):
        each.write_to(target)
    assert written[0]._rows == written[1]._rows, "not one row more is written, nor deleted"


OTHER: Table[int, str] = Table("others", str, encode_int_key, decode_int_key)


def test_every_table_is_undone() -> None:
    view = Overlay(EmptyView())
    view.put(OTHER, 1, "stays")
    view.begin()
    view.put(WORDS, 1, "goes")
    view.delete(OTHER, 1)
    view.put(OTHER, 2, "goes")
    view.undo()
    assert (list(view.items(WORDS)), list(view.items(OTHER))) == ([], [(1, "stays")])


@given(changes)
def test_rows_come_in_the_order_of_their_encoded_keys(done: list[tuple[int, str]]) -> None:
    view = Overlay(EmptyView())
    change(view, [*done])
    listed = [key for key, _ in view.items(WORDS)]
    assert listed == sorted(listed)


@given(histories, histories)
def test_decisions_on_an_overlay_are_decisions_on_the_image(first: list[Step], then: list[Step]) -> None:
    """Group commit: each decision sees the records of those before it, written or not."""
    direct = image()
    live_through(direct, first)
    overlay = Overlay(direct)
    decided = live_through(overlay, then)
    again = image()
    assert live_through(again, [*first, *then])[-len(decided) :] == decided or not decided
    assert rows(again) == rows(overlay)
    overlay.write_to(direct)
    assert (rows(direct), direct.header) == (rows(again), again.header)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_integer_keys_order_as_their_bytes(a: int, b: int) -> None:
    assert (a < b) == (encode_int_key(a) < encode_int_key(b))
    assert decode_int_key(encode_int_key(a)) == a


@pytest.mark.parametrize("number", [-1, 2**64])
def test_an_integer_key_out_of_bounds_is_refused(number: int) -> None:
    with pytest.raises(struct.error):
        encode_int_key(number)


def test_an_empty_view_has_nothing() -> None:
    view = EmptyView()
    assert (view.get(PRODUCER_IDS, 0), list(view.items(PRODUCER_IDS))) == (None, [])
    assert view.header.log_ends == (0, 0, 0)


def test_writing_moves_the_header_too() -> None:
    base = image()
    over = Overlay(base)
    replay_record(over, allocated(10))
    over.header = image(log_end=99).header
    over.write_to(base)
    assert base.header.log_ends == (99, 0, 0)


def test_rows_are_not_moved_to_where_they_would_be_undone() -> None:
    over, base = Overlay(EmptyView()), Overlay(EmptyView())
    over.put(WORDS, 1, "word")
    base.begin()
    with pytest.raises(InvariantViolation, match="undone"):
        over.write_to(base)
    base.undo()
    over.write_to(base)
    assert base.get(WORDS, 1) == "word"
