"""A Spark session for one command, and what it is busy with, on a terminal."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import SparkSession

from fencepost.audit.source.session import session

Show = Callable[[str], None]
"""Shows what is being waited for."""

LOOK_SECONDS: Final = 0.25
BAR: Final = 24  # characters


@contextlib.contextmanager
def opened(app: str, *, master: str | None, memory: str | None, show: Show) -> Iterator[SparkSession]:
    """The session, stopped at the end. ``master``, ``memory``: see ``fencepost.audit.source.session``."""
    show("starting Spark")
    spark = session(f"fencepost audit {app}", master=master, memory=memory)
    try:
        yield spark
    finally:
        show("")
        spark.stop()


@contextlib.contextmanager
def shown(spark: SparkSession, show: Show, what: str) -> Iterator[Show]:
    """While the block runs ``show`` says ``what`` and how many tasks are done; yields a way to say more."""
    said = [what]
    show(what)
    ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            total = sum(each.numTasks for each in stages if each is not None)
            done = sum(each.numCompletedTasks for each in stages if each is not None)
            show(f"{said[0]}  {bar(done, total)}" if total else said[0])

    def show_text(text: str) -> None:
        said[0] = text
        show(text)

    looker = threading.Thread(target=look, name="progress", daemon=True)
    looker.start()
    try:
        yield show_text
    finally:
        ended.set()
        looker.join()
        show("")


def bar(done: int, total: int) -> str:
    """``[######..........]  3 of 8``; ``total`` at least 1."""
    filled = BAR * done // total
    return f"[{'#' * filled}{'.' * (BAR - filled)}]  {done} of {total}"
