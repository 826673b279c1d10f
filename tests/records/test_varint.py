"""Varints: Kafka's bytes, there and back, and no number with more bits than its type."""

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.writers import write_unsigned_varint

from fencepost.records.invariant import CorruptData
from fencepost.records.varint import (
    SIGNED,
    SIGNED_BYTES_MAX,
    UNSIGNED,
    UNSIGNED_BYTES_MAX,
    read_signed,
    read_unsigned,
    signed,
    unsigned,
)
from fencepost.wire.cursor import Reader
from tests.together import table

Read = Callable[[bytes, int], tuple[int, int]]

NUMBERS = [
    pytest.param(unsigned, read_unsigned, 0, "00", id="unsigned-0"),
    pytest.param(unsigned, read_unsigned, 127, "7f", id="unsigned-largest-of-a-byte"),
    pytest.param(unsigned, read_unsigned, 128, "8001", id="unsigned-smallest-of-two"),
    pytest.param(unsigned, read_unsigned, 300, "ac02", id="unsigned-300"),
    pytest.param(unsigned, read_unsigned, 2**28, "8080808001", id="unsigned-smallest-of-five"),
    pytest.param(unsigned, read_unsigned, 2**32 - 1, "ffffffff0f", id="unsigned-largest"),
    pytest.param(signed, read_signed, 0, "00", id="signed-0"),
    pytest.param(signed, read_signed, -1, "01", id="signed-minus-1"),
    pytest.param(signed, read_signed, 1, "02", id="signed-1"),
    pytest.param(signed, read_signed, 63, "7e", id="signed-largest-of-a-byte"),
    pytest.param(signed, read_signed, -64, "7f", id="signed-smallest-of-a-byte"),
    pytest.param(signed, read_signed, 64, "8001", id="signed-smallest-of-two"),
    pytest.param(signed, read_signed, 8191, "fe7f", id="signed-largest-of-two"),
    pytest.param(signed, read_signed, 8192, "808001", id="signed-smallest-of-three"),
    pytest.param(signed, read_signed, 2**63 - 1, "feffffffffffffffff01", id="signed-largest"),
    pytest.param(signed, read_signed, -(2**63), "ffffffffffffffffff01", id="signed-smallest"),
]

CORRUPT = [
    pytest.param(read_unsigned, "", "inside a varint at position 0", id="unsigned-nothing"),
    pytest.param(read_unsigned, "80", "inside a varint at position 1", id="unsigned-cut"),
    pytest.param(read_unsigned, "ffffffff1f", "more than 32 bits", id="unsigned-33-bits"),
    pytest.param(read_unsigned, "808080808000", "more than 32 bits", id="unsigned-six-bytes"),
    pytest.param(read_signed, "", "inside a varint at position 0", id="signed-nothing"),
    pytest.param(read_signed, "ff" * 9, "inside a varint at position 9", id="signed-cut"),
    pytest.param(read_signed, "ff" * 9 + "02", "more than 64 bits", id="signed-65-bits"),
    pytest.param(read_signed, "80" * 10 + "00", "more than 64 bits", id="signed-eleven-bytes"),
]


@table(("write", "read", "number", "raw"), NUMBERS)
def test_the_bytes_are_kafkas(write: Callable[[int], bytes], read: Read, number: int, raw: str) -> None:
    encoded = bytes.fromhex(raw)
    assert write(number) == encoded
    assert read(encoded, 0) == (number, len(encoded))
    assert read(b"x" + encoded + b"x", 1) == (number, 1 + len(encoded))


@given(st.integers(0, 2**32 - 1))
def test_an_unsigned_number_comes_back_and_is_kios(number: int) -> None:
    raw = io.BytesIO()
    write_unsigned_varint(raw, number)  # type: ignore[arg-type]
    assert unsigned(number) == raw.getvalue()
    assert read_unsigned(raw.getvalue(), 0) == (number, len(raw.getvalue()))
    assert Reader(raw.getvalue(), flexible=True)._varint() == number


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_comes_back(number: int) -> None:
    raw = signed(number)
    assert len(raw) <= SIGNED_BYTES_MAX
    assert read_signed(raw, 0) == (number, len(raw))


def test_the_tables_are_what_the_functions_write() -> None:
    assert list(UNSIGNED) == [unsigned(number) for number in range(len(UNSIGNED))]
    assert [read_signed(raw, 0)[0] for raw in SIGNED] == list(range(len(SIGNED)))
    assert max(map(len, SIGNED)) == 2


@table(("read", "raw", "reason"), CORRUPT)
def test_more_bits_or_fewer_bytes_are_corrupt(read: Read, raw: str, reason: str) -> None:
    with pytest.raises(CorruptData, match=reason):
        read(bytes.fromhex(raw), 0)


@pytest.mark.parametrize(
    ("read", "bytes_max"), [(read_unsigned, UNSIGNED_BYTES_MAX), (read_signed, SIGNED_BYTES_MAX)]
)
def test_an_encoding_longer_than_its_number_needs_is_read_up_to_the_bound(read: Read, bytes_max: int) -> None:
    for size in range(1, bytes_max + 2):
        raw = b"\x80" * (size - 1) + b"\0"
        if size <= bytes_max:
            assert read(raw, 0) == (0, size)
        else:
            with pytest.raises(CorruptData):
                read(raw, 0)
