"""How long files and functions are."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60


def long_files(folder: Path) -> Iterator[str]:
    """Python files below ``folder`` that have too many lines."""
    for path in sorted(folder.rglob("*.py")):
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAX:
            yield f"{path.relative_to(folder)}: {lines} lines, expected {FILE_LINES_MAX} at most"


def long_functions(folder: Path) -> Iterator[str]:
    """Functions in Python files below ``folder`` that have too many lines, docstrings counted."""
    for path in sorted(folder.rglob("*.py")):
        for name, lines in _functions(ast.parse(path.read_text())):
            if lines > FUNCTION_LINES_MAX:
                where = path.relative_to(folder)
                yield f"{where}: {name} has {lines} lines, expected {FUNCTION_LINES_MAX} at most"


def _functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each function's name and lines, from ``def`` on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1
