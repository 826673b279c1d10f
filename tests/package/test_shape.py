"""No file is longer than 400 lines, no shipped function than 60."""

from pathlib import Path
from textwrap import indent

import pytest

from tests.modules import FOLDERS
from tests.package.shape import FILE_LINES_MAX, FUNCTION_LINES_MAX, long_files, long_functions
from tests.together import table

ROOT = Path(__file__).parents[2]


@table("folder", [*FOLDERS, "tests"])
def test_a_file_fits(folder: str) -> None:
    assert list(long_files(ROOT / folder)) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_function_fits(folder: str) -> None:
    assert list(long_functions(ROOT / folder)) == []


def function(lines: int, first: str = "def f(\n") -> str:
    """A function of so many lines."""
    return first + ") -> None:\n" + "    1\n" * (lines - 2)


LONG = FUNCTION_LINES_MAX + 1
REFUSED = f"a/b.py: f has {LONG} lines, expected {FUNCTION_LINES_MAX} at most"


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        pytest.param("1\n" * FILE_LINES_MAX, [], id="file-at-the-limit"),
        pytest.param(
            "1\n" * FILE_LINES_MAX + "1",
            [f"a/b.py: {FILE_LINES_MAX + 1} lines, expected {FILE_LINES_MAX} at most"],
            id="file-past-it",
        ),
        pytest.param(function(FUNCTION_LINES_MAX), [], id="function-at-the-limit"),
        pytest.param("@property\n" + function(FUNCTION_LINES_MAX), [], id="without-its-decorators"),
        pytest.param(function(LONG), [REFUSED], id="function-past-it"),
        pytest.param(function(LONG, "async def f(\n"), [REFUSED], id="coroutine"),
        pytest.param("class C:\n" + indent(function(LONG), "    "), [REFUSED], id="method"),
        pytest.param('def f():\n    """' + "\n" * (LONG - 2) + '"""\n', [REFUSED], id="docstring"),
    ],
)
def test_what_is_too_long_is_named(tmp_path: Path, text: str, complaints: list[str]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text(text)
    assert [*long_files(tmp_path), *long_functions(tmp_path)] == complaints
