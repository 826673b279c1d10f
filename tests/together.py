"""Many small cases in one test, for cases that cost less than a test does: each that fails is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class Together:
    """``with Together() as cases``, and in it ``with cases.case(NAME)`` for each of them: all of them run."""

    def __init__(self) -> None:
        self._failures: dict[str, Exception] = {}

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as failure:  # noqa: BLE001 - raised when all cases have run
            failure.add_note(f"case: {name}")
            self._failures[name] = failure

    def __enter__(self) -> "Together":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._failures:
            raise ExceptionGroup(f"cases that fail: {', '.join(self._failures)}", [*self._failures.values()])
