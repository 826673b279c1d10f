"""A line that cannot be written stops nothing, and is counted."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.settings.log_lines import LogLines

Lost = list[tuple[int, str]]


class Written:
    """Lines to a file, which a test exchanges for a full disk: ``/dev/full``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.lines = LogLines(self.descriptor)
        self.lost: Lost = []
        self.lines.on_lost = self._on_lost

    def _on_lost(self, count: int, reason: str) -> None:
        self.lost.append((count, reason))
        self.lines.warning(f"lost {count}")

    def exchange(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, self.descriptor)
        os.close(descriptor)

    @property
    def there(self) -> list[str]:
        return self.path.read_text().split("\n")


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(tmp_path / "log.txt")
    yield made
    os.close(made.descriptor)


def test_lines_that_found_a_full_disk_are_counted_in_the_next_one(written: Written) -> None:
    written.lines.info("one")
    written.exchange(Path("/dev/full"))
    written.lines.info("two")
    written.lines.critical("three")
    written.exchange(written.path)
    written.lines.info("four")
    written.lines.info("five")
    assert written.there == ["one", "four", "lost 2", "five", ""]
    assert written.lost == [(2, "No space left on device")]


def test_lines_that_are_lost_again_are_counted_again(written: Written) -> None:
    for _ in range(2):
        written.exchange(Path("/dev/full"))
        written.lines.info("lost")
        written.exchange(written.path)
        written.lines.info("there")
    assert written.there == ["there", "lost 1"] * 2 + [""]


def test_what_follows_half_a_line_is_a_line_of_its_own() -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    lines = LogLines(writes)
    size = 1 << 20  # more than a pipe holds
    lines.info("x" * size)
    part = os.read(reads, size)
    lines.info("whole")
    lines.info("and another")
    assert set(part) == {ord("x")}
    assert len(part) < size
    assert os.read(reads, size) == b"\nwhole\nand another\n"
    os.close(writes)
    os.close(reads)


def test_a_reader_that_went_away_is_no_end() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    LogLines(writes).error("to no one")
    os.close(writes)


def test_a_character_that_is_none_is_written_as_its_number(written: Written) -> None:
    written.lines.info("path \udcff")
    assert written.there == ["path \\udcff", ""]
