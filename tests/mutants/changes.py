"""Every small change of a Python file that unguided mutation may make, found in its syntax tree.

Kinds       compare: an operator for its neighbour or its opposite. logic: ``and`` for ``or``. sum: ``+`` for
            ``-``. constant: a number and one, True for False. negated: a condition. removed: a statement that
            calls, raises, counts, deletes, writes an attribute or an element, goes on or breaks off.
Left out    annotations, docstrings, decorators, ``__all__`` and ``__slots__``, what only logs or is only for
            type checkers, arguments of a raised error: no test should notice these.
Positions   are of bytes, as those of ``ast``.
"""

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

LOGS: Final = frozenset({"debug", "info", "warning", "error"})
NOT_CHANGED: Final = frozenset({"__all__", "__slots__", "record_key"})

_COMPARED: Final = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}


class Change(NamedTuple):
    """The bytes [begin, end) of a file, which are ``old``, become ``new``."""

    line: int
    kind: str
    begin: int
    end: int
    old: str
    new: str

    def of(self, source: str) -> str:
        """The changed file."""
        raw = source.encode()
        return (raw[: self.begin] + self.new.encode() + raw[self.end :]).decode()


def changes_of(source: str) -> list[Change]:
    """All of them, in the order of their places."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda each: (each.begin, each.end, each.kind))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[Change] = []
        self._raw = source.encode()
        self._starts = [0]
        for line in self._raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    # -- what is left out -----------------------------------------------------------------------

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not _is_name(node.target, NOT_CHANGED):
            self._statement(node)
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(_is_name(target, NOT_CHANGED) for target in node.targets):
            self._statement(node)
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._body(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._body(node)

    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._statement(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _only_logs(node.value):
            return
        self._statement(node)
        self.generic_visit(node)

    # -- what is changed ------------------------------------------------------------------------

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._statement(node)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._statement(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._statement(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._statement(node)

    def visit_If(self, node: ast.If) -> None:
        if _is_name(node.test, {"TYPE_CHECKING"}):
            return
        self._negated(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        places = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, places, places[1:], strict=False):
            old, new = _COMPARED[type(operator)]
            self._between(left, right, "compare", old, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, "logic", old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add):
            self._between(node.left, node.right, "sum", "+", "-")
        elif isinstance(node.op, ast.Sub):
            self._between(node.left, node.right, "sum", "-", "+")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts are for readers."""

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, "constant", str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, "constant", f"{node.value + 1}")

    # -- how ------------------------------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> None:
        """A statement may go, unless a name would then be missing: that each test notices."""
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            self._add(node, "removed", "pass")

    def _negated(self, test: ast.expr) -> None:
        begin, end = self._span(test)
        self._add(test, "negated", f"not ({self._raw[begin:end].decode()})")

    def _between(self, left: ast.expr, right: ast.expr, kind: str, old: str, new: str) -> None:
        """An operator, which is all that lies between two operands, but for brackets and white space."""
        begin, end = self._span(left)[1], self._span(right)[0]
        words = self._raw[begin:end].decode()
        at = words.find(old)
        if at >= 0:
            first = begin + len(words[:at].encode())
            line = left.end_lineno or left.lineno
            self.found.append(Change(line, kind, first, first + len(old), old, new))

    def _add(self, node: ast.stmt | ast.expr, kind: str, new: str) -> None:
        begin, end = self._span(node)
        self.found.append(Change(node.lineno, kind, begin, end, self._raw[begin:end].decode(), new))

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end_column


def _is_name(node: ast.expr, names: "frozenset[str] | set[str]") -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _only_logs(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOGS):
        return False
    names = [_last(each) for each in ast.walk(node.func) if isinstance(each, ast.Name | ast.Attribute)]
    return any(f"_{name}".endswith("_log") for name in names)


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def line_of(source: str, change: Change) -> Iterator[str]:
    """The lines that differ, before and after."""
    before, after = source.splitlines(), change.of(source).splitlines()
    first = next(
        number for number, (one, other) in enumerate(zip(before, after, strict=False)) if one != other
    )
    same_end = 0
    while same_end < min(len(before), len(after)) - first and before[-1 - same_end] == after[-1 - same_end]:
        same_end += 1
    yield from (f"- {line.strip()}" for line in before[first : len(before) - same_end])
    yield from (f"+ {line.strip()}" for line in after[first : len(after) - same_end])
