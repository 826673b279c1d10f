"""How many examples a law is given, and how many seeds: all of them, or a share in ``make check``."""

from typing import Any, Final

import pytest
from hypothesis import settings

EXAMPLES: Final = 100
"""Of a law that says nothing else."""

CHECK_EXAMPLES: Final = 30
"""Of the same law in ``make check``; ``make test`` gives it all."""

_LEAST: Final = 10


def examples(count: int) -> int:
    """The share of ``count`` examples that this run gives a law: under the profile "default" all of them."""
    share = count * settings().max_examples // EXAMPLES
    return max(share, min(count, _LEAST))


def share(count: int) -> int:
    """As ``examples``, of what is played in a loop: at least one."""
    return max(1, count * settings().max_examples // EXAMPLES)


def seeds(numbers: range, fast: int = 2) -> list[Any]:
    """Cases of ``parametrize``: the first ``fast`` seeds as they are, the others as slow tests."""
    slow = (pytest.param(each, marks=pytest.mark.slow) for each in numbers[fast:])
    return [*numbers[:fast], *slow]
