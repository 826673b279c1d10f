"""Where a segment ends, and what bytes that are no batch become: one row per way that a file can be wrong."""

import struct
from pathlib import Path

import numpy as np
import pytest

from fencepost.audit.decode import walk as walking
from fencepost.audit.decode.batches import is_sound, stop_of, walk
from fencepost.audit.decode.walk import BATCH_BYTES_MAX, Bounds
from fencepost.records.batch import encode_batch
from tests.audit.decode.corpus import NOW_MS, laid, read, rows, written
from tests.broker.log.builders import resealed
from tests.together import table


def batch(value: bytes, count: int = 1) -> bytes:
    return encode_batch([(None, value, ())] * count, timestamp_ms=NOW_MS)


A, B, C = batch(b"a" * 20), batch(b"b" * 40, 3), batch(b"c" * 60)
SEGMENT = laid([A, B, C])
FIRST, SECOND, THIRD = (
    SEGMENT.content[: len(A)],
    SEGMENT.content[len(A) : len(A) + len(B)],
    SEGMENT.content[-len(C) :],
)
END = len(SEGMENT.content)


def with_length(raw: bytes, length: int) -> bytes:
    return raw[:8] + struct.pack(">i", length) + raw[12:]


def with_magic(raw: bytes, magic: int) -> bytes:
    return raw[:16] + bytes((magic,)) + raw[17:]


def with_offset(raw: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + raw[8:]


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :]


AB = len(A) + len(B)
ROW_A, ROW_B, ROW_C = (0, len(A), None), (len(A), len(B), None), (AB, len(C), None)
LOST_A, LOST_B = (0, len(A), "unreadable"), (len(A), len(B), "unreadable")
CASES = [
    # content, rows as (position, size, fault), stop, valid end
    pytest.param(b"", [], "end", 0, id="empty"),
    pytest.param(FIRST + SECOND, [ROW_A, ROW_B], "end", AB, id="whole"),
    pytest.param(FIRST + bytes(1), [ROW_A], "preallocated", len(A), id="one-zero-after"),
    pytest.param(FIRST + bytes(5000), [ROW_A], "preallocated", len(A), id="zeros-after"),
    pytest.param(FIRST + SECOND[:10], [ROW_A], "torn", len(A), id="torn-in-the-header"),
    pytest.param(FIRST + SECOND[:61], [ROW_A], "torn", len(A), id="torn-after-the-header"),
    pytest.param(FIRST + SECOND[:-1], [ROW_A], "torn", len(A), id="torn-by-one-byte"),
    pytest.param(
        FIRST + SECOND[:70] + SECOND[71:] + THIRD,
        [ROW_A, (len(A), len(B) - 1, "unreadable"), (AB - 1, len(C), None)],
        "end", END - 1, id="a-byte-is-missing-in-the-middle",
    ),
    pytest.param(
        flipped(FIRST, 40) + SECOND, [(0, len(A), "crc"), ROW_B], "end", AB, id="flipped-in-the-header",
    ),
    pytest.param(
        flipped(FIRST, 40) + with_magic(SECOND, 0) + THIRD, [(0, len(A), "crc"), LOST_B, ROW_C],
        "end", END,
        id="two-neighbours-are-wrong",
    ),
    pytest.param(
        FIRST + flipped(SECOND, len(B) - 1), [ROW_A, (len(A), len(B), "crc")], "end", AB,
        id="flipped-in-the-last-batch",
    ),
    pytest.param(flipped(FIRST, 17), [(0, len(A), "crc")], "end", len(A), id="the-checksum-flipped"),
    pytest.param(
        with_length(FIRST, 10) + SECOND, [LOST_A, ROW_B], "end", AB,
        id="a-length-that-is-too-small",
    ),
    pytest.param(
        with_length(FIRST, len(A) - 12 + 7) + SECOND, [LOST_A, ROW_B], "end", AB,
        id="a-length-that-leads-astray",
    ),
    pytest.param(
        with_length(FIRST, 10**6) + SECOND, [LOST_A, ROW_B], "end", AB,
        id="a-length-past-the-end-is-not-torn",
    ),
    pytest.param(
        FIRST + with_length(SECOND, 10**6), [ROW_A, LOST_B], "end", AB,
        id="the-last-batch-is-whole-whatever-its-length-says",
    ),
    pytest.param(
        FIRST + with_length(SECOND, len(B) - 12 - 7), [ROW_A, LOST_B], "end", AB,
        id="a-length-that-leads-almost-to-the-end",
    ),
    pytest.param(
        with_length(FIRST, BATCH_BYTES_MAX - 12) + SECOND, [LOST_A, ROW_B],
        "end", AB, id="the-greatest-length",
    ),
    pytest.param(
        with_length(FIRST, BATCH_BYTES_MAX - 11) + SECOND, [LOST_A, ROW_B],
        "end", AB, id="one-past-the-greatest-length",
    ),
    pytest.param(
        with_length(FIRST, -1) + SECOND, [LOST_A, ROW_B], "end", AB,
        id="a-negative-length",
    ),
    pytest.param(
        with_magic(FIRST, 1) + SECOND, [LOST_A, ROW_B], "end", AB,
        id="another-magic",
    ),
    pytest.param(
        FIRST + with_offset(SECOND, -1) + THIRD,
        [ROW_A, LOST_B, ROW_C], "end", END, id="a-negative-offset",
    ),
    pytest.param(
        FIRST + with_offset(SECOND, 2**31), [ROW_A, ROW_B], "end", AB,
        id="the-greatest-offset-of-a-segment",
    ),
    pytest.param(
        FIRST + with_offset(SECOND, 2**31 + 1), [ROW_A, LOST_B], "end", AB,
        id="one-past-the-greatest-offset",
    ),
    pytest.param(
        FIRST + bytes(100) + SECOND, [ROW_A, (len(A), 100, "unreadable"), (len(A) + 100, len(B), None)],
        "end", AB + 100, id="zeros-in-the-middle",
    ),
    pytest.param(b"\xff" * 500, [(0, 500, "unreadable")], "end", 500, id="noise-alone"),
    pytest.param(
        FIRST + b"\xff" * 500, [ROW_A, (len(A), 500, "unreadable")], "end", len(A) + 500, id="noise-after"
    ),
]  # fmt: skip


