"""Names in shipped code use the field's terms."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.together import table

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = sorted(each.name for each in (ROOT / "fencepost").iterdir() if each.is_symlink())
_WORDS: Final = (
    "told nobody anybody somebody whoever patient patiently orphan orphans crowd fate fates beat beats",
    "guest guests gathering crowded absent contacts asked",
)
AVOIDED: Final = frozenset(word for words in _WORDS for word in words.split())
"""What is used in their place: reply, caller, request, deferrable, outcome, maintenance tick, unknown."""
_NAME: Final = re.compile(r"[^\W\d]\w*")
_PART: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that the code defines or uses, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


@cache
def is_avoided(name: str) -> bool:
    return not AVOIDED.isdisjoint(part.lower() for part in _PART.findall(name))


def avoided(text: str) -> list[str]:
    if not any(map(is_avoided, set(_NAME.findall(text)))):
        return []  # nor is it in comments and strings: the code need not be parsed
    return [f"{line}: {name}" for name, line in names(ast.parse(text)) if is_avoided(name)]


@table("folder", FOLDERS)
def test_names_are_terms(folder: str) -> None:
    found = {
        str(file.relative_to(ROOT)): lines
        for file in sorted((ROOT / folder).rglob("*.py"))
        if (lines := avoided(file.read_text("utf-8")))
    }
    assert not found


def test_a_name_is_taken_apart() -> None:
    assert avoided("def f(told): self._due_patient, HEARTBEATS, Told, TOLD_MAX, heartbeat, unpatient") == [
        "1: told", "1: _due_patient", "1: Told", "1: TOLD_MAX"
    ]  # fmt: skip
