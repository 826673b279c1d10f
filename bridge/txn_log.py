"""ZooKeeper's transaction logs, ``log.<zxid>``: every transaction in order, each with its checksum.

Layout      "ZKLG" | version i32 = 2 | dbid i64 | entries | zeros. Entry: Adler-32 i64 | length i32 |
            transaction | 0x42. Transaction: session i64 | cxid i32 | zxid i64 | time i64 ms | type i32 |
            body | digest (since 3.6: version i32, i64). Big-endian.
Torn tail   a crash leaves the last entry half written, and nothing but zeros behind it: it was never
            acknowledged, the log ends before it, as ZooKeeper itself reads it.
Damage      is everything else: a whole entry whose checksum fails, or an entry that is not whole with whole
            ones behind it. ZooKeeper would drop what follows in silence; here it is refused.

Source      ZooKeeper FileTxnLog, FilePadding, SerializeUtils, zookeeper.jute; read in 3.9.5.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from fencepost.bridge.data_tree import (
    CONTAINER_OWNER,
    Change,
    CloseSession,
    Create,
    Delete,
    Nothing,
    SetAcl,
    SetData,
    ttl_owner,
)
from fencepost.bridge.jute import EndOfBytes, Reader
from fencepost.records.invariant import CorruptData

ENTRY_BYTES_MAX: Final = 16 * 1024 * 1024 - 1  # ZooKeeper's default is 1 MiB a request, and it is a setting
_MAGIC: Final = b"ZKLG"
_FILE_VERSION: Final = 2
_FILE_HEADER: Final = struct.Struct(">4siq")
_ENTRY_HEADER: Final = struct.Struct(">qi")
_TXN_HEADER: Final = struct.Struct(">qiqqi")
_END_OF_ENTRY: Final = 0x42
_DIGEST_BYTES: Final = 12

_CREATE, _DELETE, _SET_DATA, _SET_ACL, _CHECK, _MULTI, _CREATE2 = 1, 2, 5, 7, 13, 14, 15
_RECONFIG, _CREATE_CONTAINER, _DELETE_CONTAINER, _CREATE_TTL = 16, 19, 20, 21
_CREATE_SESSION, _CLOSE_SESSION, _ERROR = -10, -11, -1

# A place where an entry may begin: its checksum is an Adler-32 in 8 bytes, its length is below 2^24.
_ENTRY_MAYBE: Final = re.compile(rb"(?=\0{4}.{4}\0)", re.DOTALL)


class Txn(NamedTuple):
    """A transaction; ``digest`` is the tree's after it, if it says so in a form that is known."""

    zxid: int
    time_ms: int
    changes: tuple[Change, ...]
    digest: tuple[int, int] | None  # version and value


class TornTail(NamedTuple):
    """The file ends in something half written, from ``position`` on."""

    path: Path
    position: int
    reason: str


def read_log(path: Path) -> Iterator[Txn | TornTail]:
    """The transactions of a file in its order, and at the end TornTail if the last write did not complete.

    Raises   CorruptData naming file and position.
    """
    with path.open("rb") as stream:
        header = stream.read(_FILE_HEADER.size)
        if len(header) < _FILE_HEADER.size:
            if header and not _FILE_HEADER.pack(_MAGIC, _FILE_VERSION, 0).startswith(header[:8]):
                raise CorruptData(f"{path}: is no transaction log of ZooKeeper: it begins with {header!r}")
            yield TornTail(path, 0, f"the file ends within its header, after {len(header)} bytes")
            return
        magic, version, _ = _FILE_HEADER.unpack(header)
        if magic != _MAGIC or version != _FILE_VERSION:
            raise CorruptData(
                f"{path}: expected a transaction log of ZooKeeper ({_MAGIC!r}, version {_FILE_VERSION}), "
                f"found {magic!r}, version {version}"
            )
        yield from _entries(path, stream)


def _entries(path: Path, stream: BinaryIO) -> Iterator[Txn | TornTail]:
    position = stream.tell()
    while True:
        header = stream.read(_ENTRY_HEADER.size)
        content = b""
        if len(header) == _ENTRY_HEADER.size:
            checksum, length = _ENTRY_HEADER.unpack(header)
            if 0 < length <= ENTRY_BYTES_MAX:
                content = stream.read(length + 1)
                if len(content) == length + 1 and content[-1] == _END_OF_ENTRY:
                    yield _checked(path, position, checksum, content[:-1])
                    position += len(header) + len(content)
                    continue
        torn = _tail(path, position, header + content + stream.read())
        if torn is not None:
            yield torn
        return


def _checked(path: Path, position: int, checksum: int, content: bytes) -> Txn:
    if zlib.adler32(content) != checksum:
        raise CorruptData(f"{path}, position {position}: the checksum of a transaction fails")
    try:
        return _parse(content)
    except CorruptData as error:
        raise CorruptData(f"{path}, position {position}: {error}") from error


# -- what is not a whole entry --------------------------------------------------------------------------


def _tail(path: Path, position: int, rest: bytes) -> TornTail | None:
    """``rest``, to the end of the file, does not begin with a whole entry. None: it is padding."""
    written = rest.rstrip(b"\0")
    if not written:
        return None
    whole = _find_whole_entry(rest, len(written))
    if whole is not None:
        raise CorruptData(
            f"{path}, position {position}: damaged, for at {position + whole} stands a whole transaction"
        )
    length = _ENTRY_HEADER.unpack_from(rest)[1] if len(rest) >= _ENTRY_HEADER.size else 0
    end = _ENTRY_HEADER.size + length
    if 0 < length < len(rest) - _ENTRY_HEADER.size and rest[end] != 0:
        raise CorruptData(
            f"{path}, position {position}: damaged, a transaction of {length} bytes has no end mark"
        )
    return TornTail(path, position, f"{len(written)} bytes of a transaction that was not written to its end")


