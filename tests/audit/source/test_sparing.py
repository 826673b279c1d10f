"""A broker's disk is read within a rate, and its page cache is left as it was."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from fencepost.audit.decode.files import LOCAL, LocalFile
from fencepost.audit.source import sparing
from fencepost.audit.source.sparing import SLICE_BYTES, Budget, Pace, PacedFile, PacedFiles

CONTENT = np.random.default_rng(7).integers(0, 256, 3 * SLICE_BYTES + 17, np.uint8).tobytes()


class Clock:
    """Goes on by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "log").write_bytes(CONTENT)
    return str(tmp_path / "log")


def test_never_faster_than_the_rate(path: str) -> None:
    clock = Clock()
    opened = PacedFile(LOCAL.open(path), Budget(1_000_000, clock, clock.sleep))
    begun = clock.now
    read = [opened.read(at, 1_000_000).tobytes() for at in range(0, len(CONTENT), 1_000_000)]
    assert b"".join(read) == CONTENT
    assert clock.now - begun == pytest.approx(len(CONTENT) / 1_000_000)
    clock.now += 3600  # what was not read then is not made up for
    begun = clock.now
    opened.read(0, 2_000_000)
    assert clock.now - begun == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("position", "count"),
    [
        (0, len(CONTENT) * 2),
        (5, SLICE_BYTES),
        (SLICE_BYTES - 1, 2 * SLICE_BYTES),
        (len(CONTENT), 5),
        (9**12, 1),
    ],
)
@pytest.mark.parametrize("pace", [Pace(), Pace(sparing=True), Pace(1e12, sparing=True)])
@pytest.mark.parametrize("has_room", [True, False])
def test_the_bytes_are_the_files(path: str, position: int, count: int, pace: Pace, has_room: bool) -> None:
    opened = PacedFiles(pace).open(path)
    into = np.zeros(len(CONTENT), np.uint8) if has_room else None
    assert opened.read(position, count, into).tobytes() == CONTENT[position : position + count]
    opened.close()


@pytest.mark.parametrize(
    ("cached", "dropped"),
    [
        pytest.param(SLICE_BYTES, 0, id="what-was-cached-stays"),
        pytest.param(None, 1, id="what-was-not-is-dropped-again"),
        pytest.param(4096, 1, id="of-what-was-in-part-all"),
    ],
)
def test_the_page_cache_is_as_it_was(
    path: str, monkeypatch: pytest.MonkeyPatch, cached: int | None, dropped: int
) -> None:
    advised: list[tuple[int, int]] = []
    preadv = os.preadv

    def nowait(descriptor: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if flags & os.RWF_NOWAIT:
            if cached is None:
                raise OSError(errno.EAGAIN, "it would wait")
            return preadv(descriptor, [buffers[0][:cached]], offset)
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", nowait)
    monkeypatch.setattr(os, "posix_fadvise", lambda _, at, size, advice: advised.append((at, size)))
    opened = PacedFiles(Pace(sparing=True)).open(path)
    assert opened.read(0, SLICE_BYTES).tobytes() == CONTENT[:SLICE_BYTES]
    assert advised == [(0, SLICE_BYTES)] * dropped


def test_a_disk_that_fails_says_so(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(OSError, match="Input/output"):
        PacedFiles(Pace(sparing=True)).open(path).read(0, 10)


def test_nothing_is_ever_opened_to_be_written(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(path).chmod(0o444)
    flags: list[int] = []
    opened = os.open

    def seen(name: str, flag: int, *rest: int) -> int:
        flags.append(flag)
        return opened(name, flag, *rest)

    monkeypatch.setattr(os, "open", seen)
    PacedFiles(Pace(sparing=True)).open(path)
    assert isinstance(sparing.SparingFile(path), LocalFile)
    assert not any(flag & (os.O_WRONLY | os.O_RDWR) for flag in flags)
