"""The archive: Kafka's segment files, and three promises: buffered, written, flushed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.records.batch import BatchRecord, decode_batch, encode_batch, stamp
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import Log, Offset, Term
from fencepost.snapshots.archive import BUFFERED_BYTES_MAX, Archive
from tests.snapshots.archives import ALL, BATCH_BYTES, CLUSTER, batch, files, filled, offsets, opened, segment
from tests.together import table


def test_batches_lie_in_kafkas_segment_files(tmp_path: Path) -> None:
    archive = filled(tmp_path, 10)
    archive.close()
    assert files(tmp_path) == [f"{base:020d}.log" for base in (0, 4, 8)]
    joined = b"".join(segment(tmp_path, base).read_bytes() for base in (0, 4, 8))
    assert joined == b"".join(batch(offset) for offset in range(10))
    assert (archive.start, archive.end, archive.durable_end, archive.cut) == (0, 10, 10, None)


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    archive = opened(tmp_path, per_segment=1)
    archive.append(batch(0, records=50))
    archive.append(batch(50))
    archive.close()
    assert files(tmp_path) == [f"{base:020d}.log" for base in (0, 50)]


@table("first", range(12))
def test_reading_begins_at_any_offset(tmp_path: Path, first: int) -> None:
    filled(tmp_path, 10).close()
    assert offsets(tmp_path, first) == list(range(first, 10))


def test_reading_begins_inside_a_batch(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    archive.append(batch(0, records=5))
    archive.append(batch(5, records=5))
    assert [stored.header.base_offset for stored in archive.reader().read(Offset(4))] == [0, 5]
    assert [stored.header.base_offset for stored in archive.reader().read(Offset(5))] == [5]
    archive.close()


def test_an_empty_archive(tmp_path: Path) -> None:
    for _ in range(2):
        archive = opened(tmp_path)
        assert (archive.start, archive.end, archive.sync(), archive.holes()) == (0, 0, 0, ())
        archive.close()
    assert (files(tmp_path), offsets(tmp_path)) == ([], [])


def test_an_archive_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for round_ in range(5):
        archive = filled(tmp_path, 3)
        assert (archive.end, archive.cut) == (3 * round_ + 3, None)
        archive.close()
    assert offsets(tmp_path) == list(range(15))
    assert files(tmp_path) == [f"{base:020d}.log" for base in (0, 4, 8, 12)]


@table(
    ("made", "says"),
    [
        pytest.param(lambda: batch(4), "has a gap", id="offset-skipped"),
        pytest.param(lambda: batch(2), "has a gap", id="offset-repeated"),
        pytest.param(lambda: batch(3) + b"\0", "one whole batch", id="a-byte-too-many"),
        pytest.param(lambda: batch(3)[:-1], "one whole batch", id="a-byte-too-few"),
    ],
)
def test_a_batch_in_the_wrong_place_is_our_bug(tmp_path: Path, made: Callable[[], bytes], says: str) -> None:
    archive = filled(tmp_path, 3)
    with pytest.raises(InvariantViolation, match=says):
        archive.append(made())
    archive.close()
    assert offsets(tmp_path) == [0, 1, 2]


class TestWriting:
    """Buffered, written, flushed: three different promises."""

    def test_the_buffer_is_bounded(self, tmp_path: Path) -> None:
        archive = Archive.open(tmp_path, Log.METADATA, CLUSTER)
        large = [BatchRecord(None, bytes(BUFFERED_BYTES_MAX // 2))]
        for offset in range(2):
            archive.append(stamp(encode_batch(large, timestamp_ms=0), Offset(offset), Term(1)))
        assert segment(tmp_path, 0).stat().st_size > BUFFERED_BYTES_MAX
        archive.close()

    def test_only_what_was_written_is_durable(self, tmp_path: Path) -> None:
        archive = opened(tmp_path, per_segment=100)
        archive.append(batch(0))
        assert archive.sync() == 0
        archive.write()
        archive.append(batch(1))
        assert (archive.durable_end, archive.sync()) == (0, 1)
        archive.close()
        assert archive.durable_end == 2

    def test_a_full_disk_loses_nothing_that_was_appended(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archive = opened(tmp_path, per_segment=100)
        real_write = os.write
        room = [BATCH_BYTES + 10]

        def write(descriptor: int, content: bytes) -> int:
            if not room[0]:
                raise OSError(28, "No space left on device")
            written = real_write(descriptor, content[: room[0]])
            room[0] -= written
            return written

        monkeypatch.setattr(os, "write", write)
        for offset in range(3):
            archive.append(batch(offset))
        with pytest.raises(OSError, match="No space left"):
            archive.write()
        assert (archive.sync(), offsets(tmp_path)) == (0, [0])
        room[0] = 10**6
        archive.write()
        assert archive.sync() == 3
        archive.close()
        assert offsets(tmp_path) == [0, 1, 2]

    def test_a_batch_appended_while_sync_runs_is_durable_only_after_the_next(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archive = filled(tmp_path, 3)
        archive.append(batch(3))
        archive.write()
        real_fsync, inside, go_on = os.fsync, threading.Event(), threading.Event()

        def fsync(descriptor: int) -> None:
            inside.set()
            assert go_on.wait(30)
            real_fsync(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        ends: list[int] = []
        thread = threading.Thread(target=lambda: ends.append(archive.sync()))
        thread.start()
        assert inside.wait(30)
        for offset in range(4, 20):  # rolls four times meanwhile
            archive.append(batch(offset))
        archive.write()
        go_on.set()
        thread.join(30)
        assert ends == [4]
        assert archive.sync() == 20
        assert segment(tmp_path, 0).stat().st_mode & 0o777 == 0o444
        archive.close()
        assert offsets(tmp_path) == list(range(20))

    def test_append_and_sync_at_the_same_time(self, tmp_path: Path) -> None:
        archive = opened(tmp_path, per_segment=3)
        done = threading.Event()
        ends: list[int] = []

        def sync_until_done() -> None:
            while not done.is_set():
                ends.append(archive.sync())

        thread = threading.Thread(target=sync_until_done)
        thread.start()
        try:
            for offset in range(300):
                archive.append(batch(offset))
                if offset % 5 == 0:
                    archive.write()
                if offset % 50 == 49:
                    archive.retain(30 * BATCH_BYTES, ALL)
        finally:
            done.set()
            thread.join(30)
        archive.close()
        assert ends == sorted(ends)
        read = offsets(tmp_path)
        assert read == list(range(archive.start, 300))

    def test_close_lets_go_of_every_file(self, tmp_path: Path) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        archive = filled(tmp_path, 10)
        archive.start_at(Offset(20))
        archive.append(batch(20))
        assert offsets(tmp_path)
        archive.close()
        archive.close()
        assert len(list(Path("/proc/self/fd").iterdir())) == before

    @table("log", Log, ids=lambda log: log.directory)
    def test_each_log_has_its_own_directory(self, tmp_path: Path, log: Log) -> None:
        archive = Archive.open(tmp_path, log, CLUSTER)
        archive.append(batch(0))
        archive.close()
        assert [path.name for path in tmp_path.iterdir()] == [log.directory]
        (stored,) = Archive.read_only(tmp_path, log).read()
        assert decode_batch(stored.content)[0].base_offset == 0
