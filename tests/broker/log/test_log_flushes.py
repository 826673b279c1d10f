"""A partition's log on its way to the disk: flushes, what they promise, and what fails."""

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker.log import durability
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.producer_snapshot import snapshots_in
from fencepost.broker.log.shapes import Aborted, LogConfig
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, ProducerId
from fencepost.snapshots.checksums import SUFFIX as SUMS
from tests.broker.log.builders import NOW_MS, SMALL, append, batch, end_transaction, filled, open_log


def test_a_flush_beside_appends_says_what_is_safe(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    stop = threading.Event()
    seen: list[int] = []

    def flush_on() -> None:
        while not stop.is_set():
            seen.append(log.flush())

    flusher = threading.Thread(target=flush_on)
    flusher.start()
    for number in range(1_000):
        append(log, batch(7, number))
    stop.set()
    flusher.join()
    assert seen == sorted(seen)
    assert log.flush() == log.end == 1_000
    assert not log.flush_wanted
    log.close()
    assert open_log(tmp_path, SMALL).repairs == ()


def rolled_at_its_snapshot(directory: Path) -> PartitionLog:
    """Its full segment waits for a flush, and ends where producers were saved: retention may take it."""
    filled(directory, count=3).close()
    log = open_log(directory, replace(SMALL, segment_bytes=1, retention_bytes=1))
    append(log, batch(7, 6, count=2))
    assert log.flush_wanted
    return log


def test_what_retention_deletes_before_a_flush_needs_none(tmp_path: Path) -> None:
    log = rolled_at_its_snapshot(tmp_path)
    assert log.retain(NOW_MS) > 0
    assert log.flush() == log.end
    log.close()


def test_a_segment_that_goes_while_it_is_flushed_needs_no_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = rolled_at_its_snapshot(tmp_path)
    original = durability._sync_content
    gone: list[int] = []

    def deleting(path: Path) -> None:
        if not gone:
            gone.append(log.retain(NOW_MS))
        original(path)

    monkeypatch.setattr(durability, "_sync_content", deleting)
    assert log.flush() == log.end
    assert gone[0] > 0


def test_a_segment_that_was_not_deleted_and_is_gone_fails_the_flush(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.directory.joinpath("0" * 20 + ".log").unlink()
    with pytest.raises(FileNotFoundError):
        log.flush()


def test_every_file_is_flushed_before_a_snapshot_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    for call in ("fsync", "fdatasync"):
        original = getattr(os, call)

        def noted(descriptor: int, original: object = original) -> None:
            flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            original(descriptor)  # type: ignore[operator]

        monkeypatch.setattr(os, call, noted)
    log = filled(tmp_path, count=20)
    assert log.flush_wanted
    flushed.clear()
    log.flush()
    names = {path.name for path in log.directory.iterdir()}
    snapshot = flushed.index(next(name for name in flushed if name.endswith(".snapshot.tmp")))
    full = {name for name in names if not name.endswith((".snapshot", SUMS))} - {"partition.metadata"}
    assert full <= set(flushed[:snapshot])
    assert flushed.index("topic-0") < snapshot


def test_a_snapshot_that_could_not_be_noted_is_said_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(durability, "note_snapshot", fails)
    log = filled(tmp_path)
    log._request_snapshot()
    log.flush()
    failure = log.take_sums_failure()
    assert failure is not None
    assert failure.errno == errno.ENOSPC
    assert log.take_sums_failure() is None
    assert snapshots_in(log.directory)[-1] == log.end
    log.close()


@pytest.mark.parametrize(
    ("limit", "appended"),
    [("SNAPSHOT_EVERY_BATCHES", 5), ("SNAPSHOT_EVERY_BYTES", 5 * len(batch(7, 0)))],
    ids=["batches", "bytes"],
)
def test_what_a_crash_would_have_read_again_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, appended: int
) -> None:
    monkeypatch.setattr(durability, limit, appended)
    log = open_log(tmp_path)
    log.flush()  # the folder's own
    wanted = []
    for sequence in range(6):
        append(log, batch(7, sequence))
        wanted.append(log.flush_wanted)
    assert wanted == [False] * 4 + [True] * 2
    log.flush()
    assert not log.flush_wanted
    assert [path.name for path in log.directory.glob("*.snapshot")] == [f"{5:020d}.snapshot"]


def test_flush_messages_demands_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(flush_messages=3))
    assert [append(log, batch()).flush_due for _ in range(4)] == [False, False, True, True]
    log.flush()
    assert append(log, batch()).flush_due is False


def test_a_failed_flush_fails_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    append(log, batch())

    def broken(descriptor: int) -> None:
        raise OSError(5, "broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(OSError, match="broken disk"):
            log.flush()
    with pytest.raises(OSError, match="an earlier flush failed"):
        log.flush()
    with pytest.raises(OSError, match="an earlier flush failed"):
        log.close()
    assert open_log(tmp_path).end == 1


def test_a_failed_write_is_undone_and_the_log_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0))
    size, write = log.size, os.write

    def full(descriptor: int, content: bytes) -> int:
        if len(content) < 40:
            raise OSError(28, "No space left")
        return write(descriptor, content[:40])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            append(log, batch(7, 1))
    assert (log.end, log.size, (log.directory / f"{0:020d}.log").stat().st_size) == (1, size, size)
    with pytest.raises(OSError, match="an earlier write failed"):
        append(log, batch(7, 1))
    assert len(log.read(Offset(0), 1000, log.end)) == size, "it is still read"
    log.close()
    assert append(open_log(tmp_path), batch(7, 1))[:3] == (1, 1, False)


@pytest.mark.parametrize("written", [0, 10], ids=["nothing-written", "a-part-written"])
def test_a_marker_whose_index_entry_fails_ends_the_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0, transactional=True))
    write = os.write

    def full(descriptor: int, content: bytes) -> int:
        if len(content) > 34:
            return write(descriptor, content)
        if not written:
            raise OSError(28, "No space left")
        return write(descriptor, content[:written])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left|half an index entry"):
            end_transaction(log, 7, committed=False)
    with pytest.raises(OSError, match="an earlier write failed"):
        append(log, batch())
    log.close()
    again = open_log(tmp_path)
    assert again.aborted(Offset(0), again.end) == (Aborted(ProducerId(7), Offset(0)),)


def test_a_closed_log_takes_nothing_and_flushes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.close()
    assert log.flush() == 0
    with pytest.raises(OSError, match="the log is closed"):
        append(log, batch())


def test_a_directory_belongs_to_one_topic(tmp_path: Path) -> None:
    mine, other = UUID(int=1 << 70), UUID(int=2)
    PartitionLog.open(tmp_path / "t-0", LogConfig(), NOW_MS, mine).close()
    text = (tmp_path / "t-0" / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: AAAAAAAAAEAAAAAAAAAAAA\n"
    assert PartitionLog.open(tmp_path / "t-0", LogConfig(), NOW_MS).topic_id == mine
    with pytest.raises(CorruptData, match=r"expected 0{8}-0{4}-0{4}-0{4}-0{11}2"):
        PartitionLog.open(tmp_path / "t-0", LogConfig(), NOW_MS, other)
