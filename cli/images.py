"""The images of a local cluster's nodes, read from their stores while they run or not.

On disk   a node saves its image twice a second, its journal before it acknowledges. So what was answered a
          moment ago may be in no image yet; it is in the best journal, the one whose last entry has the
          highest term, then index: that one has every committed entry (Raft paper, 5.4.1).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from fencepost.cluster.console import Unreadable
from fencepost.cluster.local_cluster import LocalCluster, LocalNode
from fencepost.controller.replay import apply
from fencepost.controller.view import Overlay, View
from fencepost.quorum.journal import NO_OP
from fencepost.records.entry import decode_entry, decode_records
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ImageVersion, LogIndex, Term
from fencepost.snapshots.reader import STORE, Reader, read_store

T = TypeVar("T")

SNAPSHOTS: Final = "snapshots"


def read_image(directory: Path, look: Callable[[Reader], T]) -> T | None:
    """What ``look`` sees in the image of one node's directory; None if the node never started."""
    try:
        with read_store(directory / STORE) as reader:
            return look(reader)
    except FileNotFoundError:
        return None
    except CorruptData as error:
        raise Unreadable(str(error)) from error


def newest_image(cluster: LocalCluster, look: Callable[[View], T]) -> tuple[LocalNode, T]:
    """What ``look`` sees in the newest image, and whose it is: the best journal's, applied to its end.

    Holds everything that was acknowledged before the call, and perhaps an entry that is not committed yet.
    Raises Unreadable.
    """
    reached = []
    for node in cluster.nodes:
        seen = read_image(node.config.directory, _reached)
        if seen is not None:
            reached.append((seen, node.node_id, node))
    if not reached:
        raise Unreadable(f"no node of {cluster.directory} has ever started")
    _, _, node = max(reached)
    image = read_image(node.config.directory, lambda reader: (look(_with_journal(reader)),))
    if image is None:
        raise Unreadable(f"the store of node {node.node_id} is gone")
    return node, image[0]


def _reached(reader: Reader) -> tuple[Term, LogIndex, ImageVersion]:
    index, term = reader.journal_end()
    return term, index, reader.header.version


def _with_journal(reader: Reader) -> View:
    view = Overlay(reader)
    for command in reader.journal_after(reader.applied()[0]):
        if command[:1] != NO_OP:
            entry = decode_entry(command[1:])
            apply(view, entry, decode_records(entry))
    return view