@pytest.mark.parametrize("window", [64, 8 * 1024 * 1024], ids=["small-windows", "one-window"])
@pytest.mark.parametrize(("content", "expected", "stop", "valid_end"), CASES)
def test_every_way_that_a_file_ends_or_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    expected: list[tuple[int, int, str | None]],
    stop: str,
    valid_end: int,
    window: int,
) -> None:
    monkeypatch.setattr(walking, "WINDOW_BYTES", window)
    found, ended = read(written(tmp_path, content))
    assert [(row["position"], row["size"], row["fault"]) for row in found] == expected
    assert (ended.stop, ended.valid_end) == (stop, valid_end)
    assert all((row["reason"] is None) == (row["fault"] is None) for row in found)


def test_a_batch_of_the_next_segment_is_no_batch_of_this_one(tmp_path: Path) -> None:
    path = written(tmp_path, FIRST, base=1000)
    found, _ = read(path)
    assert [(row["fault"], row["reason"]) for row in found] == [
        ("unreadable", f"offset 0, expected 1000 to {1000 + 2**31}")
    ]


@pytest.mark.parametrize(
    ("magic", "reason"),
    [
        (0, "magic 0, expected 2: messages as they were before Kafka 0.11 are not read"),
        (1, "magic 1, expected 2: messages as they were before Kafka 0.11 are not read"),
        (3, "magic 3, expected 2"),
    ],
)
def test_messages_of_old_are_named(tmp_path: Path, magic: int, reason: str) -> None:
    found, _ = read(written(tmp_path, with_magic(FIRST, magic) + SECOND))
    assert [row["reason"] for row in found] == [reason, None]


def test_without_checksums_a_wrong_one_is_no_fault_but_a_break_is(tmp_path: Path) -> None:
    path = written(tmp_path, flipped(FIRST, 40) + SECOND + with_magic(THIRD, 0) + FIRST)
    assert [row["fault"] for row in rows(path, crc=False)] == [None, None, "unreadable", None]


def test_a_batch_inside_a_batch_is_not_found_while_the_outer_one_is_sound(tmp_path: Path) -> None:
    outer = laid([batch(SECOND), C]).content
    found, _ = read(written(tmp_path, outer))
    assert [row["fault"] for row in found] == [None, None]


def test_what_only_looks_like_a_batch_is_passed_over(tmp_path: Path) -> None:
    false = FIRST[:61] + bytes(len(A) - 61)
    path = written(tmp_path, FIRST + b"\xff" * 9 + false + b"\xff" * 9 + SECOND)
    found, _ = read(path)
    assert [row["size"] for row in found] == [len(A), 18 + len(A), len(B)]
    assert [is_sound(path, at) for at in (0, 1, len(A) + 9, 2 * len(A) + 18)] == [True, False, False, True]


