"""A pytest plugin, for the runs of ``runner``: what the tests import lies in the tree that they run in.

A test that imports another tree's code proves nothing of a mutant in this one: the run then ends with
OTHER_CODE, whatever its tests say.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

VARIABLE: Final = "FENCEPOST_MUTANT"
"""Of the environment: the file that is broken, below the root; empty: none is."""

OTHER_CODE: Final = 70


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End with OTHER_CODE if the tests have not imported what they should."""
    complaints = list(complaints_of(sys.modules, session.config.rootpath, os.environ.get(VARIABLE, "")))
    if complaints:
        pytest.exit("\n".join(complaints), OTHER_CODE)


def complaints_of(modules: Mapping[str, ModuleType], root: Path, broken: str) -> Iterable[str]:
    """What is wrong with these modules: imported from elsewhere, or the broken file is not among them."""
    root = root.resolve()
    files = {name: Path(file).resolve() for name, file in _files(modules)}
    for name, file in files.items():
        if not file.is_relative_to(root):
            yield f"{name} is {file}: expected below {root}"
    if broken and root / broken not in files.values():
        yield f"{broken} is broken, and no test has imported it here: name tests that run it in their process"


def _files(modules: Mapping[str, ModuleType]) -> Iterable[tuple[str, str]]:
    for name, module in list(modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and name.partition(".")[0] in ("fencepost", "tests"):
            yield name, file
