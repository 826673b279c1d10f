"""The checker shares no code with what it checks: the harness starts and ends nodes, and that is all."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", sorted(HERE.glob("*.py")), ids=lambda file: file.name)
def test_it_imports_itself_and_the_harness(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    ours = {each for each in imported if each.split(".")[0] in ("fencepost", "tests")}
    assert {each for each in ours if not each.startswith("tests.checker")} <= {"tests.harness.nodes"}


def test_the_analysis_is_a_function_of_the_evidence() -> None:
    tree = ast.parse((HERE / "findings.py").read_text("utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"collections", "collections.abc", "itertools", "typing", "tests.checker.evidence"}
