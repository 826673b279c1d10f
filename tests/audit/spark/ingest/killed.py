"""An ingest that ends by SIGKILL: before the n-th thing it does to its folder, or once workers have written.

``python -m tests.audit.spark.ingest.killed ROOT TABLES FILES`` runs it on Spark and kills it as soon as that
many Parquet files are there.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fencepost.audit.engine.protocol import Done, Task
from fencepost.audit.tables.ingest import ingest

_TOUCHES = frozenset({"open", "os.rename", "os.remove", "os.mkdir"})


class OneProcess:
    """Tasks run here, one after another."""

    workers = 2

    def spread(
        self, work: Callable[[Task], Done], tasks: Sequence[Task], show: Callable[[str], None]
    ) -> list[Done]:
        done = []
        for each in tasks:
            done.append(work(each))
            show(f"{len(done)} of {len(tasks)}")
        return done


def ingest_killed_at(root: str, tables: str, moment: int) -> None:
    """Run in a process of its own. Ends well if there are less than ``moment`` moments."""
    left = moment

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in _TOUCHES and str(arguments[0]).startswith(tables):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    ingest(OneProcess(), [root], tables)


def main() -> None:
    """See above."""
    from fencepost.audit.engine.spark import SparkEngine
    from fencepost.audit.source.session import session

    root, tables, count = sys.argv[1:]
    spark = session("killed", master="local[2]", memory="1g")

    def watch() -> None:
        look = threading.Event()
        while len(list(Path(tables).rglob("*.parquet"))) < int(count):
            look.wait(0.002)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    ingest(SparkEngine(spark), [root], tables)


if __name__ == "__main__":
    main()
