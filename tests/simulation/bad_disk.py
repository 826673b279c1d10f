"""A disk that fails: a write or a flush that raises. The process must not say another word.

A failed flush loses what was not flushed (LMDB aborts the transaction), or not: the disk may have it all the
same, and only the word of it is lost. What another thread reads or writes may fail, too; that ends nothing.
With ``bad_calls`` each call of a file or table may fail (disk_calls.py): what fails of the store must end the
process, and a flush of an archive that failed, whichever thread made it: what it left is not known. What
fails of a snapshot or of the clock's file may be named, and passed by.
"""

import errno
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import lmdb

from fencepost.node.driver import Halt, Obligation
from fencepost.quorum.replica import Replica
from tests.simulation.invariants import require
from tests.simulation.weather import Weather

FAILURES: Final[tuple[Callable[[], Exception], ...]] = (
    lambda: OSError(errno.EIO, "simulated"),
    lambda: OSError(errno.ENOSPC, "simulated"),
    lambda: lmdb.DiskError("simulated"),
)
FLUSHES: Final = 10  # a call that flushes fails so many times as often as another: there are few


class BadDisk:
    """Of one process. ``failure``: what was raised in this life, which it must not survive."""

    def __init__(self, rng: random.Random, weather: Callable[[], Weather]) -> None:
        self.failure: Exception | None = None
        self.next_flush: Exception | None = None  # a test's wish: what it raises
        self.alive = False  # a process runs: its calls may fail
        self.share: float | None = None  # of its calls, whatever the weather is
        self.environments: list[Any] = []  # of a process that is starting
        self.failed_calls = 0
        self._must_end = False
        self._works = False  # another thread does: what fails ends nothing, but for a flush of the archive
        self._failure_at_work: Exception | None = None
        self._unflushed: Exception | None = None  # what a flush of an archive raised there
        self._rng = rng
        self._weather = weather

    def watch(self, replica: Replica) -> None:
        """A life begins."""
        self.environments.clear()
        store, journal, archiver = replica.store, replica.journal, replica.archiver
        commit, add, write = store.commit, journal.add, archiver.write

        def committing() -> bool:
            wished = self.next_flush is not None
            if not store.dirty or not (wished or self._strikes(self._weather().bad_flush)):
                return commit()
            if self._rng.random() < 0.5:
                commit()
            else:
                store.txn.abort()
                store._txn, store.dirty = None, False
            raise self._fail()

        def adding(command: bytes, idx: int, term: int) -> None:
            if self._strikes(self._weather().bad_write):
                raise self._fail()
            add(command, idx, term)

        def writing() -> None:
            if self._strikes(self._weather().bad_write):
                raise self._fail()
            write()

        store.commit = committing  # type: ignore[method-assign]
        journal.add = adding  # type: ignore[method-assign]
        archiver.write = writing  # type: ignore[method-assign]

    def begin(self) -> None:
        """A process is about to start."""
        self.alive, self.failure, self._must_end = True, None, False
        self._failure_at_work = self._unflushed = None

    def end(self) -> None:
        """The process is gone."""
        self.alive = False

    @contextmanager
    def sound(self) -> Iterator[None]:
        """No call fails: the storm itself looks."""
        share, self.share = self.share, 0.0
        try:
            yield
        finally:
            self.share = share

    @contextmanager
    def working(self) -> Iterator[None]:
        """Another thread works meanwhile. Raises OSError."""
        if self._strikes(self._weather().bad_work):
            raise OSError(errno.ENOSPC, "simulated")
        self._works = True
        try:
            yield
        finally:
            self._works = False

    def work_ends(self) -> None:
        """The process learns how it went: from here on it must not survive a flush that failed there."""
        if self._unflushed is not None:
            self.failure, self._must_end, self._unflushed = self._unflushed, True, None

    def call(self, name: str, path: str, *, in_store: bool = False) -> None:
        """A call is about to be made. Raises OSError, or lmdb.Error of the store."""
        if not self.alive or self.failure is not None:
            return
        share = self._weather().bad_calls if self.share is None else self.share
        flushes = name == "fsync"
        if not share or self._rng.random() >= share * (FLUSHES if flushes else 1):
            return
        self.failed_calls += 1
        number = self._rng.choice((errno.EIO, errno.ENOSPC))
        what = f"simulated, in {name}"
        error = lmdb.DiskError(what) if in_store else OSError(number, what, path)
        of_archive = flushes and "/archive/" in path and path.endswith(".log")
        if not self._works:
            self.failure, self._must_end = error, in_store or of_archive
        elif of_archive:
            self._failure_at_work = self._unflushed = error
        else:
            self._failure_at_work = error
        raise error

    def caused(self, error: BaseException | None) -> bool:
        """It is what the disk raised, or was raised for it."""
        causes = [each for each in (self.failure, self._failure_at_work) if each is not None]
        while error is not None and causes:
            if any(error is each for each in causes):
                return True
            error = error.__cause__ or error.__context__
        return False

    def require_halt(self, obligations: Sequence[Obligation]) -> None:
        """An event is over."""
        if self.failure is None:
            return
        halted = [each for each in obligations if isinstance(each, Halt)]
        if not self._must_end and not halted:
            self.failure = None  # it was named, and passed by
        else:
            require(
                len(halted) == len(obligations) == 1 and self.caused(halted[0].error),
                "a process goes on though its disk failed",
                failure=self.failure,
                obligations=obligations,
            )

    def _strikes(self, share: float) -> bool:
        return bool(share) and self.failure is None and self._rng.random() < share

    def _fail(self) -> Exception:
        self.failure, self.next_flush = self.next_flush or self._rng.choice(FAILURES)(), None
        self._must_end = True
        return self.failure