def test_a_search_ends_however_many_large_batches_seem_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = with_length(FIRST[:61], 400 - 12)  # a batch of 400 bytes, as it says
    path = written(tmp_path, FIRST + b"\xff" + false * 10 + bytes(500) + SECOND + batch(b"d" * 300))
    lost = 1 + 610 + 500
    assert [row["size"] for row in read(path)[0]][:3] == [len(A), lost, len(B)]
    monkeypatch.setattr(walking, "USUAL_BYTES_MAX", len(B))
    for bytes_max in (4000 + len(B), 4000 + len(B) - 1, 0):
        monkeypatch.setattr(walking, "SEARCH_BYTES_MAX", bytes_max)
        assert [row["size"] for row in read(path)[0]][:3] == [len(A), lost, len(B)]
    monkeypatch.setattr(walking, "USUAL_BYTES_MAX", len(B) - 1)
    assert [row["fault"] for row in read(path)[0]] == [None, "unreadable"]
    monkeypatch.setattr(walking, "SEARCH_BYTES_MAX", 4000 + len(B))
    assert [row["size"] for row in read(path)[0]][:3] == [len(A), lost, len(B)]


@pytest.mark.parametrize("count", [15, 16, 17, 18, 80, 81, 82, 83, 500])
def test_batches_alike_and_then_others(tmp_path: Path, count: int) -> None:
    segment = laid([*[A] * count, B, *[A] * 40, C, *[B] * count])
    found, _ = read(written(tmp_path, segment.content))
    assert [row["position"] for row in found] == list(segment.positions)


def test_an_end_that_is_no_batch_cuts_what_is_unreadable(tmp_path: Path) -> None:
    path = written(tmp_path, FIRST + bytes(100) + SECOND)
    assert [(row["position"], row["size"]) for row in rows(path, 0, len(A) + 30)][1:] == [(len(A), 30)]
    assert not is_sound(path, len(A) + 30)


def test_a_file_that_grew_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = written(tmp_path, FIRST + SECOND[:20])
    torn = stop_of(path)
    assert torn[:2] == (len(A), "torn")
    written(tmp_path, FIRST + SECOND)
    assert stop_of(path, torn.valid_end)[:2] == (AB, "end")
    assert [row["base_offset"] for row in rows(path, torn.valid_end)] == [1]


def test_a_file_that_became_shorter_is_truncated(tmp_path: Path) -> None:
    path = written(tmp_path, FIRST)
    assert stop_of(path, AB)[:2] == (len(A), "truncated")


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    assert stop_of(str(tmp_path / "gone.log"))[:2] == (0, "unreadable")
    with pytest.raises(FileNotFoundError):
        rows(str(tmp_path / "gone.log"))


def test_a_directory_is_unreadable(tmp_path: Path) -> None:
    assert stop_of(str(tmp_path)).stop == "unreadable"


@table(
    ("end_of_file", "content", "expected"),
    [
        pytest.param(True, FIRST + SECOND, (2, "end", AB), id="whole"),
        pytest.param(False, FIRST + SECOND, (1, "more", len(A)), id="what-follows-the-last-is-not-known"),
        pytest.param(False, FIRST + SECOND + THIRD[:17], (2, "more", AB), id="what-follows-can-be-a-batch"),
        pytest.param(True, FIRST + SECOND[:-1], (1, "torn", len(A)), id="torn"),
        pytest.param(False, FIRST + b"\xff" * 17, (1, "broken", len(A)), id="broken"),
    ],
)
def test_a_walk_over_a_buffer(end_of_file: bool, content: bytes, expected: tuple[int, str, int]) -> None:
    walked = walk(np.frombuffer(content, np.uint8), 0, end_of_file)
    assert (len(walked.positions), walked.stop, walked.stop_position) == expected


def test_a_window_grows_for_a_batch_that_is_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WINDOW_BYTES", 100)
    path = written(tmp_path, laid([A, batch(b"x" * 5000), C]).content)
    assert [row["fault"] for row in read(path)[0]] == [None] * 3


def test_numbers_at_their_bounds_are_what_the_bytes_say(tmp_path: Path) -> None:
    raw = bytearray(A)
    struct.pack_into(
        ">hiqqqhii", raw, 21, -1, 2**31 - 1, -(2**63), 2**63 - 1, -(2**63), -(2**15), -(2**31), 2**31 - 1
    )
    (row,), _ = read(written(tmp_path, resealed(bytes(raw))))
    assert (row["fault"], row["attributes"], row["last_offset"]) == (None, -1, 2**31 - 1)
    assert (row["base_timestamp_ms"], row["max_timestamp_ms"]) == (-(2**63), 2**63 - 1)
    assert (row["producer_id"], row["producer_epoch"], row["base_sequence"]) == (-(2**63), -(2**15), -(2**31))
    assert (row["record_count"], row["control_type"]) == (2**31 - 1, -1)


def test_bounds_of_a_name() -> None:
    assert Bounds.of(None) == (0, 2**63 - 1)
    assert Bounds.of(5) == (5, 5 + 2**31)
    assert Bounds.of(2**63 - 1) == (2**63 - 1, 2**63 - 1)
