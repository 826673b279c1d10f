"""Names the places in a module where a type says nothing: Any, object, and callables of any arguments."""

import ast
from collections.abc import Iterator
from pathlib import Path

IGNORED = "explicit-any"  # mypy's code


def vague(path: Path) -> Iterator[str]:
    """One complaint for each place: in annotations, and in the types that a module names."""
    text = path.read_text("utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if IGNORED in line:
            yield f"{path.name}:{number}: ignores {IGNORED}"
    yield from (f"{path.name}:{line}: {what}" for line, what in _found(ast.parse(text)))


def _found(tree: ast.AST) -> Iterator[tuple[int, str]]:
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    typed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("Any", "object") and id(node) not in called:
            yield node.lineno, node.id
        elif isinstance(node, ast.Name) and node.id == "Callable" and id(node) not in typed:
            yield node.lineno, "Callable"
        elif isinstance(node, ast.Attribute) and node.attr in ("Any", "Callable"):
            yield node.lineno, f"{node.attr} of a module"
        elif isinstance(node, ast.Subscript) and _takes_anything(node):
            yield node.lineno, "Callable[..., ]"
        elif isinstance(node, ast.arg | ast.AnnAssign) and isinstance(node.annotation, ast.Constant):
            yield from _in_text(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(
            node.returns, ast.Constant
        ):
            yield from _in_text(node.returns)


def _in_text(annotation: ast.Constant) -> Iterator[tuple[int, str]]:
    """An annotation in quotes."""
    if isinstance(annotation.value, str):
        for _, what in _found(ast.parse(annotation.value, mode="eval")):
            yield annotation.lineno, what


def _takes_anything(node: ast.Subscript) -> bool:
    if not (isinstance(node.value, ast.Name) and node.value.id == "Callable"):
        return False
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    return isinstance(first, ast.Constant) and first.value is ...
