"""Steps: work that waits for other nodes, written as one coroutine from top to bottom, driven by hand.

A step awaits a ``Call`` of a function that takes a callback, and receives what the callback gets:

    outcome = await Call(port.read)

An ApiError that leaves it is its outcome. All of it runs on one thread: at once, or in a callback.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Generic, Protocol, TypeAlias, TypeVar

from fencepost.controller.errors import ApiError
from fencepost.records.invariant import invariant

R = TypeVar("R")
T = TypeVar("T")


class Awaited(Protocol):
    """A ``Call`` of any result."""

    def begin(self, then: Callable[[], None], /) -> bool:
        """Call. True if the result is here already; else ``then`` is called when it is."""


Steps: TypeAlias = Coroutine[Awaited, None, R]


class Call(Generic[T]):
    """One call; its result is what the callback gets."""

    __slots__ = ("_function", "_results", "_then")

    def __init__(self, function: Callable[[Callable[[T], None]], None]) -> None:
        self._function = function
        self._results: list[T] = []  # empty, or the one
        self._then: Callable[[], None] | None = None

    def __await__(self) -> Generator[Awaited, None, T]:
        yield self
        return self._results[0]

    def begin(self, then: Callable[[], None], /) -> bool:
        """See Awaited."""
        self._function(self._answered)
        if self._results:
            return True
        self._then = then
        return False

    def _answered(self, result: T) -> None:
        invariant(not self._results, "a callback was called twice", first=self._results, second=result)
        self._results.append(result)
        if self._then is not None:
            self._then()


class Running(Protocol):
    """A ``Run`` of any outcome."""

    def abandon(self) -> None:
        """See Run."""


class Run(Generic[R]):
    """Takes the steps, one after another; ``done`` is called once with the outcome, unless abandoned."""

    def __init__(self, steps: Steps[R], done: Callable[[R | ApiError], None]) -> None:
        self._steps = steps
        self._done = done
        self.is_abandoned = False

    def go_on(self) -> None:
        """Take steps until one has to wait. Called once to begin; then with each result."""
        while not self.is_abandoned:
            try:
                call = self._steps.send(None)
            except StopIteration as end:
                self._done(end.value)
                return
            except ApiError as refusal:
                self._done(refusal)
                return
            if not call.begin(self.go_on):
                return

    def abandon(self) -> None:
        """Take no further step; later results are dropped. Not from within a step."""
        self.is_abandoned = True
        self._steps.close()
