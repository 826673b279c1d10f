"""Partition logs and file descriptors: a bound on open files, and what happens when there is none left."""

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fencepost.broker.log import open_files
from fencepost.broker.log.open_files import OPEN_FILES, OpenFiles
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.types import Offset
from fencepost.wire.descriptors import (
    RESERVE_MAX,
    RESERVE_MIN,
    descriptors_max,
    lowest_free,
    segment_files_max,
    sockets_end,
)
from tests.broker.log.builders import NOW_MS, append, batch
from tests.together import table

SMALL = LogConfig(segment_bytes=300)


@pytest.fixture(autouse=True)
def nothing_open_before() -> Iterator[None]:
    for segment in tuple(OPEN_FILES._owners):
        segment.close()
    yield
    OPEN_FILES.segments_max = None


def open_under(folder: Path) -> int:
    """How many of this process's descriptors are files in ``folder``: other tests' do not count."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the directory that is being listed
            targets.append(descriptor.readlink())
    return sum(target.is_relative_to(folder) for target in targets)


@contextmanager
def no_descriptor_left(spare: int = 0) -> Iterator[None]:
    """The process has all the descriptors that it may have, but so many."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free() + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_log(folder: Path, number: int = 0) -> PartitionLog:
    return PartitionLog.open(folder / f"t-{number}", SMALL, NOW_MS)


def content(log: PartitionLog) -> bytes:
    found, offset = b"", log.start
    while offset < log.end:
        read = log.read(offset, 100, log.end)
        found += read
        offset = Offset(offset + 1)
    return found


@pytest.mark.parametrize("segments_max", [1, 2, 1000])
def test_many_logs_of_many_segments_have_few_files_open(tmp_path: Path, segments_max: int) -> None:
    OPEN_FILES.segments_max = segments_max
    logs = [open_log(tmp_path, number) for number in range(10)]
    for _ in range(20):
        for log in logs:
            append(log, batch())
            assert len(OPEN_FILES) <= segments_max
    whole = [content(log) for log in logs]
    assert len(set(whole)) == 1
    assert open_under(tmp_path) <= 4 * segments_max
    for log in logs:
        log.close()
    assert len(OPEN_FILES) == 0
    again = [open_log(tmp_path, number) for number in range(10)]
    assert [content(log) for log in again] == whole


def test_an_opened_log_has_no_file_open_until_it_is_used(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(20):
        append(log, batch())
    log.close()
    first_free = lowest_free()
    again = open_log(tmp_path)
    assert (len(OPEN_FILES), lowest_free()) == (0, first_free)
    append(again, batch())
    assert len(OPEN_FILES) == 1


def test_a_log_that_was_cut_has_no_file_of_before_open(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, *[batch()] * 20)
    assert content(log)
    assert open_under(tmp_path) > 1
    log.truncate_to(Offset(15), NOW_MS)
    log.release_files()
    assert open_under(tmp_path) == 0


def test_without_a_descriptor_other_segments_close(tmp_path: Path) -> None:
    logs = [open_log(tmp_path, number) for number in range(10)]
    for log in logs[:9]:
        append(log, batch())
    with no_descriptor_left():
        append(logs[9], batch())
        for log in logs:
            assert content(log)
    assert all(log.end == 1 for log in logs)


@pytest.mark.parametrize("spare", [0, 1, 2, 3])
def test_a_write_without_a_descriptor_is_not_done_and_may_be_tried_again(tmp_path: Path, spare: int) -> None:
    log = open_log(tmp_path)
    append(log, batch())
    log.release_files()
    with no_descriptor_left(spare):
        with pytest.raises(OSError, match="Too many open files") as refused:
            append(log, batch())
        assert refused.value.errno == errno.EMFILE
        log.release_files()
        if spare == 0:
            with pytest.raises(OSError, match="Too many open files"):
                log.read(Offset(0), 100, log.end)
    assert log.end == 1
    append(log, batch())
    log.close()
    again = open_log(tmp_path)
    assert (again.end, again.repairs) == (2, ())


def test_a_new_segment_without_a_descriptor_may_be_tried_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, batch())
    log._segments[-1].close()
    with no_descriptor_left():
        for _ in range(3):
            with pytest.raises(OSError, match="Too many open files"):
                append(log, batch())
    for _ in range(3):
        append(log, batch())
    log.close()
    again = open_log(tmp_path)
    assert (again.end, again.repairs) == (6, ())


