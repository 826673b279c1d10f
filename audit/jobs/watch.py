"""``audit watch``: the checks over logs while they grow.

Look      whenever the logs have grown (``growth``), or some time has gone by, the tables are brought up to
          date
          and the checks run over them. The tables are what is exactly once: a look reads nothing twice.
Once      a finding is identified by its subject, not by its wording: it is reported when it is first seen.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fencepost.audit.engine.protocol import Engine
from fencepost.audit.jobs import check
from fencepost.audit.jobs.growth import IDLE_SECONDS, state_of
from fencepost.audit.jobs.session import Show
from fencepost.audit.report.verdict import Finding, Verdict
from fencepost.audit.tables.ingest import ingest

Notify = Callable[[Finding], None]

REPORTED_MAX: Final = (
    1_000_000  # findings that are remembered; past them the watch ends, as it must have gone wrong
)
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

    def __init__(self, look: Callable[[], Verdict], notify: Notify, *, allow_unknown: bool = False) -> None:
        self._look = look
        self._allow_unknown = allow_unknown
        self._notify = notify
        self._reported: set[tuple[object, ...]] = set()
        self.verdict: Verdict | None = None

    @property
    def exit_status(self) -> int:
        """1 if anything was reported; else that of the last look, 3 if there was none."""
        if self._reported:
            return 1
        return 3 if self.verdict is None else self.verdict.exit_status(allow_unknown=self._allow_unknown)

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
    allow_unknown: bool = False
    deep: bool = False


def run(engine: Engine, watched: Watched, notify: Notify, ended: threading.Event, show: Show) -> int:
    """Watch until ``ended``; the exit status. Raises TablesRefused, OSError."""

    def look() -> Verdict:
        ingest(engine, watched.roots, watched.tables_dir, deep=watched.deep)
        now_ms = time.time_ns() // 1_000_000 if watched.now_ms is None else watched.now_ms
        return check.run(engine, watched.tables_dir, names=watched.names, now_ms=now_ms, show=show)

    watch = Watch(look, notify, allow_unknown=watched.allow_unknown)
    seen: str | None = None
    looked_s = 0.0
    while not ended.is_set():
        state = state_of(watched.roots)
        if state != seen or time.monotonic() - looked_s >= IDLE_SECONDS:
            watch.look()
            seen, looked_s = state, time.monotonic()
        ended.wait(watched.interval_s)
    return watch.exit_status
