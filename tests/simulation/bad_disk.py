"""A disk that fails: a write or a flush that raises. The process must not say another word.

A failed flush loses what was not flushed (LMDB aborts the transaction), or not: the disk may have it all the
same, and only the word of it is lost. What another thread reads or writes may fail, too; that ends nothing.
"""

import errno
import random
from collections.abc import Callable, Sequence
from typing import Final

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


class BadDisk:
    """Of one process. ``failure``: what was raised in this life, which it must not survive."""

    def __init__(self, rng: random.Random, weather: Callable[[], Weather]) -> None:
        self.failure: Exception | None = None
        self.next_flush: Exception | None = None  # a test's wish: what it raises
        self._rng = rng
        self._weather = weather

    def watch(self, replica: Replica) -> None:
        """A life begins."""
        self.failure = None
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

    def work(self) -> None:
        """What another thread is about to do. Raises OSError."""
        if self._strikes(self._weather().bad_work):
            raise OSError(errno.ENOSPC, "simulated")

    def require_halt(self, obligations: Sequence[Obligation]) -> None:
        """An event is over."""
        if self.failure is not None:
            halted = [each for each in obligations if isinstance(each, Halt)]
            require(
                len(halted) == len(obligations) == 1 and halted[0].error is self.failure,
                "a process goes on though its disk failed",
                failure=self.failure,
                obligations=obligations,
            )

    def _strikes(self, share: float) -> bool:
        return bool(share) and self.failure is None and self._rng.random() < share

    def _fail(self) -> Exception:
        self.failure, self.next_flush = self.next_flush or self._rng.choice(FAILURES)(), None
        return self.failure
