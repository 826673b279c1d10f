"""ZooKeeper's tree of znodes, as its own transactions change it.

Invariant   applying the log from a snapshot on, its first transactions included in the snapshot already or
            not, gives the tree that the server had (a snapshot is *fuzzy*: it is written while transactions
            change the tree). So what cannot apply (create what is there, change what is not) changes nothing.
Digest      the sum of a CRC-32 per znode: since 3.6 every transaction carries the one that the server had
            after it. Equal digests: our tree is the server's.

Source      ZooKeeper DataTree, DigestCalculator, EphemeralType (3.9.5).
"""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

DIGEST_VERSION: Final = 2
CONTAINER_OWNER: Final = -(2**63)
_TTL_MASK: Final = 0xFF << 56
_ROOT: Final = ""
_SYSTEM: Final = "/zookeeper"
_DIGESTED: Final = struct.Struct(">qqqqqiiiq")
_UINT64: Final = 2**64


class Znode(NamedTuple):
    """A znode as others see it. ``version`` counts its changes; ``created_zxid`` tells it from a namesake."""

    data: bytes | None
    version: int
    modified_zxid: int
    created_zxid: int
    is_ephemeral: bool = False


Znodes: TypeAlias = dict[str, Znode]
"""Znodes by path."""


def under(znodes: Znodes, chroot: str) -> Znodes:
    """Those below ``chroot``, a path, by their paths from there; all of them if it is empty."""
    if not chroot:
        return znodes
    found = {
        path.removeprefix(chroot): znode for path, znode in znodes.items() if path.startswith(f"{chroot}/")
    }
    return {"/": znodes[chroot], **found} if chroot in znodes else found


@dataclass(slots=True)
class Node:
    """A znode as the server keeps it. ``child_version`` counts the children ever created."""

    data: bytes | None
    created_zxid: int = 0
    modified_zxid: int = 0
    children_zxid: int = 0
    created_ms: int = 0
    modified_ms: int = 0
    version: int = 0
    child_version: int = 0
    acl_version: int = 0
    owner: int = 0  # the session of an ephemeral; containers and TTL nodes have marks of their own

    def digest(self, path: str) -> int:
        """What this znode adds to the tree's digest."""
        if path.startswith(f"{_SYSTEM}/"):
            return 0
        crc = zlib.crc32(self.data or b"", zlib.crc32(path.encode()))
        numbers = (
            self.created_zxid, self.modified_zxid, self.children_zxid, self.created_ms, self.modified_ms,
            self.version, self.child_version, self.acl_version, self.owner,
        )  # fmt: skip
        return zlib.crc32(_DIGESTED.pack(*numbers), crc)


class Create(NamedTuple):
    """``owner`` is 0 for a persistent znode. ``child_version`` is the parent's afterwards; -1: one more."""

    path: str
    data: bytes | None
    owner: int
    child_version: int
    adjusts_parent: bool  # the first form of create: when the znode is there already


class Delete(NamedTuple):
    """A znode was deleted."""

    path: str


class SetData(NamedTuple):
    """``version`` is the new one."""

    path: str
    data: bytes | None
    version: int


class SetAcl(NamedTuple):
    """``version`` is the new one of the access list."""

    path: str
    version: int


class CloseSession(NamedTuple):
    """The session's ephemeral znodes are gone: those of ``paths``, and any other it owns."""

    session: int
    paths: tuple[str, ...]


class Nothing(NamedTuple):
    """A transaction that changes no znode: a session begins, a request failed, a version was checked."""


Change: TypeAlias = Create | Delete | SetData | SetAcl | CloseSession | Nothing


def ttl_owner(ttl_ms: int) -> int:
    """The mark of a znode that lives ``ttl_ms`` beyond its last change."""
    owner = _TTL_MASK | ttl_ms
    return owner - _UINT64 if owner >= _UINT64 // 2 else owner


@dataclass(slots=True)
class DataTree:
    """All znodes by path; the root's is empty."""

    nodes: dict[str, Node]
    _owned: dict[int, set[str]] = field(default_factory=dict)  # paths by owner

    def __post_init__(self) -> None:
        for path, node in self.nodes.items():
            self._own(path, node)

    def apply(self, changes: Iterable[Change], zxid: int, time_ms: int) -> None:
        """One transaction. Total: what does not fit is what a fuzzy snapshot held already."""
        for change in changes:
            match change:
                case Create():
                    self._create(change, zxid, time_ms)
                case SetData():
                    self._set_data(change, zxid, time_ms)
                case Delete():
                    self._delete(change.path, zxid)
                case SetAcl():
                    node = self._node(change.path)
                    if node is not None:
                        node.acl_version = change.version
                case CloseSession():
                    for path in change.paths:
                        self._delete(path, zxid)
                    for path in sorted(self._owned.get(change.session, ())):
                        self._delete(path, zxid)
                case Nothing():
                    pass

    def digest(self) -> int:
        """As the server computes it, from 0 to 2^64 - 1."""
        return sum(node.digest(path) for path, node in self.nodes.items()) % _UINT64

    def znodes(self) -> Znodes:
        """What is in the tree, by full path; the root is ``/``."""
        return {
            path or "/": Znode(
                node.data, node.version, node.modified_zxid, node.created_zxid, _is_session(node.owner)
            )
            for path, node in self.nodes.items()
        }

    def newest_zxid(self) -> int:
        """The last transaction that a znode shows."""
        return max((max(node.modified_zxid, node.children_zxid) for node in self.nodes.values()), default=0)

    def _node(self, path: str) -> Node | None:
        return self.nodes.get(_ROOT if path == "/" else path)

    def _create(self, change: Create, zxid: int, time_ms: int) -> None:
        parent = self.nodes.get(change.path.rpartition("/")[0])
        if parent is None:
            return
        is_new = change.path not in self.nodes
        if is_new or change.adjusts_parent:
            version = parent.child_version + 1 if change.child_version == -1 else change.child_version
            if version > parent.child_version:
                parent.child_version = version
                parent.children_zxid = zxid
        if is_new:
            node = Node(change.data, zxid, zxid, zxid, time_ms, time_ms, owner=change.owner)
            self.nodes[change.path] = node
            self._own(change.path, node)

    def _set_data(self, change: SetData, zxid: int, time_ms: int) -> None:
        node = self._node(change.path)
        if node is not None:
            node.data = change.data
            node.version = change.version
            node.modified_zxid = zxid
            node.modified_ms = time_ms

    def _delete(self, path: str, zxid: int) -> None:
        parent = self.nodes.get(path.rpartition("/")[0])
        if parent is not None:
            parent.children_zxid = max(parent.children_zxid, zxid)
            node = self.nodes.pop(path, None)
            if node is not None and node.owner:
                self._owned[node.owner].discard(path)

    def _own(self, path: str, node: Node) -> None:
        if node.owner:
            self._owned.setdefault(node.owner, set()).add(path)


def new_tree() -> DataTree:
    """What a server has before its first transaction."""
    paths = (_ROOT, _SYSTEM, f"{_SYSTEM}/quota", f"{_SYSTEM}/config")
    return DataTree({path: Node(b"") for path in paths})


def _is_session(owner: int) -> bool:
    return owner not in (0, CONTAINER_OWNER) and owner & _TTL_MASK != _TTL_MASK
