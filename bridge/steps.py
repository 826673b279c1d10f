"""Steps: work that waits for other nodes, written as one function from top to bottom.

A step is a generator. It yields calls that take a callback ``told``, and receives what the callback gets:

    outcome = yield partial(port.write_block, block, version)

An ApiError that leaves it is its outcome. All of it runs on one thread: at once, or in a callback.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from fencepost.controller.errors import ApiError
from fencepost.records.invariant import invariant

R = TypeVar("R")

Ask: TypeAlias = Callable[[Callable[[Any], None]], None]
Steps: TypeAlias = Generator[Ask, Any, R]

_NOTHING: Final = object()


class Run(Generic[R]):
    """Takes the steps, one after another; ``done`` is called once with the outcome, unless abandoned."""

    def __init__(self, steps: Steps[R], done: Callable[[R | ApiError], None]) -> None:
        self._steps = steps
        self._done = done
        self.is_abandoned = False

    def go_on(self, answer: Any = None) -> None:
        """Take steps until one has to wait. Called once to begin; then with each result."""
        while True:
            try:
                ask = self._steps.send(answer)
            except StopIteration as end:
                self._done(end.value)
                return
            except ApiError as refusal:
                self._done(refusal)
                return
            told = _Told(self)
            ask(told)
            if told.answer is _NOTHING:
                told.is_awaited = True
                return
            answer = told.answer

    def abandon(self) -> None:
        """Take no further step; later results are dropped. Not from within a step."""
        self.is_abandoned = True
        self._steps.close()


"""Takes the result of one call and passes it to the generator."""


class _Told:
    """Where the answer to one question comes in."""

    __slots__ = ("_run", "answer", "is_awaited")

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self.answer: Any = _NOTHING
        self.is_awaited = False

    def __call__(self, answer: Any) -> None:
        invariant(self.answer is _NOTHING, "a callback was called twice", first=self.answer, second=answer)
        self.answer = answer
        if self.is_awaited and not self._run.is_abandoned:
            self._run.go_on(answer)
