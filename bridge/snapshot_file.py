"""ZooKeeper's snapshots, ``snapshot.<zxid>``: all sessions, access lists and znodes, sealed by checksums.

Layout      "ZKSN" | version i32 = 2 | dbid i64 | sessions | access lists | znodes | "/" | seal. A znode: path
            (the root's is empty, and first), data, acl i64, stat. Since 3.6 a digest and a seal, since 3.9
            the last zxid and a seal. Seal: Adler-32 i64 of all before it, "/". ``.gz``: all of it compressed.
Fuzzy       the znodes were written while transactions went on: some show changes after the zxid of its name.

Source      ZooKeeper FileSnap, SnapStream, DataTree, ReferenceCountedACLCache, zookeeper.jute; read in 3.9.5.
"""

import gzip
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.bridge.data_tree import DataTree, Node
from fencepost.bridge.jute import Reader
from fencepost.bridge.txn_log import skip_acl
from fencepost.records.invariant import CorruptData

SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024  # in memory; Kafka's largest ensembles hold some 100 MB
_MAGIC: Final = b"ZKSN"
_FILE_VERSION: Final = 2
_STAT: Final = struct.Struct(">qqqqiiiqq")
_SESSION: Final = struct.Struct(">qi")
_SEAL_BYTES: Final = 13
_LAST_ZXID_BYTES: Final = 8 + _SEAL_BYTES
_END_OF_NODES: Final = "/"
GZIP: Final = ".gz"
SNAPPY: Final = ".snappy"


class Snapshot(NamedTuple):
    """What a snapshot holds. ``digest`` is (zxid, version, value): the tree's after that transaction."""

    tree: DataTree
    digest: tuple[int, int, int] | None


def read_snapshot(path: Path) -> Snapshot:
    """Raises CorruptData naming the file, and what is wrong with it."""
    try:
        return _parse(_content(path))
    except CorruptData as error:
        raise CorruptData(f"{path}: {error}") from error


def _content(path: Path) -> bytes:
    if path.name.endswith(SNAPPY):
        raise CorruptData(
            "compressed with snappy, which is not read: have ZooKeeper write it with gzip or without "
            "compression (-Dzookeeper.snapshot.compression.method=gz), or use the live ensemble"
        )
    try:
        if path.name.endswith(GZIP):
            with gzip.open(path) as stream:
                content = stream.read(SNAPSHOT_BYTES_MAX + 1)
        else:
            with path.open("rb") as plain:
                content = plain.read(SNAPSHOT_BYTES_MAX + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorruptData(f"its compression is broken: {error}") from error
    if len(content) > SNAPSHOT_BYTES_MAX:
        raise CorruptData(f"more than {SNAPSHOT_BYTES_MAX} bytes")
    return content


def _parse(content: bytes) -> Snapshot:
    if content[:4] != _MAGIC:
        raise CorruptData(f"is no snapshot of ZooKeeper: it begins with {content[:4]!r}")
    reader = Reader(content, len(_MAGIC))
    version = reader.i32()
    if version != _FILE_VERSION:
        raise CorruptData(f"expected version {_FILE_VERSION}, found {version}")
    reader.i64()  # dbid
    for _ in range(reader.count()):
        reader.numbers(_SESSION)
    for _ in range(reader.count()):
        reader.i64()
        skip_acl(reader)
    tree = DataTree(_nodes(reader))
    _check_seal(reader, content)
    digest = None
    if reader.left > _LAST_ZXID_BYTES:
        zxid, digest_version = reader.i64(), reader.i32()
        if digest_version < 2:
            reader.buffer()  # as hexadecimal text, computed in another way
        else:
            digest = (zxid, digest_version, reader.i64())
        _check_seal(reader, content)
    if reader.left:
        reader.i64()  # the last zxid that the server had processed
        _check_seal(reader, content)
    if reader.left:
        raise CorruptData(f"{reader.left} bytes are left after the last seal")
    return Snapshot(tree, digest)


def _nodes(reader: Reader) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    while (path := reader.text()) != _END_OF_NODES:
        begins = reader.position
        content = reader.buffer()
        reader.i64()  # its access list
        created, modified, created_ms, modified_ms, version, child_version, acl_version, owner, children = (
            reader.numbers(_STAT)
        )
        parent = path.rpartition("/")[0]
        if path in nodes or (parent not in nodes and path) or (not path.startswith("/") and path):
            raise CorruptData(f"the znode {path!r} at {begins} stands twice, or without its parent")
        nodes[path] = Node(
            content,
            created,
            modified,
            children,
            created_ms,
            modified_ms,
            version,
            child_version,
            acl_version,
            owner,
        )
    return nodes


def _check_seal(reader: Reader, content: bytes) -> None:
    expected = zlib.adler32(memoryview(content)[: reader.position])
    found = reader.i64()
    if found != expected or reader.text() != "/":
        raise CorruptData(f"the checksum at {reader.position - 8} fails")
