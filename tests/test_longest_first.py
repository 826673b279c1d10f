"""The list of the longest files names files that are there, each once."""

from pathlib import Path

from tests.longest_first import LONGEST_FIRST

ROOT = Path(__file__).parents[1]


def test_each_is_a_file_of_tests() -> None:
    assert [each for each in LONGEST_FIRST if not (ROOT / each).is_file()] == []
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)
