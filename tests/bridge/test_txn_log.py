"""ZooKeeper's transaction logs: a torn tail is left out and said, damage is refused, nothing read wrong."""

import struct
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.bridge.snapshot_file import read_snapshot
from fencepost.bridge.txn_log import ENTRY_BYTES_MAX, TornTail, Txn, read_log
from fencepost.bridge.znodes import ZnodeBlock
from fencepost.records.invariant import CorruptData
from fencepost.records.types import BrokerId, ProducerId
from tests.bridge.real import (
    EXPECTED,
    LAST_ZXID,
    NEW_LOG,
    NEW_SNAPSHOT,
    OLD_LOG,
    OLD_SNAPSHOT,
    REAL,
    block,
    boundaries,
    flips,
    read,
)


@pytest.mark.parametrize("mask", [0x01, 0x40, 0xFF], ids="mask-{:02x}".format)
@pytest.mark.parametrize("name", [OLD_LOG, NEW_LOG])
def test_a_flipped_bit_in_a_log_never_changes_what_is_read(files: Path, name: str, mask: int) -> None:
    """Refused; or it was in a byte that means nothing: the database's number, the zeros at the end."""
    right = list(read_log(files / name))
    transactions_end = len((files / name).read_bytes().rstrip(b"\0"))
    for position in flips(files / name, mask):
        if 8 <= position < 16 or position >= transactions_end:
            found = [each for each in read_log(files / name) if isinstance(each, Txn)]
            assert found == right, f"byte {position}"
        else:
            with pytest.raises(CorruptData, match=name):
                list(read_log(files / name))


@pytest.mark.parametrize("padding", [b"", bytes(100)], ids=["cut", "zeros-behind"])
def test_a_torn_last_transaction_is_left_out_and_said(files: Path, padding: bytes) -> None:
    whole = (files / NEW_LOG).read_bytes().rstrip(b"\0")
    right = list(read_log(files / NEW_LOG))
    ends = boundaries(whole)
    for length in range(8, len(whole)):
        (files / NEW_LOG).write_bytes(whole[:length] + padding)
        found = list(read_log(files / NEW_LOG))
        complete = sum(end <= length for end in ends[1:])
        assert found[:complete] == right[:complete], f"{length} bytes"
        begun = whole[max(end for end in (0, *ends) if end <= length) : length]
        torn = bool(begun.rstrip(b"\0")) and not (padding and length < 16)  # zeros are padding
        assert [type(each) for each in found[complete:]] == [TornTail] * torn, f"{length} bytes"


def test_what_is_torn_is_said_and_the_tree_is_the_one_before(files: Path) -> None:
    whole = (files / NEW_LOG).read_bytes().rstrip(b"\0")
    (files / NEW_LOG).write_bytes(whole[:-1])
    tree = read(files)
    assert block(tree) == ZnodeBlock(BrokerId(1), ProducerId(5000), ProducerId(5999))
    assert tree.zxid == LAST_ZXID - 1
    assert f"{NEW_LOG}, position {boundaries(whole)[-2]}" in tree.remarks[0]
    assert tree.doubts == ()


@given(st.integers(16, 2_000), st.integers(1, 2_000))
def test_pages_that_never_reached_the_disk_are_torn_or_damage(first: int, length: int) -> None:
    """Damage exactly if a whole transaction stands behind the zeros."""
    whole = (REAL / OLD_LOG).read_bytes()
    ends = boundaries(whole)
    right = list(read_log(REAL / OLD_LOG))
    holed = whole[:first] + bytes(len(whole[first : first + length])) + whole[first + length :]
    with tempfile.NamedTemporaryFile(prefix="log.") as stream:
        stream.write(holed)
        stream.flush()
        if holed == whole:
            assert list(read_log(Path(stream.name))) == right
        elif holed[ends[-2] :] == whole[ends[-2] :]:
            with pytest.raises(CorruptData, match=r"stands a whole transaction|checksum"):
                list(read_log(Path(stream.name)))
        else:
            found = [each for each in read_log(Path(stream.name)) if isinstance(each, Txn)]
            assert found == right[: sum(holed[:end] == whole[:end] for end in ends[1:])]


def test_a_log_missing_between_others_is_refused(files: Path) -> None:
    (files / NEW_SNAPSHOT).unlink()
    whole = (files / OLD_LOG).read_bytes()
    for end in boundaries(whole)[1:-1]:
        (files / OLD_LOG).write_bytes(whole[:end])
        with pytest.raises(CorruptData, match="those between are missing"):
            read(files)


