"""The tree that transactions make: a fuzzy snapshot and the log since give what the whole log gives."""

import copy
import struct
import zlib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fencepost.bridge.data_tree import (
    Change,
    CloseSession,
    Create,
    DataTree,
    Delete,
    Node,
    SetAcl,
    SetData,
    new_tree,
    ttl_owner,
)
from fencepost.bridge.txn_log import Txn, read_log

PATHS = ["/a", "/a/b", "/a/c", "/d", "/d/e"]
SESSIONS = [7, 8]


def above(path: str) -> str:
    return path.rpartition("/")[0]


class Server:
    """Does what a server does with a request: refuses it, or makes the change that its log holds."""

    def __init__(self) -> None:
        self.tree = new_tree()
        self.log: list[list[Change]] = []
        self.trees = [copy.deepcopy(self.tree)]  # after each transaction; the first before any

    def do(self, kind: str, path: str, number: int) -> None:
        changes = self._changes(kind, path, number)
        self.log.append(changes)
        self.tree.apply(changes, len(self.log), 1_000 + len(self.log))
        self.trees.append(copy.deepcopy(self.tree))

    def _changes(self, kind: str, path: str, number: int) -> list[Change]:
        nodes = self.tree.nodes
        content = str(number).encode()
        if kind == "close":
            session = SESSIONS[number % 2]
            paths = sorted(path for path, node in nodes.items() if node.owner == session)
            return [CloseSession(session, tuple(paths) if number % 3 else ())]
        if kind in ("create", "ephemeral") and path not in nodes:
            parent = nodes.get(above(path))
            if parent is None or parent.owner:
                return []
            owner = SESSIONS[number % 2] if kind == "ephemeral" else 0
            return [Create(path, content, owner, parent.child_version + 1, adjusts_parent=bool(number % 4))]
        if path in nodes:
            if kind == "set":
                return [SetData(path, content, nodes[path].version + 1)]
            if kind == "acl":
                return [SetAcl(path, nodes[path].acl_version + 1)]
            if kind == "delete" and not any(each.startswith(f"{path}/") for each in nodes):
                return [Delete(path)]
        return []


requests = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "ephemeral", "set", "set", "delete", "acl", "close"]),
        st.sampled_from(PATHS),
        st.integers(0, 11),
    ),
    max_size=40,
)


@given(requests, st.integers(0, 40), st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_a_fuzzy_snapshot_and_the_log_since_are_the_tree(
    wanted: list[tuple[str, str, int]], begins: int, pauses: list[int]
) -> None:
    """The snapshot is written znode by znode, each as it is by then, parents before children."""
    server = Server()
    for kind, path, number in wanted:
        server.do(kind, path, number)
    last = len(server.log)
    begins = min(begins, last)
    now = begins
    snapshot: dict[str, Node] = {}
    left = [""]
    for pause in [*pauses, *[0] * 100]:
        if not left:
            break
        now = min(now + pause, last)
        path = left.pop(0)
        node = server.trees[now].nodes.get(path)
        if node is not None:
            snapshot[path] = copy.deepcopy(node)
            left += [each for each in sorted(server.trees[now].nodes) if each and above(each) == path]
    tree = DataTree(snapshot)
    for zxid in range(begins + 1, last + 1):
        tree.apply(server.log[zxid - 1], zxid, 1_000 + zxid)
    assert tree.znodes() == server.tree.znodes()
    assert tree.digest() == server.tree.digest()


def test_a_transaction_in_parts_is_done_whole_or_not_at_all(tmp_path: Path) -> None:
    def part(kind: int, body: bytes) -> bytes:
        return struct.pack(">ii", kind, len(body)) + body

    def path(text: str) -> bytes:
        return struct.pack(">i", len(text)) + text.encode()

    create = part(1, path("/x") + struct.pack(">iibi", -1, 0, 0, 1))
    delete = part(2, path("/y"))
    error = part(-1, struct.pack(">i", -101))
    overwritten = struct.pack(">i", -1) + create[4:]  # as a server leaves it that logs after it applies
    found = []
    for parts in ([create, delete], [create, error], [error, create], [overwritten, error]):
        content = struct.pack(">qiqqii", 7, 1, 1, 1_000, 14, len(parts)) + b"".join(parts)
        entry = struct.pack(">qi", zlib.adler32(content), len(content)) + content + b"B"
        (tmp_path / "log.1").write_bytes(struct.pack(">4siq", b"ZKLG", 2, 0) + entry)
        (txn,) = read_log(tmp_path / "log.1")
        assert isinstance(txn, Txn)
        found.append(txn.changes)
    assert found == [(Create("/x", None, 0, 1, adjusts_parent=True), Delete("/y")), (), (), ()]


def test_what_is_there_already_still_counts_for_its_parent() -> None:
    """Created, deleted by the end of a session, and created again while a snapshot was written."""
    tree = new_tree()
    tree.apply([Create("/x", b"new", 8, 1, adjusts_parent=True)], 5, 1_000)
    tree.apply([Create("/x", b"old", 7, 4, adjusts_parent=True)], 6, 1_000)
    assert (tree.nodes["/x"].data, tree.nodes[""].child_version, tree.nodes[""].children_zxid) == (
        b"new",
        4,
        6,
    )
    tree.apply([Create("/x", b"old", 7, 9, adjusts_parent=False)], 7, 1_000)
    assert tree.nodes[""].child_version == 4


def test_containers_and_nodes_with_a_time_to_live_are_not_ephemeral() -> None:
    tree = new_tree()
    tree.apply([Create("/ttl", b"", ttl_owner(5_000), 1, adjusts_parent=False)], 1, 1_000)
    tree.apply([Create("/container", b"", -(2**63), 2, adjusts_parent=False)], 2, 1_000)
    tree.apply([Create("/session", b"", 7, 3, adjusts_parent=True)], 3, 1_000)
    assert [path for path, znode in tree.znodes().items() if znode.is_ephemeral] == ["/session"]
    assert ttl_owner(5_000) == -(2**56) + 5_000
