"""Every figure of a bench comes from its history: what counts, when, and what is a duplicate."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.bench.history import (
    Attempt,
    Slice,
    count_duplicates,
    count_rows,
    first_successes,
    percentile,
    read_history,
)
from fencepost.cluster.console import Unreadable
from tests.together import table


def granted(start: int, length: int = 10, *, sent: int = 1, received: int = 2, client: int = 0) -> Attempt:
    return Attempt(client, 1, sent, received, "ok", start, length)


def told(outcome: str, *, sent: int = 1, received: int = 2, client: int = 0) -> Attempt:
    return Attempt(client, 1, sent, received, outcome)


def test_a_line_has_the_documented_keys_and_nothing_else() -> None:
    assert json.loads(msgspec.json.encode(granted(20, 10))) == {
        "client": 0, "node": 1, "sent_ns": 1, "received_ns": 2, "outcome": "ok", "start": 20, "len": 10,
    }  # fmt: skip
    assert json.loads(msgspec.json.encode(told("refused:41")))["start"] is None


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    attempts = [granted(0), told("unknown"), told("refused:41"), granted(10)]
    file = tmp_path / "history.jsonl"
    file.write_bytes(msgspec.json.Encoder().encode_lines(attempts))
    assert list(read_history(file)) == attempts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param('{"client": 0}\n', "line 1", id="keys-missing"),
        pytest.param(msgspec.json.encode(told("unknown")).decode() + "\n{", "line 2", id="cut-short"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text(text)
    with pytest.raises(Unreadable, match=words):
        list(read_history(file))


def test_a_history_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"nothing\.jsonl"):
        list(read_history(tmp_path / "nothing.jsonl"))


DUPLICATES = [
    pytest.param([], 0, id="nothing"),
    pytest.param([(0, 10), (10, 10), (20, 10)], 0, id="end-to-end"),
    pytest.param([(20, 10), (0, 10)], 0, id="out-of-order-with-a-gap"),
    pytest.param([(0, 10), (0, 10)], 1, id="the-same-block-twice"),
    pytest.param([(0, 10), (0, 10), (0, 10)], 2, id="the-same-block-three-times"),
    pytest.param([(0, 10), (9, 10)], 1, id="the-last-id-again"),
    pytest.param([(0, 30), (10, 10)], 1, id="one-inside-another"),
    pytest.param([(0, 30), (10, 10), (20, 10)], 2, id="two-inside-another"),
    pytest.param([(2**63 - 1001, 1000), (2**63 - 2001, 1000)], 0, id="the-last-ids-there-are"),
    pytest.param([(2**63 - 1001, 1000), (2**63 - 2001, 1001)], 1, id="the-last-ids-there-are-overlapping"),
]


@table(("blocks", "expected"), DUPLICATES)
def test_duplicates(blocks: list[tuple[int, int]], expected: int) -> None:
    assert count_duplicates(granted(*block) for block in blocks) == expected


def test_only_what_was_granted_is_a_duplicate() -> None:
    assert count_duplicates([granted(0), told("unknown"), told("refused:41"), told("unknown")]) == 0


@pytest.mark.parametrize("block", [(-1, 10), (0, 0), (0, 2**31)])
def test_a_success_without_a_block_is_no_history(block: tuple[int, int]) -> None:
    with pytest.raises(Unreadable, match="without a block"):
        count_duplicates([granted(*block)])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=12))
def test_no_duplicates_if_and_only_if_no_id_is_in_two_blocks(blocks: list[tuple[int, int]]) -> None:
    ids = [each for start, length in blocks for each in range(start, start + length)]
    assert (count_duplicates(granted(*block) for block in blocks) == 0) == (len(ids) == len(set(ids)))


def test_rows_measure_their_slices_only_and_count_duplicates_everywhere() -> None:
    slices = [Slice(0, 0, 100, 200), Slice(1, 300, 400, 500), Slice(0, 600, 700, 800)]
    attempts = [
        granted(0, sent=50, received=99),  # warm-up
        granted(10, sent=90, received=100),
        granted(20, sent=100, received=199),
        granted(30, sent=199, received=200),  # the window is half-open
        told("refused:41", sent=120, received=130),
        granted(40, sent=420, received=450),
        granted(20, sent=430, received=440),  # what row 0 gave out
        granted(50, sent=710, received=720),
        granted(55, sent=790, received=810),  # after the window, and a duplicate all the same
    ]
    first, second = count_rows(attempts, slices, 2)
    assert sorted(first.latencies_ns) == [10, 10, 99]
    assert first.outcomes == {"ok": 6, "refused:41": 1}
    assert first.duplicates == 1
    assert sorted(second.latencies_ns) == [10, 30]
    assert second.duplicates == 1


FIRST = [
    pytest.param([granted(0, sent=9, received=30)], [10], [None], id="sent-before"),
    pytest.param([granted(0, sent=10, received=30)], [10], [None], id="sent-at-the-signal"),
    pytest.param([granted(0, sent=11, received=30)], [10], [30], id="sent-after"),
    pytest.param([told("refused:41", sent=11), told("unknown", sent=11)], [10], [None], id="no-success"),
    pytest.param(
        [granted(0, sent=11, received=90), granted(0, sent=20, received=30)], [10], [30],
        id="sent-later-received-first",
    ),
    pytest.param(
        [granted(0, sent=11, received=12), granted(0, sent=25, received=30)], [10, 20], [12, 30],
        id="each-signal-its-own",
    ),
    pytest.param([granted(0, sent=25, received=30)], [10, 20], [30, 30], id="one-for-two-signals"),
]  # fmt: skip


@table(("attempts", "after", "expected"), FIRST)
def test_first_success(attempts: list[Attempt], after: list[int], expected: list[int | None]) -> None:
    assert first_successes(attempts, after) == expected


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20),
    st.lists(st.integers(0, 50), max_size=5, unique=True),
)
def test_first_success_is_the_least_of_all_sent_after(spans: list[tuple[int, int]], after: list[int]) -> None:
    attempts = [granted(0, sent=sent, received=sent + took) for sent, took in spans]
    moments = sorted(after)
    assert first_successes(attempts, moments) == [
        min((a.received_ns for a in attempts if a.sent_ns > moment), default=None) for moment in moments
    ]


@table(
    ("values", "fraction", "expected"),
    [
        pytest.param([], 0.5, None, id="of-nothing"),
        pytest.param([7], 0.99, 7, id="of-one"),
        pytest.param([1, 2], 0.5, 1, id="half-of-two"),
        pytest.param(list(range(1, 21)), 0.5, 10, id="half-of-twenty"),
        pytest.param(list(range(1, 21)), 0.9, 18, id="nine-tenths-of-twenty"),
        pytest.param(list(range(1, 101)), 0.99, 99, id="of-a-hundred"),
        pytest.param([1, 2, 3], 1.0, 3, id="all"),
    ],
)
def test_percentile(values: list[float], fraction: float, expected: float | None) -> None:
    assert percentile(values, fraction) == expected
