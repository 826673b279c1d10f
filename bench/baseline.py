"""What this machine's disk and the stock library do, to hold beside our own figures.

Run as   ``python -m fencepost.bench.baseline lmdb DIRECTORY`` or ``... stock OWN_ADDRESS
         OTHER_ADDRESS...``: a process of its own, in which nothing of ours that changes how pysyncobj behaves
         is loaded.
LMDB     one process, one synced put of 200 bytes per transaction, over the same keys again and again: the
         file is warm and its pages are recycled.
Stock    pysyncobj with its default settings (no fsync, pickle, its own thread and sockets on the loopback
         interface), a replicated counter, callers in the leader's process, each with one call under way.
"""

import sys
import threading
import time
from itertools import count
from typing import Any, Final

import lmdb
import msgspec
from pysyncobj import SyncObj, replicated

from fencepost.bench.process import serve

VALUE: Final = bytes(200)
KEYS: Final = 1000
WARM_UP_COMMITS: Final = 500
MAP_BYTES: Final = 64 * 1024 * 1024
WAIT_SECONDS_MAX: Final = 10.0  # for calls under way when the time is over


class Put(msgspec.Struct, frozen=True, tag=True):
    """LMDB: commit for so long. Answered with Commits."""

    seconds: float


class Commits(msgspec.Struct, frozen=True):
    """How many synced commits in how long."""

    count: int
    seconds: float


class AskLeader(msgspec.Struct, frozen=True, tag=True):
    """Stock: answered with whether this node leads, and is ready."""


class Increment(msgspec.Struct, frozen=True, tag=True):
    """Stock, to the leader: let so many callers count for so long. Answered with Commits."""

    callers: int
    seconds: float


def _serve_lmdb(directory: str) -> None:
    environment = lmdb.open(directory, map_size=MAP_BYTES)
    numbers = count()

    def commit() -> None:
        with environment.begin(write=True) as transaction:
            transaction.put(b"%08d" % (next(numbers) % KEYS), VALUE)

    def execute(command: Put) -> Commits:
        began = time.monotonic()
        end = began + command.seconds
        commits = 0
        while (now := time.monotonic()) < end:
            commit()
            commits += 1
        return Commits(commits, now - began)

    for _ in range(WARM_UP_COMMITS):
        commit()
    serve(Put, execute)
    environment.close()


class Counter(SyncObj):  # type: ignore[misc]
    """The stock library's own first example."""

    def __init__(self, own: str, others: list[str]) -> None:
        super().__init__(own, others)
        self._value = 0

    @replicated  # type: ignore[untyped-decorator]
    def increment(self) -> int:
        """Add one, on every replica."""
        self._value += 1
        return self._value


def _serve_stock(own: str, *others: str) -> None:
    counter = Counter(own, list(others))

    def execute(command: AskLeader | Increment) -> Any:
        if isinstance(command, AskLeader):
            return bool(counter.isReady() and counter.getStatus()["leader"] == counter.selfNode)
        return _increment(counter, command)

    serve(AskLeader | Increment, execute)
    counter.destroy()


def _increment(counter: Counter, command: Increment) -> Commits:
    """Each caller calls again from its own callback, which is the least that a call can cost."""
    began = time.monotonic()
    end = began + command.seconds
    successes = 0
    under_way = command.callers
    ended = threading.Event()

    def returned(_value: object, failure: int) -> None:  # on pysyncobj's thread
        nonlocal successes, under_way
        now = time.monotonic()
        successes += failure == 0 and now < end
        if now < end:
            counter.increment(callback=returned)
            return
        under_way -= 1
        if under_way == 0:
            ended.set()

    for _ in range(command.callers):
        counter.increment(callback=returned)
    ended.wait(command.seconds + WAIT_SECONDS_MAX)
    return Commits(successes, command.seconds)


def _main(subject: str, *arguments: str) -> None:
    if subject == "lmdb":
        _serve_lmdb(*arguments)
    else:
        _serve_stock(*arguments)


if __name__ == "__main__":
    _main(*sys.argv[1:])
