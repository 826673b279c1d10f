"""``python -m tests.dual_write.player``: the example; at a step it asks to be killed.

Asked    a line on stdout, ``kill``; it goes on when a line has come on stdin. What is killed is the killer's
         affair: it may be this process, and then no line comes.
"""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "dual_write" / "dual_write.py"
STEPS: Final = ("begun", "initialized", "recovered", "sent", "prepared", "stored", "completed")
KILL: Final = "kill"


def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("dual_write_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def play(bootstrap: str, topic: str, url: str, rows: int, step: str, count: int) -> None:
    """Write ``rows`` orders more; ask for the kill at ``step``, the ``count``-th time."""
    left = count

    def at(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                sys.stdout.write(f"{KILL}\n")
                sys.stdout.flush()
                sys.stdin.readline()

    module = example()
    database = module.open_database(url)
    last = module.next_number(database) - 1
    database.dispose()
    asyncio.run(module.write_orders(bootstrap, topic, url, last + rows, at))


if __name__ == "__main__":
    play(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], int(sys.argv[6]))