def _find_whole_entry(rest: bytes, written: int) -> int | None:
    """Where a whole entry begins: one whose length alone is damaged, at 0; or one behind a damaged one."""
    if _is_whole_but_for_its_length(rest, written):
        return 0
    for found in _ENTRY_MAYBE.finditer(rest, 1, written):
        begins = found.start()
        if begins + _ENTRY_HEADER.size > len(rest):
            break
        checksum, length = _ENTRY_HEADER.unpack_from(rest, begins)
        first = begins + _ENTRY_HEADER.size
        if length > 0 and first + length < len(rest) and rest[first + length] == _END_OF_ENTRY:
            if zlib.adler32(memoryview(rest)[first : first + length]) == checksum:
                return begins
    return None


def _is_whole_but_for_its_length(rest: bytes, written: int) -> bool:
    """Whether some other length gives the checksum and the end mark: then a bit of the length has flipped."""
    if len(rest) < _ENTRY_HEADER.size:
        return False
    checksum = _ENTRY_HEADER.unpack_from(rest)[0]
    first = at = _ENTRY_HEADER.size
    running = 1
    while (end := rest.find(_END_OF_ENTRY, at, min(written, first + ENTRY_BYTES_MAX))) != -1:
        running = zlib.adler32(memoryview(rest)[at:end], running)
        if running == checksum and end > first:
            return True
        running = zlib.adler32(rest[end : end + 1], running)
        at = end + 1
    return False


# -- transactions -----------------------------------------------------------------------------------------


def _parse(content: bytes) -> Txn:
    reader = Reader(content)
    session, _, zxid, time_ms, kind = reader.numbers(_TXN_HEADER)
    if kind == _MULTI:
        changes = _multi(reader, session)
    elif kind == _CLOSE_SESSION:
        changes = (_close_session(reader, session),)
    elif kind == _CREATE_SESSION:
        reader.i32()  # its timeout
        changes = (Nothing(),)
    else:
        changes = (_change(kind, reader, session),)
    digest = None
    if reader.left == _DIGEST_BYTES:
        digest = (reader.i32(), reader.i64())
    elif reader.left:
        raise CorruptData(f"{reader.left} bytes are left of a transaction of type {kind}")
    return Txn(zxid, time_ms, changes, digest)


def _multi(reader: Reader, session: int) -> tuple[Change, ...]:
    """All or nothing. Of one that failed some parts are errors; a server that applied it before it logged it
    has left the bytes of a change in the place of an error's (seen in 3.9.5).
    """
    changes: list[Change] = []
    failed = False
    for _ in range(reader.count()):
        kind = reader.i32()
        part = Reader(reader.buffer() or b"")
        if kind == _ERROR:
            failed = True
            continue
        changes.append(_change(kind, part, session))
        if part.left:
            raise CorruptData(f"{part.left} bytes are left of a part of type {kind}")
    return () if failed else tuple(changes)


def _change(kind: int, reader: Reader, session: int) -> Change:
    match kind:
        case _ if kind in (_CREATE, _CREATE2):
            return _create(reader, session, adjusts_parent=kind == _CREATE)
        case _ if kind in (_SET_DATA, _RECONFIG):
            return SetData(reader.text(), reader.buffer(), reader.i32())
        case _ if kind in (_DELETE, _DELETE_CONTAINER):
            return Delete(reader.text())
        case _ if kind == _CREATE_CONTAINER:
            path, content = _named(reader)
            return Create(path, content, CONTAINER_OWNER, reader.i32(), adjusts_parent=False)
        case _ if kind == _CREATE_TTL:
            path, content = _named(reader)
            child_version = reader.i32()
            return Create(path, content, ttl_owner(reader.i64()), child_version, adjusts_parent=False)
        case _ if kind == _SET_ACL:
            path = reader.text()
            skip_acl(reader)
            return SetAcl(path, reader.i32())
        case _ if kind == _CHECK:
            reader.text()
            reader.i32()
            return Nothing()
        case _ if kind == _ERROR:
            reader.i32()
            return Nothing()
        case _:
            raise CorruptData(f"a transaction of unknown type {kind}")


def _create(reader: Reader, session: int, *, adjusts_parent: bool) -> Create:
    path, content = _named(reader)
    owner = session if reader.boolean() else 0
    try:
        child_version = reader.i32()
    except EndOfBytes:  # as ZooKeeper before 3.4 wrote it
        child_version = -1
    return Create(path, content, owner, child_version, adjusts_parent)


def _named(reader: Reader) -> tuple[str, bytes | None]:
    """Path and data of a new znode; its access list is passed over."""
    path = reader.text()
    if not path.startswith("/"):
        raise CorruptData(f"a znode's path expected, found {path!r}")
    content = reader.buffer()
    skip_acl(reader)
    return path, content


def _close_session(reader: Reader, session: int) -> CloseSession:
    """Since 3.6 with the paths of the session's ephemerals, if it is so set."""
    paths: tuple[str, ...] = ()
    if reader.left not in (0, _DIGEST_BYTES):
        paths = tuple(reader.text() for _ in range(reader.count()))
    return CloseSession(session, paths)


def skip_acl(reader: Reader) -> None:
    """Pass over an access list: who may do what is not imported."""
    for _ in range(reader.count()):
        reader.i32()
        reader.buffer()
        reader.buffer()
