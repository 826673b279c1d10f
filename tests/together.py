"""Many small cases in one test, for cases that cost less than a test does: each that fails is named."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pytest

Test = Callable[..., None]


class Together:
    """``with Together() as cases``, and in it ``with cases.case(NAME)`` for each of them: all of them run."""

    def __init__(self) -> None:
        self._failures: dict[str, BaseException] = {}

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        try:
            yield
        # The second is what ``pytest.raises`` raises, no Exception.
        except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - raised when all cases have run
            failure.add_note(f"case: {name}")
            self._failures[name] = failure

    def __enter__(self) -> "Together":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._failures:
            names = ", ".join(self._failures)
            raise BaseExceptionGroup(f"cases that fail: {names}", [*self._failures.values()])


def table(
    names: str | Collection[str],
    rows: Iterable[Any],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """As ``pytest.mark.parametrize``, and all rows are one test: a test costs more than a row of most tables.

    Each row has a ``tmp_path`` of its own. What the test has from other fixtures its rows share: not for rows
    that change it.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    cases = _named(columns, [*rows], ids)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            own = {**fixtures}
            with Together() as together:
                for number, (name, values) in enumerate(cases.items()):
                    if "tmp_path" in fixtures:
                        own["tmp_path"] = fixtures["tmp_path"] / str(number)
                        own["tmp_path"].mkdir()
                    with together.case(name):
                        test(*arguments, **own, **dict(zip(columns, values, strict=True)))

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in columns]
        assert len(left) + len(columns) == len(signature.parameters), f"{test} has no such arguments"
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _named(
    columns: list[str], rows: list[Any], ids: Iterable[object] | Callable[[Any], object] | None
) -> dict[str, tuple[Any, ...]]:
    """The values of each row, by its name. Rows of the same name have numbers."""
    assert rows, "a table without rows tests nothing"
    given = [] if ids is None or callable(ids) else [*ids]
    assert len(given) in (0, len(rows))
    cases: dict[str, tuple[Any, ...]] = {}
    for number, row in enumerate(rows):
        is_set = isinstance(row, type(pytest.param()))
        assert not (is_set and row.marks), f"{row} has marks: for rows that are tests"
        values = tuple(row.values) if is_set else (row,) if len(columns) == 1 else tuple(row)
        if is_set and row.id is not None:
            name = str(row.id)
        elif given:
            name = str(given[number])
        else:
            name = "-".join(str(ids(each) if callable(ids) else each) for each in values)
        cases[f"{name} ({number})" if name in cases else name] = values
    return cases
