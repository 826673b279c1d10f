"""Transcripts: stories that anyone can read, and that are run.

A file is a sequence of steps: comment lines (``#``), one command, ``----``, what happens, an empty line.
``pytest tests/transcripts --rewrite`` writes down what happens now; read the diff, and commit it only if
you can explain every line. The format is that of etcd's and CockroachDB's ``datadriven``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

RULE = "----"


@dataclass(frozen=True, slots=True)
class Step:
    """A command with what is said before it and what comes of it."""

    comments: tuple[str, ...]
    command: str
    outcome: tuple[str, ...]


def parse(text: str) -> list[Step]:
    """Inverse of ``render``. Raises ValueError for a command without a rule."""
    steps: list[Step] = []
    comments: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("#") or (not line and comments):
            comments.append(line)
        elif line:
            if next(lines, None) != RULE:
                raise ValueError(f"expected {RULE!r} after {line!r}")
            outcome = []
            for result in lines:
                if not result:
                    break
                outcome.append(result)
            steps.append(Step(tuple(comments), line, tuple(outcome)))
            comments = []
    return steps


def render(steps: list[Step]) -> str:
    """The text of a transcript."""
    blocks = ["\n".join([*step.comments, step.command, RULE, *step.outcome]) + "\n" for step in steps]
    return "\n".join(blocks)


def rerun(steps: list[Step], perform: Callable[[str], list[str]]) -> list[Step]:
    """The same steps with what comes of them now."""
    return [replace(step, outcome=tuple(perform(step.command))) for step in steps]


def stories(folder: Path) -> list[Path]:
    """The transcripts of a folder."""
    return sorted(folder.glob("*.txt"))
