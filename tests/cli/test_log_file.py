"""A node's log file rotates while it is written to, and nothing that was written is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cluster.node_process import LOG, log_tail
from fencepost.settings.log_file import rotate_if_full, rotated_names

KIB = 1024


class Output:
    """A descriptor that is given to a node as its stderr."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def rotate(self, bytes_max: int = KIB, files_max: int = 3) -> bool:
        return rotate_if_full(self.file, bytes_max, files_max, (self.descriptor,))


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / LOG)


@pytest.mark.parametrize(
    ("size", "rotated"),
    [pytest.param(KIB - 1, False, id="one-below"), pytest.param(KIB, True, id="at-the-limit")],
)
def test_it_rotates_at_the_limit(output: Output, size: int, rotated: bool) -> None:
    output.write("x" * size)
    assert output.rotate() is rotated
    output.write("next")
    assert output.file.read_text() == ("next" if rotated else "x" * size + "next")


@pytest.mark.parametrize("files_max", [1, 2, 3])
def test_so_many_files_are_kept_the_newest(output: Output, files_max: int) -> None:
    for number in range(6):
        output.write(str(number) * KIB)
        output.rotate(files_max=files_max)
    found = sorted(each.name for each in output.file.parent.iterdir())
    assert found == sorted([LOG, *(each.name for each in rotated_names(output.file, files_max))])
    for number, file in enumerate(rotated_names(output.file, files_max)):
        assert file.read_text() == str(5 - number) * KIB


def test_a_file_that_is_not_ours_is_left(output: Output) -> None:
    output.write("x" * KIB)
    output.file.rename(output.file.with_name("moved"))
    output.file.write_text("of another program")
    assert not output.rotate()
    assert output.file.read_text() == "of another program"


def test_a_file_that_was_removed_is_made_again(output: Output) -> None:
    output.write("x")
    output.file.unlink()
    assert output.rotate()
    output.write("y")
    assert output.file.read_text() == "y"


def test_the_last_lines_are_found_behind_a_rotation(output: Output) -> None:
    output.write("".join(f"line {number}\n" for number in range(200)))
    output.rotate()
    output.write("last words\n")
    assert log_tail(output.file.parent, 3) == "line 198\nline 199\nlast words"


def test_what_a_crash_prints_is_in_the_newest_file(tmp_path: Path) -> None:
    """The interpreter writes to descriptor 2, whatever Python's own objects are."""
    file = tmp_path / LOG
    code = (
        "import os, pathlib, sys; from fencepost.settings.log_file import rotate_if_full\n"
        "print('before' * 300, file=sys.stderr)\n"
        f"assert rotate_if_full(pathlib.Path({str(file)!r}), 1024, 3)\n"
        "os.write(2, b'from C\\n'); raise RuntimeError('crash')\n"
    )
    with file.open("ab") as log:
        subprocess.run(
            [sys.executable, "-c", code], stdout=log, stderr=log, check=False, cwd=Path(__file__).parents[2]
        )
    assert file.read_text().startswith("from C\nTraceback")
    assert "RuntimeError: crash" in file.read_text()
    assert rotated_names(file, 2)[0].read_text() == "before" * 300 + "\n"
