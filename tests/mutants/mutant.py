"""What a mutant is."""

from dataclasses import dataclass
from typing import Final

SPARK_TESTS: Final = "tests/audit/spark/"


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old`` occurs once in ``file``; ``tests`` are pytest node ids, each of which must fail."""

    name: str
    breaks: str  # what is no longer true
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def needs_spark(self) -> bool:
        """Whether its tests are there only if pyspark is."""
        return any(test.startswith(SPARK_TESTS) for test in self.tests)
