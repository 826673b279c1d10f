"""Cases that are functions: each by its name, with what is to be found."""

from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Cases(dict[str, tuple[Callable[[], Made], list[str]]], Generic[Made]):
    """What to make, and what is expected of it, sorted; by the function's name with hyphens."""

    def case(self, *expected: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
        """Decorates a function without arguments, and leaves it as it is."""

        def add(make: Callable[[], Made]) -> Callable[[], Made]:
            self[make.__name__.replace("_", "-")] = (make, sorted(expected))
            return make

        return add
