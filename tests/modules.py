"""Which files a process has loaded more than once, under two names.

Of a class that exists twice neither is in the tables of the other: ``REPLAY[type(record)]`` finds nothing.
"""

import inspect
from pathlib import Path
from typing import Final

import fencepost

LINKS: Final = tuple(sorted(each for each in Path(fencepost.__path__[0]).iterdir() if each.is_symlink()))
FOLDERS: Final = tuple(each.name for each in LINKS)
"""The top-level folders: what would be importable from the repository's root."""


def loaded_twice() -> dict[str, list[str]]:
    """Our files of which this process has two modules -> their names."""
    import os
    import sys

    files: dict[str, dict[int, str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            files.setdefault(os.path.realpath(file), {})[id(module)] = name
    return {
        file: sorted(names.values())
        for file, names in files.items()
        if len(names) > 1 and any(name.startswith(("fencepost", "tests")) for name in names.values())
    }


LOADED_TWICE: Final = inspect.getsource(loaded_twice)
"""The function as text, for processes that have no tests: nodes and Spark's workers."""