def test_a_flush_without_a_descriptor_may_be_tried_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch())
    with no_descriptor_left(), pytest.raises(OSError, match="Too many open files"):
        log.flush()
    assert log.flush() == 1


def test_a_thread_closes_only_what_it_opened(tmp_path: Path) -> None:
    """Else it could close a file that another thread is reading."""
    OPEN_FILES.segments_max = 1
    mine = open_log(tmp_path, 0)
    append(mine, batch())
    segment = mine._segments[-1]
    descriptor = segment._descriptor

    def other() -> None:
        for number in range(1, 4):
            append(open_log(tmp_path, number), batch())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert segment._descriptor == descriptor >= 0
    assert os.pread(descriptor, 4, 0) == content(mine)[:4]


@table(
    ("limit", "reserve"), [(256, RESERVE_MIN), (1024, 128), (20_000, RESERVE_MAX), (1_048_576, RESERVE_MAX)]
)
def test_sockets_and_segments_leave_a_reserve(limit: int, reserve: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit > before[1]:
        limit, reserve = before[1], min(max(before[1] // 8, RESERVE_MIN), RESERVE_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        assert descriptors_max() == limit
        assert sockets_end() == limit - reserve
        assert segment_files_max() <= sockets_end()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Files:
    """A segment, as far as its files are concerned."""

    def __init__(self, files: OpenFiles, folder: Path, name: str) -> None:
        self.path = folder / name
        self.descriptors: list[int] = []
        self._files = files

    def open(self) -> None:
        self.descriptors.append(self._files.open(self, self.path, os.O_RDWR | os.O_CREAT))

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())
        self._files.closed(self)


def test_the_one_that_was_opened_first_closes_for_one_too_many(tmp_path: Path) -> None:
    files = OpenFiles(2)
    segments = [Files(files, tmp_path, name) for name in "abcd"]
    for segment in segments[:2]:
        segment.open()
    segments[0].open()  # another file of it: it is no one more
    assert [len(each.descriptors) for each in segments] == [2, 1, 0, 0]
    segments[2].open()
    assert [len(each.descriptors) for each in segments] == [0, 1, 1, 0]
    assert len(files) == 2
    segments[3].open()
    assert [len(each.descriptors) for each in segments] == [0, 0, 1, 1]
    segments[2].close()
    segments[0].open()
    assert [len(each.descriptors) for each in segments] == [1, 0, 0, 1]
    for segment in segments:
        segment.close()
    assert len(files) == 0


def test_a_bound_that_is_not_given_is_the_limit_of_the_process(tmp_path: Path) -> None:
    files = OpenFiles()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_files, "segment_files_max", lambda: 12)  # three segments of four files
        segments = [Files(files, tmp_path, name) for name in "abcd"]
        for segment in segments:
            segment.open()
        assert len(files) == 3
        patch.setattr(open_files, "segment_files_max", lambda: 3)
        segments[0].open()
        assert len(files) == 1, "one is always open"
    for segment in segments:
        segment.close()


@table(("there", "left"), [(1, 0), (2, 1), (3, 1), (6, 4), (7, 4)])
def test_a_quarter_of_them_closes_when_the_system_has_no_descriptor(
    tmp_path: Path, there: int, left: int
) -> None:
    """And one more, the segment that is opened counted in, which stays."""
    files = OpenFiles(100)
    segments = [Files(files, tmp_path, str(number)) for number in range(there)]
    for segment in segments:
        segment.open()
    wanted = Files(files, tmp_path, "wanted")
    original, failures = os.open, iter([errno.EMFILE])

    def failing(path: Path, flags: int, mode: int) -> int:
        for number in failures:
            raise OSError(number, "none left")
        return original(path, flags, mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", failing)
        wanted.open()
    assert sum(len(each.descriptors) for each in segments) == left
    assert len(wanted.descriptors) == 1
    for segment in (*segments, wanted):
        segment.close()


@table("number", [errno.EMFILE, errno.EACCES])
def test_an_error_that_closing_does_not_help_is_raised(tmp_path: Path, number: int) -> None:
    files = OpenFiles(100)
    wanted = Files(files, tmp_path, "wanted")

    def failing(*_: object) -> int:
        raise OSError(number, "no")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", failing)
        with pytest.raises(OSError, match="no") as failed:
            wanted.open()
    assert failed.value.errno == number
