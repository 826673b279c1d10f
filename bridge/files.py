"""A server's tree of znodes out of its own files: the newest whole snapshot, and every log after it.

Nothing is ever written, and no server is needed. What a crash leaves is recovered from as ZooKeeper does, and
said in ``remarks``; what cannot be trusted is refused with CorruptData; what makes a tree good for a look,
but not for deciding where producer ids go on, is said in ``doubts``.

Gaps        a server numbers its transactions without gaps: +1 within an epoch, from 1 in a new one. A jump is
            a missing log: refused.
Digest      since ZooKeeper 3.6 the last transaction says what the whole tree's digest was: compared.

Source      ZooKeeper FileTxnSnapLog, FileTxnLog.getLogFiles, Util; docs/kafka-notes.md Z2.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.bridge.data_tree import DIGEST_VERSION, DataTree, Znodes, new_tree
from fencepost.bridge.snapshot_file import GZIP, SNAPPY, read_snapshot
from fencepost.bridge.txn_log import TornTail, Txn, read_log
from fencepost.records.invariant import CorruptData

SNAPSHOTS_TRIED_MAX: Final = 100  # as ZooKeeper
VERSIONED: Final = "version-2"
_UINT64: Final = 2**64


class ServerFiles(NamedTuple):
    """A server's dataDir, and its dataLogDir if it has one; ``version-2`` in them may be named, or not."""

    data: Path
    log: Path | None = None


class ServerTree(NamedTuple):
    """What one server knew. ``epoch`` is the last leader's that it followed, 0 for one that stands alone."""

    files: ServerFiles
    number: int | None  # its ``myid``
    epoch: int
    zxid: int
    znodes: Znodes
    remarks: tuple[str, ...]
    doubts: tuple[str, ...]


def read_server(files: ServerFiles) -> ServerTree:
    """The tree that a server would have after a start.

    Raises   FileNotFoundError for a directory that is not there, CorruptData for files that cannot be
             trusted: each error names the file.
    """
    data, log = _versioned(files.data), _versioned(files.log or files.data)
    before = _stamps(data, log)
    replay = _Replay(data, log)
    replay.run()
    if _stamps(data, log) != before:
        replay.doubts.append("the files changed while they were read: is the server stopped?")
    return ServerTree(
        files=files,
        number=_small_number(data.parent / "myid" if data.name == VERSIONED else data / "myid"),
        epoch=max(_small_number(data / "currentEpoch") or 0, replay.zxid >> 32),
        zxid=replay.zxid,
        znodes=replay.tree.znodes(),
        remarks=tuple(replay.remarks),
        doubts=tuple(replay.doubts),
    )


class _Replay:
    """One server's snapshot and logs, becoming a tree."""

    def __init__(self, data: Path, log: Path) -> None:
        self._snapshots = sorted(_named(data, "snapshot"), reverse=True)
        self._logs = sorted(_named(log, "log"))
        self._where = f"{data}" if data == log else f"{data} and {log}"
        self.tree: DataTree
        self.zxid = 0
        self.remarks: list[str] = []
        self.doubts: list[str] = []
        self._digest: tuple[int, int] | None = None  # version and value, of the tree at ``zxid``

    def run(self) -> None:
        """Read the file to its end. Raises CorruptData."""
        if not self._snapshots and not self._logs:
            raise CorruptData(
                f"{self._where}: no snapshot.* and no log.* of ZooKeeper. Expected a server's dataDir "
                f"(the setting in zoo.cfg), with {VERSIONED} in it"
            )
        snapshot_digest_zxid = self._load()
        for txn in self._txns():
            self._apply(txn)
        if not self._logs and self.zxid > 0:
            self.doubts.append(f"{self._where}: no transaction log. Has the server a dataLogDir of its own?")
        ahead = max(self.tree.newest_zxid(), snapshot_digest_zxid)
        if ahead > self.zxid:
            self.doubts.append(f"the snapshot shows transaction {ahead:#x}, the logs end at {self.zxid:#x}")
        self._check_digest()

    def _load(self) -> int:
        """The newest whole snapshot; the transaction up to which it may already show changes."""
        for zxid, path in self._snapshots[:SNAPSHOTS_TRIED_MAX]:
            try:
                snapshot = read_snapshot(path)
            except CorruptData as error:
                self.remarks.append(
                    f"passed over, the one before it and the logs since are read instead: {error}"
                )
                continue
            self.tree, self.zxid = snapshot.tree, zxid
            if snapshot.digest is None or snapshot.digest[0] < zxid:
                return zxid
            digest_zxid, version, value = snapshot.digest
            self._digest = (version, value) if digest_zxid == zxid else None
            return digest_zxid
        self.remarks.append(f"{self._where}: no whole snapshot, so the logs must go back to the beginning")
        self.tree = new_tree()
        return 0

    def _txns(self) -> Iterator[Txn]:
        """From the last log that begins at or before the snapshot, as ZooKeeper reads them."""
        first = max((zxid for zxid, _ in self._logs if zxid <= self.zxid), default=0)
        for _, path in [each for each in self._logs if each[0] >= first]:
            for found in read_log(path):
                if isinstance(found, TornTail):
                    self.remarks.append(f"{found.path}, position {found.position}: {found.reason}; left out")
                elif found.zxid > self.zxid:
                    self._check_follows(path, found.zxid)
                    yield found

    def _check_follows(self, path: Path, zxid: int) -> None:
        epoch, counter = zxid >> 32, zxid & 0xFFFF_FFFF
        if zxid != self.zxid + 1 and not (epoch > self.zxid >> 32 and counter == 1):
            said = "; ".join(["", *self.remarks])
            raise CorruptData(
                f"{path}: transaction {zxid:#x} follows {self.zxid:#x}: those between are missing. "
                f"Read another server's files, or the live ensemble{said}"
            )

    def _apply(self, txn: Txn) -> None:
        self.tree.apply(txn.changes, txn.zxid, txn.time_ms)
        self.zxid = txn.zxid
        self._digest = txn.digest

    def _check_digest(self) -> None:
        if self._digest is None or self._digest[0] != DIGEST_VERSION:
            return
        expected, found = self._digest[1] % _UINT64, self.tree.digest()
        if expected != found:
            self.doubts.append(
                f"{self._where}: the tree at transaction {self.zxid:#x} has the digest {found:#x}, "
                f"the server's had {expected:#x}: something is missing"
            )


def _named(directory: Path, prefix: str) -> Iterator[tuple[int, Path]]:
    """The files ``<prefix>.<zxid in hexadecimal>``."""
    for path in directory.iterdir():
        name = path.name.removesuffix(GZIP).removesuffix(SNAPPY)
        start, dot, number = name.partition(".")
        if start == prefix and dot and path.is_file():
            try:
                yield int(number, 16), path
            except ValueError:
                continue  # not one of ZooKeeper's: snapshot.ff.tmp, log.bak


def _versioned(directory: Path) -> Path:
    inner = directory / VERSIONED
    return inner if inner.is_dir() else directory


def _small_number(path: Path) -> int | None:
    """The number that a file holds: ``myid``, ``currentEpoch``. None if there is no such file."""
    try:
        text = path.read_text("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    if not text.isdecimal() or len(text) > 10:
        raise CorruptData(f"{path}: expected a number, found {text[:50]!r}")
    return int(text)


def _stamps(*directories: Path) -> Sequence[tuple[str, int, int]]:
    """What changes when a server works in its directories."""
    found = []
    for directory in directories:
        for entry in os.scandir(directory):
            stat = entry.stat()
            found.append((entry.path, stat.st_size, stat.st_mtime_ns))
    return sorted(found)
