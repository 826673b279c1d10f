"""The engine of one command, and what it is busy with, on a terminal."""

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs.choice import EMBEDDED

Show = Callable[[str], None]
"""Shows what is being waited for."""

LOOK_SECONDS: Final = 0.25


@contextlib.contextmanager
def opened(app: str, *, engine: str, master: str | None, memory: str | None, show: Show) -> Iterator[Engine]:
    """The engine, ended at the end. ``engine``: ``choice.EMBEDDED`` or ``SPARK``.

    ``master``, ``memory``: see ``fencepost.audit.source.session``; embedded, memory is what rows may take.
    """
    if engine == EMBEDDED:
        from fencepost.audit.engine.embedded import EmbeddedEngine

        with tempfile.TemporaryDirectory(prefix="fencepost-audit-") as folder:
            embedded = EmbeddedEngine(folder, memory=memory)
            try:
                yield embedded
            finally:
                embedded.close()
        return
    with waiting(show, "starting Spark"):
        from fencepost.audit.engine.spark import SparkEngine
        from fencepost.audit.source.session import session

        spark = session(f"fencepost audit {app}", master=master, memory=memory)
    try:
        yield SparkEngine(spark)
    finally:
        with waiting(show, "ending Spark"):
            spark.stop()


@contextlib.contextmanager
def shown(engine: Engine, show: Show, what: str) -> Iterator[Show]:
    """As ``waiting``, with what the engine knows of how far it is."""
    with waiting(show, what, engine.progress) as say:
        yield say


@contextlib.contextmanager
def waiting(show: Show, what: str, progress: Callable[[], str] = str) -> Iterator[Show]:
    """While the block runs ``show`` says ``what``, for how long, and ``progress``; then nothing.

    Yields a way to say more. ``progress`` may be slow, as when a JVM collects garbage: until it answers, its
    last answer is shown.
    """
    said, since, reached = what, time.monotonic(), ""
    show(what)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            show(f"{said}  {time.monotonic() - since:.0f} s  {reached}".rstrip())

    def follow() -> None:
        nonlocal reached
        while not ended.is_set():
            reached = progress()
            ended.wait(LOOK_SECONDS)

    def show_text(text: str) -> None:
        nonlocal said, since
        said, since = text, time.monotonic()
        show(text)

    threads = [threading.Thread(target=each, name="progress", daemon=True) for each in (look, follow)]
    for each in threads:
        each.start()
    try:
        yield show_text
    finally:
        ended.set()
        for each in threads:
            each.join()
        show("")
