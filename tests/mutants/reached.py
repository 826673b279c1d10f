"""Which test reaches which function: the tests that are run first for a change are those that reach it.

A pytest plugin, which a run is given by its environment:

RECORD   a file to be written: for each test that passed how long it took and what it called in a folder.
CHOOSE   a file of test ids in an order: these alone are run, so. With LEFT_OUT all others are, as they came.

What a test has other processes do is not seen; neither is a change of what is not in a function. Both are
among the others, which are run, too, unless one that reaches the change fails.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import msgspec
import pytest

RECORD: Final = "FENCEPOST_RECORD_REACHED"
FOLDER: Final = "FENCEPOST_REACHED_FOLDER"
CHOOSE: Final = "FENCEPOST_CHOOSE_TESTS"
LEFT_OUT: Final = "FENCEPOST_LEAVE_TESTS_OUT"


class Reached(msgspec.Struct, frozen=True):
    """Of one test: what it called, as ``file function``, the file below the root."""

    test: str
    seconds: float
    functions: tuple[str, ...]


_reached: Final[list[Reached]] = []
_seconds: Final[dict[str, float]] = {}
_passed: Final[set[str]] = set()


def function_at(source: str, file: str, line: int) -> str | None:
    """The innermost function that has code in a line, as ``Reached`` names it; None: none has."""
    found = [
        code
        for code in _codes(compile(source, file, "exec"))
        if code.co_flags & 1 and any(number == line for *_, number in code.co_lines())  # CO_OPTIMIZED
    ]
    return f"{file} {found[-1].co_qualname}" if found else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests that are chosen."""
    if CHOOSE not in os.environ:
        return
    chosen = msgspec.json.decode(Path(os.environ[CHOOSE]).read_bytes(), type=list[str])
    places = {test: place for place, test in enumerate(chosen)}
    is_left_out = LEFT_OUT in os.environ
    before = list(items)
    items[:] = [item for item in before if (item.nodeid in places) is not is_left_out]
    if not is_left_out:
        items.sort(key=lambda item: places[item.nodeid])
    config.hook.pytest_deselected(items=[item for item in before if item not in set(items)])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what is called while a test runs, with what it needs set up first."""
    if RECORD not in os.environ:
        return (yield)
    codes = set[CodeType]()

    def trace(frame: FrameType, _event: str, _argument: Any) -> None:
        codes.add(frame.f_code)

    sys.settrace(trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        places = {code: _file(code.co_filename, item.config.rootpath) for code in codes}
        folder = os.environ[FOLDER]
        names = {f"{file} {code.co_qualname}" for code, file in places.items() if file.startswith(folder)}
        if item.nodeid in _passed:
            _reached.append(Reached(item.nodeid, _seconds[item.nodeid], tuple(sorted(names))))


@cache
def _file(name: str, root: Path) -> str:
    """Below the root; the whole path of one that is elsewhere."""
    path = Path(name).resolve()
    return str(path.relative_to(root.resolve()) if path.is_relative_to(root.resolve()) else path)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How long it took, and whether it passed."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.when == "call" and report.passed:
        _passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write what was noted."""
    if RECORD in os.environ:
        Path(os.environ[RECORD]).write_bytes(msgspec.json.encode(_reached))
