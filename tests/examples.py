"""How many examples a law is given: all of them, or a share of each in ``make check``."""

from typing import Final

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
