"""ZooKeeper's own files: read whole, or refused, or recovered from in a documented way; never read wrong.

``real_files`` are those of a ZooKeeper 3.9.5 that stood alone (the zeros at the end of its logs cut short),
with gzip snapshots: blocks by conditional writes, a transaction of several changes, one that failed,
ephemeral znodes of a session that ended and of one that did not, an access list, a restart, and kill -9.
``EXPECTED`` is what it answered before that.
"""

import gzip
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.data_tree import Znode, Znodes
from bridge.files import ServerFiles, ServerTree, read_server
from bridge.snapshot_file import read_snapshot
from bridge.txn_log import ENTRY_BYTES_MAX, TornTail, Txn, read_log
from bridge.znodes import BLOCK_PATH, ZnodeBlock, parse_block
from records.invariant import CorruptData
from records.types import BrokerId, ProducerId

REAL = Path(__file__).parent / "real_files"
OLD_LOG, NEW_LOG, OLD_SNAPSHOT, NEW_SNAPSHOT = "log.1", "log.12", "snapshot.0.gz", "snapshot.11.gz"
LAST_ZXID = 0x16

EXPECTED: Znodes = {
    "/": Znode(b"", 0, 0, 0),
    "/zookeeper": Znode(b"", 0, 0, 0),
    "/zookeeper/config": Znode(b"", 0, 0, 0),
    "/zookeeper/quota": Znode(b"", 0, 0, 0),
    "/brokers": Znode(b"", 0, 3, 3),
    "/brokers/ids": Znode(b"", 0, 4, 4),
    "/brokers/topics": Znode(b"", 0, 5, 5),
    "/controller": Znode(b'{"version":1,"brokerid":1,"timestamp":"5"}', 0, 19, 19, True),
    "/controller_epoch": Znode(b"3", 0, 16, 16),
    "/latest_producer_id_block": Znode(
        b'{"version":1,"broker":0,"block_start":"6000","block_end":"6999"}', 7, 22, 2
    ),
    "/x": Znode(b"x", 0, 12, 12),
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REAL, tmp_path / "data" / "version-2"))


def read(files: Path) -> ServerTree:
    return read_server(ServerFiles(files))


def block(tree: ServerTree) -> ZnodeBlock:
    znode = tree.znodes[BLOCK_PATH]
    found = parse_block(znode.data, znode.version)
    assert isinstance(found, ZnodeBlock)
    return found


def test_the_files_hold_what_the_server_answered(files: Path) -> None:
    tree = read(files)
    assert tree.znodes == EXPECTED
    assert (tree.zxid, tree.epoch, tree.number, tree.remarks, tree.doubts) == (LAST_ZXID, 0, None, (), ())
    assert block(tree) == ZnodeBlock(BrokerId(0), ProducerId(6000), ProducerId(6999))


def test_the_folder_above_may_be_named_too(files: Path) -> None:
    assert read(files.parent).znodes == EXPECTED


def test_nothing_is_written(files: Path) -> None:
    for path in (*files.iterdir(), files, files.parent):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in files.iterdir()}
    read(files)
    assert {path: path.stat().st_mtime_ns for path in files.iterdir()} == before
    files.parent.chmod(0o755)
    files.chmod(0o755)


# -- snapshots ------------------------------------------------------------------------------------------


def test_an_older_snapshot_and_more_logs_give_the_same(files: Path) -> None:
    (files / NEW_SNAPSHOT).unlink()
    tree = read(files)
    assert tree.znodes == EXPECTED
    assert (tree.remarks, tree.doubts) == ((), ())


def test_logs_from_the_beginning_need_no_snapshot(files: Path) -> None:
    (files / NEW_SNAPSHOT).unlink()
    (files / OLD_SNAPSHOT).unlink()
    tree = read(files)
    assert tree.znodes == EXPECTED
    assert "no whole snapshot" in tree.remarks[0]
    assert tree.doubts == ()


def test_transactions_that_a_snapshot_holds_already_may_come_again(files: Path) -> None:
    """A fuzzy snapshot: its name says an earlier transaction than its last."""
    for named in range(0x11):
        path = files / f"snapshot.{named:x}.gz"
        (files / NEW_SNAPSHOT if named == 0 else files / f"snapshot.{named - 1:x}.gz").rename(path)
        assert read(files).znodes == EXPECTED, f"renamed to {path.name}"
        assert read(files).doubts == ()


def uncompressed(files: Path) -> Path:
    """The newest snapshot, as ZooKeeper writes it by default."""
    path = files / NEW_SNAPSHOT.removesuffix(".gz")
    path.write_bytes(gzip.decompress((files / NEW_SNAPSHOT).read_bytes()))
    (files / NEW_SNAPSHOT).unlink()
    return path


def test_a_snapshot_need_not_be_compressed(files: Path) -> None:
    uncompressed(files)
    assert read(files).znodes == EXPECTED


@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_a_flipped_bit_in_a_snapshot_is_found(files: Path, compressed: bool) -> None:
    path = files / NEW_SNAPSHOT if compressed else uncompressed(files)
    right = read_snapshot(path)
    meaningless = 0
    for position in flips(path, 0x04):
        try:
            assert read_snapshot(path) == right, f"byte {position}"
            meaningless += 1
        except CorruptData:
            pass
    assert meaningless <= (16 if compressed else 0)  # gzip's header has times and names


