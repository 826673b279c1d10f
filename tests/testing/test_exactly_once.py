"""What the check of exactly-once says of each thing that can go wrong."""

import re

import pytest

from fencepost.client import ConsumerRecord
from fencepost.testing import NotExactlyOnce, assert_exactly_once
from fencepost.wire.requests import ListedTransaction


def record(value: bytes, *, offset: int = 0, key: bytes | None = None, producer: int = -1) -> ConsumerRecord:
    return ConsumerRecord("out", 0, offset, 0, key, value, (), producer_id=producer, producer_epoch=3)


def test_all_once_in_any_order_is_right() -> None:
    assert_exactly_once([b"a", b"b"], [record(b"b"), record(b"a")])
    assert_exactly_once([1, 2], ["2", "1"], key=str)
    assert_exactly_once([], [])


def test_each_kind_is_named() -> None:
    into = [b"a", b"b", b"c"]
    out = [record(b"a", offset=4, producer=7), record(b"a", offset=9, producer=8), record(b"x"), record(b"c")]
    with pytest.raises(NotExactlyOnce) as caught:
        assert_exactly_once(into, out, transactions=[ListedTransaction("app-1", 8, "CompleteCommit")])  # type: ignore[arg-type]
    found = caught.value.findings
    assert found.lost == ["b'b'"]
    assert found.doubled == [
        "b'a': out-0 at 4 by producer 7, epoch 3; out-0 at 9 by app-1 (producer 8, epoch 3)"
    ]
    assert [each.split(":")[0] for each in found.unknown] == ["b'x'"]
    assert not found.torn
    assert not found.out_of_order, "one cause is one finding: a doubled one is not out of order, too"
    assert "not exactly once: 3 went in, 4 came out" in str(caught.value)
    assert re.search(r"lost, 1:\n  b'b'\n", str(caught.value))


def test_a_transaction_of_which_a_part_came_out_is_torn() -> None:
    into = [("t1", 1), ("t1", 2), ("t2", 3), ("t2", 4)]
    with pytest.raises(NotExactlyOnce) as caught:
        assert_exactly_once(into, [("t1", 1)], together=lambda each: each[0])
    assert caught.value.findings.torn == ["'t1': 1 of its 2 are missing: ('t1', 2)"]
    assert len(caught.value.findings.lost) == 2, "all of t2 is lost, and not torn"


def test_records_of_one_key_keep_their_order() -> None:
    into = [record(b"1", key=b"k"), record(b"2", key=b"k"), record(b"3", key=b"other")]
    assert_exactly_once(into, [into[2], into[0], into[1]])
    with pytest.raises(NotExactlyOnce) as caught:
        assert_exactly_once(into, [into[1], into[0], into[2]])
    (sentence,) = caught.value.findings.out_of_order
    assert sentence.startswith("b'1' (of out-0 at 0) came after b'2'")


def test_order_of_the_callers_choice() -> None:
    with pytest.raises(NotExactlyOnce):
        assert_exactly_once([1, 2], [2, 1], order=lambda _: "all")


def test_a_long_list_is_cut_and_counted() -> None:
    with pytest.raises(NotExactlyOnce) as caught:
        assert_exactly_once(range(1000), [])
    assert "and 990 more" in str(caught.value)
    assert len(caught.value.findings.lost) == 1000
