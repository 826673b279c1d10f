"""The checker shares no code with what it checks: the harness starts, kills and ends nodes, and that is all.

What applications import is checked itself, by an application that is written with it.
"""

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
    allowed = {"tests.harness.nodes", "tests.harness.node_faults"}
    if file.name == "asyncio_application.py":
        allowed.add("fencepost.client")
    assert {each for each in ours if not each.startswith("tests.checker")} <= allowed


def test_the_analysis_is_a_function_of_the_evidence() -> None:
    tree = ast.parse((HERE / "findings.py").read_text("utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"collections", "collections.abc", "itertools", "typing", "tests.checker.evidence"}
