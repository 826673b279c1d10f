"""Where logs begin whose first records were deleted: Kafka's checkpoint file, read and written."""

from pathlib import Path

import pytest

from fencepost.broker.log.log_starts import LOG_STARTS, LogStarts
from fencepost.records.types import Offset
from tests.together import table

FOLDERS = ("orders-0", "a-b.c_d-12", "n" * 249 + "-7")


def loaded(directory: Path, *folders: str) -> tuple[LogStarts, int]:
    starts = LogStarts(directory)
    return starts, starts.load(folders)


def test_what_is_written_is_read_again_in_kafkas_format(tmp_path: Path) -> None:
    starts, senseless = loaded(tmp_path, *FOLDERS)
    assert senseless == 0
    starts.raise_to({FOLDERS[0]: Offset(5)})
    starts.raise_to({FOLDERS[1]: Offset(2**62), FOLDERS[0]: Offset(3)})
    assert (tmp_path / LOG_STARTS).read_text() == f"0\n2\norders 0 5\na-b.c_d 12 {2**62}\n"
    again, senseless = loaded(tmp_path, *FOLDERS)
    assert senseless == 0
    assert [again.of(each) for each in FOLDERS] == [5, 2**62, 0]
    again.forget(FOLDERS[0])
    assert (tmp_path / LOG_STARTS).read_text() == f"0\n1\na-b.c_d 12 {2**62}\n"


def test_lines_of_logs_that_are_not_there_are_removed_at_once(tmp_path: Path) -> None:
    """Another log of that name may be made before the file is written the next time."""
    loaded(tmp_path, *FOLDERS)[0].raise_to({FOLDERS[0]: Offset(5), FOLDERS[1]: Offset(6)})
    loaded(tmp_path, FOLDERS[1])
    assert (tmp_path / LOG_STARTS).read_text() == "0\n1\na-b.c_d 12 6\n"


DAMAGED = [
    ("", 1, 0),
    ("0\n", 1, 0),
    ("1\n1\norders 0 5\n", 1, 5),
    ("0\n2\norders 0 5\n", 1, 5),
    ("0\n1\norders 0\n", 1, 0),
    ("0\n1\norders 0 -5\n", 1, 0),
    ("0\n1\norders x 5\n", 1, 0),
    ("0\n2\norders 0 5\n\x80\n", 1, 5),
    ("0\n1\norders 0 5 6\n", 1, 0),
]


@table(("text", "senseless", "start"), DAMAGED)
def test_a_line_that_makes_no_sense_is_passed_over_and_counted(
    tmp_path_factory: pytest.TempPathFactory, text: str, senseless: int, start: int
) -> None:
    directory = tmp_path_factory.mktemp("starts")
    (directory / LOG_STARTS).write_text(text, "latin-1")
    starts, count = loaded(directory, "orders-0")
    assert (count, starts.of("orders-0")) == (senseless, start)


def test_without_a_file_logs_begin_with_their_first_segments(tmp_path: Path) -> None:
    starts, senseless = loaded(tmp_path, *FOLDERS)
    assert (senseless, starts.of(FOLDERS[0])) == (0, 0)
    starts.forget(FOLDERS[0])
    assert list(tmp_path.iterdir()) == []
