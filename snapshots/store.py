"""The node's one LMDB environment: journal, Raft meta, and the image's tables.

One write transaction is open at a time, on the loop's thread, and ``commit`` syncs it. ``flush`` saves the
image into it first, with its header: the image on disk is one that was, and never ahead of its log
(docs/design.md 5). What is not committed is lost by a crash, as a whole. Others only read.

Losses        an image without rows but with a header was deleted: it is forgotten as a whole, and made again.
Generations   the image's keys start with a generation number. Installing a snapshot fills the next
              generation in slices; one small transaction then flips ``generation``, so a crash in
              between leaves the old image whole. What is of no use any more is deleted in slices, too.
How lmdb bites  a write transaction belongs to its thread; a reader that stays open pins old pages;
              an environment opened twice in one process corrupts locks; any error mid-transaction
              leaves memory and disk apart, so ``journal`` and ``replica`` halt on it.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

import lmdb
import msgspec

from fencepost.controller.view import ImageHeader
from fencepost.records.invariant import CorruptData, InvariantViolation, invariant
from fencepost.snapshots.image import Image
from fencepost.snapshots.reader import APPLIED, MAP_BYTES, Reader
from fencepost.snapshots.row_ranges import RowRanges
from fencepost.snapshots.rows import (
    TABLES,
    Row,
    as_bytes,
    decode_generation,
    decode_header,
    row_key,
)
from fencepost.snapshots.scrub import Scrub
from fencepost.snapshots.store_pages import require_sound_pages
from fencepost.snapshots.sums import (
    MODULUS,
    NOT_SEALED,
    SEAL,
    SEAL_COPY,
    Seal,
    SealBroken,
    StoreDamaged,
    Verdict,
    is_always_sealed,
    judge,
    read_seal,
    row_hash,
    seal_of,
)
from fencepost.snapshots.verified_reader import VerifiedReader

READERS_MAX: Final = 32

STORE_FAILURES: Final = (lmdb.Error, MemoryError)
HALTING: Final = (*STORE_FAILURES, CorruptData, OSError)
"""What a node does not survive when its own store raises it: memory and disk may differ from there on."""


class StoreInUse(Exception):
    """Another process has this directory open."""


class ImageLost(StoreDamaged):
    """The image is gone, and nothing here can make it again."""


class Store:
    """The environment and its open write transaction. Used on one thread only."""

    def __init__(self, env: lmdb.Environment, lock_fd: int | None) -> None:
        self.env = env
        self._lock_fd = lock_fd
        self.meta_db = env.open_db(b"meta")
        self.journal_db = env.open_db(b"journal")
        self.image_db = env.open_db(b"image")
        self._txn: lmdb.Transaction | None = None
        self.dirty = False
        self._failure: lmdb.Error | None = None
        self.around_flush: AbstractContextManager[None] = nullcontext()
        """Entered for each flush: who measures the loop takes the time of flushes apart."""
        self.sums_db = env.open_db(b"sums")
        self.rows_sum: int | None = None  # of the image as it was saved last; None: it was not verified
        self.scrub = Scrub()
        self._ranges: RowRanges | None = None
        self._filled_sum = 0  # of the generation that a snapshot fills
        self._filled_ranges = RowRanges(0)
        self._must_seal = False
        self._sealed = self._meta()  # as it was opened and written: what changes on the disk is not sealed
        self.generation = decode_generation(self.meta_get("generation"))
        self.mended: list[str] = []  # of meta: values that changed on the disk, and are put right
        self.sums_hold = True  # of the journal's entries; not where an earlier version wrote last
        self.image = Image(self, self._header())

    @classmethod
    def open(cls, directory: Path, *, sync: bool = True) -> "Store":
        """Open or create. Raises StoreInUse, StoreDamaged. ``sync=False`` is for simulations only."""
        directory.mkdir(parents=True, exist_ok=True)
        lock_fd = _locked(directory)
        try:
            require_sound_pages(directory)
        except (StoreDamaged, OSError):
            os.close(lock_fd)
            raise
        env = lmdb.open(
            str(directory),
            map_size=MAP_BYTES,
            max_dbs=8,
            max_readers=READERS_MAX,
            sync=sync,
            readahead=False,
        )
        env.reader_check()  # clears readers of processes that died
        return cls(env, lock_fd)

    @property
    def txn(self) -> lmdb.Transaction:
        """The open write transaction; opened when there is none. Raises what a commit raised, ever after."""
        if self._txn is None:
            if self._failure is not None:
                raise self._failure
            self._txn = self.env.begin(write=True)
        return self._txn

    @property
    def ranges(self) -> RowRanges:
        """Sums of the image's rows by ranges of keys. Without ``verify_image``: as they are found now."""
        if self._ranges is None:
            self._ranges = RowRanges(self.generation)
            self._ranges.fill(self.txn, self.image_db)
        return self._ranges

    def verify_image(self) -> Verdict:
        """Read every row of the image, and hold their sum against the seal. From now on commits seal.

        Comes before anything of the image is read: what its rows' keys begin with may be put right.
        """
        meta, raw, copy = self._meta(), self.meta_get(SEAL), self.meta_get(SEAL_COPY)
        seals = {SEAL: raw, SEAL_COPY: copy}
        self.mended += (name for name, found in seals.items() if found and read_seal(found) is None)
        try:
            seal, is_broken = seal_of(meta, raw, copy), False
        except SealBroken:
            seal, is_broken = None, True
        if seal is not None and seal.is_of(meta):
            self.mended += sorted(meta.keys() - seal.meta.keys())  # another name became it
            for name in (seal.meta.keys() | meta.keys()) - NOT_SEALED:
                if seal.meta.get(name, meta.get(name)) != meta.get(name):
                    self.meta_put(name, seal.meta[name])
                    self.mended.append(name)
            self.generation = decode_generation(self.meta_get("generation"))
        self._ranges = RowRanges(self.generation)
        self.rows_sum = self._ranges.fill(self.txn, self.image_db)
        now, must_be_sealed = Seal(meta, self.rows_sum), is_always_sealed(self.image)
        verdict = Verdict.DAMAGED if is_broken else judge(seal, now, must_be_sealed=must_be_sealed)
        self.sums_hold = verdict is not Verdict.UNSEALED
        self._must_seal = seal is None or raw != copy or not self.sums_hold
        self.dirty = self.dirty or self._must_seal
        return verdict

    def scrub_rows(self, rows_max: int) -> bool:
        """Read some rows of the image again. False: all were read, and their sum is not the image's.

        Raises lmdb.Error that names the file.
        """
        with self._naming():
            whole = self.scrub.step(self.txn, self.image_db, self.generation, rows_max)
        return whole is None or self.rows_sum is None or whole == self.rows_sum

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Errors of LMDB say of which file they are."""
        try:
            yield
        except lmdb.Error as error:
            error.args = (f"{self.env.path()}/data.mdb: {error}",)
            raise

    def _meta(self) -> dict[str, bytes]:
        found = {bytes(key).decode("latin-1"): bytes(raw) for key, raw in self.txn.cursor(db=self.meta_db)}
        return {name: raw for name, raw in found.items() if name not in NOT_SEALED}

    def forget_image(self) -> None:
        """Forget a damaged image. The owner makes it again, from a snapshot and the journal."""
        self._delete("header", APPLIED, SEAL, SEAL_COPY)
        self.generation = self.fresh_generation()
        self.meta_put("generation", msgspec.msgpack.encode(self.generation))
        self._begin_image()

    def forget_lost_image(self) -> bool:
        """Forget the header of an image that has no row of its generation any more. True if that was so.

        The owner makes it again, from a snapshot and the journal.
        """
        if self.image.header.version == 0:
            return False
        own, cursor = struct.pack(">I", self.generation), self.txn.cursor(db=self.image_db)
        if cursor.set_range(own) and bytes(cursor.key()).startswith(own):
            return False
        self._delete("header", APPLIED, SEAL, SEAL_COPY)
        self.dirty = True
        self._begin_image()
        return True

    def _begin_image(self) -> None:
        """One without rows."""
        self.rows_sum, self._ranges = 0, RowRanges(self.generation)
        self.image = Image(self)

    def flush(self) -> bool:
        """Save the image, then ``commit``. Returns False when there was nothing to do."""
        self.image.save()
        return self.commit()

    def commit(self) -> bool:
        """Commit and sync what was written, without what was applied since the image was last saved.

        Raises lmdb.Error: nothing is committed any more, and each use of the store raises the same.
        """
        if not self.dirty:
            return False
        if self._must_seal and self.rows_sum is not None:
            seal = Seal(dict(sorted(self._sealed.items())), self.rows_sum).encode()
            for name in (SEAL, SEAL_COPY):
                self.txn.put(name.encode(), seal, db=self.meta_db)
        self._must_seal = False
        try:
            with self.around_flush, self._naming():
                self.txn.commit()
        except lmdb.Error as error:
            self._failure, self._txn = error, None
            raise
        self._txn = None
        self.dirty = False
        return True

    def abandon(self) -> None:
        """Lose what was not flushed and close: what a crash does (simulations, tests)."""
        self.dirty = False
        self.close()

    def close(self) -> None:
        """Commit and close the environment, release the lock. The image is the owner's to save."""
        self.commit()
        self.env.close()  # what is not committed is lost with it
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def meta_get(self, name: str) -> bytes | None:
        """The value stored under a name, or None."""
        return as_bytes(self.txn.get(name.encode(), db=self.meta_db))

    def meta_put(self, name: str, value: bytes) -> None:
        """Set a small named value; durable at the next flush."""
        self.txn.put(name.encode(), value, db=self.meta_db)
        self.dirty = True
        if name not in NOT_SEALED:
            self._sealed[name] = value
            self._must_seal = True

    def meta_delete(self, name: str) -> None:
        """Remove a small named value."""
        self._delete(name)
        self.dirty = True
        self._must_seal = self._must_seal or name not in NOT_SEALED

    def _delete(self, *names: str) -> None:
        for name in names:
            self.txn.delete(name.encode(), db=self.meta_db)
            self._sealed.pop(name, None)

    def _header(self) -> ImageHeader:
        """Of the image; where it does not decode that of no image, which no seal has."""
        try:
            return decode_header(self.meta_get("header"))
        except InvariantViolation:
            return ImageHeader()

    @contextmanager
    def reader(self) -> Iterator["Reader"]:
        """A consistent view of what was last flushed, usable in any one thread."""
        with self.env.begin() as txn:
            yield Reader(txn, self.meta_db, self.image_db, self.journal_db)

    @contextmanager
    def verified_reader(self) -> Iterator[VerifiedReader]:
        """As ``reader``, of which every row has its sum. Entered right after a flush, on this thread."""
        invariant(not self.dirty, "a verified reader of a store that is not flushed")
        with self.env.begin() as txn:
            yield VerifiedReader(txn, self.meta_db, self.image_db, self.journal_db, self.ranges.copy())

    # -- installing a snapshot ------------------------------------------------------------------

    def fresh_generation(self) -> int:
        """A generation that has no row, not even one of an installation that never ended."""
        cursor = self.txn.cursor(db=self.image_db)
        last = struct.unpack_from(">I", cursor.key())[0] if cursor.last() else 0
        generation = max(int(last), self.generation) + 1
        self._filled_sum, self._filled_ranges = 0, RowRanges(generation)
        return generation

    def clear_others(self, rows_max: int) -> bool:
        """Delete up to ``rows_max`` rows that are not of the current generation. True when none is left."""
        current, after = struct.pack(">I", self.generation), struct.pack(">I", self.generation + 1)
        cursor = self.txn.cursor(db=self.image_db)
        found = cursor.first()
        for _ in range(rows_max):
            if found and bytes(cursor.key()).startswith(current):
                found = cursor.set_range(after)
            if not found:
                return True
            cursor.delete()
            self.dirty = True
            found = bool(cursor.key())
        return False

    def put_rows(self, generation: int, rows: list[Row]) -> None:
        """Write raw rows into a generation that is not current."""
        invariant(generation != self.generation, "rows into the current generation")
        if self._filled_ranges.generation != generation:
            self._filled_ranges = RowRanges(generation)
        wrote = self._filled_ranges.wrote
        for name, key, value in rows:
            if name not in TABLES:
                raise CorruptData(f"snapshot row of an unknown table {name!r}; known: {sorted(TABLES)}")
            at = row_key(generation, name, key)
            hashed = row_hash(at, value)
            self.txn.put(at, value, db=self.image_db)
            self._filled_sum += hashed
            wrote(self.txn, self.image_db, at, hashed, 1, len(value))
        self.dirty = True

    def are_filled_rows_there(self, generation: int, scrub: Scrub, rows_max: int) -> bool | None:
        """Read some of what was put into a generation again; None: there is more.

        ``scrub`` is of that alone. Raises lmdb.Error that names the file.
        """
        with self._naming():
            whole = scrub.step(self.txn, self.image_db, generation, rows_max)
        return None if whole is None else whole == self._filled_sum % MODULUS

    def flip(self, generation: int, header: ImageHeader) -> None:
        """Make a filled generation the image. Durable at the next flush, with what else is in it."""
        invariant(generation == self._filled_ranges.generation, "another generation was filled")
        self.generation = generation
        self.meta_put("generation", msgspec.msgpack.encode(generation))
        self.image = Image(self, header)
        self._ranges = self._filled_ranges
        self.rows_sum = self._filled_sum % MODULUS
        self.image.save()


def require_unused(directory: Path) -> None:
    """Raises StoreInUse while a process has the store open."""
    if directory.is_dir():
        os.close(_locked(directory))


def _locked(directory: Path) -> int:
    """A descriptor that has the store's lock. Raises StoreInUse."""
    lock_fd = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock_fd)
        raise StoreInUse(f"{directory} is open in another process; stop that one first") from error
    return lock_fd
