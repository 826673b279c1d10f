"""Work in steps of a few milliseconds each, so that something else can run between them.

``Slices`` runs the steps of a request on the event loop; ``completed`` runs them in one go.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Pauses at each ``yield``, and returns its result."""


def completed(steps: Steps[T]) -> T:
    """The result, without a pause. Raises what the steps raise."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
