"""What a mutant is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old`` occurs once in ``file``; ``tests`` are pytest node ids, each of which must fail."""

    name: str
    breaks: str  # what is no longer true
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
