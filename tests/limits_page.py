"""docs/limits.md, against the numbers in force: each folder's tests have a table of their own constants."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "limits.md").read_text("utf-8")


def missing(limit: str, numbers: Iterable[float]) -> list[float]:
    """Those that the row which begins with ``limit`` does not say, as a number or in KiB or MiB."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {limit}")]
    return [number for number in numbers if not any(re.search(each, row) for each in _patterns(number))]


def _patterns(number: float) -> Iterator[str]:
    text = re.escape(repr(number).removesuffix(".0"))
    yield rf"(?<![\d.]){text}(?!\.?\d| [KM]iB)"
    for unit, size in (("KiB", 1024), ("MiB", 1024 * 1024)):
        if number % size == 0:
            yield rf"(?<![\d.]){int(number // size)} {unit}"