@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_a_snapshot_that_was_cut_is_found(files: Path, compressed: bool) -> None:
    path = files / NEW_SNAPSHOT if compressed else uncompressed(files)
    whole = path.read_bytes()
    optional = (54, 21) if not compressed else ()  # digest and last zxid: older versions do not write them
    for length in range(len(whole) - 1, -1, -1):
        os.truncate(path, length)
        if len(whole) - length in optional:
            read_snapshot(path)
        else:
            with pytest.raises(CorruptData):
                read_snapshot(path)


def test_for_a_damaged_snapshot_the_one_before_and_more_logs_are_read(files: Path) -> None:
    (files / NEW_SNAPSHOT).write_bytes((files / NEW_SNAPSHOT).read_bytes()[:-1])
    tree = read(files)
    assert tree.znodes == EXPECTED
    assert NEW_SNAPSHOT in tree.remarks[0]
    assert tree.doubts == ()


def test_without_a_whole_snapshot_and_the_first_log_it_is_refused(files: Path) -> None:
    (files / NEW_SNAPSHOT).write_bytes(b"ZKSN")
    (files / OLD_LOG).unlink()
    with pytest.raises(CorruptData, match="those between are missing") as refused:
        read(files)
    assert NEW_SNAPSHOT in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("snapshot.12", b"", "is no snapshot of ZooKeeper", id="empty"),
        pytest.param("snapshot.12", b"ZKLG" + bytes(12), "is no snapshot of ZooKeeper", id="a-log"),
        pytest.param(
            "snapshot.12", struct.pack(">4siq", b"ZKSN", 3, 0), "expected version 2, found 3", id="version"
        ),
        pytest.param("snapshot.12.snappy", b"\x82SNAPPY\0", "compressed with snappy", id="snappy"),
        pytest.param("snapshot.12.gz", b"ZKSN", "its compression is broken", id="no-gzip"),
        pytest.param(
            "snapshot.12", struct.pack(">4siqi", b"ZKSN", 2, 0, 2**31 - 1), "2147483647 items", id="a-bomb"
        ),
        pytest.param(
            "snapshot.12",
            struct.pack(">4siqiii", b"ZKSN", 2, 0, 0, 0, -2),
            "length -2",
            id="a-negative-length",
        ),
    ],
)
def test_what_is_no_snapshot_is_passed_over_with_the_reason(
    files: Path, name: str, content: bytes, expected: str
) -> None:
    (files / name).write_bytes(content)
    tree = read(files)
    assert tree.znodes == EXPECTED
    (remark,) = tree.remarks
    assert name in remark
    assert expected in remark


def test_a_tree_that_is_not_the_servers_is_doubted(files: Path) -> None:
    """Its checksums are right, and the last transaction's digest tells."""
    path = uncompressed(files)
    content = path.read_bytes().replace(b"\x00\x00\x00\x01x", b"\x00\x00\x00\x01!")
    for seal in (54, 21, 0):  # bytes after each seal
        end = len(content) - seal - 13
        content = content[:end] + struct.pack(">q", zlib.adler32(content[:end])) + content[end + 8 :]
    path.write_bytes(content)
    tree = read(files)
    assert tree.znodes["/x"].data == b"!"
    assert "something is missing" in tree.doubts[0]


# -- logs -----------------------------------------------------------------------------------------------


def flips(path: Path, mask: int) -> Iterator[int]:
    """Each position, while the byte there is another."""
    with path.open("r+b", buffering=0) as stream:
        for position, byte in enumerate(stream.readall()):
            os.pwrite(stream.fileno(), bytes([byte ^ mask]), position)
            yield position
            os.pwrite(stream.fileno(), bytes([byte]), position)


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


def boundaries(content: bytes) -> list[int]:
    """Where transactions begin, and where the last one ends."""
    found = [16]
    while found[-1] + 12 <= len(content):
        (length,) = struct.unpack_from(">i", content, found[-1] + 8)
        if length == 0:
            break
        found.append(found[-1] + 12 + length + 1)
    return found


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


# -- directories ----------------------------------------------------------------------------------------


def test_logs_may_have_a_directory_of_their_own(files: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "version-2"
    logs.mkdir(parents=True)
    for name in (OLD_LOG, NEW_LOG):
        (files / name).rename(logs / name)
    assert read_server(ServerFiles(files, logs.parent)).znodes == EXPECTED
    (doubt,) = read(files).doubts
    assert "no transaction log" in doubt
    assert "dataLogDir" in doubt


def test_files_of_others_in_the_directory_are_passed_over(files: Path) -> None:
    for name in ("snapshot.12.tmp", "log.bak", "log", "snapshot.", "lost+found", "zoo.cfg"):
        (files / name).write_bytes(b"?")
    assert read(files).znodes == EXPECTED


DIRECTORIES: list[tuple[Callable[[Path], None], type[Exception], str]] = [
    (lambda path: None, FileNotFoundError, "nowhere"),
    (lambda path: path.mkdir(), CorruptData, r"no snapshot\.\* and no log\.\* of ZooKeeper"),
    (lambda path: path.touch(), NotADirectoryError, "nowhere"),
]


@pytest.mark.parametrize(("prepare", "error", "expected"), DIRECTORIES, ids=["missing", "empty", "a-file"])
def test_another_directory_is_refused(
    tmp_path: Path, prepare: Callable[[Path], None], error: type[Exception], expected: str
) -> None:
    prepare(tmp_path / "nowhere")
    with pytest.raises(error, match=expected):
        read(tmp_path / "nowhere")


def test_a_number_that_is_none_is_refused(files: Path) -> None:
    (files / "currentEpoch").write_text("five\n")
    with pytest.raises(CorruptData, match=r"currentEpoch: expected a number, found 'five'"):
        read(files)
