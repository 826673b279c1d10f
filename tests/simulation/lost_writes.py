"""Writes that a disk confirmed and that are not there at the next start.

Store    copies of it are kept, as some of its flushes left it. Then the whole store is an earlier one (a disk
         that confirms flushes and loses them), or some values of its tables are (one transaction that was
         written in part).
Traces   an older store is a lost store if something says so: its own archive has batches that it cannot
         have written yet. Without a trace no program can see it: that is outside of what is promised. Such a
         store is put back, and counted.
Names    of files and directories, since their directory was synced last.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec

from fencepost.controller.view import ImageHeader
from fencepost.quorum.journal import REGULAR
from fencepost.quorum.older_store import AHEAD
from fencepost.records.batch import batch_header
from fencepost.records.entry import decode_entry
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log
from fencepost.snapshots.reader import read_store
from fencepost.snapshots.segments import list_segments, scan_segment

KEPT_SHARE: Final = 0.3  # of flushes, after which the store is copied
TORN_SHARE: Final = 0.5  # of the values that differ
TABLES: Final = (b"meta", b"image", b"journal", b"sums")
MAP_BYTES: Final = 1 << 40


class Earlier:
    """Of one process's directory."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._store = directory / "store"
        self._archive = directory / "archive"
        self._rng = rng
        self._copy = directory.with_name(f"{directory.name}.earlier")
        self.untraced = 0  # stores that were put back

    def forget(self) -> None:
        """The store is another one now."""
        shutil.rmtree(self._copy, ignore_errors=True)

    def flushed(self) -> None:
        """A flush ended. Some of them are kept."""
        if self._rng.random() < KEPT_SHARE:
            self._copy.mkdir(exist_ok=True)
            shutil.copy(self._store / "data.mdb", self._copy / "data.mdb")

    def bring_back(self) -> str | None:
        """The whole store is as it was; None if there was none, or nothing says that there is a later one."""
        if not (self._copy / "data.mdb").exists() or not (self._store / "data.mdb").exists():
            return None
        if not self._has_trace():
            self.untraced += 1
            return None
        shutil.copy(self._copy / "data.mdb", self._store / "data.mdb")
        return "its store is an earlier one"

    def tear(self) -> str | None:
        """Some values of one table are earlier ones; None if no value differs."""
        if not (self._copy / "data.mdb").exists() or not (self._store / "data.mdb").exists():
            return None
        name = self._rng.choice(TABLES)
        with _table(self._copy, name) as (txn, db):
            before = {bytes(key): bytes(value) for key, value in txn.cursor(db=db)}
        with _table(self._store, name) as (txn, db):
            now = {bytes(key): bytes(value) for key, value in txn.cursor(db=db)}
            differ = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
            torn = [key for key in differ if self._rng.random() < TORN_SHARE]
            if not torn or len(torn) == len(differ):
                return None
            for key in torn:
                if key in before:
                    txn.put(key, before[key], db=db)
                else:
                    txn.delete(key, db=db)
        return f"{len(torn)} of {len(differ)} values of {name.decode()} are earlier ones"

    def _has_trace(self) -> bool:
        """Some archive ends behind all that the earlier store could have written to it."""
        with read_store(self._copy) as reader:
            ends, noted = _ends_of(reader), reader.meta_get(AHEAD)
        for log, end in ({} if noted is None else msgspec.msgpack.decode(noted, type=dict[int, int])).items():
            ends[Log(log)] = max(ends[Log(log)], end)  # what an earlier store had written before that one
        return any(_end_of(self._archive / log.directory) > ends[log] for log in Log)


def _ends_of(reader: Any) -> dict[Log, int]:
    """Where each archive would end if all that the store's journal has were applied."""
    header: ImageHeader = reader.header
    ends = {log: int(header.log_end(log)) for log in Log}
    for command in reader.journal_after(reader.applied()[0]):
        if command[:1] == REGULAR:
            for log, batch in decode_entry(command[1:]).batches:
                ends[log] += batch_header(batch).end - batch_header(batch).base_offset
    return ends


def _end_of(directory: Path) -> int:
    """Of the last whole batch of an archive; 0 if there is none."""
    end = 0
    for segment in list_segments(directory)[-2:]:
        try:
            for stored in scan_segment(segment):
                end = stored.header.end
        except CorruptData:
            break
    return end


@contextmanager
def _table(store: Path, name: bytes) -> Iterator[tuple[lmdb.Transaction, Any]]:
    env = lmdb.open(str(store), max_dbs=8, map_size=MAP_BYTES, sync=False)
    try:
        db = env.open_db(name)
        with env.begin(write=True) as txn:
            yield txn, db
    finally:
        env.close()


class Names:
    """The names in the directories below one, as they were when each directory was synced last.

    Not those of the store, which LMDB makes and syncs: a store that is gone is a lost one (files.py).
    """

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._directory = directory
        self._rng = rng
        self._synced: dict[Path, frozenset[str]] = {}
        self.lost = 0

    def synced(self, directory: Path) -> None:
        """That directory was synced."""
        self._synced[directory] = _names_in(directory)

    def lose(self) -> None:
        """Each name that is newer than the last sync of its directory may be gone."""
        for directory, names in sorted(self._synced.items()):
            for name in sorted(_names_in(directory) - names):
                if name != "store" and self._rng.random() < 0.7:
                    self._remove(directory / name)
        self.forget()

    def forget(self) -> None:
        """What is there now is what is there."""
        self._synced.clear()

    def _remove(self, path: Path) -> None:
        self.lost += 1
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _names_in(directory: Path) -> frozenset[str]:
    return frozenset(each.name for each in directory.iterdir()) if directory.is_dir() else frozenset()
