"""``audit watch``: the checks over logs while they grow, on Structured Streaming.

Stream    its source says how large the logs are (``growth``); whenever they have grown, or some time has gone
          by, a batch brings the tables up to date and runs the checks over them. The tables are what is
          exactly once: a batch that is played again reads nothing twice.
Once      a finding is identified by its subject, not by its wording: it is reported when it is first seen.
"""

import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost.audit.jobs import check
from fencepost.audit.jobs.growth import NAME, Growth
from fencepost.audit.jobs.session import Show
from fencepost.audit.report.verdict import Finding, Verdict
from fencepost.audit.tables.ingest import ingest

Notify = Callable[[Finding], None]

REPORTED_MAX: Final = (
    1_000_000  # findings that are remembered; past them the watch ends, as it must have gone wrong
)
POLL_SECONDS: Final = 0.2
_ENDS: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def until_signalled() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, instead of ending this process."""
    ended = threading.Event()
    before = {each: signal.signal(each, lambda *_: ended.set()) for each in _ENDS}
    try:
        yield ended
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class Watch:
    """One watch: what has been reported, and how the last look ended."""

    def __init__(self, look: Callable[[], Verdict], notify: Notify) -> None:
        self._look = look
        self._notify = notify
        self._reported: set[tuple[object, ...]] = set()
        self.verdict: Verdict | None = None
        self.fault: Exception | None = None

    @property
    def exit_status(self) -> int:
        """1 if anything was reported; else that of the last look, 3 if there was none."""
        if self._reported:
            return 1
        return 3 if self.verdict is None else self.verdict.exit_status

    def look(self) -> None:
        """Tell what is new, ``REPORTED_MAX`` findings in all. Raises what the look raises."""
        self.verdict = self._look()
        for outcome in self.verdict.outcomes:
            for finding in outcome.findings:
                identity = identity_of(finding)
                if identity not in self._reported and len(self._reported) < REPORTED_MAX:
                    self._reported.add(identity)
                    self._notify(finding)


def identity_of(finding: Finding) -> tuple[object, ...]:
    """What tells a finding from others: not its sentence, in which a count may grow, nor its time."""
    return finding._replace(detail="", at_ms=None, severity="")


class Watched(NamedTuple):
    """What is watched: directories, the folder of tables, the checks (none: all), the time (None: now)."""

    roots: Sequence[str]
    tables_dir: str
    names: Collection[str]
    now_ms: int | None
    interval_s: float


def run(spark: SparkSession, watched: Watched, notify: Notify, ended: threading.Event, show: Show) -> int:
    """Watch until ``ended``; the exit status. Raises TablesRefused, OSError."""

    def look() -> Verdict:
        ingest(spark, watched.roots, watched.tables_dir)
        now_ms = time.time_ns() // 1_000_000 if watched.now_ms is None else watched.now_ms
        return check.run(spark, watched.tables_dir, names=watched.names, now_ms=now_ms, show=show)

    watch = Watch(look, notify)
    absolute = [each if "://" in each else str(Path(each).absolute()) for each in watched.roots]
    with tempfile.TemporaryDirectory(prefix="fencepost-watch-") as checkpoint:
        query = _started(spark, absolute, watch, checkpoint, watched.interval_s)
        try:
            while query.isActive and not ended.wait(POLL_SECONDS):
                pass
        finally:
            with contextlib.suppress(PySparkException):
                query.stop()
    if watch.fault is not None and not ended.is_set():
        raise watch.fault
    return watch.exit_status


def _started(
    spark: SparkSession, roots: Sequence[str], watch: Watch, checkpoint: str, interval_s: float
) -> Any:
    """The running query. What a batch raises is kept in ``watch.fault``: Spark would make a text of it."""

    def batch(_rows: object, _number: int) -> None:
        try:
            watch.look()
        except Exception as fault:  # re-raised below; kept, because only its text would come through the JVM
            watch.fault = fault
            raise

    spark.dataSource.register(Growth)
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # a stream has none, and warns of it
    return (
        spark.readStream.format(NAME)
        .options(**{f"root.{number}": root for number, root in enumerate(roots)})
        .load()
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{max(1, round(interval_s * 1000))} milliseconds")
        .start()
    )