def test_a_log_that_holds_transactions_again_is_read_once(files: Path) -> None:
    (files / "log.13").write_bytes((files / NEW_LOG).read_bytes())
    assert read(files).znodes == EXPECTED


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"ZKSN" + bytes(12), "expected a transaction log of ZooKeeper", id="a-snapshot"),
        pytest.param(struct.pack(">4siq", b"ZKLG", 1, 0), "version 1", id="another-version"),
        pytest.param(b"hello\n", "it begins with b'hello", id="something-else"),
    ],
)
def test_what_is_no_log_is_refused(files: Path, content: bytes, expected: str) -> None:
    (files / "log.17").write_bytes(content)
    with pytest.raises(CorruptData, match=r"log\.17") as refused:
        read(files)
    assert expected in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"ZKLG\0\0", b"ZKLG\0\0\0\2"], ids=["empty", "6-bytes", "8-bytes"])
def test_a_log_that_was_just_made_is_no_damage(files: Path, content: bytes) -> None:
    (files / "log.17").write_bytes(content)
    tree = read(files)
    assert tree.znodes == EXPECTED
    assert "within its header" in tree.remarks[0]


def entry(content: bytes) -> bytes:
    return struct.pack(">qi", zlib.adler32(content), len(content)) + content + b"B"


def header(kind: int, zxid: int = LAST_ZXID + 1) -> bytes:
    return struct.pack(">qiqqi", 7, 1, zxid, 1_000, kind)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(header(99), "unknown type 99", id="an-unknown-type"),
        pytest.param(header(5) + b"\0\0", "bytes expected", id="a-body-too-short"),
        pytest.param(header(-1) + bytes(5), "1 bytes are left", id="a-body-too-long"),
        pytest.param(header(2) + struct.pack(">i", -1), "null at", id="a-path-of-null"),
        pytest.param(header(2) + struct.pack(">i", 2) + b"\xff\xff", "no UTF-8", id="a-path-of-garbage"),
        pytest.param(header(14) + struct.pack(">i", 2**30), "1073741824 items", id="a-bomb"),
        pytest.param(b"\0" * 5, "bytes expected", id="no-header"),
    ],
)
def test_a_transaction_with_a_right_checksum_and_a_wrong_content_is_refused(
    files: Path, content: bytes, expected: str
) -> None:
    (files / "log.17").write_bytes(struct.pack(">4siq", b"ZKLG", 2, 0) + entry(content))
    with pytest.raises(CorruptData, match=r"log\.17, position 16") as refused:
        read(files)
    assert expected in str(refused.value)


def test_an_entry_longer_than_any_is_damage_or_torn_but_never_read(files: Path) -> None:
    path = files / "log.17"
    path.write_bytes(struct.pack(">4siqqi", b"ZKLG", 2, 0, 1, ENTRY_BYTES_MAX + 1) + b"some bytes")
    found = list(read_log(path))
    assert [type(each) for each in found] == [TornTail]


def test_transactions_in_an_order_that_no_server_writes_are_refused(files: Path) -> None:
    body = struct.pack(">i", 0)
    (files / "log.17").write_bytes(
        struct.pack(">4siq", b"ZKLG", 2, 0)
        + entry(header(-1) + body)
        + entry(header(-1, LAST_ZXID + 3) + body)
    )
    with pytest.raises(CorruptData, match="0x19 follows 0x17"):
        read(files)


@pytest.mark.parametrize(
    ("zxid", "accepted"),
    [(0x1_0000_0001, True), (0x3_0000_0001, True), (0x1_0000_0000, False), (0x1_0000_0002, False)],
    ids=hex,
)
def test_a_new_epoch_begins_at_one(files: Path, zxid: int, accepted: bool) -> None:
    content = entry(header(-1, zxid) + struct.pack(">i", 0))
    (files / f"log.{zxid:x}").write_bytes(struct.pack(">4siq", b"ZKLG", 2, 0) + content)
    if accepted:
        assert read(files).zxid == zxid
    else:
        with pytest.raises(CorruptData, match="those between are missing"):
            read(files)


def test_every_transaction_says_the_digest_that_our_tree_has() -> None:
    tree = read_snapshot(REAL / OLD_SNAPSHOT).tree
    checked = 0
    for name in (OLD_LOG, NEW_LOG):
        for txn in read_log(REAL / name):
            assert isinstance(txn, Txn)
            tree.apply(txn.changes, txn.zxid, txn.time_ms)
            assert txn.digest == (2, _signed(tree.digest())), f"after {txn.zxid:#x}"
            checked += 1
    assert checked == LAST_ZXID


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
