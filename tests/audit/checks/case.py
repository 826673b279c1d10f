"""What a case of the checks is: what is in the logs, and what it is found to be. One fault, one finding."""

from collections.abc import Callable

from tests.audit.checks.rows import Story

Expected = tuple[str, ...]
CASES: dict[str, tuple[Callable[[Story], None], Expected, bool]] = {}
"""By an id that reads as a sentence: a story; "check.rule" of each finding ("?check.rule": unknown); whether
it is kept apart, among those that make the others' logs unknown."""


def case(*expected: str, apart: bool = False) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    """The function's name is the case's."""

    def add(tell: Callable[[Story], None]) -> Callable[[Story], None]:
        CASES[tell.__name__.replace("_", "-")] = (tell, expected, apart)
        return tell

    return add
