"""A server's files: read whole, or refused, or recovered from in a documented way; never read wrong."""

import gzip
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.bridge.files import ServerFiles, read_server
from fencepost.bridge.snapshot_file import read_snapshot
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
    block,
    flips,
    read,
)
from tests.together import table


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


@table(("prepare", "error", "expected"), DIRECTORIES, ids=["missing", "empty", "a-file"])
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
